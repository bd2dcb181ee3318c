//! `/v1/agents`: what answers, with every version that it ever was.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::agent_input::{AgentChange, CreateAgent, NewAgent, UpdateAgent, agent_change, new_agent};
use super::error::{ApiError, ErrorBody};
use super::extract::{Body, Id, Patch, Query};
use super::paging::{Limits, List, Page, number_of_page, number_token, page, window};
use super::state::App;
use super::tools::{ToolView, views};
use super::wire::{Moment, patched};
use crate::ids::AgentId;
use crate::store::Position;
use crate::store::records::{AgentModel, AgentRecord, Metadata};

/// Pages of agents and of versions.
const LIMITS: Limits = Limits { default: 20, most: 100 };

/// How often an update without a version is tried again when others get in between.
const UPDATE_TRIES: u32 = 8;

/// An agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub struct AgentView {
    /// What a session keeps of it too.
    #[serde(flatten)]
    pub definition: AgentSnapshot,
    /// The client's pairs.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    pub metadata: Metadata,
    /// When it was archived.
    pub archived_at: Option<Moment>,
    /// When its version 1 was made.
    pub created_at: Moment,
    /// When this version was made.
    pub updated_at: Moment,
}

/// One version of an agent, as it stands in a session.
#[derive(Debug, Serialize, ToSchema)]
pub struct AgentSnapshot {
    /// `agt_` and 16 hex digits, or a built-in name.
    pub id: String,
    /// Always `agent`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// Counts from 1.
    pub version: u32,
    /// What people call it.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Which model answers.
    pub model: ModelView,
    /// The system prompt.
    pub system: Option<String>,
    /// What it may call; empty stands for the engine's own tools.
    pub tools: Vec<ToolView>,
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub mcp_servers: [(); 0],
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub skills: [(); 0],
    /// Always null.
    #[schema(value_type = Option<Object>)]
    pub multiagent: Option<()>,
    /// Always the engine's own.
    pub execution_identity: IdentityView,
}

/// Which model answers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelView {
    /// As the endpoint knows it.
    pub id: String,
    /// `standard` or `fast`.
    pub speed: String,
    /// How hard it thinks, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<EffortView>,
}

/// How hard the model thinks.
#[derive(Debug, Serialize, ToSchema)]
pub struct EffortView {
    /// `low`, `medium`, `high`, `xhigh` or `max`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// In whose name the agent acts.
#[derive(Debug, Serialize, ToSchema)]
pub struct IdentityView {
    /// Always `service_account`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
}

impl IdentityView {
    /// The only one there is.
    pub const ENGINE: Self = Self { kind: "service_account" };
}

impl From<AgentModel> for ModelView {
    fn from(model: AgentModel) -> Self {
        Self {
            id: model.id,
            speed: model.speed.unwrap_or_else(|| "standard".to_owned()),
            effort: model.effort.map(|kind| EffortView { kind }),
        }
    }
}

impl From<AgentRecord> for AgentSnapshot {
    fn from(agent: AgentRecord) -> Self {
        Self {
            tools: views(&agent.id, agent.tools),
            id: agent.id.into(),
            kind: "agent",
            version: agent.version,
            name: agent.name,
            description: agent.description,
            model: agent.model.into(),
            system: agent.system,
            mcp_servers: [],
            skills: [],
            multiagent: None,
            execution_identity: IdentityView::ENGINE,
        }
    }
}

impl From<AgentRecord> for AgentView {
    fn from(mut agent: AgentRecord) -> Self {
        Self {
            metadata: std::mem::take(&mut agent.metadata),
            archived_at: agent.archived_at.map(Moment),
            created_at: agent.created_at.into(),
            updated_at: agent.updated_at.into(),
            definition: agent.into(),
        }
    }
}

fn no_agent(id: &AgentId) -> ApiError {
    ApiError::not_found("agent", id.as_str())
}

/// Makes an agent.
#[utoipa::path(post, path = "/v1/agents", tag = "agents", request_body = CreateAgent,
    responses((status = 200, body = AgentView), (status = "default", body = ErrorBody)))]
