//! The HTTP surface: parse into types, authorise, call, convert.
//!
//! It serves what the official Anthropic SDKs call for agents, environments, files, sessions and events. Handlers hold no
//! rules of their own beyond what a request may say; those are in `sessions` and `ingest`. Every answer leaves through
//! [`answer`], which knows the request's id.

pub mod agent_input;
pub mod agents;
pub mod answer;
pub mod auth;
pub mod content;
pub mod detached;
pub mod environments;
pub mod error;
pub mod events;
pub mod extract;
pub mod files;
pub mod gather;
pub mod health;
pub mod openapi;
pub mod paging;
pub mod resources;
pub mod retries;
pub mod send_input;
pub mod session_input;
pub mod session_reads;
pub mod sessions;
pub mod state;
pub mod tools;
pub mod wire;

use std::time::Duration;

use ambient_http::{ReadOn, read_unread};
use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use error::{ApiError, shortened};
use state::App;

/// Every route that the description describes.
fn documented_routes() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(openapi::Description::openapi())
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::retrieve, agents::update))
        .routes(routes!(agents::archive))
        .routes(routes!(agents::versions))
        .routes(routes!(environments::list, environments::create))
        .routes(routes!(environments::retrieve, environments::update, environments::delete))
        .routes(routes!(environments::archive))
        .routes(routes!(files::list, files::upload))
        .routes(routes!(files::import))
        .routes(routes!(files::retrieve, files::delete))
        .routes(routes!(content::content))
        .routes(routes!(sessions::list, sessions::create))
        .routes(routes!(sessions::retrieve, sessions::update, sessions::delete))
        .routes(routes!(sessions::archive))
        .routes(routes!(resources::list, resources::add))
        .routes(routes!(resources::retrieve, resources::update, resources::delete))
        .routes(routes!(resources::threads))
        .routes(routes!(events::list, events::send))
        .routes(routes!(events::stream))
}

/// How much of a refused request is read: an ordinary client sends less, and hears the refusal.
const READ_ON: ReadOn = ReadOn { bytes: 64 << 20, time: Duration::from_secs(5) };

/// The whole HTTP surface over `app`.
pub fn router(app: App) -> Router {
    let (routes, _description) = documented_routes().split_for_parts();
    routes
        .route("/openapi.json", get(openapi::serve))
        .fallback(no_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(CatchPanicLayer::custom(answer::panicked))
        .layer(from_fn_with_state(app.clone(), answer::layer))
        .layer(from_fn_with_state(READ_ON, read_unread))
        .with_state(app)
}

async fn no_route(request: Request) -> ApiError {
    let path = request.uri().path();
    let hint = if path.starts_with("/v1/v1/") || path == "/v1/v1" {
        "; the client's base URL ends in `/v1`, and the SDK adds that by itself: set it without"
    } else {
        ""
    };
    ApiError::NoRoute { method: request.method().clone(), path: shortened(path), hint }
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::WrongMethod { method: request.method().clone(), path: shortened(request.uri().path()) }
}
