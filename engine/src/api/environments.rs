//! `/v1/environments`: where a client says its sessions run.
//!
//! The engine runs every session where its own settings say; networking and packages of an environment are checked, kept
//! and given back, and change nothing (see `docs/environments.md`).

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use super::extract::{Body, Fields, Id, Patch, Query};
use super::paging::{Limits, List, Page, page, window};
use super::state::App;
use super::wire::{Deleted, MetadataPatch, Moment, metadata_patch, new_metadata, patched};
use crate::ids::EnvironmentId;
use crate::store::Position;
use crate::store::records::{EnvironmentRecord, Metadata};

const LIMITS: Limits = Limits { default: 20, most: 100 };
const NAME: std::ops::RangeInclusive<usize> = 1..=256;
const DESCRIPTION: std::ops::RangeInclusive<usize> = 0..=2048;
/// Hosts, or packages of one manager.
const MOST_ENTRIES: usize = 256;
const ENTRY: std::ops::RangeInclusive<usize> = 1..=512;
const MANAGERS: [&str; 6] = ["apt", "cargo", "gem", "go", "npm", "pip"];

/// How often a change is tried again when others get in between.
const CHANGE_TRIES: u32 = 8;

/// An environment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Environment)]
pub struct EnvironmentView {
    /// `env_` and 16 hex digits, or `default`.
    pub id: String,
    /// Always `environment`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// Unique among those that are not archived.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// `cloud` or `self_hosted`, with all parts.
    #[schema(value_type = Object)]
    pub config: Value,
    /// The client's pairs.
    #[schema(value_type = std::collections::HashMap<String, String>)]
    pub metadata: Metadata,
    /// `organization` or `account`.
    pub scope: Option<String>,
    /// When it was archived.
    pub archived_at: Option<Moment>,
    /// When it was made.
    pub created_at: Moment,
    /// When it last changed.
    pub updated_at: Moment,
}

impl From<EnvironmentRecord> for EnvironmentView {
    fn from(environment: EnvironmentRecord) -> Self {
        Self {
            id: environment.id.into(),
            kind: "environment",
            name: environment.name,
            description: environment.description,
            config: environment.config,
            metadata: environment.metadata,
            scope: environment.scope,
            archived_at: environment.archived_at.map(Moment),
            created_at: environment.created_at.into(),
            updated_at: environment.updated_at.into(),
        }
    }
}

/// Body of `POST /v1/environments` and, with everything optional, of `POST /v1/environments/{id}`.
#[derive(Debug, ToSchema)]
pub struct EnvironmentParams {
    /// Required at creation.
    #[schema(min_length = 1, max_length = 256)]
    pub name: Option<String>,
    /// What it is for.
    #[schema(max_length = 2048)]
    pub description: Option<String>,
    /// `{"type":"cloud","networking"?,"packages"?}` or `{"type":"self_hosted"}`; null is `cloud`.
    #[schema(value_type = Option<Object>)]
    pub config: Option<Value>,
    /// Pairs; of an update a patch, in which null and an empty text delete.
    #[schema(value_type = Option<std::collections::HashMap<String, Option<String>>>)]
    pub metadata: Option<Value>,
    /// `organization` or `account`.
    pub scope: Option<String>,
}

/// The error for an environment that is not there.
pub fn no_environment(id: &EnvironmentId) -> ApiError {
    ApiError::NotFound { noun: "environment", id: id.to_string(), code: Some("environment_not_found") }
}

fn name_taken(name: &str) -> ApiError {
    ApiError::conflict(format!(
        "an environment named `{name}` exists already; choose another name, or archive that one"
    ))
}

/// Makes an environment.
#[utoipa::path(post, path = "/v1/environments", tag = "environments", request_body = EnvironmentParams,
    responses((status = 200, body = EnvironmentView), (status = "default", body = ErrorBody)))]
pub async fn create(State(app): State<App>, Body(mut fields): Body) -> Result<Json<EnvironmentView>, ApiError> {
    let now = app.clock.now();
    let environment = EnvironmentRecord {
        id: EnvironmentId::generate(),
        name: fields.required_text("name", NAME)?,
        description: fields.text("description", DESCRIPTION)?.given().unwrap_or_default(),
        config: config(&mut fields)?.given().unwrap_or_else(cloud),
        metadata: new_metadata(&mut fields)?,
        scope: scope(&mut fields)?.given().or_else(|| Some("organization".to_owned())),
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    if app.store.environment_name_taken(&environment.name, &environment.id).await? {
        return Err(name_taken(&environment.name));
    }
    app.store.insert_environment(&environment).await?;
    Ok(Json(environment.into()))
}

/// One environment.
#[utoipa::path(get, path = "/v1/environments/{id}", tag = "environments", params(("id" = String, Path)),
    responses((status = 200, body = EnvironmentView), (status = "default", body = ErrorBody)))]
