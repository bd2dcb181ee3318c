//! Go's YAML: block style, two blanks for each level, and its choice of quotes.

use std::fmt::Write;

use serde_json::Value;

use super::super::node::Data;
use super::super::scalar;

/// The text of a mapping.
pub fn yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => mapping(map, 0, &mut text),
        _ => {
            inline(value, 0, &mut text);
            text.push('\n');
        }
    }
    text
}

fn mapping(map: &serde_json::Map<String, Value>, indent: usize, text: &mut String) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || !text.ends_with("- ") {
            text.push_str(&" ".repeat(indent));
        }
        quoted(key, indent, true, text);
        text.push(':');
        below(value, indent, text);
    }
}

fn below(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            text.push('\n');
            mapping(map, indent + 2, text);
        }
        Value::Array(items) if !items.is_empty() => {
            text.push('\n');
            list(items, indent + 2, text);
        }
        _ => {
            text.push(' ');
            inline(value, indent + 2, text);
            text.push('\n');
        }
    }
}

fn list(items: &[Value], indent: usize, text: &mut String) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 || !text.ends_with("- ") {
            text.push_str(&" ".repeat(indent));
        }
        text.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => mapping(map, indent + 2, text),
            Value::Array(items) if !items.is_empty() => list(items, indent + 2, text),
            _ => {
                inline(item, indent + 2, text);
                text.push('\n');
            }
        }
    }
}

/// A value on the line; `indent` is that of the lines of a longer text.
fn inline(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(on) => text.push_str(if *on { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(decimal) => text.push_str(&scalar::print_decimal(decimal)),
            None => text.push_str(&number.to_string()),
        },
        Value::String(inner) => quoted(inner, indent, false, text),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
}

fn quoted(inner: &str, indent: usize, is_key: bool, text: &mut String) {
    let look = Look::at(inner);
    if inner.contains('\n') && !is_key && look.block_allowed {
        literal(inner, indent, text);
    } else if !inner.contains('\n') && reads_as_text(inner) {
        if look.plain_allowed {
            text.push_str(inner);
        } else if look.single_allowed {
            text.push('\'');
            text.push_str(&inner.replace('\'', "''"));
            text.push('\'');
        } else {
            double(inner, text);
        }
    } else {
        double(inner, text);
    }
}

/// Whether a reader takes it for text when it stands there without quotes: also one of YAML 1.1.
fn reads_as_text(inner: &str) -> bool {
    let old_switch = matches!(
        inner,
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF"
    );
    matches!(scalar::resolve(inner), Data::Text(_)) && !old_switch && !base_60(inner)
}

/// `12:30:45` is a number to YAML 1.1.
fn base_60(inner: &str) -> bool {
    let unsigned = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, ""), |(whole, fraction)| (whole, fraction));
    let mut parts = whole.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    first.starts_with(|digit: char| digit.is_ascii_digit())
        && digits(first)
        && digits(fraction)
        && !rest.is_empty()
        && rest.iter().all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
}

/// What a text looks like to Go's writer.
struct Look {
    plain_allowed: bool,
    single_allowed: bool,
    block_allowed: bool,
}

impl Look {
    fn at(inner: &str) -> Self {
        let letters: Vec<char> = inner.chars().collect();
        let mut indicators = inner.starts_with("---") || inner.starts_with("...");
        let (mut special, mut tab) = (false, false);
        let (mut space_break, mut break_space) = (false, false);
        let mut before_is_blank = true;
        for (at, letter) in letters.iter().enumerate() {
            let after_is_blank = letters.get(at + 1).is_none_or(|next| is_blank(*next));
            indicators |= match letter {
                '#' => at == 0 || before_is_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => at == 0,
                '?' | '-' => at == 0 && after_is_blank,
                ':' => after_is_blank,
                _ => false,
            };
            tab |= *letter == '\t';
            special |= *letter != '\t' && !is_printable(*letter);
            let before = at.checked_sub(1).map(|before| letters[before]);
            space_break |= is_break(*letter) && before == Some(' ');
            break_space |= *letter == ' ' && before.is_some_and(is_break);
            before_is_blank = is_blank(*letter);
        }
        let edge = |letter: Option<&char>| letter.is_some_and(|letter| *letter == ' ' || is_break(*letter));
        let trailing_space = letters.last() == Some(&' ');
        let breaks = letters.iter().any(|letter| is_break(*letter));
        let edges = edge(letters.first()) || edge(letters.last());
        Self {
            plain_allowed: !(indicators || special || tab || space_break || break_space || breaks || edges),
            single_allowed: !(special || tab || space_break || break_space),
            block_allowed: !(special || space_break || trailing_space),
        }
    }
}

