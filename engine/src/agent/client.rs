//! Asks a model, streaming or not.
//!
//! One call here is one question as the caller thinks of it: refusals that only concern the rendering are learned from
//! and sent again at once (see [`super::quirks`]). Waiting and trying again after real failures is the caller's, who
//! tells the user of it. A stop token, or dropping the answer, drops the connection.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::{Stream, StreamExt};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sse_stream::SseByteStream;
use tokio_util::sync::CancellationToken;

use super::endpoint::{Endpoint, PublicOnly, Service, check_literal};
use super::error::{ModelError, cut, message_and_code};
use super::quirks::{Known, Lesson, Memory, learn};
use super::stream::{Added, Assembly, Completion};
use super::wire::{self, ChatRequest, Sent};

/// How long a connection may take to be made.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may say nothing at all, comments included.
pub const IDLE_LIMIT: Duration = Duration::from_mins(5);
/// How long the end of a finished answer is waited for.
const DRAIN_LIMIT: Duration = Duration::from_millis(20);
/// Refusals learned from in one call.
const LESSONS: usize = 8;
/// Bytes read of an error's body.
const ERROR_BODY_LIMIT: usize = 64 * 1024;
/// Bytes read of an answer that is not streamed.
const ANSWER_LIMIT: usize = 32 * 1024 * 1024;

/// Asks models. Cheap to clone; clones share connections and what was learned of servers.
#[derive(Clone, Debug)]
pub struct ModelClient {
    trusted: Client,
    guarded: Client,
    allow_private: bool,
    idle_limit: Duration,
    memory: Memory,
}

impl ModelClient {
    /// A client. `allow_private` lets an agent's own address lie on this machine or its network.
    ///
    /// # Errors
    /// When the TLS roots of the system cannot be loaded.
    pub fn new(allow_private: bool) -> Result<Self, reqwest::Error> {
        let builder = || {
            Client::builder()
                .connect_timeout(CONNECT_LIMIT)
                .user_agent(concat!("ambient/", env!("CARGO_PKG_VERSION")))
                .redirect(Policy::none())
        };
        // A stranger's address is looked up and checked here; a proxy would look it up again, unseen.
        let guarded = builder().no_proxy().dns_resolver(PublicOnly).build()?;
        Ok(Self {
            trusted: builder().build()?,
            guarded,
            allow_private,
            idle_limit: IDLE_LIMIT,
            memory: Memory::default(),
        })
    }

    /// The same client with another limit on silence.
    #[must_use]
    pub fn with_idle_limit(mut self, limit: Duration) -> Self {
        self.idle_limit = limit;
        self
    }

    /// What is known of a server.
    pub fn known(&self, endpoint: &Endpoint) -> Known {
        self.memory.recall(&endpoint.memory_key())
    }

    /// Remembers something about a server.
    pub(crate) fn note(&self, endpoint: &Endpoint, known: Known) {
        self.memory.note(&endpoint.memory_key(), known);
    }

    /// Asks and streams the answer.
    ///
    /// # Errors
    /// Every [`ModelError`]. After one that taught something about media, [`Self::known`] holds it.
    pub async fn stream(
        &self,
        endpoint: &Endpoint,
        request: &ChatRequest,
        stop: &CancellationToken,
    ) -> Result<AnswerStream, ModelError> {
        let response = self.ask(endpoint, request, true, stop).await?;
        Ok(AnswerStream::new(response, true, endpoint.host(), self.idle_limit, stop.clone()))
    }

    /// Asks and waits for the whole answer.
    ///
    /// # Errors
    /// Every [`ModelError`]. After one that taught something about media, [`Self::known`] holds it.
    pub async fn complete(
        &self,
        endpoint: &Endpoint,
        request: &ChatRequest,
        stop: &CancellationToken,
    ) -> Result<Completion, ModelError> {
        let response = self.ask(endpoint, request, false, stop).await?;
        // A server that streams all the same is read as it comes.
        let mut answer = AnswerStream::new(response, false, endpoint.host(), self.idle_limit, stop.clone());
        while answer.next().await?.is_some() {}
        answer.finish()
    }

    async fn ask(
        &self,
        endpoint: &Endpoint,
        request: &ChatRequest,
        stream: bool,
        stop: &CancellationToken,
    ) -> Result<Response, ModelError> {
        let mut lessons = 0;
        loop {
            let known = self.known(endpoint);
            let open_router = endpoint.service() == Service::OpenRouter;
            let (body, sent) = wire::body(request, &endpoint.model, open_router, stream, &known);
            let error = match self.send(endpoint, body, stream, stop).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            match self.learn_from(endpoint, &error, &sent, &known) {
                Lesson::Render(_) if lessons < LESSONS => lessons += 1,
                Lesson::Render(_) | Lesson::Media(_) | Lesson::Nothing => return Err(error),
            }
        }
    }

