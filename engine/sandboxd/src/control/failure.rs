//! Errors of the control plane, and the status and body of each.

use std::io;

use ambient_e2b::protocol::ErrorBody;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;

use crate::sandboxes::{CreateFailure, TransitionFailure};
use crate::serve::error_body;
use crate::templates::{ArchiveFailure, TemplateFailure};

/// What a call answers when it does not do what was asked.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    message: String,
    code: Option<&'static str>,
}

impl Failure {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), code: None }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }

    /// Of another team, gone, or never there: all the same to the caller.
    pub(super) fn no_sandbox(id: &str) -> Self {
        let message = format!("Sandbox \"{id}\" doesn't exist or you don't have access to it");
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// What the disk did not do. Where that was is for the log of the host alone.
    fn of_disk(failure: &(dyn std::error::Error + 'static), kind: io::ErrorKind) -> Self {
        tracing::error!(error = crate::with_causes(failure), "the disk failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{failure}: {kind}"))
    }

    /// A change that did not come to be.
    pub(super) fn transition(id: &str, failure: &TransitionFailure) -> Self {
        match failure {
            TransitionFailure::Gone => Self::no_sandbox(id),
            TransitionFailure::Paused => {
                Self::conflict(format!("Error pausing sandbox - sandbox '{id}' is already paused"))
            }
            TransitionFailure::Running => Self::conflict(format!("Sandbox {id} is already running")),
            TransitionFailure::Signal(_) | TransitionFailure::Launch(_) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, crate::with_causes(failure))
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response<Body> {
        if self.status.is_server_error() {
            tracing::error!(error = self.message, "a call failed");
        }
        let mut body = ErrorBody::new(self.status.as_u16(), self.message);
        body.error_code = self.code.map(str::to_owned);
        error_body(self.status, &body)
    }
}

impl From<CreateFailure> for Failure {
    fn from(failure: CreateFailure) -> Self {
        let message = crate::with_causes(&failure);
        match failure {
            CreateFailure::TooMany(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, message),
            CreateFailure::Launch(_) => {
                Self { code: Some("sandbox_create_failed"), ..Self::new(StatusCode::INTERNAL_SERVER_ERROR, message) }
            }
        }
    }
}

impl From<TemplateFailure> for Failure {
    fn from(failure: TemplateFailure) -> Self {
        let status = match &failure {
            TemplateFailure::BadName(_)
            | TemplateFailure::BadSize(_)
            | TemplateFailure::ForeignNamespace { .. }
            | TemplateFailure::NoBuild(_)
            | TemplateFailure::NotWaiting
            | TemplateFailure::DefaultTag
            | TemplateFailure::InUse(_) => StatusCode::BAD_REQUEST,
            TemplateFailure::Unknown(_) | TemplateFailure::NoTag { .. } => StatusCode::NOT_FOUND,
            TemplateFailure::Foreign => StatusCode::FORBIDDEN,
            TemplateFailure::TooManyBuilds => StatusCode::TOO_MANY_REQUESTS,
            TemplateFailure::Io(error) => return Self::of_disk(&failure, error.kind()),
        };
        Self::new(status, crate::with_causes(&failure))
    }
}

impl From<ArchiveFailure> for Failure {
    fn from(failure: ArchiveFailure) -> Self {
        let status = match &failure {
            ArchiveFailure::BadHash | ArchiveFailure::CutOff(_) => StatusCode::BAD_REQUEST,
            ArchiveFailure::UnknownAddress => StatusCode::FORBIDDEN,
            ArchiveFailure::Io(error) => return Self::of_disk(&failure, error.kind()),
        };
        Self::new(status, crate::with_causes(&failure))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::Failure;
    use crate::templates::ArchiveFailure;

    #[test]
    fn where_the_disk_failed_is_not_told_to_clients() {
        let full = io::Error::new(io::ErrorKind::StorageFull, "no space at path \"/srv/ambient/sandboxd/t/.tmp1\"");
        let failure = Failure::from(ArchiveFailure::Io(full));
        assert_eq!(failure.message, "the archive cannot be kept: no storage space");
    }
}
