//! The tools of the agent: a registry, then a file a tool.
//!
//! A tool gets typed, checked arguments and the session's own video from its context, never from the model. What it
//! answers is short text and references to media; bytes and links never stand in a result.

mod annotate_frames;
mod bash;
mod call;
mod citations;
mod draw_bounding_box;
mod draw_point;
mod focus_clip;
mod grab_frames;
mod input;
mod prompts;
mod read_image;
mod schema;
mod search_clip;
mod times;
pub mod toolbox;
mod upload_artifact;
mod watch;
mod window;

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::backend::MediaBackend;
use crate::store::records::{MediaFacts, Part, PermissionPolicy, SessionRecord, UsageTotals};

/// A tool as the model and the run loop see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name the model calls.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub parameters: Value,
    /// Who runs it.
    pub runner: ToolRunner,
    /// Whether a call waits for the user's word.
    pub policy: PermissionPolicy,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRunner {
    /// The engine.
    Engine,
    /// The client: the run waits for `user.custom_tool_result`.
    Client,
}

/// What a call works on.
#[derive(Clone, Debug)]
pub struct ToolContext {
    /// The session, as it was when the run began.
    pub session: Arc<SessionRecord>,
    /// What is known of its video.
    pub facts: MediaFacts,
    /// Where the work is done.
    pub backend: Arc<dyn MediaBackend>,
    /// Cancelled when the run is to stop; every child process ends with it.
    pub stop: CancellationToken,
}

/// What a call gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    /// For the model and the event log.
    pub text: String,
    /// The call failed; `text` says why and what would work.
    pub is_error: bool,
    /// Media for the model, each piece with its label before it.
    pub media: Vec<Part>,
    /// What the tool's own model calls used.
    pub usage: UsageTotals,
}

impl ToolOutput {
    /// A result that is text alone.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A failed call, with what the model should do instead.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true, ..Self::default() }
    }
}

/// Arguments as the model sent them, once they parse as an object.
pub type Arguments = Map<String, Value>;
