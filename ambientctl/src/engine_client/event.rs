//! What happens in a session, as a client reads it.
//!
//! Newer engines may tell more: events that are not known here are [`EventBody::Other`], and unknown fields are passed over.

use serde::Deserialize;
use serde_json::{Map, Value};

/// One event of a stream or a list.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Value")]
pub struct Event {
    /// The event's id; `None` for the previews of a message, which are never told again.
    pub id: Option<String>,
    /// What happened.
    pub body: EventBody,
}

impl TryFrom<Value> for Event {
    type Error = serde_json::Error;

    fn try_from(event: Value) -> Result<Self, Self::Error> {
        let id = event.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { id, body: EventBody::deserialize(event)? })
    }
}

/// What happened. The names are those of the wire.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type")]
pub enum EventBody {
    /// Preview: a message or a thought begins.
    #[serde(rename = "event_start")]
    PreviewStart {
        /// Which event is to come.
        event: PreviewedEvent,
    },
    /// Preview: a piece of a message's text.
    #[serde(rename = "event_delta")]
    PreviewText {
        /// Of which event.
        event_id: String,
        /// The piece.
        delta: Delta,
    },
    /// The agent said something, as a whole.
    #[serde(rename = "agent.message")]
    Message {
        /// What it said.
        #[serde(default)]
        content: Vec<ContentBlock>,
    },
    /// The agent thought something, where the engine shows thoughts.
    #[serde(rename = "agent.thinking")]
    Thinking {
        /// What it thought.
        #[serde(default)]
        content: Option<Vec<ContentBlock>>,
    },
    /// The agent calls a tool.
    #[serde(rename = "agent.tool_use")]
    ToolUse {
        /// Which.
        name: String,
        /// With which arguments.
        #[serde(default)]
        input: Map<String, Value>,
    },
    /// What a call gave.
    #[serde(rename = "agent.tool_result")]
    ToolResult {
        /// The id of the call's event.
        tool_use_id: String,
        /// What it gave.
        #[serde(default)]
        content: Vec<ContentBlock>,
        /// Whether it failed.
        #[serde(default)]
        is_error: bool,
    },
    /// A run began.
    #[serde(rename = "session.status_running")]
    Running {},
    /// A run waits to ask the model again.
    #[serde(rename = "session.status_rescheduled")]
    Rescheduled {},
    /// A run ended, or waits for the client.
    #[serde(rename = "session.status_idle")]
    Idle {
        /// Why.
        stop_reason: StopReason,
    },
    /// The session is over for good.
    #[serde(rename = "session.status_terminated")]
    Terminated {},
    /// The session was deleted.
    #[serde(rename = "session.deleted")]
    Deleted {},
    /// Something failed.
    #[serde(rename = "session.error")]
    Failed {
        /// What.
        error: SessionFailure,
    },
    /// A run waits for something that takes its time.
    #[serde(rename = "session.progress")]
    Progress {
        /// For what.
        message: String,
        /// Hundredths that are done, where that is known.
        #[serde(default)]
        percent: Option<u8>,
    },
    /// A request to a model ended.
    #[serde(rename = "span.model_request_end")]
    ModelRequestEnd {
        /// What it used.
        #[serde(default)]
        model_usage: ModelUsage,
        /// US dollars, where the price is known.
        #[serde(default)]
        cost: Option<f64>,
    },
    /// Something else.
    #[serde(other)]
    Other,
}

/// Which event a preview announces.
#[derive(Clone, Debug, Deserialize)]
pub struct PreviewedEvent {
    /// Its id.
    pub id: String,
}

/// A piece of a message.
#[derive(Clone, Debug, Deserialize)]
pub struct Delta {
    /// The piece itself.
    pub content: ContentBlock,
}

/// A block of a message or a result.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type")]
pub enum ContentBlock {
    /// Text.
    #[serde(rename = "text")]
    Text {
        /// The text.
        text: String,
    },
    /// A picture, a document, or something newer.
    #[serde(other)]
    Other,
}

impl ContentBlock {
    /// The text of blocks, one behind the other.
    pub fn text_of(blocks: &[Self]) -> String {
        let text = |block: &Self| match block {
            Self::Text { text } => Some(text.clone()),
            Self::Other => None,
        };
        blocks.iter().filter_map(text).collect()
    }
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StopReason {
    /// The agent is done, or was interrupted.
    EndTurn,
    /// The client has to answer these events first.
    RequiresAction {
        /// Their ids.
        #[serde(default)]
        event_ids: Vec<String>,
    },
    /// The run could not go on; an [`EventBody::Failed`] says why.
    RetriesExhausted,
    /// The model refused to answer.
    Refusal,
    /// Something newer.
    #[serde(other)]
    Other,
}

/// What failed in a session.
#[derive(Clone, Debug, Deserialize)]
pub struct SessionFailure {
    /// Which kind, such as `model_request_failed_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// What happened and how to mend it.
    pub message: String,
    /// Whether the engine goes on by itself.
    pub retry_status: RetryStatus,
}

/// Whether the engine goes on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RetryStatus {
    /// By itself.
    Retrying,
    /// This run is over.
    Exhausted,
    /// The session is over.
    Terminal,
    /// Something newer.
    #[serde(other)]
    Other,
}

/// What one request to a model used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ModelUsage {
    /// Tokens of the prompt.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens of the answer.
    #[serde(default)]
    pub output_tokens: u64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(event: Value) -> Event {
        serde_json::from_value(event).unwrap()
    }

    #[test]
    fn what_is_not_known_is_passed_over() {
        let event = read(json!({"id": "evt_1", "type": "session.something_new", "content": 5}));
        assert!(matches!(event.body, EventBody::Other));
        assert_eq!(event.id.as_deref(), Some("evt_1"));
        let event = read(json!({"id": "e", "type": "agent.message", "new": true,
            "content": [{"type": "text", "text": "a"}, {"type": "hologram", "text": 1}, {"type": "text", "text": "b"}]}));
        let EventBody::Message { content } = event.body else { panic!("{event:?}") };
        assert_eq!(ContentBlock::text_of(&content), "ab");
        let event = read(json!({"id": "e", "type": "session.status_idle", "stop_reason": {"type": "new"}}));
        assert!(matches!(event.body, EventBody::Idle { stop_reason: StopReason::Other }));
    }

    #[test]
    fn previews_have_no_id() {
        let event = read(json!({"type": "event_delta", "event_id": "evt_1",
            "delta": {"type": "content_delta", "index": 0, "content": {"type": "text", "text": "wo"}}}));
        assert_eq!(event.id, None);
        let EventBody::PreviewText { event_id, delta } = event.body else { panic!("{event:?}") };
        assert_eq!((event_id.as_str(), ContentBlock::text_of(&[delta.content])), ("evt_1", "wo".to_owned()));
    }
}