pub async fn create(State(app): State<App>, Body(fields): Body) -> Result<Json<AgentView>, ApiError> {
    let wish = new_agent(&app, fields)?;
    let agent = record(&app, wish);
    app.store.insert_agent(&agent).await?;
    Ok(Json(agent.into()))
}

fn record(app: &App, wish: NewAgent) -> AgentRecord {
    let now = app.clock.now();
    AgentRecord {
        id: AgentId::generate(),
        version: 1,
        name: wish.name,
        description: wish.description,
        model: wish.model.unwrap_or_else(|| AgentModel {
            id: app.settings.agent.model.clone(),
            speed: None,
            effort: None,
        }),
        system: wish.system.filter(|system| !system.is_empty()),
        tools: wish.tools,
        metadata: wish.metadata,
        endpoint: wish.endpoint,
        created_at: now,
        updated_at: now,
        archived_at: None,
    }
}

/// One agent: its newest version, or the one asked for.
#[utoipa::path(get, path = "/v1/agents/{id}", tag = "agents",
    params(("id" = String, Path), ("version" = Option<u32>, Query)),
    responses((status = 200, body = AgentView), (status = "default", body = ErrorBody)))]
pub async fn retrieve(State(app): State<App>, Id(id): Id<AgentId>, query: Query) -> Result<Json<AgentView>, ApiError> {
    let version = version_of(&query)?;
    let found = app.store.agent(&id, version).await?;
    if let (None, Some(version)) = (&found, version)
        && app.store.agent(&id, None).await?.is_some()
    {
        return Err(ApiError::not_found("agent version", format!("{version} of {id}")));
    }
    Ok(Json(found.ok_or_else(|| no_agent(&id))?.into()))
}

fn version_of(query: &Query) -> Result<Option<u32>, ApiError> {
    const ACCEPTS: &str = "a whole number from 1";
    let version: Option<u32> = query.parsed("version", ACCEPTS)?;
    if version == Some(0) {
        return Err(ApiError::invalid(format!("`version` must be {ACCEPTS}, not `0`")));
    }
    Ok(version.map(|version| version.min(i32::MAX.unsigned_abs())))
}

/// Changes an agent: a new version, if anything is different.
#[utoipa::path(post, path = "/v1/agents/{id}", tag = "agents", params(("id" = String, Path)), request_body = UpdateAgent,
    responses((status = 200, body = AgentView), (status = "default", body = ErrorBody)))]
pub async fn update(
    State(app): State<App>,
    Id(id): Id<AgentId>,
    Body(fields): Body,
) -> Result<Json<AgentView>, ApiError> {
    let change = agent_change(&app, fields)?;
    for _ in 0..UPDATE_TRIES {
        let current = app.store.agent(&id, None).await?.ok_or_else(|| no_agent(&id))?;
        let next = changed(&app, &current, &change)?;
        if next == current || app.store.add_agent_version(&next).await? {
            return Ok(Json(next.into()));
        }
    }
    Err(ApiError::conflict(format!("agent {id} was changed by others at the same time; read it and try again")))
}

/// The version after `current`; `current` itself when nothing changes.
fn changed(app: &App, current: &AgentRecord, change: &AgentChange) -> Result<AgentRecord, ApiError> {
    let id = &current.id;
    if id.is_built_in() {
        return Err(ApiError::invalid(format!(
            "agent {id} is built in and follows the engine's settings; create an agent of your own, or change the settings"
        )));
    }
    if change.version.is_some_and(|version| version != current.version) {
        return Err(ApiError::conflict(format!(
            "agent {id} is at version {} by now, not {}; read it again and repeat the change",
            current.version,
            change.version.unwrap_or_default()
        )));
    }
    if current.archived_at.is_some() {
        return Err(ApiError::invalid(format!("agent {id} is archived and cannot be changed; create another one")));
    }
    let mut next = current.clone();
    if let Some(name) = &change.name {
        next.name.clone_from(name);
    }
    if let Some(model) = &change.model {
        next.model.clone_from(model);
    }
    replace(&mut next.description, &change.description);
    replace(&mut next.system, &change.system);
    replace(&mut next.endpoint, &change.endpoint);
    // An empty text clears as null does.
    next.description = next.description.filter(|text| !text.is_empty());
    next.system = next.system.filter(|text| !text.is_empty());
    match &change.tools {
        Patch::Absent => {}
        Patch::Null => next.tools.clear(),
        Patch::Given(tools) => next.tools.clone_from(tools),
    }
    next.metadata = patched(next.metadata, change.metadata.clone())?;
    if next != *current {
        next.version += 1;
        next.updated_at = app.clock.now().max(current.updated_at);
    }
    Ok(next)
}

