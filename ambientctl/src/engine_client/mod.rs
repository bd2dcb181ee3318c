//! A client of the engine's public HTTP API, for the commands that ask a running engine something.
//!
//! It knows the few requests that those commands make, gives typed answers, and tells apart what the caller has to tell
//! apart: an address where nobody answers, a key that is not let in, a request that the engine refuses, and an answer
//! that no engine gives. Every request has a limit of time but uploads and event streams, which go on as long as bytes
//! come. An [`EventStream`] that breaks is taken up again right behind the last event that it gave.
//!
//! ```no_run
//! # async fn ask() -> Result<(), ambient_ctl::engine_client::EngineError> {
//! use ambient_ctl::engine_client::{EngineClient, EventBody, Message, NewSession};
//!
//! let base = "http://127.0.0.1:8080".parse().expect("a URL");
//! let engine = EngineClient::new(&base, &"dev-token".into())?;
//! let video = engine.upload("clip.mp4".as_ref(), |_sent, _of| {}).await?;
//! let session = engine.create_session(&NewSession::over(&video.id)).await?;
//! let sent = engine.send(&session.id, &Message::text("What happens?")).await?;
//! let mut events = engine.events(&session.id, Some(sent));
//! while let Some(event) = events.next().await? {
//!     if let EventBody::Idle { .. } = event.body {
//!         break;
//!     }
//! }
//! engine.delete_session(&session.id).await
//! # }
//! ```

mod error;
mod event;
mod files;
mod form;
mod sessions;
mod stream;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::{Host, Url};

pub use error::EngineError;
pub use event::{ContentBlock, Event, EventBody, ModelUsage, RetryStatus, SessionFailure, StopReason};
pub use files::VideoFile;
pub use sessions::{AgentSnapshot, Block, Message, Model, NewSession, Session};
pub use stream::EventStream;

/// How long an engine may take to take a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// How long an answer of JSON may take: the engine's own limit is 60 s.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// Talks to one engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EngineClient {
    http: reqwest::Client,
    base: Url,
    key: SecretString,
}

/// The body of a refusal.
#[derive(Deserialize)]
struct Refusal {
    error: RefusalInfo,
}

#[derive(Deserialize)]
struct RefusalInfo {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

impl EngineClient {
    /// A client of the engine at this base URL (without `/v1`), let in with this key. Nothing is sent yet. An engine on
    /// this machine is reached directly, others through the proxies that the environment names.
    ///
    /// # Errors
    /// When the URL cannot be a base, or no HTTP client can be made.
    pub fn new(base: &Url, key: &SecretString) -> Result<Self, EngineError> {
        if !matches!(base.scheme(), "http" | "https") || base.host().is_none() {
            return Err(EngineError::NoBase { url: base.to_string() });
        }
        let mut http = reqwest::Client::builder().connect_timeout(CONNECT_LIMIT);
        if is_this_machine(base) {
            http = http.no_proxy();
        }
        let http = http.build().map_err(EngineError::Client)?;
        Ok(Self { http, base: base.clone(), key: key.clone() })
    }

    /// The base URL, without a slash at its end.
    pub fn base(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Asks `/v1/healthz`: whether an engine answers at all. Needs no key.
    ///
    /// # Errors
    /// When nobody answers, or somebody who is no engine.
    pub async fn health(&self) -> Result<(), EngineError> {
        #[derive(Deserialize)]
        struct Health {
            status: String,
        }
        let health: Health = self.json(self.request(Method::GET, &["v1", "healthz"])).await?;
        if health.status == "ok" { Ok(()) } else { Err(EngineError::Stranger { url: self.base().to_owned() }) }
    }

    /// A request with the key, and with a limit of time.
    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.unlimited(method, path, &[]).timeout(ANSWER_LIMIT)
    }

    /// A request with the key, and with no limit of its own.
    fn unlimited(&self, method: Method, path: &[&str], query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url).header("x-api-key", self.key.expose_secret())
    }

    /// Sends, and reads an answer of JSON.
    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, EngineError> {
        let body = self.answer(request).await?.bytes().await.map_err(|source| self.silent(source))?;
        serde_json::from_slice(&body).map_err(|source| EngineError::Garbled { url: self.base().to_owned(), source })
    }

    /// Sends, and gives the answer if it is a good one.
    async fn answer(&self, request: RequestBuilder) -> Result<Response, EngineError> {
        let response = request.send().await.map_err(|source| self.silent(source))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let request_id =
            response.headers().get("request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned();
        let body = response.bytes().await.map_err(|source| self.silent(source))?;
        match serde_json::from_slice::<Refusal>(&body) {
            Ok(Refusal { error }) => Err(EngineError::Refused {
                status: status.as_u16(),
                kind: error.kind,
                message: error.message,
                request_id,
            }),
            Err(_no_engine) => Err(EngineError::Stranger { url: self.base().to_owned() }),
        }
    }

    fn silent(&self, source: reqwest::Error) -> EngineError {
        EngineError::Silent { url: self.base().to_owned(), source: source.without_url() }
    }
}

/// Whether a URL leads to this machine, where no proxy has business.
fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_loopback() || address.is_unspecified(),
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        None => false,
    }
}

#[cfg(test)]
mod tests;
