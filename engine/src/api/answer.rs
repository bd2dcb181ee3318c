//! The outermost layer: every answer leaves through here.
//!
//! It gives the request an id, asks for the key, sets the time limit, and writes the body of what failed, so that all
//! answers, a panic's too, have a `request-id` and one shape.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::ApiError;
use super::state::App;

/// How long a request may take until its answer begins. Uploads are timed by their own progress instead, and an event
/// stream's answer begins at once.
pub const TIME_LIMIT: Duration = Duration::from_mins(1);

/// A new request id: `req_` and 24 hex digits.
fn new_request_id() -> String {
    let random: u128 = rand::random();
    format!("req_{:024x}", random >> 32)
}

/// The layer.
pub async fn layer(State(app): State<App>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let request_id = new_request_id();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = match guarded(&app, request, next).await {
        Ok(response) => response,
        Err(error) => error.into_response(),
    };
    if let Some(error) = response.extensions_mut().remove::<Arc<ApiError>>() {
        error.log(&request_id);
        response = with_body(response, &error, &request_id);
    }
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert("request-id", value);
    }
    count(&method, route.as_ref().map_or("none", MatchedPath::as_str), &response, began.elapsed());
    response
}

async fn guarded(app: &App, request: Request, next: Next) -> Result<Response, ApiError> {
    let is_upload = request.method() == Method::POST && request.uri().path() == "/v1/files";
    let (parts, body) = request.into_parts();
    app.key.check(&parts)?;
    let answer = next.run(Request::from_parts(parts, body));
    if is_upload {
        return Ok(answer.await);
    }
    tokio::time::timeout(TIME_LIMIT, answer).await.map_err(|_elapsed| ApiError::TimedOut { limit: TIME_LIMIT })
}

/// Keeps status and headers of the error's response, and gives it the body.
fn with_body(response: Response, error: &ApiError, request_id: &str) -> Response {
    let (parts, _empty) = response.into_parts();
    let mut full = Json(error.body(request_id)).into_response();
    *full.status_mut() = parts.status;
    for (name, value) in &parts.headers {
        if name != axum::http::header::CONTENT_LENGTH && name != axum::http::header::CONTENT_TYPE {
            full.headers_mut().append(name.clone(), value.clone());
        }
    }
    full
}

/// What a panicking handler answers; the panic hook has logged the panic itself.
pub fn panicked(_panic: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::Panicked.into_response()
}

/// The counters of one kind of answer.
struct Counted {
    requests: metrics::Counter,
    seconds: metrics::Histogram,
}

/// What an answer is counted under: method, route and status. All three are ours, so there are few.
type CountedAs = (&'static str, String, u16);

thread_local! {
    /// Looked up once, since a lookup costs more than counting.
    static COUNTED: RefCell<HashMap<CountedAs, Counted>> = RefCell::default();
}

fn count(method: &Method, route: &str, response: &Response, took: Duration) {
    let name = (method_label(method), route.to_owned(), response.status().as_u16());
    COUNTED.with_borrow_mut(|counted| {
        let counted = counted.entry(name).or_insert_with_key(|(method, route, status)| {
            let labels = [("method", (*method).to_owned()), ("route", route.clone()), ("status", status.to_string())];
            Counted {
                requests: metrics::counter!("ambient_http_requests_total", &labels),
                seconds: metrics::histogram!("ambient_http_request_seconds", "route" => route.clone()),
            }
        });
        counted.requests.increment(1);
        counted.seconds.record(took.as_secs_f64());
    });
}

/// A client can invent methods; a label a method would let it fill the memory.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "DELETE" => "DELETE",
        _ => "other",
    }
}
