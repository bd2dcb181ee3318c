//! Reads what a handler left of its request, so that a client that still sends gets to hear the answer and keeps its connection: to close one with
//! bytes unread throws away the answer too. Where it reads no further, the answer says that the connection ends.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Response};
use axum::middleware::Next;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body::{Frame, SizeHint};
use tokio::sync::oneshot::{self, error::TryRecvError};

/// How far a server reads for nothing. Who sends more than that has to look for the answer while it sends.
#[derive(Clone, Copy, Debug)]
pub struct ReadOn {
    /// At most so much.
    pub bytes: usize,
    /// For so long.
    pub time: Duration,
}

/// A layer for a router, to be outermost of those that may answer by themselves: before an answer leaves, what nobody holds of its request is read.
///
/// A client that waits to be asked for its body (`Expect: 100-continue`) and was not is not asked now.
pub async fn read_unread(State(limit): State<ReadOn>, request: Request, next: Next) -> Response<Body> {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let (back, mut rest) = oneshot::channel();
    let lent = Lent { body: Some(body), asked: !waits_to_be_asked(&parts.headers), back: Some(back) };
    let mut response = next.run(Request::from_parts(parts, Body::new(lent))).await;
    let is_over = match rest.try_recv() {
        Ok(body) => tokio::time::timeout(limit.time, read(body, limit.bytes)).await.unwrap_or(false),
        // Whoever still holds it is still reading it.
        Err(TryRecvError::Empty) => true,
        Err(TryRecvError::Closed) => false,
    };
    if !is_over {
        // The connection ends with this answer. A client that is not told so may send its next request on it, and get none.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

fn waits_to_be_asked(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Reads up to so many bytes; `true` says that this was all.
async fn read(body: Body, mut left: usize) -> bool {
    let mut bytes = body.into_data_stream();
    while left > 0 {
        match bytes.next().await {
            Some(Ok(chunk)) => left = left.saturating_sub(chunk.len()),
            Some(Err(_broken_off)) => return false,
            None => return true,
        }
    }
    false
}

/// A body that comes back when its reader lets go of it, if the client sends it.
struct Lent {
    body: Option<Body>,
    asked: bool,
    back: Option<oneshot::Sender<Body>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.asked
            && let (Some(body), Some(back)) = (self.body.take(), self.back.take())
        {
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
        self.asked = true;
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
    use std::time::Duration;

    use axum::Router;
    use axum::http::StatusCode;
    use axum::middleware::from_fn_with_state;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::{ReadOn, read_unread};

    const LIMIT: ReadOn = ReadOn { bytes: 1 << 20, time: Duration::from_secs(10) };
    /// Ends a connection that is still open by then.
    const LAST: &[u8] = b"POST /good HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    /// A client beside a server whose handlers do not look at a body.
    async fn beside_a_server(client: impl AsyncFnOnce(TcpStream)) {
        let routes = Router::new()
            .route("/bad", post(|| async { StatusCode::BAD_REQUEST }))
            .route("/good", post(|| async { StatusCode::OK }))
            .layer(from_fn_with_state(LIMIT, read_unread));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::select! {
            ended = axum::serve(listener, routes).into_future() => panic!("{ended:?}"),
            () = async { client(TcpStream::connect(address).await.unwrap()).await } => {}
        }
    }

    async fn rest(mut connection: TcpStream) -> String {
        let mut answers = String::new();
        connection.read_to_string(&mut answers).await.unwrap();
        answers
    }

    #[tokio::test]
    async fn an_answer_is_heard_by_who_still_sends_and_the_connection_goes_on() {
        for path in ["/bad", "/good", "/not-there"] {
            beside_a_server(async |mut connection: TcpStream| {
                let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\n\r\n");
                connection.write_all(head.as_bytes()).await.unwrap();
                for _ in 0..200 {
                    connection.write_all(&[b'x'; 1000]).await.expect("the server reads on");
                    tokio::task::yield_now().await;
                }
                connection.write_all(LAST).await.unwrap();
                let answers = rest(connection).await;
                assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{path}: {answers}");
                assert!(answers.contains("HTTP/1.1 200"), "{path}: {answers}");
            })
            .await;
        }
    }

    #[tokio::test]
    async fn who_sends_more_than_is_read_for_nothing_is_told_that_the_connection_ends() {
        beside_a_server(async |mut connection: TcpStream| {
            let length = 4 * LIMIT.bytes;
            let head = format!("POST /bad HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n");
            connection.write_all(head.as_bytes()).await.unwrap();
            let (mut answers, mut requests) = connection.split();
            let sends = async {
                for _ in 0..length / 1024 {
                    if requests.write_all(&[b'x'; 1024]).await.is_err() {
                        break;
                    }
                }
            };
            let mut answer = [0; 512];
            let reads = answers.read(&mut answer);
            let (bytes, ()) = tokio::join!(reads, sends);
            let answer = String::from_utf8_lossy(&answer[..bytes.unwrap()]).to_lowercase();
            assert!(answer.starts_with("http/1.1 400") && answer.contains("connection: close"), "{answer}");
        })
        .await;
    }

    #[tokio::test]
    async fn who_waits_to_be_asked_for_a_body_is_not_asked_in_vain() {
        beside_a_server(async |mut connection: TcpStream| {
            let head = "POST /bad HTTP/1.1\r\nhost: a\r\ncontent-length: 200000\r\nexpect: 100-Continue\r\n\r\n";
            connection.write_all(head.as_bytes()).await.unwrap();
            let answers = rest(connection).await;
            assert!(answers.starts_with("HTTP/1.1 400") && answers.contains("connection: close"), "{answers}");
        })
        .await;
    }
}
