//! The one error of the HTTP surface.
//!
//! Status and `error.type` are contract: the SDKs raise their typed errors by them. [`IntoResponse`] only puts the error
//! into the response's extensions; [`super::answer`], the outermost layer, knows the request id and writes the body.
//! Causes that are not the client's business go to the log, never into the body.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::broker::BrokerError;
use crate::store::StoreError;

/// A cause for the log.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// What the client sent is wrong; the message names the field and what is accepted.
    #[error("{message}")]
    Invalid {
        /// For the client.
        message: String,
        /// The SDK's `details.error_code`, where it has one.
        code: Option<&'static str>,
    },
    /// No key came with the request.
    #[error("missing x-api-key (or Authorization: Bearer) header")]
    MissingKey,
    /// Another key came.
    #[error("api key does not match settings.api_key")]
    WrongKey,
    /// There is no such thing.
    #[error("{noun} {id} not found")]
    NotFound {
        /// `agent`, `file`, …
        noun: &'static str,
        /// As the client wrote it, shortened.
        id: String,
        /// The SDK's `details.error_code`, where it has one.
        code: Option<&'static str>,
    },
    /// The request names something that is not there.
    #[error("{message}")]
    Unknown {
        /// For the client.
        message: String,
    },
    /// The engine takes no new work.
    #[error("{message}")]
    ShuttingDown {
        /// For the client.
        message: String,
    },
    /// There is no such route.
    #[error("no route `{method} {path}`{hint}")]
    NoRoute {
        /// As sent.
        method: Method,
        /// As sent, shortened.
        path: String,
        /// What may have been meant.
        hint: &'static str,
    },
    /// The route is there, but not for this method.
    #[error("method `{method}` is not allowed on `{path}`")]
    WrongMethod {
        /// As sent.
        method: Method,
        /// As sent, shortened.
        path: String,
    },
    /// The thing is in a state that does not allow it.
    #[error("{message}")]
    Conflict {
        /// For the client.
        message: String,
        /// Whether trying again by itself helps.
        again: Again,
    },
    /// The body is larger than the route takes.
    #[error("{what} is larger than the limit of {limit_bytes} bytes{remedy}")]
    TooLarge {
        /// `the request body`, `the uploaded file`.
        what: &'static str,
        /// The limit.
        limit_bytes: u64,
        /// What helps, with its separator.
        remedy: &'static str,
    },
    /// The asked range holds no byte.
    #[error("the range lies outside of the file, which has {size_bytes} bytes")]
    Range {
        /// Of the file.
        size_bytes: u64,
    },
    /// Something that the engine needs does not answer.
    #[error("{what} is not available; try again shortly")]
    Unavailable {
        /// `the database`, `the broker`.
        what: &'static str,
        /// For the log.
        #[source]
        source: Cause,
    },
    /// The engine's disk has no room.
    #[error("the engine's disk is full: free space in `VIDEO_FOLDER` and upload again")]
    DiskFull,
    /// The request took longer than requests may.
    #[error("the engine did not finish within {} seconds", limit.as_secs())]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The engine failed; a bug, or a broken machine.
    #[error("the engine could not {doing}; its log says why, under this request id")]
    Internal {
        /// What was attempted.
        doing: &'static str,
        /// For the log.
        #[source]
        source: Cause,
    },
    /// A handler panicked; the panic itself is logged where it happened.
    #[error("the engine met a fault of its own; its log says which")]
    Panicked,
}

/// Whether the SDK is to repeat a conflicting request by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The conflict is for the caller to settle.
    Never,
    /// It passes by itself.
    After(Duration),
}

