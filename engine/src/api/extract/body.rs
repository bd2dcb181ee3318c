//! JSON bodies: bounded in size, and refused with the line and column where they are no JSON.
//!
//! The content type is not looked at: the SDKs send `application/json` with bodies and without, and what is no JSON is
//! refused for that. An empty body is an empty object, since archive and delete come so.

use axum::extract::{FromRequest, Request};
use axum::http::header;
use http_body_util::{BodyExt, Limited};

use super::fields::Fields;
use crate::api::error::ApiError;

/// Enough for any agent: its longest parts are a system prompt and tool schemas.
pub const SMALL_BODY_BYTES: usize = 1 << 20;

/// Messages may carry pictures as base64.
pub const EVENTS_BODY_BYTES: usize = 32 << 20;

/// The body as a JSON object of at most `LIMIT` bytes.
#[derive(Debug)]
pub struct Body<const LIMIT: usize = SMALL_BODY_BYTES>(pub Fields);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for Body<LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        body_bytes(request, LIMIT).await.and_then(|bytes| Fields::of_body(&bytes)).map(Self)
    }
}

/// The body as it came.
///
/// # Errors
/// When it is larger than `limit` bytes, or cut off.
pub async fn body_bytes(request: Request, limit: usize) -> Result<bytes::Bytes, ApiError> {
    let too_large =
        || ApiError::TooLarge { what: "the request body", limit_bytes: limit as u64, remedy: "; send less at once" };
    let announced = request.headers().get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = request.into_body();
    if announced.is_some_and(|length: u64| length > limit as u64) {
        return Err(too_large());
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Err(_cut) => Err(ApiError::invalid("the request body was cut off before its end; send it again")),
    }
}
