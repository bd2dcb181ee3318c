//! `/v1/sessions`: conversations over a video.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::agents::AgentSnapshot;
use super::detached::detached;
use super::error::{Again, ApiError, ErrorBody};
use super::extract::{Body, Id, Query};
use super::paging::{Limits, List, Page, page, window};
use super::resources::{ALL_RESOURCES, ResourceView};
use super::session_input::{CreateSession, UpdateSession, new_session, session_patch};
use super::state::App;
use super::wire::{Deleted, Moment};
use crate::ids::SessionId;
use crate::sessions::wishes::SessionError;
use crate::store::records::{Metadata, ResourceRecord, SessionRecord, UsageTotals};
use crate::store::{Listed, Position, SessionFilter};

const LIMITS: Limits = Limits { default: 20, most: 1000 };

/// Statuses that the SDKs know, and the engine's own `pending`.
const STATUSES: &[&str] = &["pending", "idle", "running", "rescheduling", "terminated"];

/// A session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub struct SessionView {
    /// `ses_` and 16 hex digits.
    pub id: String,
    /// Always `session`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// `pending` while a sandbox boots, then `idle` and `running` in turn, at last perhaps `terminated`.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// What people call it.
    pub title: Option<String>,
    /// The agent as it was when the session was made.
    pub agent: AgentSnapshot,
    /// Where it runs.
    pub environment_id: String,
    /// The client's pairs.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    pub metadata: Metadata,
    /// Files attached.
    pub resources: Vec<ResourceView>,
    /// Always empty.
    #[schema(value_type = Vec<String>)]
    pub vault_ids: [(); 0],
    /// Always empty.
    #[schema(value_type = Vec<Object>)]
    pub outcome_evaluations: [(); 0],
    /// What it has used so far.
    pub usage: UsageView,
    /// How long it has worked.
    pub stats: StatsView,
    /// Always null.
    #[schema(value_type = Option<Object>)]
    pub budget: Option<()>,
    /// Always null.
    #[schema(value_type = Option<String>)]
    pub deployment_id: Option<()>,
    /// When it was archived.
    pub archived_at: Option<Moment>,
    /// When it was made.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
    /// Ours: where its media work is done.
    pub sandbox: SandboxView,
}

/// Tokens and cost.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsageView {
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Answer tokens.
    pub output_tokens: u64,
    /// Prompt tokens from a cache.
    pub cache_read_input_tokens: u64,
    /// Prompt tokens written to a cache.
    pub cache_creation: CacheCreationView,
    /// Seconds spent in runs.
    pub active_seconds: f64,
    /// What the requests cost by the list, where prices are known.
    pub list_cost: CostView,
}

/// Prompt tokens written to a cache, by how long they stay.
#[derive(Debug, Serialize, ToSchema)]
pub struct CacheCreationView {
    /// For an hour.
    pub ephemeral_1h_input_tokens: u64,
    /// For five minutes.
    pub ephemeral_5m_input_tokens: u64,
}

/// An amount of money.
#[derive(Debug, Serialize, ToSchema)]
pub struct CostView {
    /// In cents, as text.
    pub amount: String,
    /// Always `USD`.
    #[schema(value_type = String)]
    pub currency: &'static str,
}

/// How long a session has worked and lived.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatsView {
    /// Seconds spent in runs.
    pub active_seconds: f64,
    /// Seconds from its beginning to its last event.
    pub duration_seconds: f64,
}

/// Where media work is done.
#[derive(Debug, Serialize, ToSchema)]
pub struct SandboxView {
    /// `inprocess` or `e2b`.
    pub backend: String,
    /// `starting`, `ready`, `failed`, or `lost` when it is gone and the next message brings a new one.
    pub status: String,
    /// The provider's id; null on the host.
    pub id: Option<String>,
}

/// Microseconds as seconds, to the microsecond.
fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

fn usage(usage: &UsageTotals, active_seconds: f64) -> UsageView {
    UsageView {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_input_tokens: usage.cache_read_input_tokens,
        cache_creation: CacheCreationView {
            ephemeral_1h_input_tokens: 0,
            ephemeral_5m_input_tokens: usage.cache_creation_input_tokens,
        },
        active_seconds,
        list_cost: CostView { amount: format!("{:.4}", usage.cost * 100.0), currency: "USD" },
    }
}

