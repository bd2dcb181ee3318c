//! The agent: turns of model and tools until there is an answer.
//!
//! From the wire inwards: [`error`], [`wire`], [`stream`], [`quirks`], [`endpoint`] and [`client`] speak to any
//! OpenAI-compatible server; [`catalogue`], [`usage`], [`plan`] and [`resolve`] know models, prices and how media reaches
//! them; [`vision`] and [`describe`] are single questions with media. A run is [`run`] or `fast`, made of `conversation`
//! (history and store in step), `context` (what stands at the front), `call` (one question, retries included), `round`
//! (tool calls) and `history` (the stored conversation as the model gets it).

mod call;
pub mod catalogue;
pub mod client;
pub mod config;
mod context;
mod conversation;
pub mod describe;
pub mod endpoint;
pub mod error;
mod fast;
mod history;
pub mod plan;
pub(crate) mod prompts;
pub mod quirks;
pub mod resolve;
pub mod retry;
mod round;
pub mod run;
pub mod stream;
pub mod structured;
pub mod usage;
pub mod vision;
pub mod wire;

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::backend::MediaBackend;
use crate::events::body::SessionFailure;
use crate::sessions::writer::RunWriter;
use crate::store::records::{FileRecord, PendingAction, SessionRecord};

/// What a run works on. The user's message already ends the stored history.
#[derive(Debug)]
pub struct RunContext {
    /// The only writer of the run.
    pub writer: RunWriter,
    /// The session as it was when the run began.
    pub session: SessionRecord,
    /// The session's video.
    pub file: FileRecord,
    /// Where media work is done.
    pub backend: Arc<dyn MediaBackend>,
    /// JSON Schema that the answer has to fit.
    pub output_structure: Option<Value>,
    /// Cancelled when the run is to stop.
    pub stop: CancellationToken,
}

/// How a run came out. The supervisor writes the terminal events.
#[derive(Debug)]
pub enum RunOutcome {
    /// The answer is stored.
    Answered,
    /// These calls wait for the client.
    RequiresAction(Vec<PendingAction>),
    /// It could not go on.
    Failed(SessionFailure),
    /// The model refused.
    Refused,
    /// It stopped because it was told to.
    Interrupted,
}
