//! What the store keeps: one plain struct a thing. The HTTP shapes are elsewhere, next to their handlers.

use camino::Utf8PathBuf;
use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::events::body::EventBody;
use crate::ids::{AgentId, EnvironmentId, EventId, ResourceId, RunId, SessionId, VideoId};
use crate::sessions::state::SessionState;

/// Key and value texts that a client attaches to a thing, in the order given.
pub type Metadata = IndexMap<String, String>;

/// One version of an agent. Versions never change; an update adds one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentRecord {
    pub id: AgentId,
    /// Counts from 1.
    pub version: u32,
    pub name: String,
    pub description: Option<String>,
    pub model: AgentModel,
    pub system: Option<String>,
    pub tools: Vec<AgentTool>,
    pub metadata: Metadata,
    /// The agent's own model endpoint, if it has one. Never echoed.
    pub endpoint: Option<AgentEndpoint>,
    /// When the agent (its version 1) was made.
    pub created_at: Timestamp,
    /// When this version was made.
    pub updated_at: Timestamp,
    /// Of the agent as a whole, so the same on all versions.
    pub archived_at: Option<Timestamp>,
}

/// The model that an agent asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentModel {
    pub id: String,
    /// `standard` or `fast`, as given.
    pub speed: Option<String>,
    /// `low` … `max`, as given.
    pub effort: Option<String>,
}

/// A model endpoint of an agent's own. Both parts belong together: the engine's key never goes to a caller's URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentEndpoint {
    pub base_url: String,
    /// The key, sealed by `secrets`; an empty key of a keyless server is sealed too.
    pub sealed_api_key: String,
}

/// A tool entry of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AgentTool {
    /// The engine's video tools in agent mode: `agent_toolset_20260401`, `video_agent_20260825` and their like.
    Toolset {
        /// The `type` as the client sent it.
        type_name: String,
        enabled: bool,
        policy: PermissionPolicy,
        configs: Vec<ToolConfig>,
    },
    /// Fast mode: `video_fast_20260825`.
    Fast { type_name: String },
    /// A tool that the client runs.
    Custom { name: String, description: String, input_schema: Map<String, Value> },
}

/// What one tool of a toolset may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolConfig {
    pub name: String,
    pub enabled: bool,
    pub policy: PermissionPolicy,
}

/// Whether a tool call runs at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PermissionPolicy {
    AlwaysAllow,
    AlwaysAsk,
    /// As [`Self::AlwaysAllow`] here: every tool of the engine stays inside the session.
    Auto,
}

/// An environment. Networking and packages are kept and given back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentRecord {
    pub id: EnvironmentId,
    pub name: String,
    pub description: String,
    /// `cloud` or `self_hosted` with its parts, in the wire's full form.
    pub config: Value,
    pub metadata: Metadata,
    pub scope: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub archived_at: Option<Timestamp>,
}

/// A video. Its id comes from its bytes, so the same bytes are one record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileRecord {
    pub id: VideoId,
    /// As the first upload named it, last path component only.
    pub filename: String,
    /// Told from the bytes.
    pub mime_type: String,
    /// Of the stored file, with its dot: `.mp4`.
    pub extension: String,
    pub size_bytes: u64,
    /// All 64 hex digits; empty for an import that is not downloaded yet.
    pub sha256: String,
    pub source: FileSource,
    pub source_status: WorkStatus,
    pub source_error: Option<String>,
    /// Key of the copy in the bucket, once it is there.
    pub bucket_key: Option<String>,
    /// What a probe found, once it ran.
    pub media: Option<MediaFacts>,
    /// Null until a description is wanted.
    pub description_status: Option<WorkStatus>,
    pub description: Option<String>,
    pub description_error: Option<String>,
    pub description_attempts: u32,
    pub metadata: Metadata,
    /// When the client wanted it gone; a file past this time is answered as absent, and removed by the sweep.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl FileRecord {
    /// What to call the video before people and models: what its page calls it, else its file's name; may be empty.
    pub fn title(&self) -> &str {
        match &self.source {
            FileSource::Youtube { import, .. } => import.title.as_deref().unwrap_or(&self.filename),
            FileSource::Upload => &self.filename,
        }
    }
}

/// How a video came here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FileSource {
    Upload,
    Youtube {
        /// Its page.
        url: String,
        #[serde(default)]
        import: ImportState,
    },
}

/// How far an import is, and what the page says of the video.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportState {
    /// Downloads that were begun since it was wished for.
    pub attempts: u32,
    /// Hundredths of the download that are here, while it goes on and its size is known.
    pub percent: Option<u8>,
    pub title: Option<String>,
    /// Which part of yt-dlp knows the page.
    pub extractor: Option<String>,
    pub duration_seconds: Option<f64>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    /// What was fetched, in yt-dlp's words.
    pub format_id: Option<String>,
}

/// How far a piece of background work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkStatus {
    Pending,
    Processing,
    Ready,
    Failed,
}

impl WorkStatus {
    /// The word on the wire and in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

/// What a probe says of a video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaFacts {
    /// Of the pictures, in seconds.
    pub duration_seconds: f64,
    /// As shown: after rotation and pixel shape.
    pub width: u32,
    pub height: u32,
    pub frames_per_second: f64,
    pub has_audio: bool,
    pub video_codec: String,
    pub container: String,
}

/// Which way a session works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Plans and calls tools.
    Agent,
    /// One call over the whole video.
    Fast,
}

