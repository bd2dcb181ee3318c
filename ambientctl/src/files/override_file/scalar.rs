//! A text as YAML writes it.

use std::fmt::Write;

/// A value as it is written: plain where that is safe, else in double quotes, with dollars that stay dollars.
pub(super) fn scalar(value: &str, in_flow: bool) -> String {
    let safe =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/' | '-' | ':' | '@' | '+');
    let word = value.to_ascii_lowercase();
    let means_something = matches!(
        word.as_str(),
        "" | "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "nan" | "inf"
    );
    let plain = value.starts_with(|first: char| first.is_ascii_alphabetic())
        && value.chars().all(safe)
        && !value.ends_with(':')
        && !(in_flow && value.contains(':'))
        && !means_something;
    if plain {
        return value.to_owned();
    }
    quoted(&value.replace('$', "$$"))
}

/// In double quotes, whatever is in it.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            _ if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                write!(quoted, "\\u{:04X}", u32::from(letter)).expect("a String takes whatever is written");
            }
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}
