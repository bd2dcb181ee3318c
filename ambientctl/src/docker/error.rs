//! What can go wrong between us and the Docker engine. No text shows a value of the environment.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bollard::errors::Error;

use crate::compose::ComposeError;

/// A failure of Docker, or of a stack on it.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// No engine anywhere.
    #[error("docker is missing: there is nothing at {}", list(.0))]
    Missing(Vec<String>),
    /// An engine that does not let us in.
    #[error("docker refused: `{address}` does not let this user in")]
    Refused {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something is there that does not answer.
    #[error("docker is silent: `{address}` is there, and nobody answers")]
    Silent {
        /// Where.
        address: String,
        /// Why.
        #[source]
        source: Option<io::Error>,
    },
    /// An engine over TLS that does not trust us, or that we do not trust.
    #[error("docker does not speak TLS with us at `{address}`: {problem}")]
    Tls {
        /// Where.
        address: String,
        /// What is wrong.
        problem: String,
    },
    /// Another machine that ssh does not get to, or that has no docker.
    #[error("docker is silent: ssh does not reach it at `{address}`")]
    Ssh {
        /// Where.
        address: String,
        /// What ssh says.
        #[source]
        source: io::Error,
    },
    /// An address of a kind that we do not speak.
    #[error(
        "`{address}` (from {origin}) cannot be used: addresses look like `unix:///PATH`, `tcp://HOST:PORT` or `ssh://USER@HOST:PORT`"
    )]
    Address {
        /// The address.
        address: String,
        /// Who named it.
        origin: String,
    },
    /// A context that is not there or cannot be read.
    #[error("the docker context `{name}` (from {origin}) {problem}: `{}`", path.display())]
    Context {
        /// The name.
        name: String,
        /// Who named it.
        origin: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// Where it would be.
        path: PathBuf,
    },
    /// A call that the engine did not grant.
    #[error("could not {what}")]
    Call {
        /// What was tried.
        what: String,
        /// The engine's words.
        #[source]
        source: Error,
    },
    /// The files do not give a model.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A key that we do not apply.
    #[error("`services.{service}.{key}` is not applied by ambientctl, so nothing was done")]
    NotApplied {
        /// The service.
        service: String,
        /// The key below it.
        key: String,
    },
    /// A value that the engine would not take.
    #[error("`services.{service}.{key}` {problem}")]
    Value {
        /// The service.
        service: String,
        /// The key below it.
        key: String,
        /// What is wrong.
        problem: String,
    },
    /// An image that could not be had.
    #[error("could not get the image `{image}` of `{service}`: {problem}")]
    Image {
        /// The image.
        image: String,
        /// Whose.
        service: String,
        /// The engine's or the registry's words.
        problem: String,
    },
    /// A network or volume that is somebody else's and has to be there.
    #[error("the {kind} `{name}` is `external` and is not there")]
    External {
        /// `network` or `volume`.
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A network that is not what the files say.
    #[error("the network `{0}` is not what the compose files say any more")]
    Network(String),
    /// A port that somebody else has.
    #[error("`{service}` cannot have port {port}: {holder}")]
    Port {
        /// Whose port it would be.
        service: String,
        /// Address and port.
        port: String,
        /// Who has it.
        holder: String,
    },
    /// A container that did not become what it should.
    #[error("`{service}` {problem}")]
    Unwell {
        /// The service.
        service: String,
        /// What was seen.
        problem: String,
        /// The last lines of its health checks and of its log.
        lines: Vec<String>,
    },
    /// Not in time.
    #[error("not healthy within {} s: {}", limit.as_secs(), list(services))]
    TimedOut {
        /// How long was waited.
        limit: Duration,
        /// The services that were not, with what they were.
        services: Vec<String>,
        /// The last lines of the first one.
        lines: Vec<String>,
    },
    /// A service that is not part of the stack.
    #[error("the stack has no service `{name}`; it has {}", list(known))]
    NoService {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
}

impl DockerError {
    /// A call that failed.
    pub(super) fn call(what: impl Into<String>) -> impl FnOnce(Error) -> Self {
        let what = what.into();
        move |source| Self::Call { what, source }
    }

    /// What a container said last, where that explains the failure.
    pub fn lines(&self) -> &[String] {
        match self {
            Self::Unwell { lines, .. } | Self::TimedOut { lines, .. } => lines,
            _ => &[],
        }
    }
}

/// Whether the engine says that something is not there.
pub(super) fn is_absent(error: &Error) -> bool {
    status(error) == Some(404)
}

/// The engine's status.
pub(super) fn status(error: &Error) -> Option<u16> {
    if let Error::DockerResponseServerError { status_code, .. } = error { Some(*status_code) } else { None }
}

fn list(items: &[String]) -> String {
    if items.is_empty() {
        return "none".to_owned();
    }
    items.iter().map(|item| format!("`{item}`")).collect::<Vec<_>>().join(", ")
}
