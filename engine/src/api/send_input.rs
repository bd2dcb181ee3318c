//! What clients may send into a session, read and checked as a whole before anything is stored.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::Url;
use utoipa::ToSchema;

use super::error::{ApiError, shortened};
use super::extract::{Fields, Patch, kind_of};
use super::tools::without_nul;
use crate::events::body::{Confirmation, ContentBlock, EventBody, MediaSource};
use crate::ids::EventId;
use crate::sessions::wishes::SendRequest;

/// Events of one request.
const MOST_EVENTS: usize = 100;
/// Blocks of one message.
const MOST_BLOCKS: usize = 200;
/// Characters of one text. Above this no model takes it.
const TEXT: std::ops::RangeInclusive<usize> = 1..=1_000_000;
/// A result may be empty: the tool had nothing to say.
const RESULT_TEXT: std::ops::RangeInclusive<usize> = 0..=1_000_000;
const REASON: std::ops::RangeInclusive<usize> = 0..=10_000;
/// Bytes of one picture, decoded. Models take less, and larger ones are made smaller for them.
const PICTURE_BYTES: usize = 20 << 20;
/// Characters of an `output_structure`.
const SCHEMA_CHARACTERS: usize = 64 << 10;
const PICTURE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Reads the body of `POST /v1/sessions/{id}/events`.
///
/// # Errors
/// For the first field that does not fit.
pub fn send_request(mut fields: Fields) -> Result<SendRequest, ApiError> {
    let items = match fields.list("events", MOST_EVENTS)? {
        Patch::Given(items) if !items.is_empty() => items,
        Patch::Given(_) | Patch::Absent | Patch::Null => {
            return Err(ApiError::invalid("body.events must be a non-empty list"));
        }
    };
    let events = events(items)?;
    let output_structure = output_structure(&mut fields)?;
    if output_structure.is_some() && !events.iter().any(|body| matches!(body, EventBody::UserMessage { .. })) {
        return Err(ApiError::invalid(
            "`output_structure` needs a `user.message` in `events` that it is the answer to",
        ));
    }
    Ok(SendRequest { events, output_structure })
}

/// Reads events, each with its path.
///
/// # Errors
/// For the first that does not fit.
pub fn events(items: Vec<(String, Value)>) -> Result<Vec<EventBody>, ApiError> {
    let count = items.len();
    let mut bodies = Vec::with_capacity(count);
    for (index, (path, item)) in items.into_iter().enumerate() {
        let body = event(Fields::of(path.clone(), item)?)?;
        if matches!(body, EventBody::SystemMessage { .. }) && index + 1 < count {
            return Err(ApiError::invalid(format!(
                "`{path}`: a `system.message` must be the last event of its request"
            )));
        }
        bodies.push(body);
    }
    Ok(bodies)
}

fn event(mut fields: Fields) -> Result<EventBody, ApiError> {
    let kind = fields.type_name()?;
    match kind.as_str() {
        "user.message" => message(&mut fields),
        "user.interrupt" => {
            Ok(EventBody::UserInterrupt { session_thread_id: fields.text("session_thread_id", 0..=256)?.given() })
        }
        "user.tool_confirmation" => confirmation(&mut fields),
        "user.custom_tool_result" => Ok(EventBody::UserCustomToolResult {
            custom_tool_use_id: call(&mut fields, "custom_tool_use_id")?,
            content: result_content(&mut fields)?,
            is_error: fields.boolean("is_error")?.unwrap_or(false),
        }),
        "system.message" => {
            let content = content(&mut fields, TEXT)?;
            if let Some(index) = content.iter().position(|block| !matches!(block, ContentBlock::Text { .. })) {
                return Err(fields.bad(&format!("content[{index}].type"), "must be `text` in a `system.message`"));
            }
            Ok(EventBody::SystemMessage { content })
        }
        "user.tool_result" => Err(fields.bad(
            "type",
            "`user.tool_result` is not supported: the engine runs its own tools; answer a `custom` tool with `user.custom_tool_result`",
        )),
        "user.define_outcome" => {
            Err(fields.bad("type", "`user.define_outcome` is not supported: say in a `user.message` what is wanted"))
        }
        other if ["agent.", "session.", "span."].iter().any(|prefix| other.starts_with(prefix)) => {
            Err(fields.bad("type", format!("`{}` comes from the engine alone; a client sends `user.*` events", shortened(other))))
        }
        other => Err(fields.bad(
            "type",
            format!(
                "must be `user.message`, `user.interrupt`, `user.tool_confirmation`, `user.custom_tool_result` or `system.message`, not `{}`",
                shortened(other)
            ),
        )),
    }
}