pub async fn retrieve(State(app): State<App>, Id(id): Id<EnvironmentId>) -> Result<Json<EnvironmentView>, ApiError> {
    Ok(Json(existing(&app, &id).await?.into()))
}

async fn existing(app: &App, id: &EnvironmentId) -> Result<EnvironmentRecord, ApiError> {
    app.store.environment(id).await?.ok_or_else(|| no_environment(id))
}

/// All environments, newest first.
#[utoipa::path(get, path = "/v1/environments", tag = "environments",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 100), ("page" = Option<String>, Query),
        ("after_id" = Option<String>, Query), ("before_id" = Option<String>, Query),
        ("include_archived" = Option<bool>, Query)),
    responses((status = 200, body = Page<EnvironmentView>), (status = "default", body = ErrorBody)))]
pub async fn list(State(app): State<App>, query: Query) -> Result<Json<Page<EnvironmentView>>, ApiError> {
    let include_archived = query.flag("include_archived")?;
    let window = window(&app, &query, List::Environments, LIMITS, false).await?;
    let listed = app.store.environments(&window, include_archived).await?;
    let position = |item: &EnvironmentRecord| Position { at: item.created_at, id: item.id.to_string() };
    Ok(Json(page(listed, List::Environments, window.before.is_some(), position, EnvironmentView::from)))
}

/// What an update says.
struct Change {
    name: Option<String>,
    description: Patch<String>,
    config: Patch<Value>,
    metadata: MetadataPatch,
    scope: Patch<String>,
}

impl Change {
    fn read(mut fields: Fields) -> Result<Self, ApiError> {
        let name = match fields.text("name", NAME)? {
            Patch::Null => return Err(fields.bad("name", "must not be null: an environment always has a name")),
            other => other.given(),
        };
        let mut metadata = metadata_patch(&mut fields)?;
        for value in metadata.values_mut() {
            *value = value.take().filter(|text| !text.is_empty());
        }
        Ok(Self {
            name,
            description: fields.text("description", DESCRIPTION)?,
            config: config(&mut fields)?,
            metadata,
            scope: scope(&mut fields)?,
        })
    }

    fn applied(&self, mut environment: EnvironmentRecord) -> Result<EnvironmentRecord, ApiError> {
        if let Some(name) = &self.name {
            environment.name.clone_from(name);
        }
        match &self.description {
            Patch::Absent => {}
            Patch::Null => environment.description.clear(),
            Patch::Given(text) => environment.description.clone_from(text),
        }
        match &self.config {
            Patch::Absent => {}
            Patch::Null => environment.config = cloud(),
            Patch::Given(config) => environment.config.clone_from(config),
        }
        if let Patch::Given(scope) = &self.scope {
            environment.scope = Some(scope.clone());
        }
        environment.metadata = patched(environment.metadata, self.metadata.clone())?;
        Ok(environment)
    }
}

/// Changes an environment. What is left out stays.
#[utoipa::path(post, path = "/v1/environments/{id}", tag = "environments", params(("id" = String, Path)),
    request_body = EnvironmentParams,
    responses((status = 200, body = EnvironmentView), (status = "default", body = ErrorBody)))]
pub async fn update(
    State(app): State<App>,
    Id(id): Id<EnvironmentId>,
    Body(fields): Body,
) -> Result<Json<EnvironmentView>, ApiError> {
    let change = Change::read(fields)?;
    if let Some(name) = &change.name
        && app.store.environment_name_taken(name, &id).await?
    {
        return Err(name_taken(name));
    }
    write(&app, &id, |environment| {
        if environment.archived_at.is_some() {
            return Err(ApiError::invalid_as(
                "environment_archived",
                format!("environment {id} is archived and cannot be changed; create another one"),
            ));
        }
        change.applied(environment)
    })
    .await
}

/// Archives an environment: no new sessions; running ones go on.
#[utoipa::path(post, path = "/v1/environments/{id}/archive", tag = "environments", params(("id" = String, Path)),
    responses((status = 200, body = EnvironmentView), (status = "default", body = ErrorBody)))]
