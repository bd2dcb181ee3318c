//! What an event says, in the shape that the official SDKs read.
//!
//! The store keeps this JSON as it is, and the wire adds `id` and `processed_at` to it (see [`super::wire`]), so that the
//! list and the stream cannot differ.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ids::EventId;

/// One fact of a session. The variants' names on the wire are the SDK's event types.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EventBody {
    /// What the user said; begins a run.
    #[serde(rename = "user.message")]
    UserMessage { content: Vec<ContentBlock> },
    /// The user wants the run to stop.
    #[serde(rename = "user.interrupt")]
    UserInterrupt {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_thread_id: Option<String>,
    },
    /// The user's word on a tool call that asks first.
    #[serde(rename = "user.tool_confirmation")]
    UserToolConfirmation {
        tool_use_id: EventId,
        result: Confirmation,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deny_message: Option<String>,
    },
    /// The result of a tool that the client runs itself.
    #[serde(rename = "user.custom_tool_result")]
    UserCustomToolResult {
        custom_tool_use_id: EventId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Vec<ContentBlock>>,
        #[serde(default)]
        is_error: bool,
    },
    /// An instruction that the application adds in the middle of a session.
    #[serde(rename = "system.message")]
    SystemMessage { content: Vec<ContentBlock> },
    /// What the agent answers.
    #[serde(rename = "agent.message")]
    AgentMessage { content: Vec<ContentBlock> },
    /// The agent thinks. The SDK has no text here; ours may come as an extra field.
    #[serde(rename = "agent.thinking")]
    AgentThinking {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Vec<ContentBlock>>,
    },
    /// The agent calls one of the engine's tools. Its event id is what results and confirmations name.
    #[serde(rename = "agent.tool_use")]
    AgentToolUse { name: String, input: Map<String, Value>, evaluated_permission: Permission },
    /// What that call gave. Exactly one for each [`Self::AgentToolUse`].
    #[serde(rename = "agent.tool_result")]
    AgentToolResult { tool_use_id: EventId, content: Vec<ContentBlock>, is_error: bool },
    /// The agent calls a tool that the client runs.
    #[serde(rename = "agent.custom_tool_use")]
    AgentCustomToolUse { name: String, input: Map<String, Value> },
    /// Older parts of the conversation were dropped to fit the model's context.
    #[serde(rename = "agent.thread_context_compacted")]
    ContextCompacted {},
    /// A run began.
    #[serde(rename = "session.status_running")]
    StatusRunning {},
    /// A run waits to try the model again.
    #[serde(rename = "session.status_rescheduled")]
    StatusRescheduled {},
    /// A run ended, or waits for the client.
    #[serde(rename = "session.status_idle")]
    StatusIdle { stop_reason: StopReason, stop_details: Option<Value> },
    /// The session is over for good.
    #[serde(rename = "session.status_terminated")]
    StatusTerminated {},
    /// Something failed.
    #[serde(rename = "session.error")]
    SessionError { error: SessionFailure },
    /// Title or metadata changed; only what changed is there.
    #[serde(rename = "session.updated")]
    SessionUpdated {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metadata: Option<IndexMap<String, String>>,
    },
    /// Ours: a run waits for something that takes its time, and this is how far it is. Older SDKs pass over it.
    #[serde(rename = "session.progress")]
    SessionProgress {
        /// What is waited for.
        message: String,
        /// Hundredths of it that are done, where that is known.
        percent: Option<u8>,
    },
    /// The session was deleted. The last event of its streams.
    #[serde(rename = "session.deleted")]
    SessionDeleted {},
    /// The session's usage so far; comes right before each idle.
    #[serde(rename = "session.usage")]
    SessionUsage { usage: Value },
    /// A request to a model began.
    #[serde(rename = "span.model_request_start")]
    ModelRequestStart {},
    /// That request ended.
    #[serde(rename = "span.model_request_end")]
    ModelRequestEnd {
        model_request_start_id: EventId,
        is_error: bool,
        model_usage: ModelUsage,
        /// Ours: who asked, `agent` or `tool:<name>`.
        source: String,
        /// Ours: the model asked.
        model: String,
        /// Ours: US dollars, null when the price is not known.
        cost: Option<f64>,
        /// Ours: the server did not count, so the usage is estimated from the length of the texts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        estimated: bool,
    },
}

/// Text or media inside a message or result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Plain text.
    Text { text: String },
    /// A picture.
    Image { source: MediaSource },
    /// A document.
    Document {
        source: MediaSource,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<String>,
    },
}

impl ContentBlock {
    /// A text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// Where a picture or document comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum MediaSource {
    /// The bytes themselves.
    Base64 { media_type: String, data: String },
    /// A link that the model fetches.
    Url { url: String },
    /// A file that was uploaded.
    File { file_id: String },
    /// Text in the clear (documents only).
    Text {
        data: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        media_type: Option<String>,
    },
}

/// The user's word on a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmation {
    /// Run it.
    Allow,
    /// Do not.
    Deny,
}