impl SessionView {
    /// The session with what is attached to it.
    pub fn new(session: SessionRecord, resources: Vec<ResourceRecord>) -> Self {
        let active_seconds = seconds(session.active_micros);
        let lived = session.last_event_at.as_microsecond() - session.created_at.as_microsecond();
        Self {
            id: session.id.into(),
            kind: "session",
            status: session.state.name(),
            title: session.title,
            agent: session.agent.into(),
            environment_id: session.environment_id.into(),
            metadata: session.metadata,
            resources: resources.into_iter().map(ResourceView::from).collect(),
            vault_ids: [],
            outcome_evaluations: [],
            usage: usage(&session.usage, active_seconds),
            stats: StatsView { active_seconds, duration_seconds: seconds(u64::try_from(lived).unwrap_or(0)) },
            budget: None,
            deployment_id: None,
            archived_at: session.archived_at.map(Moment),
            created_at: session.created_at.into(),
            updated_at: session.updated_at.into(),
            sandbox: SandboxView {
                backend: session.sandbox.backend,
                status: session.sandbox.status,
                id: session.sandbox.id,
            },
        }
    }
}

impl From<SessionError> for ApiError {
    fn from(error: SessionError) -> Self {
        let message = error.to_string();
        match error {
            SessionError::NotFound(id) => Self::not_found("session", id.as_str()),
            SessionError::Invalid(_) | SessionError::NothingPending(_) => Self::invalid(message),
            SessionError::Unknown(_) => Self::Unknown { message },
            SessionError::RunInFlight => Self::conflict(message),
            SessionError::SandboxStarting => {
                Self::Conflict { message, again: Again::After(std::time::Duration::from_secs(1)) }
            }
            SessionError::ShuttingDown => Self::ShuttingDown { message },
            SessionError::Store(source) => source.into(),
            SessionError::Broker(source) => source.into(),
        }
    }
}

async fn view(app: &App, session: SessionRecord) -> Result<SessionView, ApiError> {
    let resources = app.store.resources(&session.id, &ALL_RESOURCES).await?;
    Ok(SessionView::new(session, resources.items))
}

/// Sessions, each with what is attached to it.
fn each_with_its_own(
    sessions: Vec<SessionRecord>,
    resources: Vec<ResourceRecord>,
) -> Vec<(SessionRecord, Vec<ResourceRecord>)> {
    let mut attached: HashMap<SessionId, Vec<ResourceRecord>> = HashMap::new();
    for resource in resources {
        attached.entry(resource.session_id.clone()).or_default().push(resource);
    }
    let with_its_own = |session: SessionRecord| {
        let resources = attached.remove(&session.id).unwrap_or_default();
        (session, resources)
    };
    sessions.into_iter().map(with_its_own).collect()
}

/// A session that is there.
pub async fn existing(app: &App, id: &SessionId) -> Result<SessionRecord, ApiError> {
    app.store.session(id).await?.ok_or_else(|| ApiError::not_found("session", id.as_str()))
}

/// Makes a session.
#[utoipa::path(post, path = "/v1/sessions", tag = "sessions", request_body = CreateSession,
    responses((status = 200, body = SessionView), (status = "default", body = ErrorBody)))]
pub async fn create(State(app): State<App>, Body(fields): Body) -> Result<Json<SessionView>, ApiError> {
    let wish = new_session(fields)?;
    let sessions = app.sessions.clone();
    let (session, resources) = detached(&app, "create session", async move { sessions.create(wish).await }).await??;
    Ok(Json(SessionView::new(session, resources)))
}

/// One session.
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = SessionView), (status = "default", body = ErrorBody)))]
pub async fn retrieve(State(app): State<App>, Id(id): Id<SessionId>) -> Result<Response, ApiError> {
    let body = app.session_reads.get(&id).await?;
    let body = body.ok_or_else(|| ApiError::not_found("session", id.as_str()))?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

/// Changes title or metadata.
#[utoipa::path(post, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    request_body = UpdateSession,
    responses((status = 200, body = SessionView), (status = "default", body = ErrorBody)))]
pub async fn update(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    Body(fields): Body,
) -> Result<Json<SessionView>, ApiError> {
    existing(&app, &id).await?;
    let patch = session_patch(fields)?;
    let sessions = app.sessions.clone();
    let session = detached(&app, "update session", async move { sessions.update(&id, patch).await }).await??;
    Ok(Json(view(&app, session).await?))
}

