//! Changing what a service gets from `docker-compose.override.yml`, and nothing else in that file.
//!
//! The file is its owner's: comments, order, anchors and the quoting of every other line stay as they are, since an edit
//! only puts letters in, or in the place of one value. The lossless reader says where (`place`). Afterwards the new text is
//! read again and has to mean what the old one meant plus the one change (`meaning`); what cannot be done that way is
//! refused, with the lines to add by hand.

mod meaning;
mod place;
mod reading;
mod scalar;
#[cfg(test)]
mod tests;

use self::meaning::changed;
use self::place::Place;
use self::reading::read;
pub use self::reading::{Found, found, refers_to};
use self::scalar::scalar;
use super::dotenv::is_key;
use crate::compose::yaml;

/// How a variable gets to a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// `KEY: ${KEY}`: from `.env`.
    PassedOn,
    /// This very value. Never a secret: the file may be read by others.
    Literal(&'a str),
    /// Not at all, as far as this file goes.
    Gone,
}

/// Why the file was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// The file cannot be read.
    #[error("line {line}: {problem}")]
    Unreadable {
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// It can be read, but not be changed without touching what stands around.
    #[error("{why}")]
    ByHand {
        /// What is in the way.
        why: &'static str,
        /// The lines to add by hand.
        lines: String,
    },
}

/// The text with the service's variable as it shall be. The same text comes back when it is so already.
///
/// # Errors
/// See [`OverrideError`]; the file is then to be left as it is.
pub fn edited(text: &str, service: &str, key: &str, entry: Entry<'_>) -> Result<String, OverrideError> {
    let by_hand = |why| OverrideError::ByHand { why, lines: lines(service, key, entry) };
    if !is_key(key) || !is_plain_name(service) {
        return Err(by_hand("the key or the service has a name that needs care in YAML"));
    }
    let old = read(text)?;
    if old.len() > 1 {
        return Err(by_hand("the file has several documents"));
    }
    let old = old.into_iter().next().unwrap_or_default();
    let wanted = changed(&old, service, key, entry)
        .ok_or_else(|| by_hand("the file has something else where the service's variables would be"))?;
    if wanted == old {
        return Ok(text.to_owned());
    }
    let place = Place { text, service, key, entry, line_end: line_end(text) };
    let (range, inserted) = place.edit(&old).map_err(by_hand)?;
    let mut new = text.to_owned();
    new.replace_range(range, &inserted);
    let read_back = yaml::documents(&new, 0).ok().filter(|documents| documents.len() == 1);
    match read_back {
        Some(documents) if documents[0] == wanted => Ok(new),
        _ => Err(by_hand("the change would alter something else in the file")),
    }
}

/// The lines that a person would add.
fn lines(service: &str, key: &str, entry: Entry<'_>) -> String {
    let value = match entry {
        Entry::PassedOn => format!("${{{key}}}"),
        Entry::Literal(value) => scalar(value, false),
        Entry::Gone => return format!("(remove `{key}` below services, {service}, environment)"),
    };
    format!("services:\n  {service}:\n    environment:\n      {key}: {value}")
}

fn is_plain_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

fn line_end(text: &str) -> &'static str {
    match text.find('\n') {
        Some(at) if text[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    }
}
