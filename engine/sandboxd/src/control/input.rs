//! What calls are given, parsed once: bodies, ids, queries. What does not parse is a 400 with a JSON body.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::failure::Failure;
use crate::config::Team;
use crate::names::plain_sandbox_id;
use crate::sandboxes::Sandbox;
use crate::serve::App;

/// A JSON body; none at all is an empty object.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request<Body>, app: &App) -> Result<Self, Failure> {
        let bytes = Bytes::from_request(request, app)
            .await
            .map_err(|bad| Failure::new(bad.status(), format!("the body cannot be read: {bad}")))?;
        let bytes: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        serde_json::from_slice(bytes)
            .map(Self)
            .map_err(|error| Failure::bad_request(format!("the body is not what is wanted here: {error}")))
    }
}

/// The caller's team.
pub(super) struct Caller(pub(super) Team);

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Failure> {
        let team = parts.extensions.get::<Team>().cloned();
        team.map(Self).ok_or_else(|| Failure::new(StatusCode::UNAUTHORIZED, "authorization header is missing"))
    }
}

/// The caller's sandbox that the path names.
pub(super) struct Own(pub(super) Arc<Sandbox>);

impl FromRequestParts<App> for Own {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Failure> {
        let Caller(team) = Caller::from_request_parts(parts, app).await?;
        let Path(id) = Path::<String>::from_request_parts(parts, app)
            .await
            .map_err(|bad| Failure::bad_request(bad.body_text()))?;
        let id = plain_sandbox_id(&id).ok_or_else(|| Failure::bad_request("Invalid sandbox ID"))?;
        let found = app.registry.find(id).filter(|sandbox| sandbox.team == team);
        found.map(Self).ok_or_else(|| Failure::no_sandbox(id))
    }
}

/// The query, unescaped once. Of a name that comes twice the last counts.
pub(super) struct Parameters(HashMap<String, String>);

impl FromRequestParts<App> for Parameters {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, Self::Rejection> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()))
    }
}

impl Parameters {
    /// A parameter; an empty one counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// A parameter of another type.
    pub(super) fn parse<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let bad = |_error| Failure::bad_request(format!("`{text}` is nothing for the parameter `{name}`"));
        text.parse().map(Some).map_err(bad)
    }

    /// How many entries a page may have.
    pub(super) fn limit(&self, usual: usize, most: usize) -> Result<usize, Failure> {
        match self.parse::<usize>("limit")? {
            None => Ok(usual),
            Some(limit) if (1..=most).contains(&limit) => Ok(limit),
            Some(limit) => Err(Failure::bad_request(format!("`limit` is {limit}, and may be 1 to {most}"))),
        }
    }
}
