//! Why an engine could not be asked, in kinds that a command treats differently.

use std::io;
use std::path::PathBuf;

use crate::output::{Exit, Failure};

/// Why an engine gave no answer, or not the one that was asked for. No text holds a key.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The address is no address of an engine.
    #[error("`{url}` cannot be the base URL of an engine")]
    NoBase {
        /// As it was given.
        url: String,
    },
    /// No HTTP client could be made.
    #[error("could not set up an HTTP client")]
    Client(#[source] reqwest::Error),
    /// Nobody answered, or the connection broke.
    #[error("no engine answers at `{url}`")]
    Silent {
        /// The base URL.
        url: String,
        /// Why.
        #[source]
        source: reqwest::Error,
    },
    /// Somebody answered who is no engine.
    #[error("what answers at `{url}` is no engine")]
    Stranger {
        /// The base URL.
        url: String,
    },
    /// The answer was no JSON of the expected shape.
    #[error("`{url}` gave an answer that cannot be read; is it an engine of another version?")]
    Garbled {
        /// The base URL.
        url: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The engine refused.
    #[error("the engine refused: {message}")]
    Refused {
        /// The status of the answer.
        status: u16,
        /// The kind of refusal, such as `invalid_request_error`, `authentication_error`, `not_found_error` or
        /// `conflict_error`.
        kind: String,
        /// The engine's words.
        message: String,
        /// The id under which the engine's log tells of the request.
        request_id: String,
    },
    /// A file that was to be uploaded cannot be read.
    #[error("`{}` cannot be read", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The stream of events broke and could not be taken up again.
    #[error("the events of session `{session}` stopped coming, and {attempts} attempts to go on failed")]
    StreamLost {
        /// The session.
        session: String,
        /// How often it was tried.
        attempts: u32,
        /// Why the last attempt failed.
        #[source]
        source: Box<Self>,
    },
    /// A frame of the stream of events was not one.
    #[error("the stream of events broke")]
    Stream(#[source] sse_stream::Error),
    /// The engine closed the stream of events.
    #[error("the engine closed the stream of events")]
    StreamClosed,
    /// Nothing came for longer than an engine that lives is ever silent.
    #[error("no sign of life came for {seconds} s")]
    StreamSilent {
        /// How long.
        seconds: u64,
    },
}

impl EngineError {
    /// Whether the same request may go well a moment later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Silent { .. } | Self::Stream(_) | Self::StreamClosed | Self::StreamSilent { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::NoBase { .. }
            | Self::Client(_)
            | Self::Stranger { .. }
            | Self::Garbled { .. }
            | Self::File { .. }
            | Self::StreamLost { .. } => false,
        }
    }

    /// How a command ends for which this is the end.
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoBase { .. } | Self::File { .. } | Self::Refused { status: 401 | 403, .. } => Exit::Usage,
            Self::Client(_) => Exit::Internal,
            Self::Refused { status: ..500, .. } => Exit::Unhealthy,
            Self::Refused { .. }
            | Self::Silent { .. }
            | Self::Stranger { .. }
            | Self::Garbled { .. }
            | Self::Stream(_)
            | Self::StreamClosed
            | Self::StreamSilent { .. }
            | Self::StreamLost { .. } => Exit::Unreachable,
        }
    }

    fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoBase { .. } => Some("write it as `http://HOST:PORT`, without `/v1`"),
            Self::Silent { .. } | Self::Stranger { .. } => {
                Some("start one with `ambientctl serve`, or name another with `--url`")
            }
            Self::Refused { status: 401 | 403, .. } => {
                Some("the key is the engine's `API_KEY`; give it with `--api-key`")
            }
            Self::Client(_)
            | Self::Garbled { .. }
            | Self::Refused { .. }
            | Self::File { .. }
            | Self::Stream(_)
            | Self::StreamClosed
            | Self::StreamSilent { .. }
            | Self::StreamLost { .. } => None,
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let (exit, remedy) = (error.exit(), error.remedy());
        let failure = Self::new(exit, error);
        match remedy {
            Some(remedy) => failure.hint(remedy),
            None => failure,
        }
    }
}