fn message(fields: &mut Fields) -> Result<EventBody, ApiError> {
    let content = content(fields, TEXT)?;
    let says_something = content.iter().any(|block| match block {
        ContentBlock::Text { text } => !text.trim().is_empty(),
        ContentBlock::Image { .. } | ContentBlock::Document { .. } => true,
    });
    if says_something {
        Ok(EventBody::UserMessage { content })
    } else {
        Err(ApiError::invalid("no user text found in events[].content"))
    }
}

fn confirmation(fields: &mut Fields) -> Result<EventBody, ApiError> {
    let tool_use_id = call(fields, "tool_use_id")?;
    let result = match fields.word("result", &["allow", "deny"])? {
        Patch::Given("allow") => Confirmation::Allow,
        Patch::Given(_) => Confirmation::Deny,
        Patch::Absent | Patch::Null => return Err(fields.bad("result", "is required and must be `allow` or `deny`")),
    };
    let deny_message = fields.text("deny_message", REASON)?.given();
    if deny_message.is_some() && result == Confirmation::Allow {
        return Err(fields.bad("deny_message", "goes with `result` `deny` alone"));
    }
    Ok(EventBody::UserToolConfirmation { tool_use_id, result, deny_message })
}

/// The event that is answered.
fn call(fields: &mut Fields, name: &str) -> Result<EventId, ApiError> {
    let text = fields.required_text(name, 1..=256)?;
    // What is no event's id is waited for by nobody, like the id of an event that waits for nothing.
    text.parse().map_err(|_no_id| {
        ApiError::invalid(format!("`{}`: no tool call waits for an answer to {}", fields.at(name), shortened(&text)))
    })
}

/// `content` of a message: a list of blocks, or a text alone.
fn content(fields: &mut Fields, text: std::ops::RangeInclusive<usize>) -> Result<Vec<ContentBlock>, ApiError> {
    let path = fields.at("content");
    let items = match fields.take("content") {
        Patch::Given(Value::Array(items)) => items,
        Patch::Given(Value::String(text)) => vec![serde_json::json!({"type": "text", "text": text})],
        Patch::Given(other) => {
            return Err(ApiError::invalid(format!(
                "`{path}` must be a list of content blocks, not {}",
                kind_of(&other)
            )));
        }
        Patch::Absent | Patch::Null => {
            return Err(ApiError::invalid(format!("`{path}` is required and must be a list of content blocks")));
        }
    };
    if items.is_empty() {
        return Err(ApiError::invalid(format!("`{path}` must not be empty")));
    }
    if items.len() > MOST_BLOCKS {
        return Err(ApiError::invalid(format!("`{path}` may have at most {MOST_BLOCKS} blocks, not {}", items.len())));
    }
    let mut blocks = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        blocks.push(block(Fields::of(format!("{path}[{index}]"), item)?, text.clone(), false)?);
    }
    Ok(blocks)
}

