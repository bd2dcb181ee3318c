//! The one line on standard output.

use std::error::Error;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::error::MediaError;
use crate::objects::ObjectError;
use crate::youtube::YoutubeError;

/// Stands on both sides of the answer, so that a reader finds it in whatever a shell adds.
const FENCE: &str = "===AMBIENT_RESULT===";
/// How a fence inside of the answer is written: the same text to a reader of JSON, and no fence to a reader of fences. Outside
/// of its texts JSON knows no `=`.
const NO_FENCE: &str = "\\u003d==AMBIENT_RESULT===";

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

    /// The answer when no command could begin: its words or settings are wrong.
    pub fn failure(code: &str, message: impl Into<String>) -> Self {
        Self::of(Err(Failure::new(code, message)))
    }

    /// The answer to words that clap does not take: its message without the usage, which is for people.
    pub fn bad_words(error: &clap::Error) -> Self {
        let text = error.render().to_string();
        let message = text.split("\n\n").next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message).trim();
        // Without a sub-command there is nothing but help.
        let message = if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
            "a sub-command is missing; `ambientctl media --help` names them all".to_owned()
        } else {
            message.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        Self::failure("BadArguments", message)
    }

    /// Whether the command did what was asked: exit code 0, else 1.
    pub const fn is_ok(&self) -> bool {
        self.ok
    }
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string(self).map_err(|_no_json| fmt::Error)?.replace(FENCE, NO_FENCE);
        write!(f, "{FENCE}{json}{FENCE}")
    }
}

impl Failure {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new("BadRequest", message)
    }

    /// With all its causes; one that its effect tells already is left out.
    fn of_error(code: &str, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(inner) = cause {
            let text = inner.to_string();
            if !message.contains(&text) {
                message.push_str(": ");
                message.push_str(&text);
            }
            cause = inner.source();
        }
        Self::new(code, message)
    }
}

impl From<MediaError> for Failure {
    fn from(error: MediaError) -> Self {
        Self::of_error(error.code(), &error)
    }
}

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Self {
        Self::of_error(error.code(), &error)
    }
}

impl From<YoutubeError> for Failure {
    fn from(error: YoutubeError) -> Self {
        Self::of_error(error.code(), &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_fenced_line() {
        let good = Envelope::of(Ok(serde_json::json!({ "text": "two\nlines" })));
        insta::assert_snapshot!(good, @r#"===AMBIENT_RESULT==={"ok":true,"data":{"text":"two\nlines"},"error":null}===AMBIENT_RESULT==="#);
        let bad = Envelope::failure("ImageNotFound", "no `x.png`");
        insta::assert_snapshot!(bad, @r#"===AMBIENT_RESULT==={"ok":false,"data":null,"error":{"code":"ImageNotFound","message":"no `x.png`"}}===AMBIENT_RESULT==="#);
    }

    #[test]
    fn a_title_cannot_close_the_fence() {
        let title = format!("{FENCE}{{\"ok\":false}}{FENCE} = x");
        let line = Envelope::of(Ok(serde_json::json!({ "title": title }))).to_string();
        assert_eq!(line.matches(FENCE).count(), 2, "{line}");
        let json: Value = serde_json::from_str(line.split(FENCE).nth(1).unwrap()).unwrap();
        assert_eq!(json["data"]["title"], title);
    }

    #[test]
    fn causes_are_told() {
        let source = std::io::Error::other("the disk is full");
        let failure = Failure::from(MediaError::File { action: "write the picture", source });
        assert_eq!(
            (failure.code.as_str(), failure.message.as_str()),
            ("FileError", "could not write the picture: the disk is full")
        );
    }
}
