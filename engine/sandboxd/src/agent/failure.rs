//! Why a sandbox did not start, told by what was attempted.

use std::io;

/// A step of the start that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {what}")]
pub(super) struct StartFailure {
    what: String,
    #[source]
    source: io::Error,
}

/// Says what was attempted.
pub(super) trait Attempting<T> {
    /// The same result, whose error names the attempt.
    fn attempting(self, what: impl Into<String>) -> Result<T, StartFailure>;
}

impl<T, E: Into<io::Error>> Attempting<T> for Result<T, E> {
    fn attempting(self, what: impl Into<String>) -> Result<T, StartFailure> {
        self.map_err(|error| StartFailure { what: what.into(), source: error.into() })
    }
}
