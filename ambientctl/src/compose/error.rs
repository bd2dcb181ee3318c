//! Why a stack's files do not give a model. No text shows a value that came out of a variable.

use std::path::PathBuf;

use ambient_settings::dotenv::DotenvError;

use crate::files::FilesError;

/// What is wrong with the files of a stack.
#[derive(Debug, thiserror::Error)]
pub enum ComposeError {
    /// There is no compose file.
    #[error("there is no `docker-compose.yml` in `{}`", .0.display())]
    NoFile(PathBuf),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FilesError),
    /// A `.env` or another file of variables cannot be understood.
    #[error("`{}` {error}", path.display())]
    Dotenv {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        error: DotenvError,
    },
    /// Something in a compose file.
    #[error("`{}` line {line}: {problem}", file.display())]
    At {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The key and what is wrong with it.
        problem: String,
    },
    /// The name of the project.
    #[error(
        "`{0}` cannot be a project's name: it is lower-case letters, digits, `-` and `_`, and begins with a letter or digit"
    )]
    Name(String),
    /// A service uses something that no file declares, or waits for itself.
    #[error("{0}")]
    Inconsistent(String),
}

/// A mistake at a place of a tree; the project knows the files' names and makes a [`ComposeError`] of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) place: super::node::Place,
    pub(crate) problem: String,
}

impl Mistake {
    /// `path` is the key's, such as `services.engine.ports`.
    pub(crate) fn new(place: super::node::Place, path: &str, problem: impl std::fmt::Display) -> Self {
        let problem = if path.is_empty() { problem.to_string() } else { format!("`{path}` {problem}") };
        Self { place, problem }
    }
}
