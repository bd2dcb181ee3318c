//! A command in one string, taken apart as a shell would, without running anything.

/// The words; `None` when a quote is not closed.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        inside => word.push(inside),
                    }
                }
            }
            '\\' => {
                let escaped = letters.next()?;
                word.get_or_insert_default().push(escaped);
            }
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let check = |text: &str, expected: &[&str]| assert_eq!(split(text).unwrap(), expected, "{text}");
        check("serve --port \"81\" 'a b'", &["serve", "--port", "81", "a b"]);
        check("  a\tb\n", &["a", "b"]);
        check("a\\ b ''", &["a b", ""]);
        check("x\"y 'z'\"w", &["xy 'z'w"]);
        check(r#"sh -c "echo \"$HOME\" \n""#, &["sh", "-c", r#"echo "$HOME" \n"#]);
        check("", &[]);
        assert_eq!(split("a 'b"), None);
        assert_eq!(split("a \"b"), None);
        assert_eq!(split("a \\"), None);
    }
}
