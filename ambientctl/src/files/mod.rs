//! The files of an installation: `.env` and `docker-compose.override.yml`, edited without losing a byte of anybody's text.
//!
//! An edit is pure: text in, text out, and the result is read back and compared before it leaves the function. Writing is
//! one step for all files: under a lock, beside the old file, private from the first byte, synced, renamed, with the old
//! text kept in `backups/`. Whoever reads a file at any moment, also after a crash, sees the old text or the new one.

mod backup;
#[cfg(test)]
mod crash;
pub mod dotenv;
mod draft;
mod error;
mod folder;
mod lock;
pub mod override_file;
#[cfg(test)]
mod override_random;
mod replace;

pub use draft::Draft;
pub use error::FilesError;
pub use folder::{Edit, EditedFile, Folder};
pub(crate) use folder::{keep_aside, text_of, write_plain};
pub use lock::Lock;
pub use replace::Tightened;
