//! How requests leave and answers come back: one HTTP client, bounded answers, and the repetition of what may be repeated.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder, Response};
use tokio::time::Instant;

use crate::config::Config;
use crate::error::Error;
use crate::protocol::header;
use crate::retry::{Repeat, Verdict, asked_wait, judge};

/// What stays as it is in a path's segment or a query's value.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// No answer of the control plane and no unary RPC answer is larger than this; a listing of a huge folder comes nearest.
const ANSWER_LIMIT: usize = 64 << 20;

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends requests. Shared by everything that belongs to one [`Client`](crate::Client).
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) http: reqwest::Client,
    pub(crate) config: Config,
}

/// A request to the control plane.
#[derive(Debug)]
pub(crate) struct ApiRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Bytes>,
    pub(crate) repeat: Repeat,
    pub(crate) idempotency_key: Option<String>,
}

impl ApiRequest {
    /// A request that may be repeated, as long as nothing else is said.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), query: Vec::new(), body: None, repeat: Repeat::Safe, idempotency_key: None }
    }

    pub(crate) fn query(mut self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.query.extend(value.map(|value| (name, value.to_string())));
        self
    }

    pub(crate) fn body<T: serde::Serialize>(mut self, body: &T) -> Result<Self, Error> {
        let json = serde_json::to_vec(body)
            .map_err(|error| Error::InvalidArgument { message: format!("a body that cannot be written: {error}") })?;
        self.body = Some(json.into());
        Ok(self)
    }

    pub(crate) fn if_refused_only(mut self) -> Self {
        self.repeat = Repeat::IfRefused;
        self
    }
}

/// A whole answer of the control plane, whatever its status.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether an earlier try of the same request may have been done although its answer got lost.
    pub(crate) follows_a_loss: bool,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as a message. Its text is not quoted when it is none: it may hold a token.
    pub(crate) fn parse<T: serde::de::DeserializeOwned>(&self, what: &str) -> Result<T, Error> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Error::Protocol { message: format!("{what} of status {}: {error}", self.status) })
    }
}

/// Escapes one segment of a path.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// A query with its `?`, or nothing.
pub(crate) fn query_text<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs: Vec<_> = pairs.into_iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

impl Transport {
    /// A transport of its own. It takes no proxy from the environment; who needs one builds the HTTP client.
    pub(crate) fn new(config: Config) -> Result<Self, Error> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(Duration::from_secs(90))
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|source| Error::Unreachable { origin: config.api_origin(), source: Box::new(source) })?;
        Ok(Self { http, config })
    }

    /// Sends a request to the control plane and repeats it as far as that is safe. Every status is an answer.
    pub(crate) async fn api(&self, request: &ApiRequest) -> Result<Answer, Error> {
        let key = self.config.key().ok_or(Error::KeyMissing)?;
        let query = query_text(request.query.iter().map(|(name, value)| (*name, value.as_str())));
        let url = format!("{}{}{query}", self.config.api_origin(), request.path);
        let deadline = deadline_after(self.config.request_timeout);
        let mut lost = false;
        for attempt in 1.. {
            let mut builder = self.http.request(request.method.clone(), &url).header(header::API_KEY, key);
            builder = builder.header("User-Agent", &self.config.user_agent);
            if let Some(body) = &request.body {
                builder = builder.header("Content-Type", header::UNARY_CONTENT_TYPE).body(body.clone());
            }
            if let Some(key) = &request.idempotency_key {
                builder = builder.header(header::IDEMPOTENCY_KEY, key);
            }
            let mut outcome = self.one_try(builder, deadline).await;
            if let Ok(answer) = &mut outcome {
                answer.follows_a_loss = lost;
                lost |= judge(answer.status, &answer.headers) == Verdict::Unclear;
            }
            lost |= matches!(outcome, Err(Failure::Lost(_)));
            let (asked, failure) = match outcome {
                Ok(answer) => match (judge(answer.status, &answer.headers), request.repeat) {
                    (Verdict::Final, _) => return Ok(answer),
                    (Verdict::Again, _) | (Verdict::Unclear, Repeat::Safe) => (asked_wait(&answer.headers), Ok(answer)),
                    (Verdict::Unclear, Repeat::IfRefused) => {
                        let message = format!("status {} in place of an answer", answer.status);
                        return Err(Error::AnswerLost { message });
                    }
                },
                Err(Failure::NotSent(error)) => (None, Err(error)),
                Err(Failure::Lost(error)) if request.repeat == Repeat::Safe => (None, Err(error)),
                Err(Failure::Lost(error)) => return Err(Error::AnswerLost { message: error.to_string() }),
                Err(Failure::Refused(error)) => return Err(error),
            };
            // A wait that would pass the deadline is not waited: what is known now is the answer.
            match self.config.retry.wait(attempt, asked, rand::random()) {
                Some(wait) if Instant::now() + wait < deadline => tokio::time::sleep(wait).await,
                _ => return failure,
            }
        }
        unreachable!("the policy ends the tries")
    }

    async fn one_try(&self, builder: RequestBuilder, deadline: Instant) -> Result<Answer, Failure> {
        let limit = self.config.request_timeout;
        let whole = async {
            let response = builder.send().await.map_err(|error| Failure::of_send(error, &self.config.api_origin()))?;
            read_answer(response).await.map_err(Failure::of_answer)
        };
        match tokio::time::timeout_at(deadline, whole).await {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(Failure::Lost(Error::RequestTimedOut { limit })),
        }
    }

    /// Sends a request to the data plane, whose answers are never repeated: only a connection that could not be opened is tried again. `make` gives the
    /// request anew for each try.
    pub(crate) async fn open(
        &self,
        origin: &str,
        limit: Duration,
        make: impl Fn(&reqwest::Client) -> RequestBuilder,
    ) -> Result<Response, Error> {
        let deadline = deadline_after(limit);
        for attempt in 1.. {
            let sent = tokio::time::timeout_at(deadline, make(&self.http).send()).await;
            let failure = match sent {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) if error.is_connect() => unreachable_or_broken(error, origin),
                Ok(Err(error)) => return Err(unreachable_or_broken(error, origin)),
                Err(_elapsed) => return Err(Error::RequestTimedOut { limit }),
            };
            match self.config.retry.wait(attempt, None, rand::random()) {
                Some(wait) if Instant::now() + wait < deadline => tokio::time::sleep(wait).await,
                _ => return Err(failure),
            }
        }
        unreachable!("the policy ends the tries")
    }
}

