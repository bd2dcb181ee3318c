//! What clients may say about a session, read and checked.

use serde_json::Value;
use utoipa::ToSchema;

use super::agent_input::{SYSTEM, model, unsupported};
use super::error::{ApiError, shortened};
use super::extract::{Fields, Patch, kind_of};
use super::send_input::events;
use super::tools::tools;
use super::wire::{metadata_patch, new_metadata};
use crate::events::body::EventBody;
use crate::ids::{AgentId, EnvironmentId, VideoId};
use crate::sessions::wishes::{AgentChoice, AgentOverrides, NewResource, NewSession, SessionPatch};

const TITLE: std::ops::RangeInclusive<usize> = 0..=512;
const MOUNT_PATH: std::ops::RangeInclusive<usize> = 1..=1024;
const MOST_RESOURCES: usize = 100;
const MOST_INITIAL_EVENTS: usize = 50;

/// What the engine says to an agent that is not there.
const NO_SUCH_AGENT: &str = "session.agent must reference an existing agent (call agents.create first)";

/// Reads a new session.
///
/// # Errors
/// For the first field that does not fit.
pub fn new_session(mut fields: Fields) -> Result<NewSession, ApiError> {
    not_honoured(&mut fields)?;
    let agent = agent(&mut fields)?;
    let environment_id = environment(&mut fields)?;
    let title = fields.text("title", TITLE)?.given();
    let metadata = new_metadata(&mut fields)?;
    let mut resources = Vec::new();
    for (path, item) in fields.list("resources", MOST_RESOURCES)?.given().unwrap_or_default() {
        resources.push(resource(Fields::of(path, item)?)?);
    }
    Ok(NewSession { agent, environment_id, title, metadata, resources, initial_events: initial_events(&mut fields)? })
}

/// Reads a change of a session.
///
/// # Errors
/// For the first field that does not fit.
pub fn session_patch(mut fields: Fields) -> Result<SessionPatch, ApiError> {
    not_honoured(&mut fields)?;
    fields.refuse("agent", "a session keeps the agent that it began with; make a new session over the same video")?;
    let title = match fields.text("title", TITLE)? {
        Patch::Absent => None,
        Patch::Null => Some(None),
        Patch::Given(title) => Some(Some(title)),
    };
    let metadata = metadata_patch(&mut fields)?;
    Ok(SessionPatch { title, metadata: (!metadata.is_empty()).then(|| metadata.into_iter().collect()) })
}

/// Reads a resource: a file.
///
/// # Errors
/// When it is something else, or does not fit.
pub fn resource(mut fields: Fields) -> Result<NewResource, ApiError> {
    match fields.take("type") {
        Patch::Absent | Patch::Null => {}
        Patch::Given(Value::String(kind)) if kind == "file" => {}
        Patch::Given(Value::String(kind)) => {
            return Err(fields.bad(
                "type",
                format!("must be `file`, not `{}`: this engine attaches uploaded videos alone", shortened(&kind)),
            ));
        }
        Patch::Given(other) => return Err(fields.bad("type", format!("must be `file`, not {}", kind_of(&other)))),
    }
    let mut file = Patch::Absent;
    for name in ["file_id", "video_id", "id", "name"] {
        if file.is_absent() {
            file = fields.text(name, 1..=256)?;
        }
    }
    let Patch::Given(text) = file else {
        return Err(fields.bad("file_id", "is required and must be the id of an uploaded file"));
    };
    let file_id: VideoId = text.parse().map_err(|_no_id| ApiError::not_found("file", &text))?;
    let mount_path = fields.text("mount_path", MOUNT_PATH)?.given();
    if let Some(path) = &mount_path
        && (!path.starts_with('/') || path.split('/').any(|part| part == ".."))
    {
        return Err(fields.bad("mount_path", "must be an absolute path without `..`"));
    }
    Ok(NewResource { file_id, mount_path })
}

/// Refuses what the engine cannot honour.
fn not_honoured(fields: &mut Fields) -> Result<(), ApiError> {
    fields.refuse("vault_ids", "this engine has no vaults; set keys in the engine's settings")?;
    fields.refuse("budget", "this engine keeps no budget for a session; its usage says what was spent")
}

fn no_such_agent() -> ApiError {
    ApiError::invalid(NO_SUCH_AGENT)
}

