//! The escapes inside double quotes of a `.env`.

/// Replaces the escapes of double quotes. `\$` becomes `$$`, which the references' grammar then makes a dollar.
pub(super) fn expand(text: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        expanded.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let mut letters = after.chars();
        let plain = match letters.next() {
            Some('a') => "\u{7}",
            Some('b') => "\u{8}",
            Some('f') => "\u{c}",
            Some('n') => "\n",
            Some('r') => "\r",
            Some('t') => "\t",
            Some('v') => "\u{b}",
            Some('"') => "\"",
            Some('\\') => "\\",
            Some('$') => "$$",
            Some('0') => {
                rest = octal(letters.as_str(), &mut expanded);
                continue;
            }
            _ => {
                expanded.push('\\');
                rest = after;
                continue;
            }
        };
        expanded.push_str(plain);
        rest = letters.as_str();
    }
    expanded.push_str(rest);
    expanded
}

/// Writes the character of up to three octal digits after `\0`, and returns what follows. When there are fewer than three,
/// or they are no octal number of one byte, Compose keeps the backslash and the digits, and drops the `0`.
fn octal<'a>(after: &'a str, expanded: &mut String) -> &'a str {
    let count = after.bytes().take(3).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = after.split_at(count);
    match u8::from_str_radix(digits, 8) {
        Ok(code) if count == 3 => expanded.push(char::from(code)),
        _ => {
            expanded.push('\\');
            expanded.push_str(digits);
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_escapes_are_replaced_and_others_stay() {
        for (text, expected) in [
            (r"\a\b\f\n\r\t\v", "\u{7}\u{8}\u{c}\n\r\t\u{b}"),
            (r#"\\ \" \$X"#, r#"\ " $$X"#),
            (r"\c \q \x41 \u0041", r"\c \q \x41 \u0041"),
            ("a\\\nb", "a\\\nb"),
            ("end\\", "end\\"),
        ] {
            assert_eq!(expand(text), expected);
        }
    }

    #[test]
    fn octal_escapes_that_are_no_byte_keep_their_digits() {
        for (text, expected) in [
            (r"\0101\0102", "AB"),
            (r"\0351", "é"),
            (r"\012", r"\12"),
            (r"\0777", r"\777"),
            (r"\0", r"\"),
            (r"\01018", "A8"),
        ] {
            assert_eq!(expand(text), expected);
        }
    }
}
