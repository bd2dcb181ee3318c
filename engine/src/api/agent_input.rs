//! What clients may say about an agent, read and checked.

use secrecy::SecretString;
use serde_json::Value;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{Fields, Patch, kind_of};
use super::state::App;
use super::tools::{ToolParam, tools};
use super::wire::{MetadataPatch, metadata_patch, new_metadata};
use crate::outbound;
use crate::store::records::{AgentEndpoint, AgentModel, AgentTool, Metadata};

const NAME: std::ops::RangeInclusive<usize> = 1..=256;
const DESCRIPTION: std::ops::RangeInclusive<usize> = 0..=2048;
pub(super) const SYSTEM: std::ops::RangeInclusive<usize> = 0..=100_000;
const MODEL_ID: std::ops::RangeInclusive<usize> = 1..=256;
const MODEL_KEY: std::ops::RangeInclusive<usize> = 0..=4096;

/// A new agent, as wished.
#[derive(Debug)]
pub struct NewAgent {
    pub name: String,
    pub description: Option<String>,
    /// `None` takes the engine's `AGENT_MODEL`.
    pub model: Option<AgentModel>,
    pub system: Option<String>,
    pub tools: Vec<AgentTool>,
    pub metadata: Metadata,
    pub endpoint: Option<AgentEndpoint>,
}

/// A change of an agent. What is `Absent` stays.
#[derive(Debug)]
pub struct AgentChange {
    /// The version that the client saw; another one is a conflict.
    pub version: Option<u32>,
    pub name: Option<String>,
    pub description: Patch<String>,
    pub model: Option<AgentModel>,
    pub system: Patch<String>,
    pub tools: Patch<Vec<AgentTool>>,
    pub metadata: MetadataPatch,
    pub endpoint: Patch<AgentEndpoint>,
}

/// Reads a new agent.
///
/// # Errors
/// For the first field that does not fit.
pub fn new_agent(app: &App, mut fields: Fields) -> Result<NewAgent, ApiError> {
    unsupported(&mut fields)?;
    Ok(NewAgent {
        name: fields.required_text("name", NAME)?,
        description: fields.text("description", DESCRIPTION)?.given(),
        model: model(&mut fields)?.given(),
        system: fields.text("system", SYSTEM)?.given(),
        tools: tools(&mut fields)?.given().unwrap_or_default(),
        metadata: new_metadata(&mut fields)?,
        endpoint: endpoint(app, &mut fields)?.given(),
    })
}

/// Reads a change of an agent.
///
/// # Errors
/// For the first field that does not fit.
pub fn agent_change(app: &App, mut fields: Fields) -> Result<AgentChange, ApiError> {
    unsupported(&mut fields)?;
    let name = match fields.text("name", NAME)? {
        Patch::Null => return Err(fields.bad("name", "must not be null: an agent always has a name")),
        other => other.given(),
    };
    let model = match model(&mut fields)? {
        Patch::Null => return Err(fields.bad("model", "must not be null: an agent always has a model")),
        other => other.given(),
    };
    Ok(AgentChange {
        version: fields.whole("version", 1..=u32::MAX)?,
        name,
        description: fields.text("description", DESCRIPTION)?,
        model,
        system: fields.text("system", SYSTEM)?,
        tools: tools(&mut fields)?,
        metadata: metadata_patch(&mut fields)?,
        endpoint: endpoint(app, &mut fields)?,
    })
}

/// Refuses what the engine cannot honour.
pub(super) fn unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    fields.refuse("skills", "this engine has no skills; put their text into `system`")?;
    fields.refuse("mcp_servers", "this engine calls no MCP servers; use a `custom` tool, which your client runs")?;
    fields.refuse("multiagent", "one agent answers a session here")?;
    if let Patch::Given(mut identity) = fields.object("execution_identity")? {
        let kind = identity.type_name()?;
        if kind != "service_account" {
            return Err(identity.bad("type", "must be `service_account`: the engine takes on no other identity"));
        }
    }
    Ok(())
}

/// A model: its id as text, or an object with it.
pub(super) fn model(fields: &mut Fields) -> Result<Patch<AgentModel>, ApiError> {
    let path = fields.at("model");
    fields.take("model").map(|value| match value {
        Value::String(id) => {
            // Through the same checks as `model.id`.
            let mut object = Fields::of(path.clone(), serde_json::json!({ "id": id }))?;
            Ok(AgentModel { id: object.required_text("id", MODEL_ID)?, speed: None, effort: None })
        }
        Value::Object(_) => {
            let mut object = Fields::of(path.clone(), value)?;
            let id = object.required_text("id", MODEL_ID)?;
            let speed = object.word("speed", &["standard", "fast"])?.given().map(str::to_owned);
            let effort = effort(&mut object)?;
            object.refuse("inference_geo", "requests go where the model's endpoint is")?;
            Ok(AgentModel { id, speed, effort })
        }
        other => Err(ApiError::invalid(format!(
            "`{path}` must be the id of a model or an object with `id`, not {}",
            kind_of(&other)
        ))),
    })
}