/// `content` of a result, which may be left out or empty.
fn result_content(fields: &mut Fields) -> Result<Option<Vec<ContentBlock>>, ApiError> {
    let path = fields.at("content");
    let items = match fields.take("content") {
        Patch::Absent | Patch::Null => return Ok(None),
        Patch::Given(Value::Array(items)) if items.len() <= MOST_BLOCKS => items,
        Patch::Given(Value::String(text)) => vec![serde_json::json!({"type": "text", "text": text})],
        Patch::Given(other) => {
            return Err(ApiError::invalid(format!(
                "`{path}` must be a list of at most {MOST_BLOCKS} content blocks, not {}",
                kind_of(&other)
            )));
        }
    };
    let mut blocks = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        blocks.push(block(Fields::of(format!("{path}[{index}]"), item)?, RESULT_TEXT, true)?);
    }
    Ok(Some(blocks))
}

fn block(
    mut fields: Fields,
    characters: std::ops::RangeInclusive<usize>,
    is_result: bool,
) -> Result<ContentBlock, ApiError> {
    match fields.type_name()?.as_str() {
        "text" => Ok(ContentBlock::Text { text: fields.required_text("text", characters)? }),
        "image" => Ok(ContentBlock::Image { source: picture(&mut fields)? }),
        "document" => document(&mut fields),
        "search_result" if is_result => search_result(&mut fields),
        other => Err(fields.bad("type", format!("must be `text`, `image` or `document`, not `{}`", shortened(other)))),
    }
}

fn source(fields: &mut Fields) -> Result<(Fields, String), ApiError> {
    let Patch::Given(mut source) = fields.object("source")? else {
        return Err(fields.bad("source", "is required and must be an object"));
    };
    let kind = source.type_name()?;
    Ok((source, kind))
}

fn picture(fields: &mut Fields) -> Result<MediaSource, ApiError> {
    let (mut source, kind) = source(fields)?;
    match kind.as_str() {
        "base64" => {
            let Patch::Given(media_type) = source.word("media_type", PICTURE_TYPES)? else {
                return Err(source.bad("media_type", "is required, `image/jpeg` for one"));
            };
            let data = base64_data(&mut source)?;
            Ok(MediaSource::Base64 { media_type: media_type.to_owned(), data })
        }
        "url" => {
            let url = source.required_text("url", 1..=8192)?;
            let is_web = Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
            if is_web { Ok(MediaSource::Url { url }) } else { Err(source.bad("url", "must be an http or https address")) }
        }
        "file" => Err(source.bad(
            "type",
            "must not be `file` in a picture: the files of this engine are videos; send the picture as `base64` or `url`",
        )),
        other => Err(source.bad("type", format!("must be `base64` or `url`, not `{}`", shortened(other)))),
    }
}

/// Base64 that decodes, and to no more than a picture may have.
fn base64_data(source: &mut Fields) -> Result<String, ApiError> {
    let data = source.required_text("data", 1..=PICTURE_BYTES / 3 * 4 + 4)?;
    match STANDARD.decode(&data) {
        Ok(bytes) if bytes.len() <= PICTURE_BYTES => Ok(data),
        Ok(_) => Err(source.bad("data", format!("must hold at most {PICTURE_BYTES} bytes"))),
        Err(error) => Err(source.bad("data", format!("must be base64: {error}"))),
    }
}

/// A document is text here: the engine reads no other kind, and says so rather than to drop it.
fn document(fields: &mut Fields) -> Result<ContentBlock, ApiError> {
    let (mut source, kind) = source(fields)?;
    let data = match kind.as_str() {
        "text" => source.required_text("data", TEXT)?,
        "base64" => {
            let media_type = source.required_text("media_type", 1..=256)?;
            if !media_type.starts_with("text/") {
                return Err(
                    source.bad("media_type", "must be `text/plain`: this engine reads documents of plain text alone")
                );
            }
            let bytes = STANDARD.decode(base64_data(&mut source)?).unwrap_or_default();
            let text = String::from_utf8(bytes).map_err(|_no_text| source.bad("data", "must be UTF-8 text"))?;
            without_nul(&source.at("data"), &Value::String(text.clone()))?;
            text
        }
        other => {
            return Err(source.bad(
                "type",
                format!(
                    "must be `text` in a document, not `{}`: this engine reads documents of plain text alone",
                    shortened(other)
                ),
            ));
        }
    };
    Ok(ContentBlock::Document {
        source: MediaSource::Text { data, media_type: Some("text/plain".to_owned()) },
        title: fields.text("title", 0..=1024)?.given(),
        context: fields.text("context", 0..=10_000)?.given(),
    })
}