/// How one try failed.
enum Failure {
    /// Nothing was sent.
    NotSent(Error),
    /// It was sent, and there is no whole answer.
    Lost(Error),
    /// There is an answer, and it cannot be taken.
    Refused(Error),
}

impl Failure {
    fn of_send(error: reqwest::Error, origin: &str) -> Self {
        match unreachable_or_broken(error, origin) {
            error @ Error::Unreachable { .. } => Self::NotSent(error),
            error => Self::Lost(error),
        }
    }

    fn of_answer(error: Error) -> Self {
        match error {
            Error::Protocol { .. } => Self::Refused(error),
            error => Self::Lost(error),
        }
    }
}

/// The moment after this time; of a time beyond all clocks, one in some decades.
pub(crate) fn deadline_after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(1 << 30))
}

/// Reads a whole answer, up to [`ANSWER_LIMIT`].
pub(crate) async fn read_answer(mut response: Response) -> Result<Answer, Error> {
    let (status, headers) = (response.status().as_u16(), std::mem::take(response.headers_mut()));
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(broken)? {
        if body.len() + chunk.len() > ANSWER_LIMIT {
            return Err(Error::Protocol { message: format!("an answer of more than {ANSWER_LIMIT} bytes") });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, headers, body: body.freeze(), follows_a_loss: false })
}

/// What a failed send means.
fn unreachable_or_broken(error: reqwest::Error, origin: &str) -> Error {
    // The address may hold a signature, and says nothing that the origin does not.
    let error = error.without_url();
    if error.is_connect() || error.is_builder() {
        Error::Unreachable { origin: origin.to_owned(), source: Box::new(error) }
    } else {
        broken(error)
    }
}

/// A connection that broke.
pub(crate) fn broken(error: reqwest::Error) -> Error {
    Error::Broken { message: with_causes(&error.without_url()) }
}

/// The error's text and that of what caused it; reqwest's own says little.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{query_text, segment};

    #[test]
    fn names_and_values_are_escaped() {
        assert_eq!(segment("team/alias:tag"), "team%2Falias%3Atag");
        assert_eq!(
            query_text([("metadata", "a%2520b=c%2526d"), ("limit", "5")]),
            "?metadata=a%252520b%3Dc%252526d&limit=5"
        );
        assert_eq!(query_text([]), "");
    }
}
