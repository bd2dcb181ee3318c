//! Where outputs are made.
//!
//! Each operation gets a folder of its own under the work folder, so that two of them never meet, and it vanishes with all it holds when the
//! operation fails, is cancelled or is dropped. What succeeded is moved out of it under a name nobody else has.
//!
//! A process that is killed leaves its folders behind. Each folder is locked while its process lives, so the next process that works in the
//! same place tells those that nobody is in, and takes them away.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use crate::error::MediaError;

const PREFIX: &str = ".making-";
/// A younger folder may be one that its process has not locked yet.
const LEAST_AGE: Duration = Duration::from_mins(1);

/// Where this process has looked for what others left.
static LOOKED_THROUGH: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The folder of one operation.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: TempDir,
    /// Locked until the folder is gone; `None` where folders cannot be locked.
    _lock: Option<File>,
    path: Utf8PathBuf,
    outside: Utf8PathBuf,
}

impl Workspace {
    pub(crate) async fn new(work_folder: &Utf8Path) -> Result<Self, MediaError> {
        const MAKE: &str = "make a folder for the output";
        fs_err::tokio::create_dir_all(work_folder).await.map_err(MediaError::file(MAKE))?;
        // Children run inside the folder, so a relative work folder must not stay relative.
        let outside = fs_err::tokio::canonicalize(work_folder).await.map_err(MediaError::file(MAKE))?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&outside).map_err(MediaError::file(MAKE))?;
        let lock = locked(folder.path());
        if LOOKED_THROUGH.lock().expect("nothing panics while it holds the lock").insert(outside.clone()) {
            let place = outside.clone();
            let _counted = tokio::task::spawn_blocking(move || take_away_left(&place, LEAST_AGE)).await;
        }
        let utf8 = |path: std::path::PathBuf| {
            Utf8PathBuf::from_path_buf(path).map_err(|path| {
                MediaError::BadRequest(format!("the work folder `{}` is not UTF-8: choose another", path.display()))
            })
        };
        Ok(Self { path: utf8(folder.path().to_owned())?, outside: utf8(outside)?, folder, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Where a file of that name stands while it is made.
    pub(crate) fn file(&self, name: &str) -> Utf8PathBuf {
        self.path.join(name)
    }

    /// Moves finished files out, all or none, and gives their new paths in the same order. Folders in a name become part of the new name.
    pub(crate) async fn hand_over(self, names: &[String]) -> Result<Vec<Utf8PathBuf>, MediaError> {
        let mark = self.path.file_name().and_then(|name| name.strip_prefix(PREFIX)).unwrap_or_default();
        let mut moved = Moved(Vec::with_capacity(names.len()));
        for name in names {
            let target = self.outside.join(format!("{mark}-{}", name.replace('/', "-")));
            fs_err::tokio::rename(self.path.join(name), &target)
                .await
                .map_err(MediaError::file("hand the output over"))?;
            moved.0.push(target);
        }
        let paths = std::mem::take(&mut moved.0);
        drop(self.folder);
        Ok(paths)
    }
}

/// The folder's lock, if nobody has it.
fn locked(folder: &Path) -> Option<File> {
    File::open(folder).ok().filter(|folder| folder.try_lock().is_ok())
}

/// Removes the folders that nobody is in any more. Blocks.
fn take_away_left(place: &Path, least_age: Duration) -> io::Result<()> {
    for entry in fs_err::read_dir(place)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let is_old = || Some(entry.metadata().ok()?.modified().ok()?.elapsed().ok()? >= least_age);
        if !is_ours || !entry.file_type()?.is_dir() || is_old() != Some(true) {
            continue;
        }
        let Some(_lock) = locked(&entry.path()) else { continue };
        match fs_err::remove_dir_all(entry.path()) {
            Ok(()) => tracing::debug!(media.path = %entry.path().display(), "removed what a killed operation left"),
            Err(error) => tracing::warn!(%error, "what a killed operation left stays"),
        }
    }
    Ok(())
}

/// Files that are outside already; removed again if the hand-over stops half way.
struct Moved(Vec<Utf8PathBuf>);

impl Drop for Moved {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = fs_err::remove_file(path) {
                tracing::warn!(media.path = %path, %error, "could not remove an output that nobody will take");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_a_killed_operation_left_goes_and_what_is_at_work_stays() {
        let place = tempfile::tempdir().unwrap();
        let at_work = Workspace::new(Utf8Path::from_path(place.path()).unwrap()).await.unwrap();
        for left in [".making-left", "films"] {
            fs_err::create_dir(place.path().join(left)).unwrap();
            fs_err::write(place.path().join(left).join("half.mp4"), b"half").unwrap();
        }
        take_away_left(place.path(), LEAST_AGE).unwrap();
        assert!(place.path().join(".making-left").exists(), "its process may not have locked it yet");
        take_away_left(place.path(), Duration::ZERO).unwrap();
        assert!(!place.path().join(".making-left").exists());
        assert!(at_work.path().exists() && place.path().join("films/half.mp4").exists());
    }
}