/// What the agent's permission policy says of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permission {
    /// Runs at once.
    Allow,
    /// Waits for `user.tool_confirmation`.
    Ask,
    /// Is refused.
    Deny,
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum StopReason {
    /// The agent is done, or the user interrupted it.
    EndTurn,
    /// The client has to answer these events first.
    RequiresAction { event_ids: Vec<EventId> },
    /// The run could not go on; a `session.error` stands before it.
    RetriesExhausted,
    /// The model refused.
    Refusal,
}

/// The `error` of `session.error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFailure {
    /// Which kind.
    #[serde(rename = "type")]
    pub kind: FailureKind,
    /// What happened and how to mend it. Never holds a secret.
    pub message: String,
    /// Whether the engine goes on by itself.
    pub retry_status: RetryStatus,
}

/// The SDK's error types that the engine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Anything without a name of its own.
    UnknownError,
    /// The model's server is overloaded (503, 529).
    ModelOverloadedError,
    /// The model's server limits the rate (429).
    ModelRateLimitedError,
    /// The request to the model failed otherwise.
    ModelRequestFailedError,
    /// The model's server wants money (402).
    BillingError,
    /// Too many rounds of tools.
    ToolUseLimitReachedError,
    /// The conversation does not fit the model, even shortened.
    CompactionLimitReachedError,
}

/// Whether the engine goes on after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RetryStatus {
    /// By itself.
    Retrying,
    /// This turn is over; the session is idle again.
    Exhausted,
    /// The session is over.
    Terminal,
}

/// Tokens of one request to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelUsage {
    /// Prompt tokens, cached ones included.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Prompt tokens that came from the server's cache.
    pub cache_read_input_tokens: u64,
    /// Prompt tokens that were written to it.
    pub cache_creation_input_tokens: u64,
}

/// Every event type that the engine stores, for the `types[]` filter and the API description.
pub const EVENT_TYPES: &[&str] = &[
    "user.message",
    "user.interrupt",
    "user.tool_confirmation",
    "user.custom_tool_result",
    "system.message",
    "agent.message",
    "agent.thinking",
    "agent.tool_use",
    "agent.tool_result",
    "agent.custom_tool_use",
    "agent.thread_context_compacted",
    "session.status_running",
    "session.status_rescheduled",
    "session.status_idle",
    "session.status_terminated",
    "session.error",
    "session.updated",
    "session.progress",
    "session.deleted",
    "session.usage",
    "span.model_request_start",
    "span.model_request_end",
];

impl EventBody {
    /// The type as it stands on the wire, one of [`EVENT_TYPES`].
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "user.message",
            Self::UserInterrupt { .. } => "user.interrupt",
            Self::UserToolConfirmation { .. } => "user.tool_confirmation",
            Self::UserCustomToolResult { .. } => "user.custom_tool_result",
            Self::SystemMessage { .. } => "system.message",
            Self::AgentMessage { .. } => "agent.message",
            Self::AgentThinking { .. } => "agent.thinking",
            Self::AgentToolUse { .. } => "agent.tool_use",
            Self::AgentToolResult { .. } => "agent.tool_result",
            Self::AgentCustomToolUse { .. } => "agent.custom_tool_use",
            Self::ContextCompacted {} => "agent.thread_context_compacted",
            Self::StatusRunning {} => "session.status_running",
            Self::StatusRescheduled {} => "session.status_rescheduled",
            Self::StatusIdle { .. } => "session.status_idle",
            Self::StatusTerminated {} => "session.status_terminated",
            Self::SessionError { .. } => "session.error",
            Self::SessionUpdated { .. } => "session.updated",
            Self::SessionProgress { .. } => "session.progress",
            Self::SessionDeleted {} => "session.deleted",
            Self::SessionUsage { .. } => "session.usage",
            Self::ModelRequestStart {} => "span.model_request_start",
            Self::ModelRequestEnd { .. } => "span.model_request_end",
        }
    }

    /// Whether a stream ends after this event.
    pub fn ends_streams(&self) -> bool {
        matches!(self, Self::SessionDeleted {} | Self::StatusTerminated {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_on_the_wire_is_the_type_name() {
        let id = EventId::generate();
        for body in [
            EventBody::UserInterrupt { session_thread_id: None },
            EventBody::StatusIdle {
                stop_reason: StopReason::RequiresAction { event_ids: vec![id.clone()] },
                stop_details: None,
            },
            EventBody::ModelRequestStart {},
            EventBody::SessionDeleted {},
            EventBody::AgentToolResult { tool_use_id: id, content: vec![ContentBlock::text("a")], is_error: false },
        ] {
            let json = serde_json::to_value(&body).unwrap();
            assert_eq!(json["type"], body.type_name());
            assert!(EVENT_TYPES.contains(&body.type_name()));
            assert_eq!(serde_json::from_value::<EventBody>(json).unwrap(), body);
        }
    }
}
