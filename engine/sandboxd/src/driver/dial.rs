//! Requests to the agent of a sandbox, over its socket.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONNECTION, HOST, UPGRADE};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use camino::Utf8PathBuf;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustix::fs::{FileType, Mode, OFlags};
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;

use crate::agent::PORT_PROTOCOL;
use crate::folders::Folders;

/// Where the agent of one sandbox answers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    place: Place,
    tasks: TaskTracker,
}

#[derive(Clone, Debug)]
enum Place {
    /// A socket of the host's making, which the sandbox never sees.
    Own { folders: Arc<Folders>, id: String },
    /// One of the sandbox's making, in a folder of the host that the sandbox may write to.
    Door(Utf8PathBuf),
}

impl Place {
    async fn connect(&self) -> io::Result<UnixStream> {
        match self {
            Self::Own { folders, id } => UnixStream::connect(folders.socket(id)).await,
            Self::Door(path) => {
                // A link in its place could lead to any socket of the host, so what is opened is looked at before it is used.
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let found = rustix::fs::open(path.as_std_path(), flags, Mode::empty())?;
                let kind = FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode);
                if kind != FileType::Socket {
                    return Err(io::Error::other("there is no socket where the agent should answer"));
                }
                UnixStream::connect(format!("/proc/self/fd/{}", found.as_raw_fd())).await
            }
        }
    }
}

/// Why the agent did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialFailure {
    #[error("cannot connect to the agent of the sandbox")]
    Connect(#[source] std::io::Error),
    #[error("the agent of the sandbox did not answer")]
    Answer(#[source] hyper::Error),
    #[error("the agent of the sandbox answered {0}")]
    Refused(StatusCode),
}

impl Dial {
    /// The agent answers on the socket that the host made for it.
    pub(crate) fn to_own_socket(folders: Arc<Folders>, id: String, tasks: TaskTracker) -> Self {
        Self { place: Place::Own { folders, id }, tasks }
    }

    /// The agent answers on this socket, which the sandbox has made.
    pub(crate) fn to_door(socket: Utf8PathBuf, tasks: TaskTracker) -> Self {
        Self { place: Place::Door(socket), tasks }
    }

    /// A connection and nothing more.
    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        self.place.connect().await
    }

    /// Sends a request. Its connection is its own, and ends with its answer: a stream that nobody reads any more is noticed at once.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, DialFailure> {
        let connection = self.place.connect().await.map_err(DialFailure::Connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(connection)).await.map_err(DialFailure::Answer)?;
        self.tasks.spawn(async move {
            // How it ended shows in the request's own answer.
            let _ended = connection.with_upgrades().await;
        });
        request.headers_mut().insert(HOST, HeaderValue::from_static("sandbox"));
        sender.send_request(request).await.map_err(DialFailure::Answer)
    }

    /// A connection to a program in the sandbox; `None` when nothing listens on the port.
    pub(crate) async fn port(&self, port: u16) -> Result<Option<Upgraded>, DialFailure> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = format!("/ports/{port}").parse().expect("a number makes a path");
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static(PORT_PROTOCOL));
        let response = self.send(request).await?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                hyper::upgrade::on(response).await.map(Some).map_err(DialFailure::Answer)
            }
            StatusCode::BAD_GATEWAY => Ok(None),
            other => Err(DialFailure::Refused(other)),
        }
    }
}
