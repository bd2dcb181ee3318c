//! The API's own description, made from the types and routes that serve it.
//!
//! It is committed as `docs/openapi.json` (a test fails when that is stale) and served at `/openapi.json`.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use std::sync::OnceLock;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Ambient",
        description = "Questions about long videos, answered by an agent that watches them. The routes are those that the official Anthropic SDKs call for agents, environments, files, sessions and events."
    ),
    tags(
        (name = "agents", description = "What answers."),
        (name = "environments", description = "Where sessions run."),
        (name = "files", description = "Videos."),
        (name = "sessions", description = "Conversations over a video."),
        (name = "events", description = "What happens in a session."),
        (name = "health", description = "How the engine is.")
    ),
    security(("api_key" = []), ("bearer" = [])),
    modifiers(&Keys)
)]
pub(super) struct Description;

struct Keys;

impl Modify for Keys {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_default();
        let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new("x-api-key")));
        components.add_security_scheme("api_key", key);
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
        env!("CARGO_PKG_VERSION").clone_into(&mut openapi.info.version);
        // The description is the API's, not the crate's.
        openapi.info.license = None;
        openapi.info.contact = None;
    }
}

/// The description as text, the same on every machine.
pub fn text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(written)
}

fn written() -> String {
    let description = super::documented_routes().into_openapi();
    let mut text = description.to_pretty_json().expect("a description holds nothing that is no JSON");
    text.push('\n');
    text
}

/// This description.
pub(super) async fn serve() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text()).into_response()
}
