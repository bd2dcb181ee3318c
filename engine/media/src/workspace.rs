//! Where outputs are made.
//!
//! Each operation gets a folder of its own under the work folder, so that two of them never meet, and it vanishes with all it holds when the
//! operation fails, is cancelled or is dropped. What succeeded is moved out of it under a name nobody else has.

use camino::{Utf8Path, Utf8PathBuf};
use tempfile::TempDir;

use crate::error::MediaError;

/// The folder of one operation.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: TempDir,
    path: Utf8PathBuf,
    outside: Utf8PathBuf,
}

impl Workspace {
    pub(crate) async fn new(work_folder: &Utf8Path) -> Result<Self, MediaError> {
        const MAKE: &str = "make a folder for the output";
        fs_err::tokio::create_dir_all(work_folder).await.map_err(MediaError::file(MAKE))?;
        // Children run inside the folder, so a relative work folder must not stay relative.
        let outside = fs_err::tokio::canonicalize(work_folder).await.map_err(MediaError::file(MAKE))?;
        let folder =
            tempfile::Builder::new().prefix(".making-").tempdir_in(&outside).map_err(MediaError::file(MAKE))?;
        let utf8 = |path: std::path::PathBuf| {
            Utf8PathBuf::from_path_buf(path).map_err(|path| {
                MediaError::BadRequest(format!("the work folder `{}` is not UTF-8: choose another", path.display()))
            })
        };
        Ok(Self { path: utf8(folder.path().to_owned())?, outside: utf8(outside)?, folder })
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
        let mark = self.path.file_name().and_then(|name| name.strip_prefix(".making-")).unwrap_or_default();
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
