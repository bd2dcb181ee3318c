//! Putting a new text in the place of a file.
//!
//! The new text is written beside the file under another name, with mode 0600 from its first byte, synced, given the old
//! file's owner, and renamed over it; then the folder is synced. A crash at any point leaves the old file, or the new one
//! complete; what it leaves beside them is swept up by the next writer, who holds the lock.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::FilesError;

/// Only the owner reads and writes.
pub(super) const PRIVATE: u32 = 0o600;

/// What an unfinished file's name ends in.
const UNFINISHED: &str = ".ambientctl-unfinished";

/// Which mode a replaced file gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// 0600, also when it was readable for others before.
    Private,
    /// What it had; 0600 when it is new.
    Kept,
}

/// A file that others could read, and cannot any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tightened {
    /// The file.
    pub path: PathBuf,
    /// The mode it had.
    pub from: u32,
}

/// A point between two steps of a replacement, told to whoever watches. Tests die at each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Created,
    HalfWritten,
    Written,
    Synced,
    Renamed,
    FolderSynced,
}

/// Replaces `path`, or the file that it links to.
pub(super) fn replace(
    path: &Path,
    contents: &[u8],
    mode: Mode,
    watch: &mut dyn FnMut(Step),
) -> Result<Option<Tightened>, FilesError> {
    let target = followed(path)?;
    let before = metadata(&target)?;
    let unfinished = unfinished_name(&target);
    let failed = |step| {
        let path = unfinished.clone();
        move |source| FilesError::Write { step, path, source }
    };
    remove_if_there(&unfinished).map_err(failed("remove"))?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&unfinished).map_err(failed("create"))?;
    let written = fill(&mut file, contents, &target, before.as_ref(), mode, watch);
    let renamed = written.and_then(|()| {
        fs::rename(&unfinished, &target).map_err(|source| FilesError::Write {
            step: "put a new file in the place of",
            path: target.clone(),
            source,
        })
    });
    if let Err(error) = renamed {
        let _left_for_the_next_writer = fs::remove_file(&unfinished);
        return Err(error);
    }
    watch(Step::Renamed);
    sync_folder(&target)?;
    watch(Step::FolderSynced);
    let was = before.map(|before| before.mode() & 0o7777);
    Ok(was.filter(|was| mode == Mode::Private && was & 0o077 != 0).map(|from| Tightened { path: target, from }))
}

fn fill(
    file: &mut File,
    contents: &[u8],
    target: &Path,
    before: Option<&Metadata>,
    mode: Mode,
    watch: &mut dyn FnMut(Step),
) -> Result<(), FilesError> {
    let failed = |step| move |source| FilesError::Write { step, path: target.to_owned(), source };
    watch(Step::Created);
    // A umask may have taken bits of the owner away.
    file.set_permissions(Permissions::from_mode(PRIVATE)).map_err(failed("set the mode of the new"))?;
    let (first, second) = contents.split_at(contents.len() / 2);
    file.write_all(first).map_err(failed("write the new"))?;
    watch(Step::HalfWritten);
    file.write_all(second).map_err(failed("write the new"))?;
    watch(Step::Written);
    if let Some(before) = before {
        keep_owner(file, target, before)?;
        if mode == Mode::Kept {
            let kept = Permissions::from_mode(before.mode() & 0o777);
            file.set_permissions(kept).map_err(failed("set the mode of the new"))?;
        }
    }
    file.sync_all().map_err(failed("sync the new"))?;
    watch(Step::Synced);
    Ok(())
}

fn keep_owner(file: &File, target: &Path, before: &Metadata) -> Result<(), FilesError> {
    let failed = |source| FilesError::Write { step: "look at the new", path: target.to_owned(), source };
    let now = file.metadata().map_err(failed)?;
    if now.uid() != before.uid() {
        fchown(file, Some(before.uid()), Some(before.gid()))
            .map_err(|_not_root| FilesError::Owner { path: target.to_owned(), owner: before.uid() })?;
    } else if now.gid() != before.gid() {
        // Not everybody may give a file to that group; a private file is the same to every group.
        let _refused = fchown(file, None, Some(before.gid()));
    }
    Ok(())
}

