//! Ids in the path.
//!
//! Routes are matched on the raw path and each segment is decoded afterwards, so an encoded slash stays inside its id.
//! What is no id at all is answered like an id that nobody has: 404.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

use crate::api::error::ApiError;
use crate::ids::{AgentId, EnvironmentId, ResourceId, SessionId, VideoId};

/// What an id is the id of, in the client's words.
pub trait Noun {
    /// `agent`, `file`, …
    const NOUN: &'static str;
}

macro_rules! nouns {
    ($($id:ty => $noun:literal),*) => { $(impl Noun for $id { const NOUN: &'static str = $noun; })* };
}
nouns!(AgentId => "agent", EnvironmentId => "environment", VideoId => "file", SessionId => "session",
       ResourceId => "session resource");

/// The noun of an id's type.
pub fn noun_of<T: Noun>(_id: &T) -> &'static str {
    T::NOUN
}

/// The `{id}` of the path.
#[derive(Clone, Debug)]
pub struct Id<T>(pub T);

/// The `{sub}` of the path: the id of a part of the thing.
#[derive(Clone, Debug)]
pub struct SubId<T>(pub T);

impl<S: Send + Sync, T: FromStr + Noun> FromRequestParts<S> for Id<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        segment(parts, state, "id").await.map(Self)
    }
}

impl<S: Send + Sync, T: FromStr + Noun> FromRequestParts<S> for SubId<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        segment(parts, state, "sub").await.map(Self)
    }
}

async fn segment<S: Send + Sync, T: FromStr + Noun>(
    parts: &mut Parts,
    state: &S,
    name: &'static str,
) -> Result<T, ApiError> {
    // The one way this fails is a segment that is no UTF-8 once decoded, which is nobody's id.
    let Ok(params) = RawPathParams::from_request_parts(parts, state).await else {
        return Err(ApiError::not_found(T::NOUN, "with an id that is no UTF-8"));
    };
    let text = params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
    text.parse().map_err(|_no_id| ApiError::not_found(T::NOUN, text))
}
