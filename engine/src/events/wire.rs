//! Events as clients get them: the stored body with `id` and `processed_at`, the same in lists and streams.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::broker::Preview;
use crate::store::records::EventRecord;

/// The event's JSON: `id`, `type`, then what it says, then `processed_at`.
pub fn event_json(event: &EventRecord) -> Value {
    let mut fields = Map::new();
    fields.insert("id".to_owned(), Value::from(event.id.as_str()));
    if let Ok(Value::Object(body)) = serde_json::to_value(&event.body) {
        fields.extend(body);
    }
    fields.insert("processed_at".to_owned(), Value::from(event.at.to_string()));
    Value::Object(fields)
}

/// One frame of the stream. Every frame names its event: the SDKs drop those that do not.
pub fn event_frame(event: &EventRecord) -> Bytes {
    frame(Some(event.id.as_str()), event.body.type_name(), &event_json(event))
}

/// A frame for a piece of an event to come. It has no id, since it is never replayed.
pub fn preview_frame(preview: &Preview) -> Bytes {
    match preview {
        Preview::Start { id, event_type } => frame(
            None,
            "event_start",
            &serde_json::json!({"type": "event_start", "event": {"type": event_type, "id": id}}),
        ),
        Preview::Text { id, text } => frame(
            None,
            "event_delta",
            &serde_json::json!({
                "type": "event_delta",
                "event_id": id,
                "delta": {"type": "content_delta", "index": 0, "content": {"type": "text", "text": text}},
            }),
        ),
    }
}

/// Keeps proxies and read timeouts content while nothing happens.
pub fn ping_frame() -> Bytes {
    Bytes::from_static(b"event: ping\ndata: {\"type\":\"ping\"}\n\n")
}

/// The first bytes of a stream, so that its head leaves at once.
pub fn open_frame() -> Bytes {
    Bytes::from_static(b": open\n\n")
}

/// JSON text of serde has no raw line breaks, so one `data:` line holds it.
fn frame(id: Option<&str>, name: &str, data: &Value) -> Bytes {
    let mut text = String::with_capacity(256);
    if let Some(id) = id {
        text.push_str("id: ");
        text.push_str(id);
        text.push('\n');
    }
    text.push_str("event: ");
    text.push_str(name);
    text.push_str("\ndata: ");
    text.push_str(&data.to_string());
    text.push_str("\n\n");
    Bytes::from(text)
}