/// The file behind a link, so that the link stays one.
fn followed(path: &Path) -> Result<PathBuf, FilesError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => match fs::canonicalize(path) {
            Ok(target) => Ok(target),
            Err(source) => Err(FilesError::Write { step: "follow the link", path: path.to_owned(), source }),
        },
        Ok(_) => Ok(path.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        Err(source) => Err(FilesError::Read { path: path.to_owned(), source }),
    }
}

fn metadata(path: &Path) -> Result<Option<Metadata>, FilesError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FilesError::Read { path: path.to_owned(), source }),
    }
}

/// One name a file: only one writer is at work, since it holds the lock, and so a crash leaves one file at most.
fn unfinished_name(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(UNFINISHED);
    target.with_file_name(name)
}

/// Removes what a writer that died left beside `path`. The caller holds the lock.
pub(super) fn sweep(path: &Path) -> Result<(), FilesError> {
    let unfinished = unfinished_name(&followed(path)?);
    remove_if_there(&unfinished).map_err(|source| FilesError::Write { step: "remove", path: unfinished, source })
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes a rename last.
pub(super) fn sync_folder(file: &Path) -> Result<(), FilesError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|source| FilesError::Write {
        step: "sync",
        path: folder.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str, mode: Mode) -> Option<Tightened> {
        replace(path, text.as_bytes(), mode, &mut |_| ()).unwrap()
    }

    fn mode_of(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_file_is_private_at_every_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        let mut modes = Vec::new();
        replace(&path, b"A=1\n", Mode::Private, &mut |_| {
            for entry in fs::read_dir(folder.path()).unwrap() {
                modes.push(entry.unwrap().metadata().unwrap().mode() & 0o777);
            }
        })
        .unwrap();
        assert!(modes.len() >= 6 && modes.iter().all(|mode| *mode == PRIVATE), "{modes:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "A=1\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_loose_file_is_tightened_and_that_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        fs::write(&path, "A=1\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let tightened = put(&path, "A=2\n", Mode::Private).unwrap();
        assert_eq!(tightened, Tightened { path: path.clone(), from: 0o644 });
        assert_eq!(mode_of(&path), 0o600);
        assert_eq!(put(&path, "A=3\n", Mode::Private), None);
    }

    #[test]
    fn other_files_keep_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docker-compose.override.yml");
        put(&path, "a", Mode::Kept);
        assert_eq!(mode_of(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        assert_eq!(put(&path, "b", Mode::Kept), None);
        assert_eq!(mode_of(&path), 0o664);
    }

    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join(".env"));
        fs::write(&real, "A=1\n").unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        put(&link, "A=2\n", Mode::Private);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "A=2\n");
        assert_eq!(mode_of(&real), 0o600);
    }

    #[test]
    fn the_owner_is_kept_by_root_and_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        fs::write(&path, "A=1\n").unwrap();
        let me = fs::metadata(&path).unwrap().uid();
        if me == 0 {
            std::os::unix::fs::chown(&path, Some(12_345), Some(12_346)).unwrap();
            put(&path, "A=2\n", Mode::Private);
            let kept = fs::metadata(&path).unwrap();
            assert_eq!((kept.uid(), kept.gid()), (12_345, 12_346));
        } else {
            put(&path, "A=2\n", Mode::Private);
            assert_eq!(fs::metadata(&path).unwrap().uid(), me);
        }
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        // A folder cannot be replaced by a file.
        fs::create_dir(&path).unwrap();
        let error = replace(&path, b"A=1\n", Mode::Private, &mut |_| ()).unwrap_err();
        assert!(matches!(error, FilesError::Write { .. }), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_a_dead_writer_left_is_swept_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        fs::write(unfinished_name(&path), "half").unwrap();
        put(&path, "A=1\n", Mode::Private);
        assert_eq!(fs::read_to_string(&path).unwrap(), "A=1\n");
        fs::write(unfinished_name(&path), "half").unwrap();
        sweep(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
