//! How a value is written into a `.env`, so that Docker Compose, dotenvy and a shell all read back the same bytes.
//!
//! The rule was chosen against those readers: `\n` is never written for a line break (a shell reads it literally), quotes
//! are never spliced as a shell would (Compose refuses that), and `$` is never doubled (only Compose undoes it).

/// Why a value cannot be written. The text follows the value's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannotQuote {
    /// A NUL, which no environment variable can hold.
    #[error("holds a NUL character, which no environment variable can hold")]
    Nul,
    /// A backtick together with a single quote or a last backslash: whatever is written, one reader gets it wrong, and a
    /// shell would run what stands between the backticks.
    #[error(
        "holds a backtick together with a single quote, or a backtick and a backslash at its end, which no quoting makes safe for all readers"
    )]
    Backtick,
}

/// The text to write behind `NAME=`.
///
/// # Errors
/// [`CannotQuote`] for the few values that some reader would get wrong.
pub fn encode(value: &str) -> Result<String, CannotQuote> {
    if value.contains('\0') {
        return Err(CannotQuote::Nul);
    }
    let is_bare = |letter: char| letter.is_ascii_alphanumeric() || "_./:@%+,=-".contains(letter);
    if value.chars().all(is_bare) {
        return Ok(value.to_owned());
    }
    let has_quote = value.contains('\'');
    if !has_quote && !value.contains('\\') {
        return Ok(format!("'{value}'"));
    }
    if !value.contains('`') {
        let mut encoded = String::with_capacity(value.len() + 2);
        encoded.push('"');
        for letter in value.chars() {
            if matches!(letter, '\\' | '"' | '$') {
                encoded.push('\\');
            }
            encoded.push(letter);
        }
        encoded.push('"');
        return Ok(encoded);
    }
    let last_backslashes = value.len() - value.trim_end_matches('\\').len();
    if !has_quote && last_backslashes.is_multiple_of(2) {
        return Ok(format!("'{value}'"));
    }
    Err(CannotQuote::Backtick)
}
