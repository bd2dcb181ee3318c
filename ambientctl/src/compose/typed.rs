//! From the untyped tree to the model: every value checked against the [`schema`](super::schema) and brought into the form in
//! which Compose prints it.

use serde_json::{Map as JsonMap, Number, Value};

use super::error::Mistake;
use super::mapping::{as_list, key_of};
use super::node::{Data, Node};
use super::render::sorted;
use super::schema::{self, Field, Printed, Shape};
use super::{units, words};

/// For whom a value is printed: JSON leaves extensions out and says more of what is not there; YAML sorts names by their
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Yaml,
    /// For nobody: only whether every key is known and takes what stands there. Variables are not put in, so a text with one may become
    /// anything, and a short form may stand where it could not be taken apart.
    Check,
}

/// Whether a text may still become something else: one with a variable in it, and any where a number or a switch will be read out of it.
fn is_open(node: &Node, shape: Shape, form: Form) -> bool {
    let Some(text) = node.as_text().filter(|_text| form == Form::Check) else { return false };
    match shape {
        Shape::Struct(_) | Shape::MapOf(_) | Shape::ListOf(_) => false,
        Shape::Switch | Shape::Whole | Shape::Count | Shape::Decimal | Shape::Size | Shape::Mode | Shape::Limit => true,
        _ => text.contains('$'),
    }
}

/// A mapping with these keys.
pub(super) fn structure(node: &Node, fields: &[Field], path: &str, form: Form) -> Result<Value, Mistake> {
    let Data::Map(map) = &node.data else {
        return Err(Mistake::new(node.place, path, format!("must be a mapping, not {}", node.kind())));
    };
    for (key, value) in map {
        if !key.starts_with("x-") && !fields.iter().any(|field| field.name == key) {
            let path = format!("{path}.{key}");
            let why = schema::refused(key).unwrap_or("is not understood, so nothing is done with this file");
            return Err(Mistake::new(value.place, &path, why));
        }
    }
    let mut printed = JsonMap::new();
    for field in fields {
        let given = map.get(field.name).filter(|value| !value.is_null());
        let value = match given {
            Some(given) => Some(value(given, field.shape, &format!("{path}.{}", field.name), form)?),
            None => match (field.printed, form) {
                (Printed::JsonNull, Form::Json) => Some(Value::Null),
                (Printed::JsonAlways, Form::Json) => Some(Value::Object(JsonMap::new())),
                _ => None,
            },
        };
        let says_something = |value: &Value| match field.printed {
            Printed::Meaningful => {
                let is_no_time = matches!(field.shape, Shape::Duration) && value == "0s";
                !(is_zero(value) || is_no_time)
            }
            Printed::JsonAlways => form == Form::Json || !is_zero(value),
            Printed::Given | Printed::JsonNull => true,
        };
        if let Some(value) = value.filter(says_something) {
            printed.insert(field.name.to_owned(), value);
        }
    }
    if form == Form::Yaml {
        let extensions = map.iter().filter(|(key, _)| key.starts_with("x-"));
        let mut extensions: Vec<(String, Value)> =
            extensions.map(|(key, value)| (key.clone(), plain(value, form))).collect();
        sorted(&mut extensions, form == Form::Yaml);
        printed.extend(extensions);
    }
    Ok(Value::Object(printed))
}