fn effort(model: &mut Fields) -> Result<Option<String>, ApiError> {
    const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];
    let path = model.at("effort");
    let word = match model.take("effort") {
        Patch::Absent | Patch::Null => return Ok(None),
        Patch::Given(Value::Object(map)) => Fields::of(path, Value::Object(map))?.word("type", EFFORTS)?,
        Patch::Given(other) => {
            let mut around = Fields::of(model.path().to_owned(), serde_json::json!({ "effort": other }))?;
            around.word("effort", EFFORTS)?
        }
    };
    Ok(word.given().map(str::to_owned))
}

/// An endpoint of the agent's own: `base_url` and `api_key` together, so that the engine's key never goes to a client's
/// address, and no client's key to the engine's.
fn endpoint(app: &App, fields: &mut Fields) -> Result<Patch<AgentEndpoint>, ApiError> {
    let url = fields.text("base_url", 1..=2048)?;
    let key = fields.text("api_key", MODEL_KEY)?;
    match (url, key) {
        (Patch::Absent, Patch::Absent) => Ok(Patch::Absent),
        (Patch::Absent | Patch::Null, Patch::Absent | Patch::Null) => Ok(Patch::Null),
        (Patch::Given(url), Patch::Given(key)) => {
            let base_url = outbound::model_server(&url, app.settings.llm.allow_private_urls)
                .map_err(|why| fields.bad("base_url", why.to_string()))?
                .to_string();
            let sealed_api_key = app
                .secrets
                .seal(&SecretString::from(key), &base_url)
                .map_err(|source| ApiError::internal("seal the api key", source))?;
            Ok(Patch::Given(AgentEndpoint { base_url, sealed_api_key }))
        }
        (Patch::Given(_), Patch::Absent | Patch::Null) => Err(fields.bad(
            "base_url",
            "needs an `api_key` with it (empty for a server without keys): the engine's own key never goes to another address",
        )),
        (Patch::Absent | Patch::Null, Patch::Given(_)) => {
            Err(fields.bad("api_key", "needs a `base_url` with it: it is sent to that address alone"))
        }
    }
}

/// Body of `POST /v1/agents`.
#[derive(Debug, ToSchema)]
pub struct CreateAgent {
    /// What people call it.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// The id of a model, or an object with `id`, `speed` and `effort`. Left out: the engine's `AGENT_MODEL`.
    #[schema(value_type = Option<ModelParam>)]
    pub model: Option<Value>,
    /// What it is for.
    #[schema(max_length = 2048)]
    pub description: Option<String>,
    /// The system prompt.
    #[schema(max_length = 100_000)]
    pub system: Option<String>,
    /// `agent_toolset_20260401` chooses among the engine's tools, `custom` adds one that the client runs; without any the
    /// agent has the engine's tools. `video_fast_20260825` makes fast mode: one call over the whole video.
    #[schema(max_items = 256)]
    pub tools: Option<Vec<ToolParam>>,
    /// Up to 16 pairs; keys up to 64, values up to 512 characters.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub metadata: Option<Value>,
    /// Ours: an OpenAI-compatible endpoint for this agent alone; needs `api_key`. Never echoed.
    pub base_url: Option<String>,
    /// Ours: the key for `base_url`; may be empty. Never echoed.
    pub api_key: Option<String>,
}

/// Body of `POST /v1/agents/{id}`. What is left out stays; null clears.
#[derive(Debug, ToSchema)]
pub struct UpdateAgent {
    /// The version that the change is about; a conflict if it is no longer the newest.
    #[schema(minimum = 1)]
    pub version: Option<u32>,
    /// As at creation.
    #[schema(min_length = 1, max_length = 256)]
    pub name: Option<String>,
    /// Replaced whole.
    #[schema(value_type = Option<ModelParam>)]
    pub model: Option<Value>,
    /// As at creation.
    #[schema(max_length = 2048)]
    pub description: Option<String>,
    /// As at creation.
    #[schema(max_length = 100_000)]
    pub system: Option<String>,
    /// Replaced whole.
    #[schema(max_items = 256)]
    pub tools: Option<Vec<ToolParam>>,
    /// A patch: a text sets its key, null deletes it.
    #[schema(value_type = Option<std::collections::HashMap<String, Option<String>>>)]
    pub metadata: Option<Value>,
    /// As at creation.
    pub base_url: Option<String>,
    /// As at creation.
    pub api_key: Option<String>,
}

/// The id of a model, or an object with it.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
pub enum ModelParam {
    /// The id alone.
    Id(String),
    /// With wishes.
    Object {
        /// Any id that the endpoint knows.
        #[schema(min_length = 1, max_length = 256)]
        id: String,
        /// `standard` or `fast`.
        speed: Option<String>,
        /// `low`, `medium`, `high`, `xhigh` or `max`.
        effort: Option<String>,
    },
}