fn replace<T: Clone>(field: &mut Option<T>, patch: &Patch<T>) {
    match patch {
        Patch::Absent => {}
        Patch::Null => *field = None,
        Patch::Given(value) => *field = Some(value.clone()),
    }
}

/// All agents, newest first.
#[utoipa::path(get, path = "/v1/agents", tag = "agents",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 100), ("page" = Option<String>, Query),
        ("after_id" = Option<String>, Query), ("before_id" = Option<String>, Query),
        ("include_archived" = Option<bool>, Query),
        ("created_at[gte]" = Option<String>, Query, format = DateTime),
        ("created_at[lte]" = Option<String>, Query, format = DateTime)),
    responses((status = 200, body = Page<AgentView>), (status = "default", body = ErrorBody)))]
pub async fn list(State(app): State<App>, query: Query) -> Result<Json<Page<AgentView>>, ApiError> {
    let include_archived = query.flag("include_archived")?;
    let created = query.bounds("created_at")?;
    let window = window(&app, &query, List::Agents, LIMITS, false).await?;
    let listed = app.store.agents(&window, include_archived, created).await?;
    let position = |agent: &AgentRecord| Position { at: agent.created_at, id: agent.id.to_string() };
    Ok(Json(page(listed, List::Agents, window.before.is_some(), position, AgentView::from)))
}

/// Archives an agent: no new sessions; running ones go on.
#[utoipa::path(post, path = "/v1/agents/{id}/archive", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AgentView), (status = "default", body = ErrorBody)))]
pub async fn archive(State(app): State<App>, Id(id): Id<AgentId>) -> Result<Json<AgentView>, ApiError> {
    if id.is_built_in() {
        return Err(ApiError::invalid(format!("agent {id} is built in and cannot be archived")));
    }
    let archived = app.store.archive_agent(&id, app.clock.now()).await?;
    Ok(Json(archived.ok_or_else(|| no_agent(&id))?.into()))
}

/// All versions of an agent, newest first.
#[utoipa::path(get, path = "/v1/agents/{id}/versions", tag = "agents",
    params(("id" = String, Path), ("limit" = Option<u32>, Query, minimum = 1, maximum = 100), ("page" = Option<String>, Query)),
    responses((status = 200, body = Page<AgentView>), (status = "default", body = ErrorBody)))]
pub async fn versions(
    State(app): State<App>,
    Id(id): Id<AgentId>,
    query: Query,
) -> Result<Json<Page<AgentView>>, ApiError> {
    let limit = query.limit(LIMITS.default, LIMITS.most)?;
    let below = number_of_page(&query, List::Versions)?.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    let below = below.map(|number| number.min(i32::MAX.unsigned_abs()));
    let listed = app.store.agent_versions(&id, below, limit).await?;
    if listed.items.is_empty() && app.store.agent(&id, None).await?.is_none() {
        return Err(no_agent(&id));
    }
    let last = listed.items.last().filter(|_| listed.has_more);
    let next = last.map(|agent| number_token(List::Versions, u64::from(agent.version)));
    let data: Vec<AgentView> = listed.items.into_iter().map(AgentView::from).collect();
    Ok(Json(Page::of(data, listed.has_more, |agent| agent.definition.id.clone(), next)))
}
