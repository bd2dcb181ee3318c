//! An OpenAI-compatible server that answers as a test says, and keeps what it was asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ambient_engine::agent::catalogue::Catalogue;
use ambient_engine::agent::client::ModelClient;
use ambient_engine::agent::endpoint::Endpoint;
use ambient_engine::agent::resolve::Resolver;
use ambient_engine::agent::vision::Vision;
use ambient_engine::backend::MediaBackend;
use ambient_engine::store::Store;
use axum::Json;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// A model that nobody knows, and so is taken for one that sees everything.
pub(crate) const MODEL: &str = "test/all-seeing";

/// See the module.
pub(crate) struct VisionServer {
    base_url: String,
    requests: Arc<Mutex<Vec<Value>>>,
    _serving: JoinSet<()>,
}

impl VisionServer {
    /// Answers the n-th request (from 0) with a status and a text, which is an error's message unless the status is 200.
    pub(crate) async fn start(answer: impl Fn(usize, &Value) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let requests: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (log, answer) = (Arc::clone(&requests), Arc::new(answer));
        let handler = move |Json(request): Json<Value>| {
            let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
            async move {
                let number = {
                    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                    log.push(request.clone());
                    log.len() - 1
                };
                let (status, text) = answer(number, &request);
                let body = if status == 200 { said(&text) } else { json!({"error": {"message": text}}) };
                (StatusCode::from_u16(status).expect("a status"), Json(body))
            }
        };
        let router = axum::Router::new()
            .route("/v1/chat/completions", axum::routing::post(handler))
            .layer(axum::extract::DefaultBodyLimit::disable());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.expect("it serves until it is dropped") });
        Self { base_url, requests, _serving: serving }
    }

    /// All that was asked so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The video model at this server.
    pub(crate) fn vision(&self, backend: Arc<dyn MediaBackend>, store: Arc<dyn Store>) -> Arc<Vision> {
        let endpoint =
            Endpoint { base_url: self.base_url.clone(), api_key: None, model: MODEL.to_owned(), trusted: true };
        let client = ModelClient::new(false).expect("a client");
        let resolver = Resolver::new(backend, store, None, Duration::from_mins(1));
        Arc::new(Vision::new(client, Some(endpoint), Arc::new(Catalogue::built_in()), resolver))
    }
}

fn said(text: &str) -> Value {
    json!({
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107},
    })
}

/// The kinds of parts of the user's message of a request, in order.
pub(crate) fn kinds(request: &Value) -> Vec<String> {
    let parts = request["messages"][1]["content"].as_array().cloned().unwrap_or_default();
    parts.iter().map(|part| part["type"].as_str().unwrap_or_default().to_owned()).collect()
}
