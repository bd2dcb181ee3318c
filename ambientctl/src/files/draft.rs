//! A text on its way through somebody's editor: a private file beside the one that it is to become.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::folder::text_of;
use super::replace::PRIVATE;
use super::{FilesError, Folder};

/// Removed when it is dropped.
#[derive(Debug)]
pub struct Draft(PathBuf);

impl Draft {
    /// Writes `text` into a file of its own, readable for its owner alone.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn new(folder: &Folder, text: &str) -> Result<Self, FilesError> {
        // The ending tells an editor that these are variables; the number keeps two editors apart.
        let path = folder.path().join(format!(".draft-{}.env", std::process::id()));
        let failed = |step| {
            let path = path.clone();
            move |source| FilesError::Write { step, path, source }
        };
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(PRIVATE).open(&path).map_err(failed("create"))?;
        let draft = Self(path.clone());
        file.write_all(text.as_bytes()).map_err(failed("write"))?;
        Ok(draft)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// What stands there now.
    ///
    /// # Errors
    /// When it is gone or is no text.
    pub fn text(&self) -> Result<String, FilesError> {
        Ok(text_of(&self.0)?.unwrap_or_default())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let _gone_already = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_draft_is_private_and_goes_away() {
        let home = tempfile::tempdir().unwrap();
        let draft = Draft::new(&Folder::open(home.path()).unwrap(), "A=1\n").unwrap();
        assert_eq!(fs::metadata(draft.path()).unwrap().mode() & 0o777, 0o600);
        fs::write(draft.path(), "A=2\n").unwrap();
        assert_eq!(draft.text().unwrap(), "A=2\n");
        drop(draft);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
