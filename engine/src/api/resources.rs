//! `/v1/sessions/{id}/resources`: files attached to a session. And its threads, of which there are none.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use super::extract::{Body, Id, Query, SubId};
use super::paging::{Limits, List, Page, page, position_of_page};
use super::session_input::{ResourceParam, resource};
use super::sessions::existing;
use super::state::App;
use super::wire::{Deleted, Moment};
use crate::ids::{ResourceId, SessionId};
use crate::store::records::ResourceRecord;
use crate::store::{Position, Window};

const LIMITS: Limits = Limits { default: 1000, most: 1000 };

/// Everything that is attached: a session has few resources.
pub const ALL_RESOURCES: Window = Window { limit: 1000, ascending: true, after: None, before: None };

/// A file attached to a session.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SessionResource)]
pub struct ResourceView {
    /// `res_` and 16 hex digits.
    pub id: String,
    /// Always `file`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// Which file.
    pub file_id: String,
    /// Where the agent is told that it lies.
    pub mount_path: String,
    /// When it was attached.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
}

impl From<ResourceRecord> for ResourceView {
    fn from(resource: ResourceRecord) -> Self {
        Self {
            id: resource.id.into(),
            kind: "file",
            file_id: resource.file_id.into(),
            mount_path: resource.mount_path,
            created_at: resource.created_at.into(),
            updated_at: resource.updated_at.into(),
        }
    }
}

/// Attaches a file.
#[utoipa::path(post, path = "/v1/sessions/{id}/resources", tag = "sessions", params(("id" = String, Path)),
    request_body = ResourceParam,
    responses((status = 200, body = ResourceView), (status = "default", body = ErrorBody)))]
pub async fn add(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    Body(fields): Body,
) -> Result<Json<ResourceView>, ApiError> {
    existing(&app, &id).await?;
    let attached = app.store.resources(&id, &ALL_RESOURCES).await?;
    if attached.items.len() >= 1000 {
        return Err(ApiError::invalid(format!(
            "session {id} has 1000 resources, which is the most; delete some first"
        )));
    }
    Ok(Json(app.sessions.add_resource(&id, resource(fields)?).await?.into()))
}

/// What is attached, in the order it was.
#[utoipa::path(get, path = "/v1/sessions/{id}/resources", tag = "sessions",
    params(("id" = String, Path), ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000), ("page" = Option<String>, Query)),
    responses((status = 200, body = Page<ResourceView>), (status = "default", body = ErrorBody)))]
pub async fn list(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    query: Query,
) -> Result<Json<Page<ResourceView>>, ApiError> {
    let limit = query.limit(LIMITS.default, LIMITS.most)?;
    let after = position_of_page(&query, List::Resources)?;
    existing(&app, &id).await?;
    let listed = app.store.resources(&id, &Window { limit, ascending: true, after, before: None }).await?;
    let position = |item: &ResourceRecord| Position { at: item.created_at, id: item.id.to_string() };
    Ok(Json(page(listed, List::Resources, false, position, ResourceView::from)))
}

/// One resource.
#[utoipa::path(get, path = "/v1/sessions/{id}/resources/{sub}", tag = "sessions",
    params(("id" = String, Path), ("sub" = String, Path)),
    responses((status = 200, body = ResourceView), (status = "default", body = ErrorBody)))]
pub async fn retrieve(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    SubId(sub): SubId<ResourceId>,
) -> Result<Json<ResourceView>, ApiError> {
    existing(&app, &id).await?;
    let found = app.store.resource(&id, &sub).await?;
    Ok(Json(found.ok_or_else(|| ApiError::not_found("session resource", sub.as_str()))?.into()))
}

/// Files have nothing to change: always refused.
#[utoipa::path(post, path = "/v1/sessions/{id}/resources/{sub}", tag = "sessions",
    params(("id" = String, Path), ("sub" = String, Path)),
    responses((status = "default", body = ErrorBody)))]
pub async fn update(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    SubId(sub): SubId<ResourceId>,
) -> Result<Json<ResourceView>, ApiError> {
    let Json(_unchanged) = retrieve(State(app), Id(id), SubId(sub)).await?;
    Err(ApiError::invalid("a file resource has nothing that can be changed; delete it and add another one"))
}

/// Detaches a file. The session's own video stays what it is.
#[utoipa::path(delete, path = "/v1/sessions/{id}/resources/{sub}", tag = "sessions",
    params(("id" = String, Path), ("sub" = String, Path)),
    responses((status = 200, body = Deleted), (status = "default", body = ErrorBody)))]
pub async fn delete(
    State(app): State<App>,
    Id(id): Id<SessionId>,
    SubId(sub): SubId<ResourceId>,
) -> Result<Json<Deleted>, ApiError> {
    let session = existing(&app, &id).await?;
    if session.archived_at.is_some() {
        return Err(ApiError::invalid(format!("session {id} is archived and cannot be changed")));
    }
    if app.store.delete_resource(&id, &sub).await? {
        Ok(Json(Deleted { id: sub.into(), kind: "session_resource_deleted" }))
    } else {
        Err(ApiError::not_found("session resource", sub.as_str()))
    }
}

/// A session is one conversation, without threads: always an empty page.
#[utoipa::path(get, path = "/v1/sessions/{id}/threads", tag = "sessions", params(("id" = String, Path)),
    responses((status = 200, body = Page<Object>), (status = "default", body = ErrorBody)))]
pub async fn threads(State(app): State<App>, Id(id): Id<SessionId>) -> Result<Json<Page<serde_json::Value>>, ApiError> {
    existing(&app, &id).await?;
    Ok(Json(Page::whole(Vec::new(), |_thread| String::new())))
}