    fn learn_from(&self, endpoint: &Endpoint, error: &ModelError, sent: &Sent, known: &Known) -> Lesson {
        let lesson = learn(error, sent, known);
        if let Lesson::Render(next) | Lesson::Media(next) = lesson {
            tracing::info!(model.host = %endpoint.host(), model.id = %endpoint.model, reason = %error, "learned from a refusal of a model's server");
            self.note(endpoint, next);
        }
        lesson
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        body: Vec<u8>,
        stream: bool,
        stop: &CancellationToken,
    ) -> Result<Response, ModelError> {
        let url = endpoint.url()?;
        let is_guarded = !endpoint.trusted && !self.allow_private;
        if is_guarded {
            check_literal(&url).map_err(|reason| ModelError::Address { host: endpoint.host(), reason })?;
        }
        let client = if is_guarded { &self.guarded } else { &self.trusted };
        let mut request = client.post(url).header(CONTENT_TYPE, "application/json").body(body);
        request =
            request.header(ACCEPT, if stream { "text/event-stream, application/json" } else { "application/json" });
        if let Some(key) = endpoint.api_key.as_ref().filter(|key| !key.expose_secret().is_empty()) {
            request = request.bearer_auth(key.expose_secret());
        }
        let response = tokio::select! {
            () = stop.cancelled() => return Err(ModelError::Cancelled),
            sent = tokio::time::timeout(self.idle_limit, request.send()) => match sent {
                Err(_) => return Err(ModelError::Silent { host: endpoint.host(), limit: self.idle_limit }),
                Ok(Err(failure)) => return Err(unreached(endpoint, &failure)),
                Ok(Ok(response)) => response,
            },
        };
        if response.status().is_success() {
            return Ok(response);
        }
        tokio::select! {
            () = stop.cancelled() => Err(ModelError::Cancelled),
            error = refusal(endpoint, response, self.idle_limit) => Err(error),
        }
    }
}

/// The causes of a failed connection on one line, without the address: it may hold a password.
fn unreached(endpoint: &Endpoint, failure: &reqwest::Error) -> ModelError {
    let mut reasons = Vec::new();
    let mut cause = std::error::Error::source(failure);
    while let Some(inner) = cause {
        let text = inner.to_string();
        if reasons.last() != Some(&text) {
            reasons.push(text);
        }
        cause = inner.source();
    }
    let reason = if reasons.is_empty() { "the request could not be sent".to_owned() } else { reasons.join(": ") };
    if reason.contains("is not on the public network") {
        return ModelError::Address { host: endpoint.host(), reason };
    }
    ModelError::Transport { host: endpoint.host(), reason }
}

async fn refusal(endpoint: &Endpoint, response: Response, limit: Duration) -> ModelError {
    let status = response.status().as_u16();
    let retry_after = retry_after(response.headers());
    let text = read_some(response, ERROR_BODY_LIMIT, limit).await;
    let text = redacted(&String::from_utf8_lossy(&text), endpoint.api_key.as_ref());
    let (message, code) = match serde_json::from_str::<Value>(&text) {
        Ok(value) => message_and_code(value.get("error").unwrap_or(&value)),
        Err(_) if text.trim().is_empty() => ("no further word".to_owned(), None),
        Err(_) => (cut(text.trim()), None),
    };
    ModelError::Status { status, host: endpoint.host(), message, code, retry_after }
}

/// Some servers quote the key that they refuse.
fn redacted(text: &str, key: Option<&SecretString>) -> String {
    match key.map(ExposeSecret::expose_secret).filter(|key| key.len() >= 4) {
        Some(key) => text.replace(key, "[redacted]"),
        None => text.to_owned(),
    }
}

async fn read_some(mut response: Response, limit: usize, patience: Duration) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < limit {
        match tokio::time::timeout(patience, response.chunk()).await {
            Ok(Ok(Some(chunk))) => body.extend_from_slice(&chunk),
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    body.truncate(limit);
    body
}

/// `Retry-After` as seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds.max(0.0)).ok();
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(date.as_second()).ok()?);
    date.duration_since(SystemTime::now()).ok()
}

