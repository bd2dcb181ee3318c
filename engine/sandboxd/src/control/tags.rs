//! Tags of templates.

use ambient_e2b::protocol::template::{AssignTags, AssignedTags, RemoveTags, TemplateTag};
use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::StatusCode;

use super::failure::Failure;
use super::input::{Caller, Json};
use crate::serve::App;

/// `POST /templates/tags`.
pub(super) async fn assign(
    State(app): State<App>,
    Caller(team): Caller,
    Json(wish): Json<AssignTags>,
) -> Result<(StatusCode, Answer<AssignedTags>), Failure> {
    let assigned = app.catalogue.assign_tags(&team, &wish.target, &wish.tags)?;
    Ok((StatusCode::CREATED, Answer(assigned)))
}

/// `DELETE /templates/tags`.
pub(super) async fn remove(
    State(app): State<App>,
    Caller(team): Caller,
    Json(wish): Json<RemoveTags>,
) -> Result<StatusCode, Failure> {
    app.catalogue.remove_tags(&team, &wish.name, &wish.tags)?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /templates/{id or name}/tags`.
pub(super) async fn list(
    State(app): State<App>,
    Caller(team): Caller,
    Path(template): Path<String>,
) -> Result<Answer<Vec<TemplateTag>>, Failure> {
    Ok(Answer(app.catalogue.tags(&team, &template)?))
}
