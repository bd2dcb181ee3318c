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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dotenv::Document;

    fn read_back(encoded: &str) -> Option<String> {
        let file = format!("BEFORE=1\nNAME={encoded}\nAFTER=2\n");
        let evaluated = Document::parse(&file).ok()?.evaluate(&|_: &str| None).ok()?;
        assert_eq!(evaluated.variables.len(), 3, "{file:?}");
        evaluated.variables.get("NAME").map(|variable| variable.value.clone())
    }

    fn read_back_by_dotenvy(encoded: &str) -> Option<String> {
        let file = format!("BEFORE=1\nNAME={encoded}\nAFTER=2\n");
        let pairs: Vec<(String, String)> = dotenvy::from_read_iter(file.as_bytes()).collect::<Result<_, _>>().ok()?;
        assert_eq!(pairs.len(), 3, "{file:?}");
        pairs.into_iter().find(|(name, _)| name == "NAME").map(|(_, value)| value)
    }

    #[test]
    fn what_no_reader_could_hold_is_refused() {
        assert_eq!(encode("a\0b"), Err(CannotQuote::Nul));
        assert_eq!(encode("`'"), Err(CannotQuote::Backtick));
        assert_eq!(encode("`\\"), Err(CannotQuote::Backtick));
        assert_eq!(encode("`\\\\").as_deref(), Ok("'`\\\\'"));
    }

    proptest! {
        #[test]
        fn every_value_that_is_written_is_read_back(value in "[ -~\n\r\té\u{a0}'\"\\\\$`#]{0,24}") {
            if let Ok(encoded) = encode(&value) {
                prop_assert_eq!(read_back(&encoded), Some(value.clone()));
                prop_assert_eq!(read_back_by_dotenvy(&encoded), Some(value));
            }
        }

        #[test]
        fn any_text_without_backticks_and_nul_can_be_written(value in "[^`\0]{0,24}") {
            let encoded = encode(&value);
            prop_assert!(encoded.is_ok());
            prop_assert_eq!(read_back(&encoded.unwrap()), Some(value));
        }
    }
}
