//! Reading a JSON object field by field.
//!
//! Each read names the path of its field (`events[0].content[1].type`) when it fails, tells a field that was left out
//! from one that is null, and ignores fields that nobody reads: newer SDKs send more. (Serde's tagged unions lose the
//! path, and the API is full of unions.)

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::api::error::{ApiError, shortened};

/// A JSON object and where it stands in the body.
#[derive(Debug)]
pub struct Fields {
    path: String,
    map: Map<String, Value>,
}

/// A field of an update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Patch<T> {
    /// Left out: stays as it is.
    Absent,
    /// Null: is cleared.
    Null,
    /// Replaced.
    Given(T),
}

impl<T> Patch<T> {
    /// The value, where null and left out mean the same.
    pub fn given(self) -> Option<T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Null => None,
        }
    }

    /// Whether the field was left out.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Another value in the same place.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn map<U>(self, change: impl FnOnce(T) -> Result<U, ApiError>) -> Result<Patch<U>, ApiError> {
        Ok(match self {
            Self::Absent => Patch::Absent,
            Self::Null => Patch::Null,
            Self::Given(value) => Patch::Given(change(value)?),
        })
    }
}

/// The path of a field inside what stands at `path`.
pub fn at(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What a JSON value is, for messages.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Fields {
    /// Reads a whole body.
    ///
    /// # Errors
    /// When it is no JSON, or no object.
    pub fn of_body(body: &[u8]) -> Result<Self, ApiError> {
        if body.trim_ascii().is_empty() {
            return Ok(Self { path: String::new(), map: Map::new() });
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(map)) => Ok(Self { path: String::new(), map }),
            Ok(other) => {
                Err(ApiError::invalid(format!("the request body must be a JSON object, not {}", kind_of(&other))))
            }
            Err(error) => Err(ApiError::invalid(format!("the request body is no valid JSON: {error}"))),
        }
    }

    /// Takes a value that has to be an object.
    ///
    /// # Errors
    /// When it is something else.
    pub fn of(path: String, value: Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(map) => Ok(Self { path, map }),
            other => Err(ApiError::invalid(format!("`{path}` must be an object, not {}", kind_of(&other)))),
        }
    }

    /// Where a field of this object stands.
    pub fn at(&self, name: &str) -> String {
        at(&self.path, name)
    }

    /// Where this object stands.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// An error about a field.
    pub fn bad(&self, name: &str, why: impl AsRef<str>) -> ApiError {
        ApiError::invalid(format!("`{}` {}", self.at(name), why.as_ref()))
    }

    /// Takes a field out, whatever it is.
    pub fn take(&mut self, name: &str) -> Patch<Value> {
        match self.map.remove(name) {
            None => Patch::Absent,
            Some(Value::Null) => Patch::Null,
            Some(value) => Patch::Given(value),
        }
    }

    /// Whether any of these fields was sent.
    pub fn has_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.map.contains_key(*name))
    }

    /// What is left, for what keeps objects as they are.
    pub fn into_map(self) -> Map<String, Value> {
        self.map
    }

    /// A text of that many characters.
    ///
    /// # Errors
    /// When it is no text, too short or long, or holds a NUL.
    pub fn text(&mut self, name: &str, characters: RangeInclusive<usize>) -> Result<Patch<String>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| text(&path, value, characters))
    }

    /// A text that has to be there.
    ///
    /// # Errors
    /// As [`Self::text`], and when it is missing.
    pub fn required_text(&mut self, name: &str, characters: RangeInclusive<usize>) -> Result<String, ApiError> {
        self.text(name, characters)?.given().ok_or_else(|| self.bad(name, "is required and must be a string"))
    }

    /// One of some words.
    ///
    /// # Errors
    /// For any other word.
    pub fn word(&mut self, name: &str, words: &[&'static str]) -> Result<Patch<&'static str>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| word(&path, &value, words))
    }

    /// The `type` of an object.
    ///
    /// # Errors
    /// When it is missing or no text.
    pub fn type_name(&mut self) -> Result<String, ApiError> {
        match self.take("type") {
            Patch::Given(Value::String(name)) => Ok(name),
            Patch::Given(other) => Err(self.bad("type", format!("must be a string, not {}", kind_of(&other)))),
            Patch::Absent | Patch::Null => Err(self.bad("type", "is required and must be a string")),
        }
    }

    /// A yes or no.
    ///
    /// # Errors
    /// For anything else.
    pub fn boolean(&mut self, name: &str) -> Result<Option<bool>, ApiError> {
        match self.take(name) {
            Patch::Given(Value::Bool(value)) => Ok(Some(value)),
            Patch::Given(other) => Err(self.bad(name, format!("must be `true` or `false`, not {}", kind_of(&other)))),
            Patch::Absent | Patch::Null => Ok(None),
        }
    }

    /// A whole number in a range.
    ///
    /// # Errors
    /// For anything else.
    pub fn whole(&mut self, name: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, ApiError> {
        let value = match self.take(name) {
            Patch::Given(value) => value,
            Patch::Absent | Patch::Null => return Ok(None),
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            let given = if value.is_number() { format!("`{value}`") } else { kind_of(&value).to_owned() };
            self.bad(name, format!("must be a whole number from {} to {}, not {given}", range.start(), range.end()))
        })
    }

    /// A list of at most `most` items, each with its path.
    ///
    /// # Errors
    /// When it is no list, or longer.
    pub fn list(&mut self, name: &str, most: usize) -> Result<Patch<Vec<(String, Value)>>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| match value {
            Value::Array(items) if items.len() <= most => {
                Ok(items.into_iter().enumerate().map(|(index, item)| (format!("{path}[{index}]"), item)).collect())
            }
            Value::Array(items) => {
                Err(ApiError::invalid(format!("`{path}` may have at most {most} items, not {}", items.len())))
            }
            other => Err(ApiError::invalid(format!("`{path}` must be a list, not {}", kind_of(&other)))),
        })
    }

    /// An object inside this one.
    ///
    /// # Errors
    /// When it is something else.
    pub fn object(&mut self, name: &str) -> Result<Patch<Self>, ApiError> {
        let path = self.at(name);
        self.take(name).map(|value| Self::of(path, value))
    }

    /// Refuses a field that the engine cannot honour, rather than to store and ignore it. Null and empty are fine.
    ///
    /// # Errors
    /// When it is there and not empty.
    pub fn refuse(&mut self, name: &str, why: &str) -> Result<(), ApiError> {
        match self.take(name) {
            Patch::Absent | Patch::Null => Ok(()),
            Patch::Given(Value::Array(items)) if items.is_empty() => Ok(()),
            Patch::Given(Value::Object(map)) if map.is_empty() => Ok(()),
            Patch::Given(_) => Err(self.bad(name, format!("is not supported: {why}"))),
        }
    }
}