fn is_break(letter: char) -> bool {
    matches!(letter, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\0') || is_break(letter)
}

/// Whether Go writes it as it is: nothing beyond the basic plane.
fn is_printable(letter: char) -> bool {
    matches!(letter, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && letter != '\u{feff}'
}

fn literal(inner: &str, indent: usize, text: &mut String) {
    text.push('|');
    if inner.starts_with([' ', '\n', '\u{85}', '\u{2028}', '\u{2029}']) {
        text.push('2');
    }
    if !inner.ends_with('\n') {
        text.push('-');
    } else if inner == "\n" || inner.ends_with("\n\n") {
        text.push('+');
    }
    let lines = inner.strip_suffix('\n').unwrap_or(inner);
    for line in lines.split('\n') {
        text.push('\n');
        if !line.is_empty() {
            text.push_str(&" ".repeat(indent));
            text.push_str(line);
        }
    }
}

fn double(inner: &str, text: &mut String) {
    text.push('"');
    for letter in inner.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\0' => text.push_str("\\0"),
            '\u{7}' => text.push_str("\\a"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{b}' => text.push_str("\\v"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\u{1b}' => text.push_str("\\e"),
            '\u{85}' => text.push_str("\\N"),
            '\u{2028}' => text.push_str("\\L"),
            '\u{2029}' => text.push_str("\\P"),
            _ if is_printable(letter) => text.push(letter),
            _ => match u32::from(letter) {
                code @ 0..=0xff => write!(text, "\\x{code:02X}").expect("a String takes whatever is written"),
                code @ 0x100..=0xffff => write!(text, "\\u{code:04X}").expect("a String takes whatever is written"),
                code => write!(text, "\\U{code:08X}").expect("a String takes whatever is written"),
            },
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quotes_are_those_that_go_would_choose() {
        let shown = |inner: &str| {
            let mut text = String::new();
            quoted(inner, 2, false, &mut text);
            text
        };
        for (inner, expected) in [
            ("plain text", "plain text"),
            ("", "\"\""),
            ("1", "\"1\""),
            ("0123", "\"0123\""),
            ("true", "\"true\""),
            ("yes", "\"yes\""),
            ("12:30", "\"12:30\""),
            ("8080:80", "8080:80"),
            ("a: b", "'a: b'"),
            ("a:", "'a:'"),
            ("it's", "it's"),
            ("'x", "'''x'"),
            ("# c", "'# c'"),
            ("a #b", "'a #b'"),
            ("a#b", "a#b"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("*x", "'*x'"),
            ("a\tb", "\"a\\tb\""),
            (" x", "' x'"),
            ("a\nb", "|-\n  a\n  b"),
            ("a\n", "|\n  a"),
            ("a \nb", "\"a \\nb\""),
            ("é", "é"),
            ("=", "="),
            ("<<", "<<"),
            ("?x", "?x"),
            ("\n x", "|2-\n\n   x"),
            ("x\n\n", "|+\n  x\n"),
            ("😀", "\"\\U0001F600\""),
        ] {
            assert_eq!(shown(inner), expected, "{inner:?}");
        }
    }

    #[test]
    fn lists_and_mappings_are_nested_by_two() {
        let value = json!({"a": {"b": [1, {"c": 2, "d": []}, [3, 4]], "e": {}}, "f": null});
        assert_eq!(
            yaml(&value),
            "a:\n  b:\n    - 1\n    - c: 2\n      d: []\n    - - 3\n      - 4\n  e: {}\nf: null\n"
        );
    }
}