pub async fn archive(State(app): State<App>, Id(id): Id<EnvironmentId>) -> Result<Json<EnvironmentView>, ApiError> {
    always_there(&id, "archived")?;
    let now = app.clock.now();
    write(&app, &id, |mut environment| {
        environment.archived_at = environment.archived_at.or(Some(now));
        Ok(environment)
    })
    .await
}

/// Reads, changes and writes an environment, again and again until nobody gets in between.
async fn write(
    app: &App,
    id: &EnvironmentId,
    change: impl Fn(EnvironmentRecord) -> Result<EnvironmentRecord, ApiError>,
) -> Result<Json<EnvironmentView>, ApiError> {
    for _ in 0..CHANGE_TRIES {
        let current = existing(app, id).await?;
        let mut next = change(current.clone())?;
        if next == current {
            return Ok(Json(next.into()));
        }
        // The time is what the next writer compares with, so it has to move.
        let least = current.updated_at.checked_add(std::time::Duration::from_micros(1)).unwrap_or(current.updated_at);
        next.updated_at = app.clock.now().max(least);
        if app.store.update_environment(&next, current.updated_at).await? {
            return Ok(Json(next.into()));
        }
    }
    Err(ApiError::conflict(format!("environment {id} was changed by others at the same time; read it and try again")))
}

/// Deletes an environment. Sessions in it keep running.
#[utoipa::path(delete, path = "/v1/environments/{id}", tag = "environments", params(("id" = String, Path)),
    responses((status = 200, body = Deleted), (status = "default", body = ErrorBody)))]
pub async fn delete(State(app): State<App>, Id(id): Id<EnvironmentId>) -> Result<Json<Deleted>, ApiError> {
    always_there(&id, "deleted")?;
    if app.store.delete_environment(&id).await? {
        Ok(Json(Deleted { id: id.into(), kind: "environment_deleted" }))
    } else {
        Err(no_environment(&id))
    }
}

fn always_there(id: &EnvironmentId, what: &str) -> Result<(), ApiError> {
    if id.is_built_in() {
        return Err(ApiError::invalid(format!("environment {id} always exists and cannot be {what}")));
    }
    Ok(())
}

fn scope(fields: &mut Fields) -> Result<Patch<String>, ApiError> {
    fields.word("scope", &["organization", "account"])?.map(|word| Ok(word.to_owned()))
}

fn cloud() -> Value {
    json!({
        "type": "cloud",
        "networking": {"type": "unrestricted"},
        "packages": {"type": "packages", "apt": [], "cargo": [], "gem": [], "go": [], "npm": [], "pip": []},
    })
}

/// Reads `config` into the wire's full form, which strict clients need.
fn config(fields: &mut Fields) -> Result<Patch<Value>, ApiError> {
    fields.object("config")?.map(|mut config| match config.word("type", &["cloud", "self_hosted"])? {
        Patch::Given("self_hosted") => Ok(json!({"type": "self_hosted"})),
        Patch::Given(_) => {
            let networking = networking(&mut config)?;
            let packages = packages(&mut config)?;
            Ok(json!({"type": "cloud", "networking": networking, "packages": packages}))
        }
        Patch::Absent | Patch::Null => Err(config.bad("type", "is required and must be `cloud` or `self_hosted`")),
    })
}

fn networking(config: &mut Fields) -> Result<Value, ApiError> {
    let Patch::Given(mut networking) = config.object("networking")? else {
        return Ok(json!({"type": "unrestricted"}));
    };
    match networking.word("type", &["unrestricted", "limited"])? {
        Patch::Given("limited") => Ok(json!({
            "type": "limited",
            "allow_mcp_servers": networking.boolean("allow_mcp_servers")?.unwrap_or(false),
            "allow_package_managers": networking.boolean("allow_package_managers")?.unwrap_or(false),
            "allowed_hosts": texts(&mut networking, "allowed_hosts")?,
        })),
        Patch::Given(_) => Ok(json!({"type": "unrestricted"})),
        Patch::Absent | Patch::Null => {
            Err(networking.bad("type", "is required and must be `unrestricted` or `limited`"))
        }
    }
}

fn packages(config: &mut Fields) -> Result<Value, ApiError> {
    let mut all = json!({"type": "packages"});
    let mut packages = config.object("packages")?.given();
    for manager in MANAGERS {
        let names = match &mut packages {
            Some(packages) => texts(packages, manager)?,
            None => Vec::new(),
        };
        all[manager] = names.into();
    }
    Ok(all)
}

fn texts(fields: &mut Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let items = fields.list(name, MOST_ENTRIES)?.given().unwrap_or_default();
    items.into_iter().map(|(path, value)| super::extract::text(&path, value, ENTRY)).collect()
}