/// A session. Changed only by [`crate::sessions::change::apply`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub id: SessionId,
    pub state: SessionState,
    pub title: Option<String>,
    pub metadata: Metadata,
    /// The agent as it was when the session was made, overrides applied. Its endpoint's key stays sealed.
    pub agent: AgentRecord,
    pub mode: Mode,
    pub environment_id: EnvironmentId,
    pub video_id: VideoId,
    /// Rounds of tools that one run may take.
    pub max_turns: u32,
    pub sandbox: SandboxRecord,
    pub usage: UsageTotals,
    /// Time spent in runs, in microseconds.
    pub active_micros: u64,
    /// When the run under way began.
    pub run_began_at: Option<Timestamp>,
    /// Number of the last run's fence; the next run takes the next one.
    pub fence: u64,
    /// The fence of the last run that somebody asked to interrupt.
    pub interrupted_fence: u64,
    /// Number of the last event: events count from 1 without gaps.
    pub last_seq: u64,
    /// Number of the event that began the last run; 0 when there was none.
    pub run_start_seq: u64,
    /// Number of the last idle event that somebody has been given, by a stream or a list.
    pub read_seq: u64,
    /// How many history messages there are: they count from 0 without gaps.
    pub message_count: u64,
    /// Tool calls that wait for the client.
    pub pending_actions: Vec<PendingAction>,
    /// Time of the last event; event times never go back.
    pub last_event_at: Timestamp,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub archived_at: Option<Timestamp>,
}

/// The sandbox of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRecord {
    /// `inprocess` or `e2b`.
    pub backend: String,
    /// One of [`sandbox_status`].
    pub status: String,
    /// The provider's id; null on the host, and while there is none.
    pub id: Option<String>,
}

/// The words for how a sandbox stands.
pub mod sandbox_status {
    /// It boots.
    pub const STARTING: &str = "starting";
    /// It can be used, or there is none because none is needed yet.
    pub const READY: &str = "ready";
    /// It did not boot.
    pub const FAILED: &str = "failed";
    /// It is gone: it timed out, was ended or broke down. The next message may bring a new one.
    pub const LOST: &str = "lost";
}

/// A tool call that waits for the client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingAction {
    /// The event that the client answers.
    pub event_id: EventId,
    /// The model's id of the call, to which the result goes.
    pub call_id: String,
    pub name: String,
    pub input: Map<String, Value>,
    pub kind: PendingKind,
    /// The client's answer, once it came.
    pub answer: Option<ActionAnswer>,
}

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    /// `user.custom_tool_result`.
    CustomResult,
    /// `user.tool_confirmation`.
    Confirmation,
}

/// What the client answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ActionAnswer {
    Allowed,
    Denied { message: Option<String> },
    Result { text: String, is_error: bool },
}

/// What a session has used so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageTotals {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_input_tokens: u64,
    pub cache_creation_input_tokens: u64,
    /// US dollars; requests of unknown price count 0.
    pub cost: f64,
    pub requests: u64,
    pub turns: u64,
    pub runs: u64,
    /// By `agent`, `tool:<name>`.
    pub by_source: IndexMap<String, UsageShare>,
    pub by_model: IndexMap<String, UsageShare>,
}

/// One source's or model's part of the usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageShare {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cost: f64,
    pub requests: u64,
}

/// A file or other thing attached to a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceRecord {
    pub id: ResourceId,
    pub session_id: SessionId,
    pub file_id: VideoId,
    pub mount_path: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// An event as stored. Its id is the same wherever it is read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    pub session_id: SessionId,
    /// Counts from 1 in the session, without gaps.
    pub seq: u64,
    pub id: EventId,
    /// Never before the event of the number before.
    pub at: Timestamp,
    pub body: EventBody,
}

/// A message of the conversation with the model. Only appended, never changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageRecord {
    /// Counts from 0 in the session, without gaps.
    pub index: u64,
    pub run: Option<RunId>,
    pub body: MessageBody,
}

/// What a message says. Media is held as references, turned into URLs or data URLs only when a request is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum MessageBody {
    /// What the user said, or what the engine says in the user's place (`origin`).
    User { origin: Origin, parts: Vec<Part> },
    /// An instruction of the application in the middle of the session.
    System { text: String },
    /// What the model said.
    Assistant { text: Option<String>, reasoning: Option<Reasoning>, calls: Vec<ToolCall> },
    /// The result of one call.
    Tool { call_id: String, tool_use: EventId, name: String, text: String, is_error: bool },
}

/// Who is behind a message in the user's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The user.
    User,
    /// The seed: title, duration and description of the video; kept for good.
    Seed,
    /// The whole video as context; kept for good.
    Context,
    /// Media that tools of one turn brought.
    ToolMedia,
    /// A word of the engine to the model (repair, turn cap).
    Engine,
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    Text { text: String },
    Image { media: MediaRef },
    Video { media: MediaRef },
}

/// Where the bytes of a medium are. Never a link that expires, never the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum MediaRef {
    /// A file below `VIDEO_FOLDER`, by its relative path.
    Local { path: Utf8PathBuf, mime_type: String },
    /// An object of the bucket.
    Object { key: String, mime_type: String },
    /// A picture that the user sent: the n-th content block of that event.
    Sent { event: EventId, block: usize },
    /// A link that the user gave.
    Link { url: String },
}

/// The model's reasoning, kept by turn and sent back only to servers that want it, in the form it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    pub text: String,
    /// Which key it came under: `reasoning`, `reasoning_content` or `reasoning_details`.
    pub key: String,
    /// `reasoning_details` as they came.
    pub details: Option<Value>,
}

/// A call that the model made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that goes back to the model: its own, made unique within the conversation where it was not.
    pub call_id: String,
    /// The event that announced it.
    pub event_id: EventId,
    pub name: String,
    /// Valid JSON text of an object.
    pub arguments: String,
}
