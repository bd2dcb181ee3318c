//! What happens before and after S3 itself: checks of headers, clock and region, links that are used up, and connections that break.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State as Extract};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::serve::Listener;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use s3s::service::S3Service;
use tokio::net::{TcpListener, TcpStream};

use crate::State;
use crate::seen::Seen;

/// How old a signature may be.
const TOLERANCE_SECONDS: i64 = 15 * 60;
const MEBIBYTE: usize = 1 << 20;

/// The server's port, at which connections may break.
pub(crate) struct Port {
    pub(crate) listener: TcpListener,
    pub(crate) state: Arc<State>,
}

impl Listener for Port {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            let mut conduct = self.state.conduct();
            if conduct.dropped_connections == 0 {
                return (stream, address);
            }
            conduct.dropped_connections -= 1;
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

#[derive(Clone)]
struct Door {
    service: S3Service,
    state: Arc<State>,
    folder: PathBuf,
}

pub(crate) fn router(service: S3Service, state: Arc<State>, folder: &Path) -> Router {
    Router::new().fallback(enter).with_state(Door { service, state, folder: folder.to_owned() })
}

async fn enter(Extract(door): Extract<Door>, request: Request) -> Response {
    let mut seen = Seen::of(request.method(), request.uri(), request.headers());
    let has_words = request.method() != axum::http::Method::HEAD;
    let mut answer = match door.refuse(&seen, request.headers()) {
        Some(refusal) => refusal.into_response(has_words),
        None => door.serve(&seen, request).await,
    };
    let now = now_seconds() + door.state.conduct().clock_ahead_seconds;
    answer.headers_mut().insert("date", http_date(now));
    seen.status = answer.status().as_u16();
    let is_read = seen.is_read() && answer.status().is_success();
    door.state.seen().push(seen);
    if is_read { door.perhaps_cut(answer) } else { answer }
}

struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
    region: Option<String>,
}

impl Refusal {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), region: None }
    }

    fn into_response(self, has_words: bool) -> Response {
        let region = self.region.as_ref().map(|region| format!("<Region>{region}</Region>")).unwrap_or_default();
        let words = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>{}</Message>{region}</Error>",
            self.code, self.message
        );
        let body = if has_words { Body::from(words) } else { Body::empty() };
        let mut answer = (self.status, [("content-type", "application/xml")], body).into_response();
        if let Some(region) = self.region.and_then(|region| HeaderValue::from_str(&region).ok()) {
            answer.headers_mut().insert("x-amz-bucket-region", region);
        }
        answer
    }
}

