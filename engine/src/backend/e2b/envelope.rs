//! What a media command in a sandbox answers: one fenced line of JSON somewhere in its output.

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Stands on both sides of the answer.
const FENCE: &str = "===AMBIENT_RESULT===";
/// Characters of a command's last words that stand in an error.
const TAIL_CHARACTERS: usize = 2000;

/// Why there is no data.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoData {
    /// The command said why; its words are fixed for those who search for them.
    #[error("sandbox tool failed: {code}: {message}")]
    Failed {
        /// The kind of failure.
        code: String,
        message: String,
    },
    /// The command ended without an answer, as when the sandbox runs out of threads or memory.
    #[error("sandbox produced no result envelope (exit={exit}). stderr tail:\n{stderr_tail}")]
    NoEnvelope { exit: i32, stderr_tail: String },
    /// The answer is not what this version of the engine reads.
    #[error(
        "the sandbox's answer could not be read ({reason}); the template may be of another version, build it anew with \
         `ambientctl template build`"
    )]
    Unreadable { reason: String },
}

#[derive(Deserialize)]
struct Envelope {
    ok: bool,
    #[serde(default)]
    data: Option<serde_json::Value>,
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// The data of an answer.
pub(crate) fn data<T: DeserializeOwned>(stdout: &str, stderr: &str, exit: i32) -> Result<T, NoData> {
    let none = || NoData::NoEnvelope { exit, stderr_tail: tail(stderr, TAIL_CHARACTERS).trim_end().to_owned() };
    // Whatever a login script or a library printed stands before; so the last one counts.
    let (before, _after) = stdout.rsplit_once(FENCE).ok_or_else(none)?;
    let (_noise, json) = before.rsplit_once(FENCE).ok_or_else(none)?;
    let envelope: Envelope = serde_json::from_str(json.trim()).map_err(|_broken| none())?;
    if !envelope.ok {
        let Failure { code, message } =
            envelope.error.unwrap_or(Failure { code: String::new(), message: String::new() });
        return Err(NoData::Failed { code: if code.is_empty() { "Unknown".to_owned() } else { code }, message });
    }
    serde_json::from_value(envelope.data.unwrap_or_default())
        .map_err(|error| NoData::Unreadable { reason: error.to_string() })
}

/// The last characters of a text.
pub(crate) fn tail(text: &str, characters: usize) -> &str {
    let start = text.char_indices().rev().take(characters).last().map_or(text.len(), |(index, _)| index);
    &text[start..]
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(stdout: &str) -> Result<Value, NoData> {
        data(stdout, "first line\nlast words\n", 137)
    }

    #[test]
    fn an_answer_is_found_in_whatever_stands_around_it() {
        let answer = format!("{FENCE}{{\"ok\":true,\"data\":{{\"a\":1}},\"error\":null}}{FENCE}");
        for text in [answer.clone(), format!("motd\n{answer}\nbye\n"), format!("{FENCE}old{FENCE}\n{answer}")] {
            assert_eq!(read(&text), Ok(json!({ "a": 1 })), "{text}");
        }
        // As the Python tool of old writes it.
        let of_old = format!("{FENCE}\n{{\"ok\": true, \"data\": {{\"a\": 1}}}}\n{FENCE}\n");
        assert_eq!(read(&of_old), Ok(json!({ "a": 1 })));
    }

    #[test]
    fn a_failure_keeps_its_words() {
        let answer = format!(
            "{FENCE}{{\"ok\":false,\"data\":null,\"error\":{{\"code\":\"NoTiles\",\"message\":\"none\"}}}}{FENCE}"
        );
        assert_eq!(read(&answer).unwrap_err().to_string(), "sandbox tool failed: NoTiles: none");
    }

    #[test]
    fn no_answer_is_told_with_the_last_words() {
        for text in ["", "noise", FENCE, "===AMBIENT_RESULT==={\"ok\":===AMBIENT_RESULT==="] {
            assert_eq!(
                read(text).unwrap_err().to_string(),
                "sandbox produced no result envelope (exit=137). stderr tail:\nfirst line\nlast words"
            );
        }
        let long = data::<Value>("", &"猫".repeat(5000), 1).unwrap_err().to_string();
        assert_eq!(long.chars().filter(|character| *character == '猫').count(), 2000);
    }

    #[test]
    fn tails_are_whole_characters() {
        for (text, count, expected) in [("a猫b", 2, "猫b"), ("abc", 9, "abc"), ("abc", 0, ""), ("", 3, "")] {
            assert_eq!(tail(text, count), expected);
        }
    }
}
