//! Schemas of arguments, in the few forms that the tools need.

use serde_json::{Map, Value, json};

/// A JSON Schema of an object with these properties, of which these are required.
pub(crate) fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), properties);
    schema.insert("required".to_owned(), required.into());
    schema.insert("additionalProperties".to_owned(), false.into());
    Value::Object(schema)
}

/// A property with more of the same kind of window before it.
pub(crate) fn window(more: Value) -> Value {
    let mut properties = Map::new();
    properties.insert("start_time".to_owned(), number(super::prompts::START_TIME));
    properties.insert("end_time".to_owned(), number(super::prompts::END_TIME));
    if let Value::Object(more) = more {
        properties.extend(more);
    }
    Value::Object(properties)
}

pub(crate) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(crate) fn number(description: &str) -> Value {
    json!({"type": "number", "description": description})
}

/// Another file instead of the session's video.
pub(crate) fn video_path() -> Value {
    text(super::prompts::VIDEO_PATH)
}
