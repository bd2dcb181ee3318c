//! Requests to the agent of a sandbox, over its socket.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::header::{CONNECTION, HOST, UPGRADE};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use bytes::Bytes;
use camino::Utf8PathBuf;
use http_body::{Body as HttpBody, Frame, SizeHint};
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
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, DialFailure> {
        let (mut sender, connection) = self.open().await?;
        let mut connection = Some(Box::new(connection));
        let mut answered = pin!(sender.send_request(to_agent(request)));
        let answer = poll_fn(|context| match answered.as_mut().poll(context) {
            Poll::Pending if carry(&mut connection, context) => answered.as_mut().poll(context),
            answer => answer,
        });
        let answer = answer.await.map_err(DialFailure::Answer)?;
        Ok(answer.map(|body| Answer { body, connection }))
    }

    /// A connection to a program in the sandbox; `None` when nothing listens on the port.
    pub(crate) async fn port(&self, port: u16) -> Result<Option<Upgraded>, DialFailure> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = format!("/ports/{port}").parse().expect("a number makes a path");
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static(PORT_PROTOCOL));
        let (mut sender, connection) = self.open().await?;
        self.tasks.spawn(async move {
            // How it ended shows in the request's own answer.
            let _ended = connection.with_upgrades().await;
        });
        let response = sender.send_request(to_agent(request)).await.map_err(DialFailure::Answer)?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                hyper::upgrade::on(response).await.map(Some).map_err(DialFailure::Answer)
            }
            StatusCode::BAD_GATEWAY => Ok(None),
            other => Err(DialFailure::Refused(other)),
        }
    }

    async fn open(&self) -> Result<(http1::SendRequest<Body>, Connection), DialFailure> {
        let connection = self.place.connect().await.map_err(DialFailure::Connect)?;
        http1::handshake(TokioIo::new(connection)).await.map_err(DialFailure::Answer)
    }
}

fn to_agent(mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert(HOST, HeaderValue::from_static("sandbox"));
    request
}

type Connection = http1::Connection<TokioIo<UnixStream>, Body>;

/// Moves bytes over a connection that is still there; `false` when it is gone. How it ended shows in the request's own answer.
fn carry(connection: &mut Option<Box<Connection>>, context: &mut Context<'_>) -> bool {
    let Some(open) = connection else { return false };
    if Pin::new(open).poll(context).is_ready() {
        *connection = None;
    }
    true
}

/// The body of an answer. It takes its connection along: whoever reads the one moves the other, without a task in between, and both go at once.
pub(crate) struct Answer {
    body: Incoming,
    connection: Option<Box<Connection>>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending if carry(&mut self.connection, context) => Pin::new(&mut self.body).poll_frame(context),
            frame => frame,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
