//! Reads on after a refusal, so that a client that still sends gets to hear it: to close a connection with bytes unread throws away the answer
//! too.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::Response;
use axum::middleware::Next;
use futures::StreamExt as _;
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot;

/// What is read at most, and for how long. Who sends more than that has to look for the answer while it sends.
const BYTES: usize = 1 << 20;
const TIME: Duration = Duration::from_secs(1);

/// For a router: what a refused request still sends is read.
pub(crate) async fn are_heard(request: Request, next: Next) -> Response<Body> {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let (back, mut rest) = oneshot::channel();
    let lent = Lent { body: Some(body), back: Some(back) };
    let response = next.run(Request::from_parts(parts, Body::new(lent))).await;
    let refused = response.status().is_client_error() || response.status().is_server_error();
    // Whoever still holds it is still reading it.
    if refused && let Ok(body) = rest.try_recv() {
        let _it_is_long_or_slow = tokio::time::timeout(TIME, read(body)).await;
    }
    response
}

async fn read(body: Body) {
    let mut left = BYTES;
    let mut bytes = body.into_data_stream();
    while left > 0
        && let Some(Ok(chunk)) = bytes.next().await
    {
        left = left.saturating_sub(chunk.len());
    }
}

/// A body that comes back when its reader lets go of it.
struct Lent {
    body: Option<Body>,
    back: Option<oneshot::Sender<Body>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take()) {
            let _nobody_waits_for_it = back.send(body);
        }
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware::from_fn;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::are_heard;

    #[tokio::test]
    async fn a_refusal_is_heard_by_who_still_sends() {
        let refusing = post(|body: axum::body::Body| async move {
            drop(body);
            StatusCode::BAD_REQUEST
        });
        let routes = Router::new().route("/", refusing).layer(from_fn(are_heard));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = axum::serve(listener, routes).into_future();
        let client = async {
            let mut connection = TcpStream::connect(address).await.unwrap();
            let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\n\r\n";
            connection.write_all(head.as_bytes()).await.unwrap();
            for _ in 0..200 {
                connection.write_all(&[b'x'; 1000]).await.expect("the server reads on");
                tokio::task::yield_now().await;
            }
            // The connection goes on after it.
            connection
                .write_all(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
            let mut answers = String::new();
            connection.read_to_string(&mut answers).await.unwrap();
            assert_eq!(answers.matches("HTTP/1.1 400").count(), 2, "{answers}");
        };
        tokio::select! {
            ended = server => panic!("{ended:?}"),
            () = client => {}
        }
    }
}
