//! The troubleshooting list of `docs/sandbox-setup.md`, entry by entry: the cause is made, and `doctor` names it.
//!
//! What shows only in a running engine is told by a stand-in that serves the engine's own lists.

use std::io;
use std::sync::Arc;

use ambient_ctl::doctor::Finding;
use ambient_e2b::protocol::template::BuildStatus;
use axum::Json;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::e2b::{Cloud, KEY};
use super::lab::{Lab, remedy};

/// What a running engine lists.
#[derive(Clone, Debug)]
struct Lists {
    sessions: Value,
    events: Value,
    files: Value,
}

struct Engine {
    port: u16,
    _server: JoinSet<()>,
}

const ENGINE_KEY: &str = "engine-key-of-the-test";

impl Engine {
    async fn start(lists: Lists) -> io::Result<Self> {
        let router = Router::new()
            .route("/v1/healthz", get(|| async { Json(json!({ "status": "ok" })) }))
            .route("/v1/sessions", get(sessions))
            .route("/v1/files", get(files))
            .route("/v1/sessions/{id}/events", get(events))
            .with_state(Arc::new(lists));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _never_ends = axum::serve(listener, router).await;
        });
        Ok(Self { port, _server: server })
    }
}

fn answered(headers: &HeaderMap, data: &Value) -> Response {
    if headers.get("x-api-key").is_some_and(|key| key == ENGINE_KEY) {
        Json(json!({ "data": data, "has_more": false })).into_response()
    } else {
        StatusCode::UNAUTHORIZED.into_response()
    }
}

async fn sessions(State(lists): State<Arc<Lists>>, headers: HeaderMap) -> Response {
    answered(&headers, &lists.sessions)
}

async fn files(State(lists): State<Arc<Lists>>, headers: HeaderMap) -> Response {
    answered(&headers, &lists.files)
}

async fn events(State(lists): State<Arc<Lists>>, Path(_id): Path<String>, headers: HeaderMap) -> Response {
    answered(&headers, &lists.events)
}

fn session(status: &str) -> Value {
    json!([{ "id": "ses_0123456789abcdef", "status": status }])
}

fn boot_error(message: &str) -> Value {
    json!([{ "type": "session.error", "error": { "type": "unknown_error", "message": message } }])
}

fn tool_error(message: &str) -> Value {
    json!([{ "type": "agent.tool_result", "is_error": true, "content": [{ "type": "text", "text": message }] }])
}

/// What `doctor` says about an engine with these lists.
async fn said(sessions: Value, events: Value, files: Value, id: &str) -> io::Result<(Lab, Finding)> {
    let engine = Engine::start(Lists { sessions, events, files }).await?;
    let mut lab = Lab::repository(&[
        "SANDBOX_BACKEND=e2b",
        &format!("SERVER_PORT={}", engine.port),
        &format!("API_KEY={ENGINE_KEY}"),
    ])?;
    lab.shell.retain(|(name, _)| name != "SERVER_PORT");
    let finding = lab.finding(id).await;
    Ok((lab, finding))
}

#[tokio::test]
async fn the_session_goes_straight_to_terminated() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    let url = format!("E2B_API_URL={}", cloud.url);
    let key = format!("E2B_API_KEY={KEY}");

    // Cause 1: the key is not in the engine's environment.
    let lab = Lab::repository(&["SANDBOX_BACKEND=e2b", &url])?;
    lab.finding("e2b-key.missing").await;
    // With the installer: the override does not pass it on.
    let lab = Lab::install(&[&key])?;
    lab.write("docker-compose.override.yml", "services:\n  engine:\n    environment:\n      SANDBOX_BACKEND: e2b\n")?;
    lab.finding("e2b-key.not-passed").await;

    // Cause 2: a template of another team, or one built by the other script.
    cloud.has("theirs", "video-analysis-v1", BuildStatus::Ready, &["default"]);
    let lab = Lab::repository(&["SANDBOX_BACKEND=e2b", &url, &key])?;
    lab.finding("e2b-template.other-team").await;
    let cloud = Cloud::start().await?;
    cloud.has_built("video-analysis-v1-dev");
    let lab = Lab::repository(&["SANDBOX_BACKEND=e2b", &format!("E2B_API_URL={}", cloud.url), &key])?;
    lab.finding("e2b-template.name").await;

    // As a running engine tells it.
    for (message, command) in [
        ("the sandbox could not boot: template `x` cannot be used", "ambientctl doctor --only e2b-template"),
        ("the sandbox could not boot: `E2B_API_KEY` is refused", "ambientctl doctor --only e2b-key"),
        ("the sandbox could not boot: no room", "ambientctl doctor --deep --only e2b-boot"),
    ] {
        let (_lab, finding) =
            said(session("terminated"), boot_error(message), json!([]), "sessions.terminated").await?;
        assert!(finding.seen.contains(message), "{finding:?}");
        assert!(remedy(&finding).paste.starts_with(command), "{finding:?}");
    }
    Ok(())
}

