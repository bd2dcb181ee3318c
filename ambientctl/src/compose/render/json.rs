//! Go's JSON.

use std::fmt::Write;

use serde_json::Value;

/// With line breaks and two blanks for each level.
pub fn json(value: &Value) -> String {
    let mut text = String::new();
    indented(value, 0, &mut text);
    text
}

fn indented(value: &Value, level: usize, text: &mut String) {
    let line = |level: usize, text: &mut String| {
        text.push('\n');
        text.push_str(&"  ".repeat(level));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                line(level + 1, text);
                indented(item, level + 1, text);
            }
            line(level, text);
            text.push(']');
        }
        Value::Object(map) if !map.is_empty() => {
            text.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                line(level + 1, text);
                string(key, text);
                text.push_str(": ");
                indented(item, level + 1, text);
            }
            line(level, text);
            text.push('}');
        }
        _ => scalar(value, text),
    }
}

/// Without blanks: the text that is hashed.
pub fn compact(value: &Value) -> String {
    let mut text = String::new();
    write_compact(value, &mut text);
    text
}

fn write_compact(value: &Value, text: &mut String) {
    match value {
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                write_compact(item, text);
            }
            text.push(']');
        }
        Value::Object(map) => {
            text.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                text.push_str(if index == 0 { "" } else { "," });
                string(key, text);
                text.push(':');
                write_compact(item, text);
            }
            text.push('}');
        }
        _ => scalar(value, text),
    }
}

fn scalar(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(on) => text.push_str(if *on { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(decimal) => text.push_str(&decimal.to_string()),
            None => text.push_str(&number.to_string()),
        },
        Value::String(inner) => string(inner, text),
        Value::Array(_) => text.push_str("[]"),
        Value::Object(_) => text.push_str("{}"),
    }
}

/// `<`, `>` and `&` are escaped, so that the text may stand in a web page: so is Go's.
fn string(inner: &str, text: &mut String) {
    text.push('"');
    for letter in inner.chars() {
        match letter {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\u{8}' => text.push_str("\\b"),
            '\u{c}' => text.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(text, "\\u{:04x}", u32::from(letter)).expect("a String takes whatever is written");
            }
            _ => text.push(letter),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn escapes_are_gos() {
        let value = json!({"a<": ["\u{1}\u{2028}é\"\\\n", {}, [], null, 1.5]});
        assert_eq!(compact(&value), r#"{"a\u003c":["\u0001\u2028é\"\\\n",{},[],null,1.5]}"#);
        assert_eq!(json(&json!({"a": ["<", {}]})), "{\n  \"a\": [\n    \"\\u003c\",\n    {}\n  ]\n}");
    }
}
