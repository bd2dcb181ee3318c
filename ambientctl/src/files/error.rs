//! Why a file of the installation was not read or not written. No text shows a value.

use std::io;
use std::path::PathBuf;

use ambient_settings::dotenv::DotenvError;
use ambient_settings::quote::CannotQuote;

/// A file that was not read or not written; what stood there before still does.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The folder is not there.
    #[error("there is no installation in `{}`", .0.display())]
    NoFolder(PathBuf),
    /// A file is there and cannot be read.
    #[error("could not read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is not text.
    #[error("`{}` line {line} is not UTF-8 text", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first line that is none, from 1.
        line: usize,
    },
    /// A step of writing failed.
    #[error("could not {step} `{}`", path.display())]
    Write {
        /// What was tried, as a verb.
        step: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file belongs to somebody else, and a new one would belong to us.
    #[error("`{}` belongs to user {owner}, and only that user or root can write it without taking it over", path.display())]
    Owner {
        /// The file.
        path: PathBuf,
        /// The owner's number.
        owner: u32,
    },
    /// There can be no lock.
    #[error("could not lock `{}`", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A name that not every reader of `.env` takes.
    #[error("`{0}` cannot be a key: a key is letters, digits and `_`, and does not begin with a digit")]
    Key(String),
    /// A value that no quoting makes safe.
    #[error("the value of `{key}` {reason}")]
    Value {
        /// The key.
        key: String,
        /// Why.
        reason: CannotQuote,
    },
    /// `.env` as it stands cannot be read, so nothing is written into it.
    #[error("`{}` {error}", path.display())]
    Dotenv {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        error: DotenvError,
    },
    /// An edit came out wrong when it was read back, so it was thrown away.
    #[error("`{key}` on line {line} cannot be changed without changing what stands around it")]
    Entangled {
        /// The key.
        key: String,
        /// Where it stands, from 1.
        line: usize,
    },
}
