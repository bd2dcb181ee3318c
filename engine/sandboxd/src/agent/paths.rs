//! What a path of a call means: absolute as it is, `~` and relative ones against the user's home, none the template's folder.

use std::path::{Component, Path, PathBuf};

use super::users::User;

/// `~somebody`, which no call may ask for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot expand user-specific home dir in `{path}`")]
pub(super) struct OthersHome {
    path: String,
}

/// The absolute path that is meant. Without `.` and `..`, and no link is followed.
pub(super) fn resolve(path: &str, user: &User, default_workdir: Option<&str>) -> Result<PathBuf, OthersHome> {
    let path = if path.is_empty() { default_workdir.unwrap_or_default() } else { path };
    if let Some(rest) = path.strip_prefix('~') {
        return match rest.strip_prefix('/') {
            Some(below) => Ok(clean(&Path::new(&user.home).join(below.trim_start_matches('/')))),
            None if rest.is_empty() => Ok(clean(Path::new(&user.home))),
            None => Err(OthersHome { path: path.to_owned() }),
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
        assert!(resolve("~root/x", &user, None).is_err());
    }
}