impl Door {
    fn refuse(&self, seen: &Seen, headers: &HeaderMap) -> Option<Refusal> {
        let mut conduct = self.state.conduct();
        if seen.payload.as_deref().is_some_and(|payload| payload.starts_with("STREAMING-")) {
            let message = "A header you provided implies functionality that is not implemented";
            return Some(Refusal::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message));
        }
        let in_query = seen.query.contains("x-amz-checksum-") || seen.query.contains("x-amz-sdk-checksum");
        let (bucket, key) = seen.path.trim_start_matches('/').split_once('/').unwrap_or((&seen.path[1..], ""));
        let is_made_now = seen.method == "PUT" && key.is_empty();
        if !bucket.is_empty() && !is_made_now && !self.folder.join(bucket).is_dir() {
            return Some(Refusal::new(StatusCode::NOT_FOUND, "NoSuchBucket", "The specified bucket does not exist"));
        }
        if conduct.refuses_checksums && (in_query || !seen.checksums.is_empty()) {
            return Some(Refusal::new(StatusCode::BAD_REQUEST, "InvalidArgument", "Checksums are not supported"));
        }
        if let Some(signed_at) = signed_at(seen, headers) {
            let off = signed_at - (now_seconds() + conduct.clock_ahead_seconds);
            let is_refused = if seen.is_link() { off > TOLERANCE_SECONDS } else { off.abs() > TOLERANCE_SECONDS };
            if is_refused {
                let message = "The difference between the request time and the current time is too large.";
                return Some(Refusal::new(StatusCode::FORBIDDEN, "RequestTimeTooSkewed", message));
            }
        }
        if let Some(wanted) = conduct.region.clone().filter(|wanted| region(seen, headers).as_deref() != Some(wanted)) {
            let message = format!("The authorization header is malformed; the region is wrong; expecting '{wanted}'");
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, "AuthorizationHeaderMalformed", message);
            return Some(Refusal { region: Some(wanted), ..refusal });
        }
        if let (Some(limit), Some(signature)) = (conduct.reads_per_link, seen.parameter("X-Amz-Signature"))
            && self.state.follow(signature) > limit
        {
            return Some(Refusal::new(StatusCode::FORBIDDEN, "AccessDenied", "Request has expired"));
        }
        if seen.is_read() && conduct.reads_left == Some(0) {
            return Some(Refusal::new(StatusCode::FORBIDDEN, "AccessDenied", "Access Denied"));
        }
        conduct.reads_left = conduct.reads_left.map(|left| if seen.is_read() { left - 1 } else { left });
        if seen.is_part() && conduct.failing_parts > 0 {
            conduct.failing_parts -= 1;
            return Some(Refusal::new(StatusCode::BAD_REQUEST, "BadDigest", "The part was damaged on its way"));
        }
        None
    }

    async fn serve(&self, seen: &Seen, request: Request) -> Response {
        let stands_still = self.state.conduct().stands_still && seen.is_part();
        if stands_still {
            std::future::pending::<()>().await;
        }
        let is_anonymous = !request.headers().contains_key("authorization") && !seen.is_link();
        if self.state.conduct().is_public && is_anonymous && request.method() == axum::http::Method::GET {
            let path = self.folder.join(request.uri().path().trim_start_matches('/'));
            return match tokio::fs::read(path).await {
                Ok(bytes) => bytes.into_response(),
                Err(_not_there) => StatusCode::NOT_FOUND.into_response(),
            };
        }
        let pause = self.state.conduct().pause_in_parts.filter(|_pause| seen.is_part());
        let request = match pause {
            Some(pause) => request.map(|body| Body::from_stream(slowed(body.into_data_stream(), pause))),
            None => request,
        };
        match self.service.call(request.map(s3s::Body::http_body_unsync)).await {
            Ok(answer) => answer.map(Body::new),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:?}")).into_response(),
        }
    }

    fn perhaps_cut(&self, answer: Response) -> Response {
        let mut conduct = self.state.conduct();
        let Some((times @ 1.., bytes)) = conduct.cuts else { return answer };
        conduct.cuts = Some((times - 1, bytes));
        answer.map(|body| Body::from_stream(cut(body.into_data_stream(), bytes)))
    }
}

/// A body that comes as over a slow line.
fn slowed(
    body: impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
    pause: Duration,
) -> impl Stream<Item = Result<Bytes, axum::Error>> + Send {
    let mut bytes = 0;
    body.then(move |piece| {
        let before = bytes / MEBIBYTE;
        bytes += piece.as_ref().map_or(0, Bytes::len);
        let is_due = bytes / MEBIBYTE > before;
        async move {
            if is_due {
                tokio::time::sleep(pause).await;
            }
            piece
        }
    })
}

/// The first `bytes` of a body, and then a broken connection.
fn cut(
    body: impl Stream<Item = Result<Bytes, axum::Error>> + Send + 'static,
    bytes: usize,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> + Send {
    let pieces = body.scan(bytes, |left, piece| {
        let piece = match piece {
            Ok(piece) if *left > 0 => {
                let length = piece.len().min(*left);
                *left -= length;
                Ok(piece.slice(..length))
            }
            Ok(_) => Err(std::io::Error::other("the connection breaks")),
            Err(error) => Err(std::io::Error::other(error)),
        };
        futures::future::ready(Some(piece))
    });
    pieces.boxed()
}

/// `20261130T034105Z` of a request, as seconds since 1970.
fn signed_at(seen: &Seen, headers: &HeaderMap) -> Option<i64> {
    let in_header = headers.get("x-amz-date").and_then(|value| value.to_str().ok());
    let text = in_header.or_else(|| seen.parameter("X-Amz-Date"))?;
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    Some(jiff::tz::TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

/// The region in the scope of a signature: `<key>/<date>/<region>/s3/aws4_request`.
fn region(seen: &Seen, headers: &HeaderMap) -> Option<String> {
    let in_header = headers.get("authorization").and_then(|value| value.to_str().ok());
    let scope = match in_header {
        Some(header) => header.split_once("Credential=")?.1.split(',').next()?.to_owned(),
        None => seen.parameter("X-Amz-Credential")?.replace("%2F", "/"),
    };
    scope.split('/').nth(2).map(str::to_owned)
}

fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn http_date(seconds: i64) -> HeaderValue {
    let time = Timestamp::from_second(seconds).unwrap_or_default();
    let text = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&time).unwrap_or_default();
    HeaderValue::from_str(&text).expect("a date is plain text")
}
