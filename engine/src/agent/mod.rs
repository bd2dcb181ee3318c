//! The agent: turns of model and tools until there is an answer.

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