type ByteStream = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// An answer that is coming.
pub struct AnswerStream {
    source: Source,
    assembly: Assembly,
    host: String,
    limit: Duration,
    stop: CancellationToken,
}

enum Source {
    /// Server-sent events.
    Events(Box<SseByteStream<ByteStream>>),
    /// One JSON body. The reading is kept here, so that whoever stops waiting for it loses nothing.
    Whole(Pin<Box<dyn Future<Output = Vec<u8>> + Send>>),
    /// The JSON body was read.
    Over,
}

impl std::fmt::Debug for AnswerStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerStream").field("host", &self.host).finish_non_exhaustive()
    }
}

impl AnswerStream {
    fn new(response: Response, wants_events: bool, host: String, limit: Duration, stop: CancellationToken) -> Self {
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.trim_start().to_ascii_lowercase();
        // Some servers send no type, or a wrong one: then it is what was asked for.
        let is_whole =
            kind.starts_with("application/json") || (!wants_events && !kind.starts_with("text/event-stream"));
        let source = if is_whole {
            Source::Whole(Box::pin(read_some(response, ANSWER_LIMIT, limit)))
        } else {
            // The end of a body ends the last event too, with or without its empty line.
            // The limit is on bytes, not on events: a comment that keeps the line alive is life.
            let bytes = tokio_stream::StreamExt::timeout(response.bytes_stream(), limit).map(|chunk| match chunk {
                Ok(Ok(chunk)) => Ok(chunk),
                Ok(Err(failure)) => Err(io::Error::other(failure.without_url())),
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
            });
            let ended = futures::stream::once(async { Ok(Bytes::from_static(b"\n\n")) });
            Source::Events(Box::new(SseByteStream::new(Box::pin(bytes.chain(ended)))))
        };
        Self { source, assembly: Assembly::new(host.clone()), host, limit, stop }
    }

    /// What came next; `None` at the end. Cancel-safe.
    ///
    /// # Errors
    /// When the answer broke off, the server failed in the middle of it, or the call was stopped.
    pub async fn next(&mut self) -> Result<Option<Added>, ModelError> {
        loop {
            if self.assembly.is_done() {
                self.drain().await;
                return Ok(None);
            }
            let stop = self.stop.clone();
            let step = tokio::select! {
                biased;
                () = stop.cancelled() => return Err(ModelError::Cancelled),
                step = self.step() => step?,
            };
            match step {
                None => return Ok(None),
                Some(added) if added == Added::default() => {}
                Some(added) => return Ok(Some(added)),
            }
        }
    }

    /// Reads what little comes behind `[DONE]`: a body read to its end gives its connection back for the next request.
    async fn drain(&mut self) {
        if let Source::Events(events) = &mut self.source {
            let rest = async { while let Some(Ok(_)) = events.next().await {} };
            // A server that leaves the line open loses it.
            let _in_time = tokio::time::timeout(DRAIN_LIMIT, rest).await;
            self.source = Source::Over;
        }
    }

    async fn step(&mut self) -> Result<Option<Added>, ModelError> {
        match &mut self.source {
            Source::Events(events) => match events.next().await {
                None => Ok(None),
                Some(Err(fault)) if is_timeout(&fault) => {
                    Err(ModelError::Silent { host: self.host.clone(), limit: self.limit })
                }
                Some(Err(fault)) => {
                    Err(ModelError::Broken { host: self.host.clone(), reason: crate::store::chain(&fault) })
                }
                Some(Ok(event)) => self.assembly.feed(event.data.as_deref().unwrap_or_default()).map(Some),
            },
            Source::Over => Ok(None),
            Source::Whole(reading) => {
                let body = reading.await;
                self.source = Source::Over;
                match serde_json::from_slice::<Value>(&body) {
                    Ok(answer) => self.assembly.take(&answer).map(Some),
                    Err(fault) => Err(ModelError::Broken { host: self.host.clone(), reason: fault.to_string() }),
                }
            }
        }
    }

    /// Characters that came so far, for an estimate of what a cut answer cost.
    pub fn characters(&self) -> usize {
        self.assembly.characters()
    }

    /// The whole answer, once [`Self::next`] gave `None`.
    ///
    /// # Errors
    /// When it broke off, or holds nothing.
    pub fn finish(self) -> Result<Completion, ModelError> {
        self.assembly.finish()
    }
}

fn is_timeout(fault: &sse_stream::Error) -> bool {
    match fault {
        sse_stream::Error::Body(inner) => {
            inner.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::TimedOut)
        }
        _ => false,
    }
}
