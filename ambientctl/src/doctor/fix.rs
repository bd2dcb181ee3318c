//! What `--fix` does: only what is safe and can be taken back.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rand::RngExt as _;

use crate::commands::config::stack::ENGINE;
use crate::files::override_file::{Entry, OverrideError, edited};
use crate::files::{Edit, EditedFile, FilesError, Folder};

/// The rights that `.env` has after a fix.
const PRIVATE: u32 = 0o600;

/// Something that can be mended safely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Makes a file its owner's alone.
    Private(PathBuf),
    /// Passes a setting of `.env` on to the engine, in the override of this installation. The old file goes to `backups`.
    PassOn {
        /// The installation.
        folder: PathBuf,
        /// The setting.
        name: String,
    },
    /// Removes a link that leads nowhere.
    RemoveLink(PathBuf),
    /// Builds the template of this name anew. Takes minutes and costs, so it is asked first.
    BuildTemplate {
        /// The template.
        name: String,
    },
}

/// Why a fix was not done.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// A file could not be changed.
    #[error("could not {action} `{}`", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The files of the installation could not be read or written.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The override has something that only its owner can change.
    #[error("the override is left as it is: {0}")]
    Override(#[from] OverrideError),
}

impl Fix {
    /// Whether it is asked first.
    pub fn is_asked(&self) -> bool {
        matches!(self, Self::BuildTemplate { .. })
    }

    /// What it does, for a question or a report.
    pub fn words(&self) -> String {
        match self {
            Self::Private(path) => format!("make `{}` private (mode {PRIVATE:o})", path.display()),
            Self::PassOn { name, .. } => format!("pass `{name}` on to the engine, in `docker-compose.override.yml`"),
            Self::RemoveLink(path) => format!("remove the link `{}`", path.display()),
            Self::BuildTemplate { name } => format!("build the template `{name}` anew"),
        }
    }
}

/// Does it. Building a template is the caller's, who has the terminal.
///
/// # Errors
/// When a file cannot be changed; it is then as it was.
pub fn apply(fix: &Fix) -> Result<(), FixError> {
    match fix {
        Fix::Private(path) => fs::set_permissions(path, fs::Permissions::from_mode(PRIVATE))
            .map_err(|source| FixError::File { action: "change the rights of", path: path.clone(), source }),
        Fix::RemoveLink(path) => {
            fs::remove_file(path).map_err(|source| FixError::File { action: "remove", path: path.clone(), source })
        }
        Fix::PassOn { folder, name } => {
            let folder = Folder::open(folder)?;
            let held = folder.lock(|| {})?;
            let old = folder.read(EditedFile::Override)?;
            let new = edited(old.as_deref().unwrap_or_default(), ENGINE, name, Entry::PassedOn)?;
            let edit = Edit { file: EditedFile::Override, old, new };
            if edit.is_change() {
                folder.write(&held, &[edit])?;
            }
            Ok(())
        }
        Fix::BuildTemplate { .. } => Ok(()),
    }
}

/// A key that nobody guesses, as the installer makes them.
pub(super) fn random_key() -> String {
    let bytes: [u8; 24] = rand::rng().random();
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}
