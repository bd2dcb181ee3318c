//! One writer at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::FilesError;
use super::replace::PRIVATE;

/// The lock's file. It is never removed: a lock on a file that others no longer see by that name guards nothing.
const NAME: &str = ".ambientctl.lock";

/// Held from before a file is read until after it is written. The system takes it back when the process ends, however it
/// ends.
#[derive(Debug)]
pub struct Lock {
    _held: File,
}

impl Lock {
    /// Waits for the lock of an installation's folder. `waiting` is called once if somebody else has it.
    ///
    /// # Errors
    /// When the lock's file cannot be made, or the file system has no locks.
    pub fn take(folder: &Path, waiting: impl FnOnce()) -> Result<Self, FilesError> {
        let path = folder.join(NAME);
        let failed = |source| FilesError::Lock { path: path.clone(), source };
        let file =
            OpenOptions::new().create(true).write(true).truncate(false).mode(PRIVATE).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                waiting();
                file.lock().map_err(failed)?;
            }
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(Self { _held: file })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_second_waits_for_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let first = Lock::take(folder.path(), || unreachable!("nobody else has it")).unwrap();
        let (tell, told) = mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Lock::take(folder.path(), || tell.send("waiting").unwrap()).unwrap());
            assert_eq!(told.recv().unwrap(), "waiting");
            assert!(!second.is_finished());
            drop(first);
            drop(second.join().unwrap());
        });
    }
}