impl ApiError {
    /// What the client sent is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), code: None }
    }

    /// What the client sent is wrong, in a way that the SDK has a class for.
    pub fn invalid_as(code: &'static str, message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), code: Some(code) }
    }

    /// There is no such thing.
    pub fn not_found(noun: &'static str, id: impl AsRef<str>) -> Self {
        Self::NotFound { noun, id: shortened(id.as_ref()), code: None }
    }

    /// A conflict that the caller has to settle.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::Conflict { message: message.into(), again: Again::Never }
    }

    /// The engine failed.
    pub fn internal(doing: &'static str, source: impl Into<Cause>) -> Self {
        Self::Internal { doing, source: source.into() }
    }

    /// The SDKs raise their typed errors by these two: contract, not wording.
    pub fn contract(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid { .. } => (StatusCode::BAD_REQUEST, "invalid_request_error"),
            Self::MissingKey | Self::WrongKey => (StatusCode::UNAUTHORIZED, "authentication_error"),
            Self::NotFound { .. } | Self::Unknown { .. } | Self::NoRoute { .. } => {
                (StatusCode::NOT_FOUND, "not_found_error")
            }
            Self::WrongMethod { .. } => (StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error"),
            Self::Conflict { .. } => (StatusCode::CONFLICT, "conflict_error"),
            Self::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error"),
            Self::Range { .. } => (StatusCode::RANGE_NOT_SATISFIABLE, "invalid_request_error"),
            Self::Unavailable { .. } | Self::ShuttingDown { .. } => {
                (StatusCode::SERVICE_UNAVAILABLE, "overloaded_error")
            }
            Self::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, "api_error"),
            Self::TimedOut { .. } => (StatusCode::GATEWAY_TIMEOUT, "timeout_error"),
            Self::Internal { .. } | Self::Panicked => (StatusCode::INTERNAL_SERVER_ERROR, "api_error"),
        }
    }

    /// The SDK's `details.error_code`.
    fn code(&self) -> Option<&'static str> {
        match self {
            Self::Invalid { code, .. } | Self::NotFound { code, .. } => *code,
            Self::DiskFull => Some("storage_quota_exceeded"),
            Self::MissingKey
            | Self::WrongKey
            | Self::Unknown { .. }
            | Self::NoRoute { .. }
            | Self::WrongMethod { .. }
            | Self::Conflict { .. }
            | Self::TooLarge { .. }
            | Self::Range { .. }
            | Self::ShuttingDown { .. }
            | Self::Unavailable { .. }
            | Self::TimedOut { .. }
            | Self::Internal { .. }
            | Self::Panicked => None,
        }
    }

    /// The body, once the request has an id.
    pub fn body(&self, request_id: &str) -> ErrorBody {
        ErrorBody {
            kind: "error",
            error: ErrorInfo {
                kind: self.contract().1,
                message: self.to_string(),
                details: self.code().map(|error_code| ErrorDetails { error_code }),
            },
            request_id: request_id.to_owned(),
        }
    }

    /// Logs what the client is not told.
    pub fn log(&self, request_id: &str) {
        match self {
            Self::Unavailable { what, source } => {
                tracing::warn!(request.id = request_id, error = %crate::store::chain(source.as_ref()), "{what} is not available");
            }
            Self::Internal { doing, source } => {
                tracing::error!(request.id = request_id, error = %crate::store::chain(source.as_ref()), "could not {doing}");
            }
            Self::Panicked => tracing::error!(request.id = request_id, "a request handler panicked"),
            Self::DiskFull => tracing::error!(request.id = request_id, "the disk of `VIDEO_FOLDER` is full"),
            Self::TimedOut { limit } => {
                tracing::warn!(request.id = request_id, limit = ?limit, "a request took too long and was dropped");
            }
            Self::Invalid { .. }
            | Self::MissingKey
            | Self::WrongKey
            | Self::NotFound { .. }
            | Self::Unknown { .. }
            | Self::NoRoute { .. }
            | Self::WrongMethod { .. }
            | Self::Conflict { .. }
            | Self::TooLarge { .. }
            | Self::ShuttingDown { .. }
            | Self::Range { .. } => tracing::debug!(request.id = request_id, error = %self, "a request was refused"),
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(source: StoreError) -> Self {
        Arc::new(source).into()
    }
}

/// A failure that several requests share.
impl From<Arc<StoreError>> for ApiError {
    fn from(source: Arc<StoreError>) -> Self {
        match *source {
            StoreError::Unavailable(_) | StoreError::Busy { .. } | StoreError::Connect { .. } => {
                Self::Unavailable { what: "the database", source: source.into() }
            }
            StoreError::Query(_)
            | StoreError::Pending { .. }
            | StoreError::Migrate(_)
            | StoreError::Address { .. }
            | StoreError::Corrupt { .. } => Self::internal("use its database", source),
        }
    }
}

impl From<BrokerError> for ApiError {
    fn from(source: BrokerError) -> Self {
        match source {
            BrokerError::Unavailable(_) | BrokerError::Connect { .. } => {
                Self::Unavailable { what: "the broker", source: source.into() }
            }
            BrokerError::Address { .. } => Self::internal("use its broker", source),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.contract().0.into_response();
        let headers = response.headers_mut();
        let again = match &self {
            Self::Conflict { again, .. } => Some(*again),
            Self::Unavailable { .. } | Self::ShuttingDown { .. } => Some(Again::After(Duration::from_secs(1))),
            // A second try would send gigabytes again for the same answer.
            Self::DiskFull => Some(Again::Never),
            Self::Invalid { .. }
            | Self::MissingKey
            | Self::WrongKey
            | Self::NotFound { .. }
            | Self::Unknown { .. }
            | Self::NoRoute { .. }
            | Self::WrongMethod { .. }
            | Self::TooLarge { .. }
            | Self::Range { .. }
            | Self::TimedOut { .. }
            | Self::Internal { .. }
            | Self::Panicked => None,
        };
        match again {
            Some(Again::Never) => {
                headers.insert("x-should-retry", HeaderValue::from_static("false"));
            }
            Some(Again::After(wait)) => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs().max(1)));
            }
            None => {}
        }
        match &self {
            Self::Range { size_bytes } => {
                if let Ok(value) = HeaderValue::from_str(&format!("bytes */{size_bytes}")) {
                    headers.insert(header::CONTENT_RANGE, value);
                }
            }
            Self::MissingKey | Self::WrongKey => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// The body of every answer that is no success.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Error)]
pub struct ErrorBody {
    /// Always `error`.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "error")]
    pub kind: &'static str,
    /// What went wrong.
    pub error: ErrorInfo,
    /// The id of the request, which is in the `request-id` header and in the engine's log too.
    pub request_id: String,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorInfo {
    /// Which kind: `invalid_request_error`, `authentication_error`, `not_found_error`, `conflict_error`,
    /// `overloaded_error`, `timeout_error` or `api_error`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// What happened and how to mend it.
    pub message: String,
    /// A finer name, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<ErrorDetails>,
}

/// A finer name for an error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetails {
    /// Such as `environment_archived`.
    #[schema(value_type = String)]
    pub error_code: &'static str,
}

/// A client's text, short enough for a message.
pub fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