/// A search result becomes the text that the model reads anyway.
fn search_result(fields: &mut Fields) -> Result<ContentBlock, ApiError> {
    let title = fields.required_text("title", 0..=1024)?;
    let source = fields.required_text("source", 0..=8192)?;
    let mut text = format!("{title} ({source})");
    for (path, item) in fields.list("content", MOST_BLOCKS)?.given().unwrap_or_default() {
        let mut part = Fields::of(path, item)?;
        text.push('\n');
        text.push_str(&part.required_text("text", RESULT_TEXT)?);
    }
    Ok(ContentBlock::Text { text })
}

fn output_structure(fields: &mut Fields) -> Result<Option<Value>, ApiError> {
    let schema = match fields.take("output_structure") {
        Patch::Absent | Patch::Null => return Ok(None),
        Patch::Given(schema @ Value::Object(_)) => schema,
        Patch::Given(other) => {
            return Err(
                fields.bad("output_structure", format!("must be a JSON schema object, not {}", kind_of(&other)))
            );
        }
    };
    without_nul("output_structure", &schema)?;
    if schema.to_string().len() > SCHEMA_CHARACTERS {
        return Err(fields.bad("output_structure", format!("must be shorter than {SCHEMA_CHARACTERS} bytes")));
    }
    match jsonschema::validator_for(&schema) {
        Ok(_) => Ok(Some(schema)),
        Err(error) => Err(fields.bad("output_structure", format!("is no valid JSON schema: {error}"))),
    }
}

/// Body of `POST /v1/sessions/{id}/events`.
#[derive(Debug, ToSchema)]
pub struct SendEvents {
    /// In order; all are taken or none.
    #[schema(min_items = 1, max_items = 100)]
    pub events: Vec<EventParam>,
    /// Ours: a JSON schema that the answer has to fit.
    #[schema(value_type = Option<Object>)]
    pub output_structure: Option<Value>,
}

/// An event of a client: an object that `type` tells apart.
#[derive(Debug, ToSchema)]
pub struct EventParam {
    /// `user.message`, `user.interrupt`, `user.tool_confirmation`, `user.custom_tool_result` or `system.message`.
    #[schema(rename = "type", example = "user.message")]
    pub kind: String,
    /// Of a message or result: blocks such as `{"type":"text","text":"…"}`.
    #[schema(value_type = Option<Vec<Object>>)]
    pub content: Option<Vec<Value>>,
    /// Of a confirmation: the id of the `agent.tool_use` event.
    pub tool_use_id: Option<String>,
    /// Of a confirmation: `allow` or `deny`.
    pub result: Option<String>,
    /// Of a confirmation that denies: why.
    pub deny_message: Option<String>,
    /// Of a result: the id of the `agent.custom_tool_use` event.
    pub custom_tool_use_id: Option<String>,
    /// Of a result: whether the tool failed.
    pub is_error: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(json: &str) -> Result<SendRequest, String> {
        Fields::of_body(json.as_bytes()).and_then(send_request).map_err(|error| error.to_string())
    }

