//! Requests to the agent of a sandbox, over its socket.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CONNECTION, HOST, UPGRADE};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_util::task::TaskTracker;

use crate::agent::PORT_PROTOCOL;
use crate::folders::Folders;

/// Where the agent of one sandbox answers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    folders: Arc<Folders>,
    id: String,
    tasks: TaskTracker,
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
    pub(super) fn new(folders: Arc<Folders>, id: String, tasks: TaskTracker) -> Self {
        Self { folders, id, tasks }
    }

    /// Sends a request. Its connection is its own, and ends with its answer: a stream that nobody reads any more is noticed at once.
    pub(crate) async fn send(&self, mut request: Request<Body>) -> Result<Response<Incoming>, DialFailure> {
        let connection = UnixStream::connect(self.folders.socket(&self.id)).await.map_err(DialFailure::Connect)?;
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