/// A text of that many characters, without NUL, which the database cannot hold.
pub fn text(path: &str, value: Value, characters: RangeInclusive<usize>) -> Result<String, ApiError> {
    let Value::String(text) = value else {
        return Err(ApiError::invalid(format!("`{path}` must be a string, not {}", kind_of(&value))));
    };
    let count = text.chars().count();
    if count < *characters.start() {
        return Err(ApiError::invalid(if count == 0 {
            format!("`{path}` must not be empty")
        } else {
            format!("`{path}` must have at least {} characters, not {count}", characters.start())
        }));
    }
    if count > *characters.end() {
        return Err(ApiError::invalid(format!(
            "`{path}` must have at most {} characters, not {count}",
            characters.end()
        )));
    }
    if text.contains('\0') {
        return Err(ApiError::invalid(format!("`{path}` holds a NUL character; remove it")));
    }
    Ok(text)
}

/// One of some words.
fn word(path: &str, value: &Value, words: &[&'static str]) -> Result<&'static str, ApiError> {
    let known = || words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    match value {
        Value::String(given) => words.iter().copied().find(|word| word == given).ok_or_else(|| {
            ApiError::invalid(format!("`{path}` must be one of {}, not `{}`", known(), shortened(given)))
        }),
        other => Err(ApiError::invalid(format!("`{path}` must be one of {}, not {}", known(), kind_of(other)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(json: &str) -> Fields {
        Fields::of_body(json.as_bytes()).unwrap()
    }

    #[test]
    fn errors_name_the_path_and_what_is_accepted() {
        let mut body = fields(r#"{"a":{"b":[1,{"c":5}]},"n":"x","t":"","z":"a\u0000b"}"#);
        assert_eq!(
            body.whole("n", 1..=9).unwrap_err().to_string(),
            "`n` must be a whole number from 1 to 9, not a string"
        );
        assert_eq!(body.text("t", 1..=5).unwrap_err().to_string(), "`t` must not be empty");
        assert_eq!(body.text("z", 1..=5).unwrap_err().to_string(), "`z` holds a NUL character; remove it");
        assert_eq!(body.required_text("q", 1..=5).unwrap_err().to_string(), "`q` is required and must be a string");
        let mut inner = body.object("a").unwrap().given().unwrap();
        let (path, item) = inner.list("b", 9).unwrap().given().unwrap().remove(1);
        let mut item = Fields::of(path, item).unwrap();
        assert_eq!(item.text("c", 0..=5).unwrap_err().to_string(), "`a.b[1].c` must be a string, not a number");
    }

    #[test]
    fn broken_json_says_where() {
        let error = Fields::of_body(b"{\"agent\": \"a\", ").unwrap_err().to_string();
        assert!(error.contains("line 1 column 15"), "{error}");
        assert!(Fields::of_body(b"[]").is_err());
        assert!(Fields::of_body(b"").is_ok());
        assert!(Fields::of_body(b"\xff").is_err());
        assert!(Fields::of_body("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn absent_and_null_are_told_apart() {
        let mut body = fields(r#"{"a":null}"#);
        assert_eq!(body.text("a", 0..=1).unwrap(), Patch::Null);
        assert_eq!(body.text("b", 0..=1).unwrap(), Patch::Absent);
    }
}