    #[test]
    fn refusals_name_the_path() {
        for (json, start) in [
            (r"{}", "body.events must be a non-empty list"),
            (r#"{"events":[]}"#, "body.events must be a non-empty list"),
            (r#"{"events":{}}"#, "`events` must be a list"),
            (r#"{"events":[5]}"#, "`events[0]` must be an object"),
            (r#"{"events":[{}]}"#, "`events[0].type` is required"),
            (r#"{"events":[{"type":"user.dance"}]}"#, "`events[0].type` must be `user.message`"),
            (
                r#"{"events":[{"type":"agent.message","content":[]}]}"#,
                "`events[0].type` `agent.message` comes from the engine",
            ),
            (r#"{"events":[{"type":"user.message"}]}"#, "`events[0].content` is required"),
            (r#"{"events":[{"type":"user.message","content":[]}]}"#, "`events[0].content` must not be empty"),
            (r#"{"events":[{"type":"user.message","content":5}]}"#, "`events[0].content` must be a list"),
            (
                r#"{"events":[{"type":"user.message","content":[{"type":"hologram"}]}]}"#,
                "`events[0].content[0].type` must be",
            ),
            (
                r#"{"events":[{"type":"user.message","content":[{"type":"text","text":"a"},{"type":"text"}]}]}"#,
                "`events[0].content[1].text` is required",
            ),
            (
                r#"{"events":[{"type":"user.message","content":[{"type":"text","text":" "}]}]}"#,
                "no user text found in events[].content",
            ),
            (
                r#"{"events":[{"type":"user.message","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"?"}}]}]}"#,
                "`events[0].content[0].source.data` must be base64",
            ),
            (
                r#"{"events":[{"type":"user.message","content":[{"type":"image","source":{"type":"url","url":"file:///etc/passwd"}}]}]}"#,
                "`events[0].content[0].source.url` must be an http",
            ),
            (
                r#"{"events":[{"type":"user.message","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"QQ=="}}]}]}"#,
                "`events[0].content[0].source.media_type` must be `text/plain`",
            ),
            (
                r#"{"events":[{"type":"user.tool_confirmation","tool_use_id":"sevt_nope","result":"allow"}]}"#,
                "`events[0].tool_use_id`: no tool call waits",
            ),
            (
                r#"{"events":[{"type":"user.tool_result","tool_use_id":"x"}]}"#,
                "`events[0].type` `user.tool_result` is not supported",
            ),
            (
                r#"{"events":[{"type":"user.define_outcome"}]}"#,
                "`events[0].type` `user.define_outcome` is not supported",
            ),
            (
                r#"{"events":[{"type":"system.message","content":"a"},{"type":"user.message","content":"b"}]}"#,
                "`events[0]`: a `system.message` must be the last",
            ),
            (
                r#"{"events":[{"type":"user.interrupt"}],"output_structure":{"type":"object"}}"#,
                "`output_structure` needs a `user.message`",
            ),
            (
                r#"{"events":[{"type":"user.message","content":"b"}],"output_structure":{"type":"banana"}}"#,
                "`output_structure` is no valid JSON schema",
            ),
            (
                r#"{"events":[{"type":"user.message","content":"b"}],"output_structure":"x"}"#,
                "`output_structure` must be a JSON schema object",
            ),
        ] {
            let error = send(json).unwrap_err();
            assert!(error.starts_with(start), "{json}: {error}");
        }
        let long = "x".repeat(1_000_001);
        assert!(send(&format!(r#"{{"events":[{{"type":"user.message","content":"{long}"}}]}}"#)).is_err());
    }

    #[test]
    fn what_the_sdk_sends_is_taken() {
        for json in [
            r#"{"events":[{"type":"user.message","content":[{"type":"text","text":"What happens?"}]}]}"#,
            r#"{"events":[{"type":"user.interrupt"},{"type":"user.message","content":[{"type":"text","text":"a"}]}]}"#,
            r#"{"events":[{"type":"user.message","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"QQ=="}}]}]}"#,
            r#"{"events":[{"type":"user.custom_tool_result","custom_tool_use_id":"evt_0123456789abcdef","content":[{"type":"search_result","title":"t","source":"s","content":[{"type":"text","text":"x"}]}]}]}"#,
            r#"{"events":[{"type":"user.message","content":"b","new_field":1}],"output_structure":{"type":"object"},"other":2}"#,
        ] {
            assert!(send(json).is_ok(), "{json}: {:?}", send(json).err());
        }
    }
}