/// Whether Go would leave it out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// An extension, as it is.
pub(super) fn plain(node: &Node, form: Form) -> Value {
    match &node.data {
        Data::Null | Data::Reset => Value::Null,
        Data::Switch(on) => Value::Bool(*on),
        Data::Whole(number) => whole(*number),
        Data::Decimal(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Data::Text(text) | Data::Date(text) => Value::String(text.clone()),
        // To JSON, Compose prints a list without entries as none.
        Data::List(items) if items.is_empty() && form == Form::Json => Value::Null,
        Data::List(items) => Value::Array(items.iter().map(|item| plain(item, form)).collect()),
        Data::Map(map) => object(map.iter().map(|(key, value)| (key.clone(), plain(value, form))).collect(), form),
        Data::Alone(inner) => plain(inner, form),
    }
}

fn whole(number: i128) -> Value {
    u64::try_from(number)
        .map(Value::from)
        .or_else(|_negative| i64::try_from(number).map(Value::from))
        .unwrap_or_else(|_out_of_range| Value::String(number.to_string()))
}

fn object(mut entries: Vec<(String, Value)>, form: Form) -> Value {
    sorted(&mut entries, form == Form::Yaml);
    Value::Object(entries.into_iter().collect())
}

fn value(node: &Node, shape: Shape, path: &str, form: Form) -> Result<Value, Mistake> {
    let wrong = |expected: &str| Mistake::new(node.place, path, format!("must be {expected}, not {}", node.kind()));
    if is_open(node, shape, form) {
        return Ok(plain(node, form));
    }
    match shape {
        Shape::ContainerName => match node.as_text() {
            Some(name) if is_container_name(name) => Ok(Value::from(name)),
            _ => Err(wrong("two or more letters, digits, `_`, `.` and `-`, the first a letter or digit")),
        },
        Shape::PullPolicy => match node.as_text() {
            Some(policy) if is_pull_policy(policy) => Ok(Value::from(policy)),
            _ => Err(wrong("`always`, `missing`, `never`, `build`, `daily`, `weekly` or such as `every_12h`")),
        },
        Shape::Text => node.as_text().map(Value::from).ok_or_else(|| wrong("text; quote it")),
        Shape::Printed => printed(node).map(Value::from).ok_or_else(|| wrong("text or a number")),
        Shape::Switch | Shape::External => match &node.data {
            Data::Map(_) if matches!(shape, Shape::External) => Ok(Value::Bool(true)),
            _ => switch(node).map(Value::from).ok_or_else(|| wrong("true or false")),
        },
        Shape::Whole => number(node).map(whole).ok_or_else(|| wrong("a whole number")),
        Shape::Count => match node.as_text() {
            Some("all") => Ok(Value::from(-1)),
            _ => number(node).map(whole).ok_or_else(|| wrong("a whole number or `all`")),
        },
        Shape::Decimal => decimal(node).ok_or_else(|| wrong("a number")),
        Shape::Duration => {
            let duration = node.as_text().and_then(units::duration);
            duration
                .map(|found| Value::from(units::print_duration(found)))
                .ok_or_else(|| wrong("a duration such as `1m30s`"))
        }
        Shape::Size => {
            let size = printed(node).and_then(|text| units::size(&text));
            let size = size.ok_or_else(|| wrong("a size such as `64m`"))?;
            Ok(Value::String(if size == 0 { String::new() } else { size.to_string() }))
        }
        Shape::Mode => {
            let mode = match &node.data {
                Data::Text(text) => i128::from_str_radix(text, 8).ok(),
                Data::Whole(number) => Some(*number),
                _ => None,
            };
            mode.map(|mode| Value::String(format!("0{mode:o}"))).ok_or_else(|| wrong("a file mode such as `0440`"))
        }
        Shape::Words => match &node.data {
            Data::Text(text) => words::split(text)
                .map(Value::from)
                .ok_or_else(|| Mistake::new(node.place, path, "has a quote that nothing closes")),
            Data::List(_) => texts(node, path),
            _ => Err(wrong("a command: text, or a list of texts")),
        },
        Shape::Test => match &node.data {
            Data::Text(text) => Ok(Value::from(vec!["CMD-SHELL", text])),
            Data::List(words) => match words.first().and_then(Node::as_text) {
                Some("CMD" | "CMD-SHELL" | "NONE") | None => texts(node, path),
                Some(_) if form == Form::Check => texts(node, path),
                Some(_) => Err(Mistake::new(node.place, path, "must begin with `CMD`, `CMD-SHELL` or `NONE`")),
            },
            _ => Err(wrong("a command: text, or a list of texts")),
        },
        Shape::Texts => texts(node, path),
        Shape::TextsOnce => {
            let found = texts(node, path)?;
            let twice = found
                .as_array()
                .and_then(|items| items.iter().enumerate().find(|(n, item)| items[..*n].contains(item)));
            match twice {
                Some((_, item)) => Err(Mistake::new(
                    node.place,
                    path,
                    format!("has `{}` twice, perhaps once in either file", item.as_str().unwrap_or_default()),
                )),
                None => Ok(found),
            }
        }
        Shape::TextOrTexts => match &node.data {
            Data::Text(text) => Ok(Value::from(vec![text.as_str()])),
            _ => texts(node, path),
        },
        Shape::Environment => pairs(node, path, form, &Value::Null),
        Shape::Pairs => pairs(node, path, form, &Value::String(String::new())),
        Shape::Hosts => hosts(node, path),
        Shape::Limit => match &node.data {
            Data::Map(map) => {
                let limits: Result<JsonMap<String, Value>, Mistake> = ["soft", "hard"]
                    .into_iter()
                    .filter_map(|key| map.get(key).map(|found| (key, found)))
                    .map(|(key, found)| {
                        Ok((key.to_owned(), value(found, Shape::Whole, &format!("{path}.{key}"), form)?))
                    })
                    .collect();
                Ok(Value::Object(limits?))
            }
            _ => number(node).map(whole).ok_or_else(|| wrong("a whole number, or `soft` and `hard`")),
        },
        Shape::Struct(fields) => structure(node, fields, path, form),
        Shape::MapOf(shape) => {
            let Data::Map(map) = &node.data else { return Err(wrong("a mapping")) };
            let entries: Result<Vec<(String, Value)>, Mistake> = map
                .iter()
                .map(|(key, entry)| {
                    let printed = if entry.is_null() {
                        Value::Null
                    } else {
                        value(entry, *shape, &format!("{path}.{key}"), form)?
                    };
                    Ok((key.clone(), printed))
                })
                .collect();
            Ok(object(entries?, form))
        }
        Shape::ListOf(shape) => {
            let Data::List(items) = &node.data else { return Err(wrong("a list")) };
            let printed: Result<Vec<Value>, Mistake> = items
                .iter()
                .enumerate()
                .map(|(index, item)| match item.data {
                    Data::Text(_) | Data::Whole(_) if form == Form::Check => Ok(plain(item, form)),
                    _ => value(item, *shape, &format!("{path}[{index}]"), form),
                })
                .collect();
            printed.map(Value::Array)
        }
    }
}

/// What Docker takes.
fn is_container_name(name: &str) -> bool {
    let mut letters = name.chars();
    name.len() > 1
        && letters.next().is_some_and(|first| first.is_ascii_alphanumeric())
        && letters.all(|letter| letter.is_ascii_alphanumeric() || "_.-".contains(letter))
}

fn is_pull_policy(policy: &str) -> bool {
    let is_span = |span: &str| {
        let is_unit = |letter: char| "wdhms".contains(letter);
        span.ends_with(is_unit)
            && span.split_inclusive(is_unit).all(|part| {
                let number = part.trim_end_matches(is_unit);
                !number.is_empty()
                    && number.len() + 1 == part.len()
                    && number.bytes().all(|digit| digit.is_ascii_digit())
            })
    };
    matches!(policy, "always" | "never" | "build" | "if_not_present" | "missing" | "refresh" | "daily" | "weekly")
        || policy.strip_prefix("every_").is_some_and(is_span)
}

fn printed(node: &Node) -> Option<String> {
    match node.data {
        Data::Text(_) | Data::Whole(_) | Data::Decimal(_) => node.printed(),
        _ => None,
    }
}

/// The words that Compose takes for true and false at a key that is one of them.
fn switch(node: &Node) -> Option<bool> {
    match &node.data {
        Data::Switch(on) => Some(*on),
        Data::Text(text) => match text.to_lowercase().as_str() {
            "true" | "y" | "yes" | "on" => Some(true),
            "false" | "n" | "no" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn number(node: &Node) -> Option<i128> {
    match &node.data {
        Data::Whole(number) => Some(*number),
        Data::Text(text) => text.parse().ok(),
        _ => None,
    }
}

/// A number of single precision, with the shortest digits that give it back.
fn decimal(node: &Node) -> Option<Value> {
    let number: f32 = printed(node)?.parse().ok().filter(|number: &f32| number.is_finite())?;
    #[expect(clippy::cast_possible_truncation, reason = "only whole numbers in the range come here")]
    if number.fract() == 0.0 && number.abs() < 1e9 {
        return Some(Value::from(number as i64));
    }
    number.to_string().parse().ok().and_then(Number::from_f64).map(Value::Number)
}

fn texts(node: &Node, path: &str) -> Result<Value, Mistake> {
    let Data::List(items) = &node.data else {
        return Err(Mistake::new(node.place, path, format!("must be a list, not {}", node.kind())));
    };
    items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            printed(item).map(Value::String).ok_or_else(|| {
                Mistake::new(
                    item.place,
                    &format!("{path}[{index}]"),
                    format!("must be text, not {}; quote it", item.kind()),
                )
            })
        })
        .collect::<Result<Vec<_>, _>>()
        .map(Value::Array)
}

/// Pairs by name. `nothing` is what a name without a value has.
fn pairs(node: &Node, path: &str, form: Form, nothing: &Value) -> Result<Value, Mistake> {
    let wrong = |node: &Node, path: &str| {
        Mistake::new(node.place, path, format!("must be text, a number, or true or false, not {}", node.kind()))
    };
    let entries: Vec<(String, Value)> = match &node.data {
        Data::Map(map) => map
            .iter()
            .map(|(key, value)| {
                let printed = if value.is_null() {
                    nothing.clone()
                } else {
                    value.printed().map(Value::String).ok_or_else(|| wrong(value, &format!("{path}.{key}")))?
                };
                Ok((key.clone(), printed))
            })
            .collect::<Result<_, _>>()?,
        Data::List(items) => {
            let mut entries: Vec<(String, Value)> = Vec::with_capacity(items.len());
            for item in items {
                let pair = item.printed().ok_or_else(|| wrong(item, path))?;
                let key = key_of(&pair).to_owned();
                let value = pair.split_once('=').map_or_else(|| nothing.clone(), |(_, value)| Value::from(value));
                entries.retain(|(known, _)| *known != key);
                entries.push((key, value));
            }
            entries
        }
        _ => return Err(Mistake::new(node.place, path, format!("must be a mapping or a list, not {}", node.kind()))),
    };
    Ok(object(entries, form))
}

/// `host=address`, sorted by host.
fn hosts(node: &Node, path: &str) -> Result<Value, Mistake> {
    let wrong = |node: &Node| Mistake::new(node.place, path, "must be `host=address` or `host: address`");
    let mut found: Vec<(String, String)> = Vec::new();
    match &node.data {
        Data::Map(map) => {
            for (host, addresses) in map {
                for address in as_list(addresses.clone()) {
                    found.push((host.clone(), address.printed().ok_or_else(|| wrong(&address))?));
                }
            }
        }
        Data::List(items) => {
            for item in items {
                let text = item.printed().ok_or_else(|| wrong(item))?;
                let (host, address) =
                    text.split_once('=').or_else(|| text.split_once(':')).ok_or_else(|| wrong(item))?;
                found.push((host.to_owned(), address.to_owned()));
            }
        }
        _ => return Err(wrong(node)),
    }
    let bare = |address: String| match address.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => inner.to_owned(),
        None => address,
    };
    let mut hosts: Vec<String> = found.into_iter().map(|(host, address)| format!("{host}={}", bare(address))).collect();
    hosts.sort();
    Ok(Value::from(hosts))
}
