//! The control plane of E2B, as far as `doctor` asks it, with the protocol's own types: keys of teams, and their templates.

use std::io;
use std::sync::{Arc, Mutex};

use ambient_e2b::protocol::template::{BuildStatus, ListedTemplate, TemplateTag};
use axum::Json;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use jiff::Timestamp;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The key of the team `mine`.
pub(crate) const KEY: &str = "e2b_0123456789abcdef0123456789abcdef01234567";
/// The key of the team `theirs`.
pub(crate) const OTHER_KEY: &str = "e2b_89abcdef0123456789abcdef0123456789abcdef";

#[derive(Clone, Debug)]
struct Template {
    team: &'static str,
    name: String,
    status: BuildStatus,
    tags: Vec<String>,
}

/// A running server. It ends when this is dropped.
pub(crate) struct Cloud {
    pub(crate) url: String,
    templates: Arc<Mutex<Vec<Template>>>,
    _server: JoinSet<()>,
}

type Shared = Arc<Mutex<Vec<Template>>>;

impl Cloud {
    pub(crate) async fn start() -> io::Result<Self> {
        let templates = Shared::default();
        let router = Router::new()
            .route("/v2/templates", get(list))
            .route("/templates/aliases/{name}", get(alias))
            .route("/templates/{id}/tags", get(tags))
            .with_state(Arc::clone(&templates));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _never_ends = axum::serve(listener, router).await;
        });
        Ok(Self { url, templates, _server: server })
    }

    /// A template of a team, in place of one of the same name.
    pub(crate) fn has(&self, team: &'static str, name: &str, status: BuildStatus, tags: &[&str]) {
        let mut templates = self.templates.lock().expect("nothing panics while it holds the lock");
        templates.retain(|known| known.name != name || known.team != team);
        let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
        templates.push(Template { team, name: name.to_owned(), status, tags });
    }

    /// What `ambientctl template build` leaves.
    pub(crate) fn has_built(&self, name: &str) {
        self.has("mine", name, BuildStatus::Ready, &["default", concat!("v", env!("CARGO_PKG_VERSION"))]);
    }
}

#[expect(clippy::result_large_err, reason = "a refusal is the answer")]
fn team(headers: &HeaderMap) -> Result<&'static str, Response> {
    match headers.get("x-api-key").and_then(|key| key.to_str().ok()) {
        Some(KEY) => Ok("mine"),
        Some(OTHER_KEY) => Ok("theirs"),
        _ => Err(refusal(StatusCode::UNAUTHORIZED, "Invalid API key")),
    }
}

fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "code": status.as_u16(), "message": message }))).into_response()
}

async fn list(State(templates): State<Shared>, headers: HeaderMap) -> Response {
    let team = match team(&headers) {
        Ok(team) => team,
        Err(refusal) => return refusal,
    };
    let templates = templates.lock().expect("nothing panics while it holds the lock");
    let at: Timestamp = "2026-11-29T10:00:00Z".parse().expect("it is a time");
    let listed: Vec<ListedTemplate> = templates
        .iter()
        .filter(|template| template.team == team)
        .map(|template| ListedTemplate {
            template_id: format!("id-{}", template.name),
            build_id: "00000000-0000-0000-0000-000000000001".to_owned(),
            cpu_count: 8,
            memory_mb: 8192,
            disk_size_mb: 1024,
            public: false,
            aliases: vec![template.name.clone()],
            names: vec![format!("{team}/{}", template.name)],
            created_at: at,
            updated_at: at,
            created_by: None,
            last_spawned_at: None,
            spawn_count: 0,
            build_count: 1,
            envd_version: "0.6.13".to_owned(),
            build_status: template.status,
        })
        .collect();
    Json(listed).into_response()
}

async fn alias(State(templates): State<Shared>, Path(name): Path<String>, headers: HeaderMap) -> Response {
    let team = match team(&headers) {
        Ok(team) => team,
        Err(refusal) => return refusal,
    };
    let templates = templates.lock().expect("nothing panics while it holds the lock");
    match templates.iter().find(|template| template.name == name) {
        Some(template) if template.team == team => {
            Json(json!({ "templateID": format!("id-{name}"), "public": false })).into_response()
        }
        Some(_) => refusal(StatusCode::FORBIDDEN, "You don't have access to this template alias"),
        None => refusal(StatusCode::NOT_FOUND, "Template alias not found"),
    }
}

async fn tags(State(templates): State<Shared>, Path(id): Path<String>, headers: HeaderMap) -> Response {
    if let Err(refusal) = team(&headers) {
        return refusal;
    }
    let templates = templates.lock().expect("nothing panics while it holds the lock");
    let found = templates.iter().find(|template| format!("id-{}", template.name) == id);
    let tags: Vec<TemplateTag> = found
        .iter()
        .flat_map(|template| &template.tags)
        .map(|tag| {
            let tag = json!({ "tag": tag, "buildID": "00000000-0000-0000-0000-000000000001", "createdAt": "2026-11-29T10:00:00Z" });
            serde_json::from_value(tag).expect("it is a tag")
        })
        .collect();
    Json(tags).into_response()
}
