//! Words for a POSIX shell.

/// A word as a shell reads it back, quoted only where it must be.
pub(super) fn quote(word: &str) -> String {
    let is_safe = |ch: char| ch.is_ascii_alphanumeric() || "_@%+=:,./-".contains(ch);
    if !word.is_empty() && word.chars().all(is_safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

/// Words as one command.
pub(super) fn join(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{join, quote};

    #[test]
    fn words_are_quoted_where_they_must_be() {
        for (word, quoted) in
            [("a-b/c.d", "a-b/c.d"), ("", "''"), ("a b", "'a b'"), ("it's", r#"'it'"'"'s'"#), ("ä", "'ä'")]
        {
            assert_eq!(quote(word), quoted);
        }
        assert_eq!(join(&["sh".to_owned(), "-c".to_owned(), "a b".to_owned()]), "sh -c 'a b'");
    }
}
