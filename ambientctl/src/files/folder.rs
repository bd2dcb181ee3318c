//! The folder of an installation, and changing its files together.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::replace::{Mode, Step, replace, sweep};
use super::{FilesError, Lock, Tightened, backup};

/// Where an installation's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

/// Which of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditedFile {
    /// `.env`: names and values, private.
    Env,
    /// `docker-compose.override.yml`: the user's own.
    Override,
    /// `docker-compose.yml`: written by the installer.
    Main,
}

impl EditedFile {
    /// Its name in the folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Env => ".env",
            Self::Override => "docker-compose.override.yml",
            Self::Main => "docker-compose.yml",
        }
    }

    fn mode(self) -> Mode {
        match self {
            Self::Env => Mode::Private,
            Self::Override | Self::Main => Mode::Kept,
        }
    }
}

/// One file's new text.
#[derive(Clone, PartialEq, Eq)]
pub struct Edit {
    /// The file.
    pub file: EditedFile,
    /// What stands there; `None` when there is no file.
    pub old: Option<String>,
    /// What shall stand there.
    pub new: String,
}

/// Without the texts, which hold secrets.
impl std::fmt::Debug for Edit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Edit").field("file", &self.file).field("changes", &self.is_change()).finish_non_exhaustive()
    }
}

impl Edit {
    /// Whether anything changes.
    pub fn is_change(&self) -> bool {
        self.old.as_deref() != Some(self.new.as_str())
    }
}

impl Folder {
    /// The folder of an installation; it has to be there.
    ///
    /// # Errors
    /// When it is not.
    pub fn open(path: &Path) -> Result<Self, FilesError> {
        if path.is_dir() { Ok(Self(path.to_owned())) } else { Err(FilesError::NoFolder(path.to_owned())) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of one of its files.
    pub fn file(&self, file: EditedFile) -> PathBuf {
        self.0.join(file.name())
    }

    /// A file's text, or `None` when there is no such file.
    ///
    /// # Errors
    /// When it is there and cannot be read as text.
    pub fn read(&self, file: EditedFile) -> Result<Option<String>, FilesError> {
        text_of(&self.file(file))
    }

    /// Waits until no other writer is at work, and removes what one that died may have left. Hold it from before files are
    /// read until they are written.
    ///
    /// # Errors
    /// When there can be no lock here.
    pub fn lock(&self, waiting: impl FnOnce()) -> Result<Lock, FilesError> {
        let lock = Lock::take(&self.0, waiting)?;
        for file in [EditedFile::Env, EditedFile::Override, EditedFile::Main] {
            sweep(&self.file(file))?;
        }
        Ok(lock)
    }

    /// Writes what changes, each file whole or not at all, after keeping its old text in `backups/`. `.env` comes last: the
    /// override only names keys, so that a crash between the two leaves a stack that still starts.
    ///
    /// # Errors
    /// When a file cannot be written; that file, and those after it, are as they were.
    pub fn write(&self, _held: &Lock, edits: &[Edit]) -> Result<Vec<Tightened>, FilesError> {
        self.write_watched(edits, &mut |_| ())
    }

    /// Puts back what stood there before [`Folder::write`]: the old texts, and nothing where there was no file.
    ///
    /// # Errors
    /// When a file cannot be written; those after it are as they were.
    pub fn restore(&self, _held: &Lock, edits: &[Edit]) -> Result<(), FilesError> {
        for edit in edits.iter().filter(|edit| edit.is_change()) {
            let path = self.file(edit.file);
            match &edit.old {
                Some(old) => {
                    replace(&path, old.as_bytes(), edit.file.mode(), &mut |_| ())?;
                }
                None => match fs::remove_file(&path) {
                    Err(source) if source.kind() != io::ErrorKind::NotFound => {
                        return Err(FilesError::Write { step: "remove", path, source });
                    }
                    Ok(()) | Err(_) => {}
                },
            }
        }
        Ok(())
    }

    pub(super) fn write_watched(
        &self,
        edits: &[Edit],
        watch: &mut dyn FnMut(Step),
    ) -> Result<Vec<Tightened>, FilesError> {
        let mut tightened = Vec::new();
        let mut changes: Vec<&Edit> = edits.iter().filter(|edit| edit.is_change()).collect();
        changes.sort_by_key(|edit| edit.file == EditedFile::Env);
        for edit in changes {
            if let Some(old) = &edit.old {
                backup::keep(&self.0, edit.file.name(), old.as_bytes())?;
            }
            tightened.extend(replace(&self.file(edit.file), edit.new.as_bytes(), edit.file.mode(), watch)?);
        }
        Ok(tightened)
    }
}

/// Keeps a text in `backups/`; gives where.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn keep_aside(folder: &Folder, file: EditedFile, text: &str) -> Result<PathBuf, FilesError> {
    backup::keep(&folder.0, file.name(), text.as_bytes())
}

/// Writes a small file of ours, whole or not at all.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn write_plain(path: &Path, text: &str) -> Result<(), FilesError> {
    replace(path, text.as_bytes(), Mode::Kept, &mut |_| ()).map(|_| ())
}

/// A file's text, or `None` when there is no such file.
pub(crate) fn text_of(path: &Path) -> Result<Option<String>, FilesError> {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|error| {
            let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let line = 1 + before.matches('\n').count();
            FilesError::NotUtf8 { path: path.to_owned(), line }
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FilesError::Read { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_change_is_not_written() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        let lock = folder.lock(|| ()).unwrap();
        let edit = |old: Option<&str>, new: &str| Edit {
            file: EditedFile::Env,
            old: old.map(str::to_owned),
            new: new.to_owned(),
        };
        folder.write(&lock, &[edit(None, "A=1\n")]).unwrap();
        folder.write(&lock, &[edit(Some("A=1\n"), "A=1\n")]).unwrap();
        assert!(!home.path().join("backups").exists());
        folder.write(&lock, &[edit(Some("A=1\n"), "A=2\n")]).unwrap();
        assert_eq!(fs::read_to_string(home.path().join("backups/.env.000001")).unwrap(), "A=1\n");
        assert_eq!(folder.read(EditedFile::Env).unwrap().as_deref(), Some("A=2\n"));
        assert_eq!(folder.read(EditedFile::Override).unwrap(), None);
    }

    #[test]
    fn what_was_written_can_be_taken_back() {
        let home = tempfile::tempdir().unwrap();
        let folder = Folder::open(home.path()).unwrap();
        let lock = folder.lock(|| ()).unwrap();
        fs::write(home.path().join(".env"), "A=1\n").unwrap();
        let edits = [
            Edit { file: EditedFile::Env, old: Some("A=1\n".to_owned()), new: "A=2\n".to_owned() },
            Edit { file: EditedFile::Override, old: None, new: "services: {}\n".to_owned() },
        ];
        folder.write(&lock, &edits).unwrap();
        folder.restore(&lock, &edits).unwrap();
        assert_eq!(folder.read(EditedFile::Env).unwrap().as_deref(), Some("A=1\n"));
        assert_eq!(folder.read(EditedFile::Override).unwrap(), None);
    }

    #[test]
    fn a_missing_folder_and_a_file_that_is_no_text_are_told() {
        let home = tempfile::tempdir().unwrap();
        assert!(matches!(Folder::open(&home.path().join("none")), Err(FilesError::NoFolder(_))));
        fs::write(home.path().join(".env"), b"A=1\nB=\xff\n").unwrap();
        let error = Folder::open(home.path()).unwrap().read(EditedFile::Env).unwrap_err();
        assert!(matches!(error, FilesError::NotUtf8 { line: 2, .. }), "{error}");
    }
}
