//! The one line on standard output.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::error::MediaError;

/// Stands on both sides of the answer, so that a reader finds it in whatever a shell adds.
const FENCE: &str = "===AMBIENT_RESULT===";

/// The answer of a command. Its text is one line, fenced on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Envelope {
    ok: bool,
    data: Option<Value>,
    error: Option<Failure>,
}

/// Why a command gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Failure {
    /// A stable word for the kind of failure.
    pub(super) code: String,
    /// What happened, with its causes.
    pub(super) message: String,
}

impl Envelope {
    pub(super) fn of(answer: Result<Value, Failure>) -> Self {
        match answer {
            Ok(data) => Self { ok: true, data: Some(data), error: None },
            Err(failure) => Self { ok: false, data: None, error: Some(failure) },
        }
    }

    /// Whether the command did what was asked: exit code 0, else 1.
    pub const fn is_ok(&self) -> bool {
        self.ok
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self).map_err(|_no_json| fmt::Error)?;
        write!(f, "{FENCE}{json}{FENCE}")
    }
}

impl Failure {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }
}

impl From<MediaError> for Failure {
    fn from(error: MediaError) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            message.push_str(": ");
            message.push_str(&inner.to_string());
            cause = inner.source();
        }
        Self { code: error.code().to_owned(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_fenced_line() {
        let good = Envelope::of(Ok(serde_json::json!({ "text": "two\nlines" })));
        insta::assert_snapshot!(good, @r#"===AMBIENT_RESULT==={"ok":true,"data":{"text":"two\nlines"},"error":null}===AMBIENT_RESULT==="#);
        let bad = Envelope::of(Err(Failure::new("ImageNotFound", "no `x.png`")));
        insta::assert_snapshot!(bad, @r#"===AMBIENT_RESULT==={"ok":false,"data":null,"error":{"code":"ImageNotFound","message":"no `x.png`"}}===AMBIENT_RESULT==="#);
    }

    #[test]
    fn causes_are_told() {
        let source = std::io::Error::other("the disk is full");
        let failure = Failure::from(MediaError::File { action: "write the picture", source });
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("FileError", "could not write the picture: the disk is full"));
    }
}