/// Archives a session: it takes no more events, and can still be read.
#[utoipa::path(post, path = "/v1/sessions/{id}/archive", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = SessionView), (status = "default", body = ErrorBody)))]
pub async fn archive(State(app): State<App>, Id(id): Id<SessionId>) -> Result<Json<SessionView>, ApiError> {
    let sessions = app.sessions.clone();
    let session = detached(&app, "archive session", async move { sessions.archive(&id).await }).await??;
    Ok(Json(view(&app, session).await?))
}

/// Deletes a session with all that happened in it. A run under way is interrupted first.
#[utoipa::path(delete, path = "/v1/sessions/{id}", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = Deleted), (status = "default", body = ErrorBody)))]
pub async fn delete(State(app): State<App>, Id(id): Id<SessionId>) -> Result<Json<Deleted>, ApiError> {
    let sessions = app.sessions.clone();
    let deleted = id.clone();
    detached(&app, "delete session", async move { sessions.delete(&id).await }).await??;
    Ok(Json(Deleted { id: deleted.into(), kind: "session_deleted" }))
}

/// All sessions, newest first.
#[utoipa::path(get, path = "/v1/sessions", tag = "sessions",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 1000), ("page" = Option<String>, Query),
        ("after_id" = Option<String>, Query), ("before_id" = Option<String>, Query),
        ("order" = Option<String>, Query), ("statuses[]" = Option<Vec<String>>, Query),
        ("agent_id" = Option<String>, Query), ("agent_version" = Option<u32>, Query),
        ("include_archived" = Option<bool>, Query),
        ("created_at[gt]" = Option<String>, Query, format = DateTime),
        ("created_at[gte]" = Option<String>, Query, format = DateTime),
        ("created_at[lt]" = Option<String>, Query, format = DateTime),
        ("created_at[lte]" = Option<String>, Query, format = DateTime)),
    responses((status = 200, body = Page<SessionView>), (status = "default", body = ErrorBody)))]
pub async fn list(State(app): State<App>, query: Query) -> Result<Json<Page<SessionView>>, ApiError> {
    let ascending = query.ascending(false)?;
    let window = window(&app, &query, List::Sessions, LIMITS, ascending).await?;
    let listed = match filter(&query)? {
        Some(filter) => app.store.sessions(&window, &filter).await?,
        None => Listed { items: Vec::new(), has_more: false },
    };
    let position = |(session, _): &(SessionRecord, Vec<ResourceRecord>)| Position {
        at: session.created_at,
        id: session.id.to_string(),
    };
    let ids: Vec<SessionId> = listed.items.iter().map(|session| session.id.clone()).collect();
    let resources = app.store.resources_of(&ids).await?;
    let listed = Listed { items: each_with_its_own(listed.items, resources), has_more: listed.has_more };
    let view = |(session, resources)| SessionView::new(session, resources);
    Ok(Json(page(listed, List::Sessions, window.before.is_some(), position, view)))
}

/// Which sessions are wanted; `None` when none can be.
fn filter(query: &Query) -> Result<Option<SessionFilter>, ApiError> {
    let mut filter = SessionFilter {
        agent_version: query
            .parsed("agent_version", "a whole number from 1")?
            .map(|version: u32| version.min(i32::MAX.unsigned_abs())),
        include_archived: query.flag("include_archived")?,
        created: query.bounds("created_at")?,
        ..SessionFilter::default()
    };
    let wanted = query.all("statuses");
    for status in &wanted {
        let known = STATUSES.iter().copied().find(|known| known == status);
        match known {
            // The engine retries within a run, so no session ever stands there.
            Some("rescheduling") => {}
            Some(known) => filter.statuses.push(known),
            None => {
                return Err(ApiError::invalid(format!(
                    "`statuses[]` must be some of `{}`, not `{}`",
                    STATUSES.join("`, `"),
                    super::error::shortened(status)
                )));
            }
        }
    }
    let is_elsewhere = ["deployment_id", "memory_store_id"].iter().any(|name| query.one(name).is_some());
    let asks_for_none = !wanted.is_empty() && filter.statuses.is_empty();
    if let Some(text) = query.one("agent_id") {
        match text.parse() {
            Ok(id) => filter.agent_id = Some(id),
            Err(_no_id) => return Ok(None),
        }
    }
    Ok((!is_elsewhere && !asks_for_none).then_some(filter))
}
