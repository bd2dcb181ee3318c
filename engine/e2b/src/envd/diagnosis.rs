//! What a failure of the agent means, above all: is the sandbox gone?

use super::agent::{Envd, Health};
use crate::error::Error;
use crate::protocol::connect::{Code, ConnectError};

/// Words of the proxy in front of sandboxes. They are part of the protocol.
const GONE: &str = "was not found";
const SHUT: &str = "port is not open";

impl Envd {
    /// The error of a failed RPC or file request.
    pub(crate) async fn rpc_error(&self, error: ConnectError) -> Error {
        let ConnectError { code, message } = error;
        match code {
            Code::Unavailable if message.contains(GONE) || message.contains(SHUT) => self.lost(message),
            Code::Unavailable => self.diagnose(Error::Unavailable { status: 503, message }).await,
            Code::NotFound => Error::NotFound { message },
            Code::AlreadyExists => Error::AlreadyExists { message },
            Code::InvalidArgument | Code::OutOfRange => Error::InvalidArgument { message },
            Code::Unauthenticated => Error::TokenRefused { message },
            Code::PermissionDenied => Error::PermissionDenied { message },
            Code::ResourceExhausted => Error::RateLimited { message, retry_after: None },
            Code::FailedPrecondition | Code::Aborted => Error::Conflict { message },
            Code::DeadlineExceeded => Error::RequestTimedOut { limit: self.config().request_timeout },
            Code::Canceled | Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss => {
                Error::Rpc { code, message }
            }
        }
    }

    /// Finds out whether a failure is the sandbox's end: a probe that is refused or not answered says so, a good one leaves the failure what it was.
    pub(crate) async fn diagnose(&self, failure: Error) -> Error {
        match self.health().await {
            Health::Good => failure,
            Health::Gone(message) | Health::Silent(message) => self.lost(message),
        }
    }

    pub(crate) fn lost(&self, message: String) -> Error {
        Error::SandboxLost { sandbox_id: self.sandbox_id().to_owned(), message }
    }
}