fn agent(fields: &mut Fields) -> Result<AgentChoice, ApiError> {
    let path = fields.at("agent");
    let whole = |id: AgentId| AgentChoice { id, version: None, overrides: AgentOverrides::default() };
    let parse = |text: &str| text.parse().map_err(|_no_id| no_such_agent());
    match fields.take("agent") {
        Patch::Absent | Patch::Null => Ok(whole(AgentId::built_in_agent())),
        Patch::Given(Value::String(id)) => parse(&id).map(whole),
        Patch::Given(Value::Object(map)) => {
            let mut agent = Fields::of(path, Value::Object(map))?;
            let kind = agent.word("type", &["agent", "agent_with_overrides"])?.given().unwrap_or("agent");
            let id = parse(&agent.required_text("id", 1..=256)?)?;
            let version = agent.whole("version", 1..=i32::MAX.unsigned_abs())?;
            let overrides = if kind == "agent" { AgentOverrides::default() } else { overrides(&mut agent)? };
            Ok(AgentChoice { id, version, overrides })
        }
        Patch::Given(other) => Err(ApiError::invalid(format!(
            "`{path}` must be the id of an agent or an object with `id`, not {}",
            kind_of(&other)
        ))),
    }
}

fn overrides(agent: &mut Fields) -> Result<AgentOverrides, ApiError> {
    unsupported(agent)?;
    let model = match model(agent)? {
        Patch::Null => return Err(agent.bad("model", "must not be null: a session always has a model")),
        other => other.given(),
    };
    let system = match agent.text("system", SYSTEM)? {
        Patch::Absent => None,
        Patch::Null => Some(None),
        Patch::Given(text) => Some(Some(text).filter(|text| !text.is_empty())),
    };
    let tools = match tools(agent)? {
        Patch::Absent => None,
        Patch::Null => Some(Vec::new()),
        Patch::Given(tools) => Some(tools),
    };
    Ok(AgentOverrides { model, system, tools })
}

fn environment(fields: &mut Fields) -> Result<EnvironmentId, ApiError> {
    match fields.text("environment_id", 1..=256)? {
        Patch::Absent | Patch::Null => Ok(EnvironmentId::built_in()),
        Patch::Given(text) => text.parse().map_err(|_no_id| ApiError::NotFound {
            noun: "environment",
            id: shortened(&text),
            code: Some("environment_not_found"),
        }),
    }
}

fn initial_events(fields: &mut Fields) -> Result<Vec<EventBody>, ApiError> {
    let items = fields.list("initial_events", MOST_INITIAL_EVENTS)?.given().unwrap_or_default();
    let path = fields.at("initial_events");
    let bodies = events(items)?;
    if let Some(index) = bodies.iter().position(|body| !matches!(body, EventBody::UserMessage { .. })) {
        return Err(ApiError::invalid(format!("`{path}[{index}].type` must be `user.message`")));
    }
    Ok(bodies)
}

/// Body of `POST /v1/sessions`. The video comes from `metadata.video_id`, else from the first resource.
#[derive(Debug, ToSchema)]
pub struct CreateSession {
    /// The id of an agent, or an object with `id`, `version` and, as `agent_with_overrides`, with `model`, `system` and
    /// `tools`. Left out: `ambient_v1`.
    #[schema(value_type = Option<AgentChoiceParam>)]
    pub agent: Option<Value>,
    /// Left out: `default`.
    pub environment_id: Option<String>,
    /// What people call it.
    #[schema(max_length = 512)]
    pub title: Option<String>,
    /// Up to 16 pairs. `video_id` chooses the video, `mode` is `agent` or `fast`, `max_turns_per_run` a number.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub metadata: Option<Value>,
    /// Files.
    #[schema(max_items = 100)]
    pub resources: Option<Vec<ResourceParam>>,
    /// Sent as soon as the session is there; `user.message` alone.
    #[schema(max_items = 50, value_type = Option<Vec<Object>>)]
    pub initial_events: Option<Vec<Value>>,
}

/// The id of an agent, or an object with it.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
pub enum AgentChoiceParam {
    /// The id alone: the newest version.
    Id(String),
    /// A version, or overrides.
    Object {
        /// `agent` or `agent_with_overrides`.
        #[serde(rename = "type")]
        kind: Option<String>,
        /// Which agent.
        id: String,
        /// Which version; the newest when left out.
        version: Option<u32>,
    },
}

/// A file to attach.
#[derive(Debug, ToSchema)]
pub struct ResourceParam {
    /// Always `file`.
    #[schema(rename = "type", example = "file")]
    pub kind: Option<String>,
    /// Which file.
    pub file_id: String,
    /// Where the agent is told that it lies.
    pub mount_path: Option<String>,
}

/// Body of `POST /v1/sessions/{id}`. What is left out stays.
#[derive(Debug, ToSchema)]
pub struct UpdateSession {
    /// Null clears.
    #[schema(max_length = 512)]
    pub title: Option<String>,
    /// A patch: a text sets its key, null deletes it.
    #[schema(value_type = Option<std::collections::HashMap<String, Option<String>>>)]
    pub metadata: Option<Value>,
}
