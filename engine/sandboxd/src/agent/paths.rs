//! What a path of a call means: absolute as it is, `~` and relative ones against the user's home, none the template's folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::users::User;

/// The most bytes of a name and of a path that the kernel takes.
const LONGEST_NAME: usize = 255;
const LONGEST_PATH: usize = 4095;

/// Why a path means nothing.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathFault {
    /// `~somebody`, which no call may ask for.
    #[error("cannot expand user-specific home dir in `{0}`")]
    OthersHome(String),
    #[error("the path holds a NUL character")]
    Nul,
    #[error("the path has a name of {0} bytes; a name may have {LONGEST_NAME}")]
    LongName(usize),
    #[error("the path has {0} bytes; a path may have {LONGEST_PATH}")]
    LongPath(usize),
}

/// The absolute path that is meant. Without `.` and `..`, and no link is followed.
pub(super) fn resolve(path: &str, user: &User, default_workdir: Option<&str>) -> Result<PathBuf, PathFault> {
    let meant = meant(path, user, default_workdir)?;
    let bytes = meant.as_os_str().as_bytes();
    if bytes.contains(&0) {
        return Err(PathFault::Nul);
    }
    if let Some(long) = meant.iter().map(OsStr::len).find(|bytes| *bytes > LONGEST_NAME) {
        return Err(PathFault::LongName(long));
    }
    if bytes.len() <= LONGEST_PATH { Ok(meant) } else { Err(PathFault::LongPath(bytes.len())) }
}

fn meant(path: &str, user: &User, default_workdir: Option<&str>) -> Result<PathBuf, PathFault> {
    let path = if path.is_empty() { default_workdir.unwrap_or_default() } else { path };
    if let Some(rest) = path.strip_prefix('~') {
        return match rest.strip_prefix('/') {
            Some(below) => Ok(clean(&Path::new(&user.home).join(below.trim_start_matches('/')))),
            None if rest.is_empty() => Ok(clean(Path::new(&user.home))),
            None => Err(PathFault::OthersHome(path.to_owned())),
        };
    }
    Ok(clean(&Path::new(&user.home).join(path)))
}

/// By the words alone, as the service does it.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => cleaned.push(name),
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::resolve;
    use crate::agent::users::User;

    #[test]
    fn paths_mean_what_the_protocol_says() {
        let user = User { name: "user".to_owned(), uid: 1000, gid: 1000, home: "/home/user".to_owned() };
        let check = |path: &str, workdir: Option<&str>, wanted: &str| {
            assert_eq!(resolve(path, &user, workdir).unwrap(), Path::new(wanted), "{path:?}");
        };
        check("/a/b", None, "/a/b");
        check("/a/../b/./c/", None, "/b/c");
        check("/../..", None, "/");
        check("~", None, "/home/user");
        check("~/x", None, "/home/user/x");
        check("x/y", Some("/app"), "/home/user/x/y");
        check("../z", None, "/home/z");
        check("", Some("/app"), "/app");
        check("", None, "/home/user");
        for bad in ["~root/x".to_owned(), "a\0b".to_owned(), "x".repeat(256), "a/".repeat(2048)] {
            assert!(resolve(&bad, &user, None).is_err(), "{bad:?}");
        }
        for good in ["x".repeat(255), "a/".repeat(2000)] {
            assert!(resolve(&good, &user, None).is_ok(), "{good:?}");
        }
    }
}
