//! Requests to the agent of a sandbox, over its socket.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd as _;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// Connections that are kept for one sandbox: as many as it usually has requests at a time.
const KEPT_LINES: usize = 4;

/// Where the agent of one sandbox answers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    place: Place,
    lines: Lines,
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
        Self { place: Place::Own { folders, id }, lines: Lines::default(), tasks }
    }

    /// The agent answers on this socket, which the sandbox has made.
    pub(crate) fn to_door(socket: Utf8PathBuf, tasks: TaskTracker) -> Self {
        Self { place: Place::Door(socket), lines: Lines::default(), tasks }
    }

    /// A connection and nothing more.
    pub(crate) async fn connect(&self) -> io::Result<UnixStream> {
        self.place.connect().await
    }

    /// Sends a request. A connection is for one at a time, and ends with an answer that is not read to its end: the agent notices at once that
    /// nobody reads a stream any more.
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Answer>, DialFailure> {
        let mut line = if let Some(line) = self.kept().await {
            line
        } else {
            let (sender, connection) = self.open().await?;
            Line { sender, connection: Some(Box::new(connection)) }
        };
        let mut answered = pin!(line.sender.send_request(to_agent(request)));
        let connection = &mut line.connection;
        let answer = poll_fn(|context| match answered.as_mut().poll(context) {
            Poll::Pending if carry(connection, context) => answered.as_mut().poll(context),
            answer => answer,
        });
        let answer = answer.await.map_err(DialFailure::Answer)?;
        Ok(answer.map(|body| Answer { body, line: Some(line), lines: Arc::clone(&self.lines) }))
    }

    /// A connection that an earlier answer left, if the agent still holds the other end.
    async fn kept(&self) -> Option<Line> {
        loop {
            let mut line = lock(&self.lines).pop()?;
            // What came of it while nobody looked shows when it is moved.
            poll_fn(|context| Poll::Ready(carry(&mut line.connection, context))).await;
            if line.is_free() {
                return Some(line);
            }
        }
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

/// Connections that wait for the next request.
type Lines = Arc<Mutex<Vec<Line>>>;

fn lock(lines: &Mutex<Vec<Line>>) -> MutexGuard<'_, Vec<Line>> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection to the agent, moved by whoever waits for something that comes over it: no task stands in between.
#[derive(Debug)]
struct Line {
    sender: http1::SendRequest<Body>,
    connection: Option<Box<Connection>>,
}

impl Line {
    /// Whether nothing is under way on it, and it is still there.
    fn is_free(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Moves bytes over a connection that is still there; `false` when it is gone. How it ended shows in the request's own answer.
fn carry(connection: &mut Option<Box<Connection>>, context: &mut Context<'_>) -> bool {
    let Some(open) = connection else { return false };
    if Pin::new(open).poll(context).is_ready() {
        *connection = None;
    }
    true
}

/// The body of an answer. It takes its connection along, and leaves it to the next request when it has been read to its end.
#[derive(Debug)]
pub(crate) struct Answer {
    body: Incoming,
    line: Option<Line>,
    lines: Lines,
}

impl Answer {
    fn carry(&mut self, context: &mut Context<'_>) -> bool {
        self.line.as_mut().is_some_and(|line| carry(&mut line.connection, context))
    }

    fn leave_line(&mut self) {
        let mut lines = lock(&self.lines);
        if lines.len() < KEPT_LINES {
            lines.extend(self.line.take_if(|line| line.is_free()));
        }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut frame = Pin::new(&mut self.body).poll_frame(context);
        if frame.is_pending() && self.carry(context) {
            frame = Pin::new(&mut self.body).poll_frame(context);
        }
        if matches!(frame, Poll::Ready(None)) || (frame.is_ready() && self.body.is_end_stream()) {
            self.carry(context);
            self.leave_line();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::Router;
    use axum::body::Body;
    use axum::http::Request;
    use axum::routing::get;
    use axum::serve::ListenerExt as _;
    use bytes::Bytes;
    use camino::Utf8PathBuf;
    use futures::{StreamExt as _, stream};
    use http_body_util::BodyExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;
    use tokio::sync::Notify;
    use tokio_util::task::{AbortOnDropHandle, TaskTracker};

    use super::Dial;

    /// Says when it is dropped.
    struct Told(Arc<Notify>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }

    /// An agent that counts who connects to it.
    struct Agent {
        dial: Dial,
        connections: Arc<AtomicUsize>,
        left_alone: Arc<Notify>,
        _served: AbortOnDropHandle<()>,
    }

    impl Agent {
        fn start(socket: &Utf8PathBuf) -> Self {
            let (connections, left_alone) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
            let endless = {
                let left_alone = Arc::clone(&left_alone);
                move || async move {
                    let told = Told(left_alone);
                    let first = stream::once(async { Ok::<_, std::io::Error>(Bytes::from_static(b"first")) });
                    Body::from_stream(first.chain(stream::once(async move {
                        let _told = told;
                        std::future::pending().await
                    })))
                }
            };
            let parts = || async { Body::from_stream(stream::iter([Ok::<_, std::io::Error>("one"), Ok("two")])) };
            let routes = Router::new()
                .route("/whole", get(|| async { "onetwo" }))
                .route("/parts", get(parts))
                .route("/endless", get(endless));
            let counted = Arc::clone(&connections);
            let listener = UnixListener::bind(socket).unwrap().tap_io(move |_connection| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            let tasks = TaskTracker::new();
            let served = tasks.spawn(async move { axum::serve(listener, routes).await.unwrap() });
            let dial = Dial::to_door(socket.clone(), tasks);
            Self { dial, connections, left_alone, _served: AbortOnDropHandle::new(served) }
        }

        fn connections(&self) -> usize {
            self.connections.load(Ordering::Relaxed)
        }
    }

    async fn read(dial: &Dial, path: &str) -> Bytes {
        let answer = dial.send(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    }

    fn socket() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("agent")).unwrap();
        (folder, path)
    }

    #[tokio::test]
    async fn answers_that_were_read_leave_their_connection_to_the_next() {
        let (_folder, socket) = socket();
        let agent = Agent::start(&socket);
        for path in ["/whole", "/parts", "/parts", "/whole"] {
            assert_eq!(read(&agent.dial, path).await, "onetwo", "{path}");
        }
        assert_eq!(agent.connections(), 1);
        let at_once = futures::future::join_all((0..8).map(|_| read(&agent.dial, "/parts"))).await;
        assert!(at_once.iter().all(|answer| answer == "onetwo"), "{at_once:?}");
    }

    #[tokio::test]
    async fn an_agent_notices_that_nobody_reads_any_more() {
        let (_folder, socket) = socket();
        let agent = Agent::start(&socket);
        let request = Request::get("/endless").body(Body::empty()).unwrap();
        let mut answer = agent.dial.send(request).await.unwrap().into_body();
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
        drop(answer);
        agent.left_alone.notified().await;
        assert_eq!(read(&agent.dial, "/whole").await, "onetwo");
        assert_eq!(agent.connections(), 2);
    }

    #[tokio::test]
    async fn a_connection_whose_other_end_is_gone_is_not_used() {
        let (_folder, socket) = socket();
        let listener = UnixListener::bind(&socket).unwrap();
        let dial = Dial::to_door(socket, TaskTracker::new());
        let ends_without_a_word = async {
            for _ in 0..3 {
                let (mut connection, _client) = listener.accept().await.unwrap();
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    assert_ne!(connection.read_buf(&mut request).await.unwrap(), 0);
                }
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nonetwo").await.unwrap();
            }
        };
        let asks = async {
            for _ in 0..3 {
                assert_eq!(read(&dial, "/whole").await, "onetwo");
                // The other end has its turn to close.
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(ends_without_a_word, asks);
    }
}
