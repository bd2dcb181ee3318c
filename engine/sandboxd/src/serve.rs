//! One address for both planes: what names a sandbox is for the sandbox, everything else for the API.

use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::protocol::ErrorBody;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::middleware::{self, Next};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_http::catch_panic::CatchPanicLayer;

use crate::config::Teams;
use crate::sandboxes::{Registry, Sandbox, TransitionFailure};
use crate::templates::{Archives, Builder, Catalogue};
use crate::{control, data};

/// What every request works with.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) teams: Teams,
    pub(crate) registry: Registry,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) archives: Arc<Archives>,
    pub(crate) builder: Builder,
    pub(crate) repeats: control::Repeats,
    pub(crate) tasks: TaskTracker,
    /// Cancelled when the host stops: builds break off then.
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// Does work to its end, also when the caller hangs up: half a change of a sandbox is none.
    pub(crate) async fn to_the_end<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let done = self.tasks.spawn(work).await;
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    /// [`Registry::resume`], to its end.
    pub(crate) async fn resume(
        &self,
        sandbox: &Arc<Sandbox>,
        time: Duration,
        with_memory: bool,
    ) -> Result<(), TransitionFailure> {
        let (registry, sandbox) = (self.registry.clone(), Arc::clone(sandbox));
        self.to_the_end(async move { registry.resume(&sandbox, time, with_memory).await }).await
    }
}

/// Shared by all requests.
pub(crate) type App = Arc<Shared>;

/// Both planes.
pub(crate) fn routes(app: App) -> Router {
    let chosen = control::routes(&app).layer(middleware::from_fn_with_state(app, choose));
    chosen.layer(middleware::from_fn_with_state(crate::READ_ON, ambient_http::read_unread)).layer(
        CatchPanicLayer::custom(|_panic| {
            tracing::error!("a request ended in a panic");
            error(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the sandbox host")
        }),
    )
}

async fn choose(State(app): State<App>, request: Request, next: Next) -> Response<Body> {
    match data::target(&request) {
        Some(target) => data::serve(&app, target, request).await,
        None => next.run(request).await,
    }
}

/// An error in the body that clients parse, whatever the status.
pub(crate) fn error(status: StatusCode, message: impl Into<String>) -> Response<Body> {
    error_body(status, &ErrorBody::new(status.as_u16(), message))
}

/// The same with more in it.
pub(crate) fn error_body(status: StatusCode, body: &ErrorBody) -> Response<Body> {
    let bytes = serde_json::to_vec(body).expect("an error is plain JSON");
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A header as text; `None` when it is absent or no text.
pub(crate) fn text(headers: &HeaderMap, name: impl axum::http::header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Lets pages of any origin read the answer: the data plane is open to browsers.
pub(crate) fn open_to_browsers(headers: &mut HeaderMap) {
    const OPEN: [(&str, &str); 4] = [
        ("access-control-allow-origin", "*"),
        ("access-control-allow-methods", "*"),
        ("access-control-allow-headers", "*"),
        ("access-control-expose-headers", "*"),
    ];
    for (name, value) in OPEN {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
