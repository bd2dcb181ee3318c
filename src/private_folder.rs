//! A folder for an engine that lives as long as one command: of this user alone, and gone with the command.
//!
//! A process that is killed cannot clean up behind itself. So each folder is held with a lock, which the system gives
//! back whatever became of its holder, and each new command removes the folders that nobody holds any more.

use std::fs::{File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use ambient_ctl::output::{Exit, Failure};
use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

/// Below the home of Ambient.
const PARENT: &str = "private";
/// The lock of a folder, inside it.
const LOCK: &str = "lock";
/// The lock of the parent: held while folders are made or removed, so that nobody takes one that is not locked yet for
/// one that is not locked any more.
const PARENT_LOCK: &str = ".lock";

/// A folder of this process. Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder {
    path: Utf8PathBuf,
    // Dropped before the lock: nobody else sees it unlocked.
    folder: TempDir,
    _lock: File,
}

impl PrivateFolder {
    /// Makes one below the home of Ambient, and removes those that nobody holds any more.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new(home: &Utf8Path) -> Result<Self, Failure> {
        let parent = home.join(PARENT);
        Self::below(&parent).map_err(|source| {
            Failure::new(Exit::Usage, NoFolder { parent, source })
                .hint("`AMBIENT_HOME` names a folder of yours on a disk with room for the video")
        })
    }

    fn below(parent: &Utf8Path) -> io::Result<Self> {
        std::fs::create_dir_all(parent)?;
        let parents_turn = File::create(parent.join(PARENT_LOCK))?;
        parents_turn.lock()?;
        remove_abandoned(parent);
        let folder = tempfile::Builder::new().permissions(Permissions::from_mode(0o700)).tempdir_in(parent)?;
        let path = Utf8PathBuf::try_from(folder.path().to_owned()).map_err(io::Error::other)?;
        let lock = File::create_new(path.join(LOCK))?;
        lock.lock()?;
        Ok(Self { path, folder, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Removes it now.
    ///
    /// # Errors
    /// When something in it stays.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.folder.close()
    }
}

fn remove_abandoned(parent: &Utf8Path) {
    let Ok(entries) = parent.read_dir_utf8() else { return };
    for folder in entries.flatten().map(camino::Utf8DirEntry::into_path).filter(|path| path.is_dir()) {
        let is_held = match File::open(folder.join(LOCK)) {
            Ok(lock) => matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
            // Its holder died before it was locked.
            Err(_none) => false,
        };
        if !is_held && let Err(error) = std::fs::remove_dir_all(&folder) {
            tracing::warn!(%folder, %error, "what an earlier command left could not be removed");
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a folder of its own could not be made in `{parent}`")]
struct NoFolder {
    parent: Utf8PathBuf,
    #[source]
    source: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_removed_and_what_somebody_holds_stays() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        let first = PrivateFolder::new(home).unwrap();
        std::fs::write(first.path().join("film.mp4"), "x").unwrap();
        let mode = std::fs::metadata(first.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let abandoned = home.join(PARENT).join("abandoned");
        std::fs::create_dir(&abandoned).unwrap();
        std::fs::write(abandoned.join(LOCK), "").unwrap();
        let second = PrivateFolder::new(home).unwrap();
        assert!(first.path().join("film.mp4").is_file(), "a folder that is held was removed");
        assert!(!abandoned.exists(), "a folder that nobody holds stayed");
        let path = second.path().to_owned();
        second.remove().unwrap();
        assert!(!path.exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
