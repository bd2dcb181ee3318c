//! Carries the host's connections to programs that listen in the sandbox.
//!
//! The host asks for `/ports/PORT` on the agent's socket with `Upgrade: port`; after the answer the bytes of both sides are carried as they
//! are. So a port is reached without any address that both networks share, and one bound to loopback is reached too.

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::{HeaderValue, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_util::task::TaskTracker;

/// The protocol that the host names.
pub(crate) const PROTOCOL: &str = "port";

/// Answers 101 and carries, or 502 when nothing listens.
pub(super) async fn carry(port: u16, mut request: Request, tasks: &TaskTracker) -> Response<Body> {
    let mut connection = match TcpStream::connect(("127.0.0.1", port)).await {
        Ok(connection) => connection,
        Err(_nothing_on_the_old_loopback) => match TcpStream::connect(("::1", port)).await {
            Ok(connection) => connection,
            Err(_nobody_listens) => return plain(StatusCode::BAD_GATEWAY),
        },
    };
    let _slower_at_worst = connection.set_nodelay(true);
    let upgrade = hyper::upgrade::on(&mut request);
    tasks.spawn(async move {
        match upgrade.await {
            Ok(host) => {
                let mut host = TokioIo::new(host);
                // Either side may hang up at any time: that is how a carried connection ends.
                let _how_it_ended = tokio::io::copy_bidirectional(&mut host, &mut connection).await;
            }
            Err(error) => tracing::debug!(%error, "the host did not take up a connection to a port"),
        }
    });
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    response
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
