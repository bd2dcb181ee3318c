//! What clients ask of sessions, once it parsed, and what can stand in the way. The HTTP layer makes the first and turns
//! the second into answers.

use serde_json::Value;

use crate::events::body::EventBody;
use crate::ids::{AgentId, EnvironmentId, EventId, SessionId, VideoId};
use crate::store::StoreError;
use crate::store::records::{AgentModel, AgentTool, Metadata};

/// A session to make. Limits on lengths and counts hold already.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub agent: AgentChoice,
    pub environment_id: EnvironmentId,
    pub title: Option<String>,
    pub metadata: Metadata,
    /// Files attached, in order.
    pub resources: Vec<NewResource>,
    /// Sent as if by `events.send` right after the session is there. Checked already.
    pub initial_events: Vec<EventBody>,
}

/// Which agent, and what of it is different in this session.
#[derive(Clone, Debug)]
pub struct AgentChoice {
    pub id: AgentId,
    /// The newest when not given.
    pub version: Option<u32>,
    pub overrides: AgentOverrides,
}

/// Parts of an agent that one session replaces whole. `None` inherits.
#[derive(Clone, Debug, Default)]
pub struct AgentOverrides {
    pub model: Option<AgentModel>,
    pub system: Option<Option<String>>,
    pub tools: Option<Vec<AgentTool>>,
}

/// A file to attach.
#[derive(Clone, Debug)]
pub struct NewResource {
    pub file_id: VideoId,
    /// `/mnt/session/uploads/<file id>` when not given.
    pub mount_path: Option<String>,
}

/// A change of title or metadata. `None` leaves as it is.
#[derive(Clone, Debug, Default)]
pub struct SessionPatch {
    pub title: Option<Option<String>>,
    /// A value sets, `None` deletes.
    pub metadata: Option<Vec<(String, Option<String>)>>,
}

/// Events to send, in order. Shapes are checked already.
#[derive(Clone, Debug)]
pub struct SendRequest {
    /// `user.*` and `system.message` events only.
    pub events: Vec<EventBody>,
    /// JSON Schema that the answer has to fit. Checked already.
    pub output_structure: Option<Value>,
}

/// Why a session could not be made, changed or used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error("session {0} not found")]
    NotFound(SessionId),
    /// The request names something that is not there or cannot be used; the text says what and how to mend it.
    #[error("{0}")]
    Invalid(String),
    /// The request names a thing that does not exist.
    #[error("{0}")]
    Unknown(String),
    /// Word for word the page's text.
    #[error("a run is already in flight for this session")]
    RunInFlight,
    /// Word for word the page's text.
    #[error("session sandbox is still starting; retry shortly")]
    SandboxStarting,
    /// The engine takes no new work.
    #[error("the engine is shutting down; send the request again in a moment")]
    ShuttingDown,
    /// An event that is not waited for.
    #[error("no tool call waits for an answer to {0}")]
    NothingPending(EventId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker failed.
    #[error(transparent)]
    Broker(#[from] crate::broker::BrokerError),
}
