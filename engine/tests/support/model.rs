//! A model's server that answers by a script of the test, at the test's pace, and remembers what it was asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How one request is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A stream of these chunks, then `[DONE]`.
    Stream(Vec<Value>),
    /// These chunks, then the connection breaks.
    Cut(Vec<Value>),
    /// These chunks, then nothing more, for ever.
    Hang(Vec<Value>),
    /// These bytes, with a pause before each piece.
    Raw(Vec<Vec<u8>>, Duration),
    /// A status with a JSON body.
    Status(u16, Value),
    /// A status with a header and a JSON body.
    StatusWith(u16, (&'static str, String), Value),
}

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) body: Value,
    pub(crate) authorization: Option<String>,
}

/// The server.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) base_url: String,
    state: Arc<Shared>,
}

type Rule = Box<dyn Fn(&Value) -> Option<Reply> + Send + Sync>;

struct Shared {
    script: Mutex<VecDeque<Reply>>,
    rule: Mutex<Option<Rule>>,
    asked: watch::Sender<Vec<Asked>>,
    gone: watch::Sender<usize>,
}

impl Model {
    /// Serves until the test ends. Requests beyond the script are answered with `ok`.
    pub(crate) async fn start(script: Vec<Reply>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let state = Arc::new(Shared {
            script: Mutex::new(script.into()),
            rule: Mutex::new(None),
            asked: watch::Sender::default(),
            gone: watch::Sender::new(0),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Arc::clone(&state));
        #[expect(clippy::disallowed_methods, reason = "a server of the test, which ends with the test's runtime")]
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(Self { base_url, state })
    }

    /// Answers by what is asked, where the rule has an answer, before the script.
    pub(crate) fn rule(&self, rule: impl Fn(&Value) -> Option<Reply> + Send + Sync + 'static) {
        *lock(&self.state.rule) = Some(Box::new(rule));
    }

    /// Adds to the script.
    pub(crate) fn then(&self, replies: impl IntoIterator<Item = Reply>) {
        lock(&self.state.script).extend(replies);
    }

    /// What was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.asked.borrow().clone()
    }

    /// The messages of each request.
    pub(crate) fn messages(&self) -> Vec<Vec<Value>> {
        self.asked().iter().map(|asked| asked.body["messages"].as_array().cloned().unwrap_or_default()).collect()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn reached(&self, wanted: usize) {
        let mut asked = self.state.asked.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(10), asked.wait_for(|asked| asked.len() >= wanted)).await;
        waited.expect("the engine asks the model").expect("the server lives");
    }

    /// Waits until so many answers were let go of by the client before their end.
    pub(crate) async fn gone(&self, wanted: usize) {
        let mut gone = self.state.gone.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(10), gone.wait_for(|gone| *gone >= wanted)).await;
        waited.expect("the engine let go of the connection").expect("the server lives");
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn answer(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let ruled = lock(&shared.rule).as_ref().and_then(|rule| rule(&body));
    let is_stream = body["stream"] == true;
    shared.asked.send_modify(|asked| asked.push(Asked { body, authorization }));
    let reply = ruled.or_else(|| lock(&shared.script).pop_front()).unwrap_or_else(|| say("ok"));
    match reply {
        Reply::Status(status, body) => status_answer(status, None, &body),
        Reply::StatusWith(status, header, body) => status_answer(status, Some(header), &body),
        Reply::Raw(pieces, pause) => {
            let body = futures::stream::iter(pieces).then(move |piece| async move {
                tokio::time::sleep(pause).await;
                Ok::<_, Infallible>(Bytes::from(piece))
            });
            event_stream(Body::from_stream(body))
        }
        Reply::Stream(chunks) if !is_stream => {
            let whole = whole(&chunks);
            status_answer(200, None, &whole)
        }
        Reply::Stream(chunks) => {
            let done = std::iter::once("data: [DONE]\n\n".to_owned());
            let text: String = chunks.iter().map(frame).chain(done).collect();
            event_stream(Body::from(text))
        }
        Reply::Cut(chunks) => {
            let frames: Vec<std::io::Result<String>> = chunks.iter().map(|chunk| Ok(frame(chunk))).collect();
            let cut = std::iter::once(Err(std::io::Error::other("cut")));
            event_stream(Body::from_stream(futures::stream::iter(frames.into_iter().chain(cut)).then(|frame| async {
                // Each frame leaves before the next thing happens.
                tokio::task::yield_now().await;
                frame
            })))
        }
        Reply::Hang(chunks) => {
            let frames: Vec<Result<String, Infallible>> = chunks.iter().map(|chunk| Ok(frame(chunk))).collect();
            let guard = watched(&shared);
            let silence = futures::stream::once(async move {
                let _guard = guard;
                std::future::pending::<Result<String, Infallible>>().await
            });
            event_stream(Body::from_stream(futures::stream::iter(frames).chain(silence)))
        }
    }
}

/// Counts when it is dropped.
fn watched(shared: &Arc<Shared>) -> DropGuard {
    let token = CancellationToken::new();
    let (seen, shared) = (token.clone(), Arc::clone(shared));
    #[expect(clippy::disallowed_methods, reason = "ends with the answer that it watches")]
    tokio::spawn(async move {
        seen.cancelled().await;
        shared.gone.send_modify(|gone| *gone += 1);
    });
    token.drop_guard()
}

fn frame(chunk: &Value) -> String {
    format!("data: {chunk}\n\n")
}

fn event_stream(body: Body) -> Response {
    Response::builder().header(header::CONTENT_TYPE, "text/event-stream").body(body).expect("a fixed head")
}

fn status_answer(status: u16, extra: Option<(&'static str, String)>, body: &Value) -> Response {
    let mut head = Response::builder()
        .status(StatusCode::from_u16(status).expect("a status of the test"))
        .header(header::CONTENT_TYPE, "application/json");
    if let Some((name, value)) = extra {
        head = head.header(name, value);
    }
    head.body(Body::from(body.to_string())).expect("a fixed head")
}

/// The chunks of a stream as one answer.
fn whole(chunks: &[Value]) -> Value {
    let mut text = String::new();
    let mut usage = Value::Null;
    for chunk in chunks {
        text.push_str(chunk.pointer("/choices/0/delta/content").and_then(Value::as_str).unwrap_or_default());
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}], "usage": usage})
}

/// A chunk with this delta.
pub(crate) fn delta(delta: &Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

/// The chunk that ends an answer.
pub(crate) fn end(finish: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
}

/// The chunk with the counts.
pub(crate) fn counts(prompt: u64, completion: u64) -> Value {
    json!({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})
}

/// An answer in words.
pub(crate) fn say(text: &str) -> Reply {
    Reply::Stream(vec![delta(&json!({"content": text})), end("stop"), counts(100, 10)])
}

/// An answer that calls tools: id, name, arguments.
pub(crate) fn call(calls: &[(&str, &str, Value)]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .enumerate()
        .map(|(index, (id, name, arguments))| {
            let arguments = match arguments {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        })
        .collect();
    Reply::Stream(vec![delta(&json!({"tool_calls": calls})), end("tool_calls"), counts(100, 10)])
}

/// An error in the protocol's usual form.
pub(crate) fn error(status: u16, message: &str) -> Reply {
    Reply::Status(
        status,
        json!({"error": {"message": message, "type": "invalid_request_error", "code": status.to_string()}}),
    )
}
