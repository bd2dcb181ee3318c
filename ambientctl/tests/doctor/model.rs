//! A model server: lists models, wants a key, and refuses what it is told to refuse.

use std::io;
use std::sync::{Arc, Mutex};

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The key that it takes.
pub(crate) const KEY: &str = "sk-model-key-that-no-output-may-show";
/// The model that it has.
pub(crate) const MODEL: &str = "google/gemini-2.5-flash";

/// What it refuses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Refusals {
    pub(crate) tools: bool,
    pub(crate) images: bool,
    pub(crate) videos: bool,
}

/// A running server. It ends when this is dropped.
pub(crate) struct ModelServer {
    pub(crate) url: String,
    refusals: Arc<Mutex<Refusals>>,
    _server: JoinSet<()>,
}

impl ModelServer {
    pub(crate) async fn start() -> io::Result<Self> {
        let refusals = Arc::new(Mutex::new(Refusals::default()));
        let router = Router::new()
            .route("/v1/models", get(models))
            .route("/v1/chat/completions", post(answer))
            .with_state(Arc::clone(&refusals));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let _never_ends = axum::serve(listener, router).await;
        });
        Ok(Self { url, refusals, _server: server })
    }

    pub(crate) fn refuses(&self, refusals: Refusals) {
        *self.refusals.lock().expect("nothing panics while it holds the lock") = refusals;
    }

    /// The lines of `.env` that name this server.
    pub(crate) fn lines(&self) -> Vec<String> {
        vec![
            format!("LLM_BASE_URL={}", self.url),
            format!("LLM_API_KEY={KEY}"),
            format!("LLM_MODEL={MODEL}"),
            format!("AGENT_MODEL={MODEL}"),
        ]
    }
}

fn is_let_in(headers: &HeaderMap) -> bool {
    let sent = headers.get("authorization").and_then(|value| value.to_str().ok());
    sent == Some(&format!("Bearer {KEY}"))
}

fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": { "message": message } }))).into_response()
}

async fn models(headers: HeaderMap) -> Response {
    if !is_let_in(&headers) {
        return refusal(StatusCode::UNAUTHORIZED, "no such key");
    }
    Json(json!({ "data": [{ "id": "another/model" }, { "id": MODEL }] })).into_response()
}

async fn answer(State(refusals): State<Arc<Mutex<Refusals>>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    if !is_let_in(&headers) {
        return refusal(StatusCode::UNAUTHORIZED, "no such key");
    }
    let refusals = *refusals.lock().expect("nothing panics while it holds the lock");
    let text = body.to_string();
    for (is_refused, word) in
        [(refusals.tools, "\"tools\""), (refusals.images, "image_url"), (refusals.videos, "video_url")]
    {
        if is_refused && text.contains(word) {
            return refusal(StatusCode::BAD_REQUEST, &format!("{word} is not understood"));
        }
    }
    Json(json!({ "choices": [{ "message": { "role": "assistant", "content": "ok" } }] })).into_response()
}