#[tokio::test]
async fn tool_errors_mention_no_result_envelope() -> io::Result<()> {
    let message = "sandbox produced no result envelope (exit=1). stderr tail:\nblocking task";
    let (lab, finding) = said(session("idle"), tool_error(message), json!([]), "sessions.envelope").await?;
    assert!(remedy(&finding).paste.starts_with("ambientctl config set UPLOAD_CONCURRENCY 4"), "{finding:?}");
    lab.carry_out(remedy(&finding)).await;
    assert!(lab.read(".env").contains("UPLOAD_CONCURRENCY=4"));
    Ok(())
}

#[tokio::test]
async fn tool_errors_say_that_no_media_sandbox_is_active() -> io::Result<()> {
    let message = "sandbox_backend='e2b' but no media sandbox is active for this call; its boot failed";
    let (_lab, finding) = said(session("idle"), tool_error(message), json!([]), "sessions.no-sandbox").await?;
    assert!(remedy(&finding).paste.starts_with("ambientctl doctor --deep --only e2b-boot"), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn tools_fail_after_a_long_pause() -> io::Result<()> {
    let message = "sandbox `i1` is lost: it does not answer any more";
    let (_lab, finding) = said(session("idle"), tool_error(message), json!([]), "sessions.lost").await?;
    assert!(remedy(&finding).paste.starts_with("ambientctl config set SANDBOX_WALL_SECONDS 3600"), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn the_video_uploads_and_the_sandbox_cannot_find_it() -> io::Result<()> {
    let files = json!([{ "id": "vid_0123456789abcdef", "source_status": "ready", "description_status": null }]);
    let (_lab, finding) = said(session("idle"), json!([]), files, "sessions.copy").await?;
    assert!(finding.seen.contains("(`description_status` is null)"), "{finding:?}");
    assert!(remedy(&finding).paste.starts_with("ambientctl doctor --only bucket"), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn sessions_still_use_the_old_template() -> io::Result<()> {
    let cloud = Cloud::start().await?;
    cloud.has("mine", "video-analysis-v1", BuildStatus::Ready, &["default", "v0.0.1"]);
    let lab = Lab::repository(&[
        "SANDBOX_BACKEND=e2b",
        &format!("E2B_API_URL={}", cloud.url),
        &format!("E2B_API_KEY={KEY}"),
    ])?;
    let finding = lab.finding("e2b-template.version").await;
    assert!(remedy(&finding).paste.starts_with("ambientctl template build"), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn messages_get_409_while_a_session_starts_or_answers() -> io::Result<()> {
    let (_lab, finding) = said(session("pending"), json!([]), json!([]), "sessions.pending").await?;
    assert!(finding.seen.contains("409 `session sandbox is still starting; retry shortly`"), "{finding:?}");
    let old = json!([{ "id": "ses_1", "status": "pending", "created_at": "2026-01-01T00:00:00Z" }]);
    let (_lab, finding) = said(old, json!([]), json!([]), "sessions.pending").await?;
    assert!(remedy(&finding).paste.contains("--only e2b-key,e2b-template,e2b-boot"), "{finding:?}");
    let (_lab, finding) = said(session("running"), json!([]), json!([]), "sessions.running").await?;
    assert!(finding.seen.contains("409 `a run is already in flight for this session`"), "{finding:?}");
    Ok(())
}

#[tokio::test]
async fn an_engine_in_which_nothing_went_wrong_is_well() -> io::Result<()> {
    let (_lab, finding) = said(session("idle"), json!([]), json!([]), "sessions.well").await?;
    assert!(finding.seen.contains("the latest 1 sessions and 0 files"), "{finding:?}");
    let engine = Engine::start(Lists { sessions: json!([]), events: json!([]), files: json!([]) }).await?;
    let mut lab = Lab::repository(&[&format!("SERVER_PORT={}", engine.port), "API_KEY=another-key-than-it-has"])?;
    lab.shell.retain(|(name, _)| name != "SERVER_PORT");
    lab.finding("sessions.key").await;
    Ok(())
}
