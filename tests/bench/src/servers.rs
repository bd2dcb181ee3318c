//! What the engine is compared with, and the model that it talks to: servers that do as little as can be.

use std::path::PathBuf;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use futures::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use crate::BenchError;
use crate::figure::print;

async fn serve(router: Router) -> Result<(), BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    print(&format!("listening on http://{}", listener.local_addr()?));
    Ok(axum::serve(listener, router).await?)
}

const STREAMED: &str = concat!(
    r#"data: {"id":"c","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"A short answer "},"finish_reason":null}]}"#,
    "\n\n",
    r#"data: {"id":"c","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{"content":"from 00:02 to 00:04."},"finish_reason":null}]}"#,
    "\n\n",
    r#"data: {"id":"c","object":"chat.completion.chunk","created":0,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
    "\n\n",
    r#"data: {"id":"c","object":"chat.completion.chunk","created":0,"model":"m","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}"#,
    "\n\n",
    "data: [DONE]\n\n"
);

const WHOLE: &str = r#"{"id":"c","object":"chat.completion","created":0,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"A short answer."},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":10,"total_tokens":110}}"#;

const STREAMING: &[u8] = br#""stream":true"#;

/// The one model of that server.
pub(crate) const MODEL: &str = "bench-model";

/// A chat-completions server that has its answer ready.
pub(crate) async fn model() -> Result<(), BenchError> {
    async fn complete(body: Bytes) -> Response {
        let streams = body.windows(STREAMING.len()).any(|window| window == STREAMING);
        let (kind, text) = if streams { ("text/event-stream", STREAMED) } else { ("application/json", WHOLE) };
        ([(header::CONTENT_TYPE, kind)], text).into_response()
    }
    let limit = axum::extract::DefaultBodyLimit::disable();
    let models = || async { axum::Json(serde_json::json!({ "data": [{ "id": MODEL }] })) };
    let router = Router::new().route("/v1/models", get(models)).route("/v1/chat/completions", post(complete));
    serve(router.layer(limit)).await
}

/// One route with an identifier in its path, and an answer of the same size each time.
pub(crate) async fn bare(bytes: usize) -> Result<(), BenchError> {
    async fn answer(Path(_id): Path<String>, State(body): State<Bytes>) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    }
    let body = Bytes::from(format!("\"{}\"", "x".repeat(bytes.saturating_sub(2))));
    serve(Router::new().route("/v1/sessions/{id}", get(answer)).with_state(body)).await
}

/// An S3 server with one bucket and one key.
pub(crate) async fn bucket() -> Result<(), BenchError> {
    let bucket = ambient_test_bucket::TestBucket::start().await?;
    print(&format!("listening on {}", bucket.endpoint()));
    // Until this process is ended.
    std::future::pending().await
}

/// Stores what is put, and nothing else.
pub(crate) async fn store(folder: PathBuf) -> Result<(), BenchError> {
    async fn keep(State(folder): State<PathBuf>, Path(name): Path<String>, body: Body) -> Response {
        match write(folder.join(name), body).await {
            Ok(()) => StatusCode::CREATED.into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
    async fn write(path: PathBuf, body: Body) -> Result<(), BenchError> {
        let mut file = tokio::fs::File::create(path).await?;
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| BenchError::Unexpected(error.to_string()))?;
            file.write_all(&chunk).await?;
        }
        Ok(file.flush().await?)
    }
    serve(Router::new().route("/{name}", put(keep)).with_state(folder)).await
}
