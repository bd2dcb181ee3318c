//! This very binary, in its place, and a link to it where shells look.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::output::{Exit, Failure};

/// What should be said afterwards.
pub(super) struct Installed {
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("could not {step} `{}`", path.display())]
struct BinaryError {
    step: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Copies this binary to `bin/ambientctl` of the folder, whole or not at all, and links it into `~/.local/bin`.
pub(super) fn install(folder: &Path, environment: &Environment) -> Result<Installed, Failure> {
    let own = std::env::current_exe().map_err(|source| failure("find", Path::new("this program"), source))?;
    let home = environment.variable("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let path = environment.variable("PATH").unwrap_or_default();
    place(&own, folder, home.as_deref(), &path)
}

fn place(own: &Path, folder: &Path, home: Option<&Path>, path: &str) -> Result<Installed, Failure> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).map_err(|source| failure("make the folder", &bin, source))?;
    let target = bin.join("ambientctl");
    let same = |one: &Path, other: &Path| match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    if !same(own, &target) {
        // A program that runs cannot be written into, but another one can take its name.
        let unfinished = bin.join(".ambientctl-unfinished");
        fs::copy(own, &unfinished).map_err(|source| failure("copy this program to", &unfinished, source))?;
        fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755))
            .and_then(|()| fs::File::open(&unfinished)?.sync_all())
            .and_then(|()| fs::rename(&unfinished, &target))
            .map_err(|source| failure("write", &target, source))?;
    }
    let mut warnings = Vec::new();
    let Some(home) = home else { return Ok(Installed { warnings }) };
    let shelf = home.join(".local/bin");
    let link = shelf.join("ambientctl");
    match linked(&shelf, &link, &target) {
        Ok(()) if path.split(':').any(|entry| Path::new(entry) == shelf) => {}
        Ok(()) => warnings.push(format!("`{0}` is not in PATH; add it: `export PATH=\"{0}:$PATH\"`", shelf.display())),
        Err(error) => warnings.push(format!(
            "`{}` could not be made ({error}); the program is `{}`",
            link.display(),
            target.display()
        )),
    }
    Ok(Installed { warnings })
}

fn linked(shelf: &Path, link: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(shelf)?;
    match fs::symlink_metadata(link) {
        Ok(found) if !found.is_symlink() => {
            return Err(io::Error::other("there is a file of that name that is no link"));
        }
        Ok(_) if fs::read_link(link)? == target => return Ok(()),
        Ok(_) => fs::remove_file(link)?,
        Err(_nothing) => {}
    }
    symlink(target, link)
}

fn failure(step: &'static str, path: &Path, source: io::Error) -> Failure {
    let error = BinaryError { step, path: path.to_owned(), source };
    Failure::new(Exit::Unhealthy, error).hint("check who may write there, and whether the disk is full")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_copied_and_linked_and_nobodys_file_is_lost() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".ambient");
        let own = home.path().join("download");
        fs::write(&own, "program").unwrap();
        let shelf = home.path().join(".local/bin");
        let path = format!("/usr/bin:{}", shelf.display());
        for text in ["program", "newer"] {
            fs::write(&own, text).unwrap();
            let done = place(&own, &folder, Some(home.path()), &path).unwrap();
            assert!(done.warnings.is_empty());
            assert_eq!(fs::read_to_string(shelf.join("ambientctl")).unwrap(), text);
        }
        assert_eq!(fs::metadata(folder.join("bin/ambientctl")).unwrap().permissions().mode() & 0o777, 0o755);
        assert!(place(&own, &folder, Some(home.path()), "/usr/bin").unwrap().warnings[0].contains("is not in PATH"));

        fs::remove_file(shelf.join("ambientctl")).unwrap();
        fs::write(shelf.join("ambientctl"), "somebody's own").unwrap();
        let done = place(&own, &folder, Some(home.path()), &path).unwrap();
        assert!(done.warnings[0].contains("no link"));
        assert_eq!(fs::read_to_string(shelf.join("ambientctl")).unwrap(), "somebody's own");
    }
}
