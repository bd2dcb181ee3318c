//! What can go wrong, told apart by what a caller does about it.

use std::io;
use std::time::Duration;

use crate::config::BadConfig;
use crate::protocol::connect::Code;

/// A failed call. No text holds a key or token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No key was given, and the call needs one.
    #[error("no E2B key is set; set `E2B_API_KEY`")]
    KeyMissing,
    /// The service does not take the key.
    #[error("the E2B key was refused: {message}")]
    KeyRefused {
        /// The service's words.
        message: String,
    },
    /// The agent of the sandbox does not take the token.
    #[error("the sandbox refused its token or user: {message}")]
    TokenRefused {
        /// The agent's words.
        message: String,
    },
    /// The settings cannot be used.
    #[error("the settings of the E2B client cannot be used")]
    Config(#[from] BadConfig),
    /// No template of this name, or no build of it is ready.
    #[error("template `{template}` cannot be used: {message}")]
    TemplateUnknown {
        /// The name that was asked for.
        template: String,
        /// The service's words.
        message: String,
    },
    /// The template is another team's and not public.
    #[error("template `{template}` belongs to another team: {message}")]
    TemplateOfAnotherTeam {
        /// The name that was asked for.
        template: String,
        /// The service's words.
        message: String,
    },
    /// Too many requests in a while; trying later helps.
    #[error("the rate limit is reached: {message}")]
    RateLimited {
        /// The service's words.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// As many sandboxes or builds as the plan allows; ending some helps.
    #[error("the quota is reached: {message}")]
    QuotaReached {
        /// The service's words.
        message: String,
    },
    /// The service has no room or does not answer now; trying later helps.
    #[error("the service is not available (status {status}): {message}")]
    Unavailable {
        /// The HTTP status.
        status: u16,
        /// The service's words.
        message: String,
    },
    /// The control plane does not know the sandbox: it was killed, timed out, or is another team's.
    #[error("sandbox `{sandbox_id}` does not exist")]
    SandboxNotFound {
        /// Which one.
        sandbox_id: String,
    },
    /// The sandbox is gone or does not answer; nothing can be asked of it any more.
    #[error("sandbox `{sandbox_id}` is lost: {message}")]
    SandboxLost {
        /// Which one.
        sandbox_id: String,
        /// How that showed.
        message: String,
    },
    /// The command's time was over; the server has ended it.
    #[error("the command took longer than {limit:?}")]
    CommandTimedOut {
        /// What it was given.
        limit: Duration,
    },
    /// The sandbox answers, but the stream has been silent for too long.
    #[error("the stream of sandbox `{sandbox_id}` has been silent for {silence:?}")]
    StreamStalled {
        /// Which one.
        sandbox_id: String,
        /// For how long.
        silence: Duration,
    },
    /// A call took longer than it was given.
    #[error("no answer within {limit:?}")]
    RequestTimedOut {
        /// What it was given.
        limit: Duration,
    },
    /// A call that must not be repeated was sent, and its answer got lost: it may or may not have been done.
    #[error("the answer got lost, so it is not known whether it was done: {message}")]
    AnswerLost {
        /// How it got lost.
        message: String,
    },
    /// No connection could be opened.
    #[error("no connection to `{origin}`")]
    Unreachable {
        /// Whereto.
        origin: String,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A connection broke, though what is at its other end still answers.
    #[error("the connection broke: {message}")]
    Broken {
        /// How.
        message: String,
    },
    /// The other side does not speak the protocol.
    #[error("an answer that is not of the protocol: {message}")]
    Protocol {
        /// What was wrong.
        message: String,
    },
    /// What was asked for is not there: a file, a process, a build, a tag.
    #[error("not found: {message}")]
    NotFound {
        /// The server's words.
        message: String,
    },
    /// What was to be made is there already.
    #[error("exists already: {message}")]
    AlreadyExists {
        /// The server's words.
        message: String,
    },
    /// The request cannot be done, whenever it is asked.
    #[error("invalid: {message}")]
    InvalidArgument {
        /// What is wrong with it.
        message: String,
    },
    /// The team or user may not.
    #[error("not allowed: {message}")]
    PermissionDenied {
        /// The server's words.
        message: String,
    },
    /// Things are in a state in which it cannot be done.
    #[error("not possible now: {message}")]
    Conflict {
        /// The server's words.
        message: String,
    },
    /// The sandbox's disk is full.
    #[error("the disk of the sandbox is full: {message}")]
    NoSpace {
        /// The agent's words.
        message: String,
    },
    /// A build failed.
    #[error("the build failed at step `{step}`: {message}")]
    BuildFailed {
        /// The builder's words.
        message: String,
        /// `base`, `finalize`, or the step's number from 1.
        step: String,
    },
    /// The Dockerfile or the files beside it cannot be made into a build.
    #[error("the template cannot be built as it is: {message}")]
    BadTemplate {
        /// What is wrong with it.
        message: String,
    },
    /// A local file could not be read or written.
    #[error("could not {action}")]
    Io {
        /// What was attempted.
        action: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// An RPC failed of something that has no name above.
    #[error("the sandbox answered `{}`: {message}", code.as_str())]
    Rpc {
        /// Connect's code.
        code: Code,
        /// The agent's words.
        message: String,
    },
    /// The control plane answered with something that has no name above.
    #[error("the service answered {status}: {message}")]
    Api {
        /// The HTTP status.
        status: u16,
        /// The service's words.
        message: String,
        /// The service's finer name of it.
        error_code: Option<String>,
    },
}

/// What to do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Set a key.
    KeyMissing,
    /// Set another key.
    KeyRefused,
    /// Mend the settings.
    Config,
    /// Name another template or build it.
    TemplateUnknown,
    /// Use a template of the key's team, or the key of the template's team.
    TemplateOfAnotherTeam,
    /// Ask less often.
    RateLimited,
    /// End sandboxes, or get a larger plan.
    QuotaReached,
    /// Make a new sandbox.
    SandboxLost,
    /// Give the command more time.
    CommandTimedOut,
    /// Join the command again, or make a new sandbox.
    StreamStalled,
    /// Look whether it was done.
    AnswerLost,
    /// Try later: the service is away, slow or full.
    Unavailable,
    /// The thing is not there.
    NotFound,
    /// The thing is there.
    AlreadyExists,
    /// Ask for something else.
    InvalidArgument,
    /// Ask somebody who may.
    PermissionDenied,
    /// Ask when things have changed.
    Conflict,
    /// Free some space.
    NoSpace,
    /// Mend the template.
    BuildFailed,
    /// Look at the local file.
    Io,
    /// The other side is no E2B, or a newer one.
    Protocol,
    /// Anything else that a server said.
    Other,
}

impl Error {
    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::KeyMissing => ErrorKind::KeyMissing,
            Self::KeyRefused { .. } | Self::TokenRefused { .. } => ErrorKind::KeyRefused,
            Self::Config(_) => ErrorKind::Config,
            Self::TemplateUnknown { .. } => ErrorKind::TemplateUnknown,
            Self::TemplateOfAnotherTeam { .. } => ErrorKind::TemplateOfAnotherTeam,
            Self::RateLimited { .. } => ErrorKind::RateLimited,
            Self::QuotaReached { .. } => ErrorKind::QuotaReached,
            Self::SandboxNotFound { .. } | Self::SandboxLost { .. } => ErrorKind::SandboxLost,
            Self::CommandTimedOut { .. } => ErrorKind::CommandTimedOut,
            Self::StreamStalled { .. } => ErrorKind::StreamStalled,
            Self::AnswerLost { .. } => ErrorKind::AnswerLost,
            Self::Unavailable { .. }
            | Self::RequestTimedOut { .. }
            | Self::Unreachable { .. }
            | Self::Broken { .. } => ErrorKind::Unavailable,
            Self::Protocol { .. } => ErrorKind::Protocol,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::InvalidArgument { .. } => ErrorKind::InvalidArgument,
            Self::PermissionDenied { .. } => ErrorKind::PermissionDenied,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::NoSpace { .. } => ErrorKind::NoSpace,
            Self::BuildFailed { .. } | Self::BadTemplate { .. } => ErrorKind::BuildFailed,
            Self::Io { .. } => ErrorKind::Io,
            Self::Rpc { .. } | Self::Api { .. } => ErrorKind::Other,
        }
    }

    /// Whether the sandbox that was spoken to is gone, so that only a new one helps.
    pub fn is_sandbox_lost(&self) -> bool {
        self.kind() == ErrorKind::SandboxLost
    }
}
