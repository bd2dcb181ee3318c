//! Connect as the SDKs speak it: unary calls as plain JSON, streams as framed messages with their error in the end frame.

use std::future::Future;
use std::time::Duration;

use ambient_e2b::protocol::connect::{Code, ConnectError, EndOfStream};
use ambient_e2b::protocol::{Frame, FrameDecoder, header};
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::middleware::Next;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::state::{Agent, Shared};
use super::users::User;

/// The type that a call takes: [Accept-Post](https://www.w3.org/TR/ldp/#header-accept-post).
const ACCEPT_POST: HeaderName = HeaderName::from_static("accept-post");

/// Most bytes of one message: what a client may send as input in one call.
pub(super) const MESSAGE_LIMIT: usize = 64 << 20;

/// How long a stream may be silent when the client does not say.
const KEEPALIVE: Duration = Duration::from_secs(90);

/// The user that a call runs as: the one it names, else the sandbox's own.
pub(super) fn user(headers: &HeaderMap, agent: &Agent) -> Result<User, ConnectError> {
    let named = named_user(headers);
    let name = named.as_deref().unwrap_or(&agent.default_user);
    User::named(name).ok_or_else(|| ConnectError::new(Code::Unauthenticated, format!("invalid username: '{name}'")))
}

/// The name in `Authorization: Basic`, whose password is empty.
pub(super) fn named_user(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let credentials = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
    let name = credentials.split_once(':').map_or(credentials.as_str(), |(name, _password)| name);
    (!name.is_empty()).then(|| name.to_owned())
}

/// The time that the client gives the call.
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let milliseconds = number(headers, header::CONNECT_TIMEOUT_MS)?;
    (milliseconds > 0).then(|| Duration::from_millis(milliseconds))
}

/// How long the stream may be silent.
pub(super) fn keepalive(headers: &HeaderMap) -> Duration {
    let seconds = number(headers, header::KEEPALIVE_PING_INTERVAL).filter(|seconds| *seconds > 0);
    seconds.map_or(KEEPALIVE, Duration::from_secs)
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// A layer for calls whose messages have this type: others are refused, as Connect wants it, and not taken for JSON.
pub(super) async fn only(spoken: &'static str, request: Request, next: Next) -> Response<Body> {
    let sent = request.headers().get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let sent = sent.unwrap_or_default();
    if sent.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(spoken) {
        return next.run(request).await;
    }
    let message = format!("a message of the type '{sent}' is not understood; send {spoken}");
    let mut refusal = json(StatusCode::UNSUPPORTED_MEDIA_TYPE, &ConnectError::new(Code::Unknown, message));
    refusal.headers_mut().insert(ACCEPT_POST, HeaderValue::from_static(spoken));
    refusal
}

/// A message from its JSON.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ConnectError> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    serde_json::from_slice(bytes)
        .map_err(|error| ConnectError::new(Code::InvalidArgument, format!("the message cannot be read: {error}")))
}

/// A frame of a stream.
pub(super) fn message<T: Serialize>(message: &T) -> Result<Bytes, ConnectError> {
    Frame::message(message).map_err(|error| ConnectError::new(Code::Internal, error.to_string()))
}

/// Runs a unary call as the user it names.
pub(super) async fn unary<Request, Answer, Work>(
    agent: Shared,
    headers: HeaderMap,
    body: Body,
    call: impl FnOnce(Shared, User, Request) -> Work,
) -> Response<Body>
where
    Request: DeserializeOwned,
    Answer: Serialize,
    Work: Future<Output = Result<Answer, ConnectError>>,
{
    let answered = async {
        let body = whole(body).await?;
        let request = parse(&body)?;
        let user = user(&headers, &agent)?;
        call(agent, user, request).await
    };
    match answered.await {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            json(status, &error)
        }
    }
}

/// Any JSON answer.
pub(super) fn json<T: Serialize>(status: StatusCode, value: &T) -> Response<Body> {
    let bytes = serde_json::to_vec(value).expect("answers are plain JSON");
    response(status, header::UNARY_CONTENT_TYPE, Body::from(bytes))
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

async fn whole(body: Body) -> Result<Bytes, ConnectError> {
    axum::body::to_bytes(body, MESSAGE_LIMIT).await.map_err(|error| {
        ConnectError::new(
            Code::ResourceExhausted,
            format!("a message of at most {MESSAGE_LIMIT} bytes is taken: {error}"),
        )
    })
}

/// The one message of a call that streams its answer.
pub(super) async fn first_message<T: DeserializeOwned>(body: Body) -> Result<T, ConnectError> {
    let body = whole(body).await?;
    let mut frames = FrameDecoder::new(MESSAGE_LIMIT);
    frames.push(&body);
    match frames.next_frame() {
        Ok(Some(Frame::Message(message))) => parse(&message),
        Ok(Some(Frame::End(_)) | None) => Err(ConnectError::new(Code::InvalidArgument, "the request holds no message")),
        Err(error) => Err(ConnectError::new(Code::InvalidArgument, error.to_string())),
    }
}

/// What a stream consists of.
pub(super) trait Messages: Send + 'static {
    /// The next framed message; `None` at a good end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, ConnectError>> + Send;
}

/// The answer that streams these messages, and then how they ended. When the client is gone, the messages are dropped.
pub(super) fn stream(messages: impl Messages) -> Response<Body> {
    let frames = futures::stream::unfold(Some(messages), |messages| async move {
        let mut messages = messages?;
        let (frame, rest) = match messages.next().await {
            Ok(Some(frame)) => (frame, Some(messages)),
            Ok(None) => (end(&EndOfStream::default()), None),
            Err(error) => (end(&EndOfStream::failed(error)), None),
        };
        Some((Ok::<_, std::convert::Infallible>(frame), rest))
    });
    response(StatusCode::OK, header::STREAM_CONTENT_TYPE, Body::from_stream(frames))
}

/// A stream that failed before its first message. Its status is 200: the error is in the end frame.
pub(super) fn failed_stream(error: &ConnectError) -> Response<Body> {
    let body = Body::from(end(&EndOfStream::failed(error.clone())));
    response(StatusCode::OK, header::STREAM_CONTENT_TYPE, body)
}

/// A stream of one message.
pub(super) fn one_message_stream<T: Serialize>(answer: &T) -> Response<Body> {
    match message(answer) {
        Ok(frame) => {
            let bytes = [frame, end(&EndOfStream::default())].concat();
            response(StatusCode::OK, header::STREAM_CONTENT_TYPE, Body::from(bytes))
        }
        Err(error) => failed_stream(&error),
    }
}

fn end(end: &EndOfStream) -> Bytes {
    Frame::end(end).expect("the end of a stream is plain JSON")
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::named_user;

    #[test]
    fn the_user_is_the_name_before_the_colon() {
        let check = |value: &'static str, wanted: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert("authorization", HeaderValue::from_static(value));
            assert_eq!(named_user(&headers).as_deref(), wanted, "{value}");
        };
        check("Basic cm9vdDo=", Some("root"));
        check("basic cm9vdA==", Some("root"));
        check("Basic Og==", None);
        check("Bearer cm9vdDo=", None);
        check("Basic %%", None);
    }
}
