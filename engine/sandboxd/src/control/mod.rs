//! The control plane: E2B's REST API, as far as sandboxes and templates go.

mod create;
mod failure;
mod input;
mod lifecycle;
mod lists;
mod repeats;
mod tags;
mod telemetry;
mod templates;

use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Response, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{get, post, put};

pub(crate) use repeats::Repeats;

use crate::config::KEY_PREFIX;
use crate::serve::{App, error, text};

/// Most bytes of a body: a build with long steps. Archives have a route without a limit.
const BODY_LIMIT: usize = 16 << 20;

/// The routes. Those that need no key are outside the check.
pub(crate) fn routes(app: &App) -> Router {
    let keyed = Router::new()
        .route("/sandboxes", post(create::create_v1).get(lists::list_v1))
        .route("/v2/sandboxes", post(create::create_v2).get(lists::list_v2))
        .route("/sandboxes/metrics", get(telemetry::latest))
        .route("/sandboxes/{id}", get(lifecycle::get).delete(lifecycle::kill))
        .route("/sandboxes/{id}/connect", post(lifecycle::connect))
        .route("/v2/sandboxes/{id}/connect", post(lifecycle::connect))
        .route("/sandboxes/{id}/resume", post(lifecycle::resume))
        .route("/sandboxes/{id}/pause", post(lifecycle::pause))
        .route("/sandboxes/{id}/timeout", post(lifecycle::set_timeout))
        .route("/sandboxes/{id}/refreshes", post(lifecycle::refresh))
        .route("/sandboxes/{id}/network", put(lifecycle::network))
        .route("/sandboxes/{id}/metrics", get(telemetry::metrics))
        .route("/sandboxes/{id}/logs", get(telemetry::logs_v1))
        .route("/v2/sandboxes/{id}/logs", get(telemetry::logs_v2))
        .route("/v3/templates", post(templates::create))
        .route("/templates", get(templates::list))
        .route("/v2/templates", get(templates::list_pages))
        .route("/templates/tags", post(tags::assign).delete(tags::remove))
        .route("/templates/aliases/{alias}", get(templates::alias))
        .route("/templates/{id}", get(templates::detail).delete(templates::remove))
        .route("/templates/{id}/tags", get(tags::list))
        .route("/templates/{id}/files/{hash}", get(templates::files))
        .route("/v2/templates/{id}/builds/{build}", post(templates::start_build))
        .route("/templates/{id}/builds/{build}/status", get(templates::status))
        .route("/templates/{id}/builds/{build}/logs", get(templates::build_logs))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .route_layer(middleware::from_fn_with_state(App::clone(app), check_key));
    Router::new()
        .route("/health", get(|| async { StatusCode::OK }))
        .route("/uploads/{word}", put(templates::upload).layer(DefaultBodyLimit::disable()))
        .merge(keyed)
        .fallback(no_such_route)
        .method_not_allowed_fallback(|| async {
            error(StatusCode::METHOD_NOT_ALLOWED, "this method is not allowed here")
        })
        .with_state(App::clone(app))
}

async fn no_such_route(request: Request) -> Response<Body> {
    let message = format!("there is no `{} {}`", request.method(), request.uri().path());
    error(StatusCode::NOT_FOUND, message)
}

/// Every object belongs to a team, and the key says which.
async fn check_key(State(app): State<App>, mut request: Request, next: Next) -> Response<Body> {
    let refuse = |message: &str| error(StatusCode::UNAUTHORIZED, message);
    let Some(key) = text(request.headers(), "x-api-key").filter(|key| !key.is_empty()) else {
        return refuse("authorization header is missing: send the key as `X-API-KEY`");
    };
    if !key.starts_with(KEY_PREFIX) {
        return refuse("authorization header is malformed: a key begins with `e2b_`");
    }
    let Some(team) = app.teams.find(key) else {
        return refuse("Invalid API key: it is none of the keys that this host was started with");
    };
    request.extensions_mut().insert(team);
    next.run(request).await
}
