//! Requests to the agent of one sandbox: what each must carry.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::stream::{GRACE, MessageStream};
use crate::client::Client;
use crate::config::Config;
use crate::error::Error;
use crate::protocol::connect::ConnectError;
use crate::protocol::{ENVD_PORT, ErrorBody, Frame, SandboxInstance, Token, header};
use crate::transport::{Answer, Transport, deadline_after, read_answer};
use crate::version::EnvdVersion;

/// How long the probe of a sandbox may take.
const HEALTH_LIMIT: Duration = Duration::from_secs(5);

/// The agent of one sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Envd {
    client: Client,
    sandbox_id: String,
    origin: String,
    token: Option<Token>,
    version: EnvdVersion,
}

/// What a probe of a sandbox found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// The agent answers.
    Good,
    /// Something in front of the sandbox says that there is none.
    Gone(String),
    /// Nothing answers.
    Silent(String),
}

impl Envd {
    pub(crate) fn new(client: &Client, instance: &SandboxInstance) -> Self {
        let origin = client.config().sandbox_origin(&instance.sandbox_id, instance.domain.as_deref(), ENVD_PORT);
        Self {
            client: client.clone(),
            sandbox_id: instance.sandbox_id.clone(),
            origin,
            token: instance.envd_access_token.clone(),
            version: EnvdVersion::parse(&instance.envd_version),
        }
    }

    pub(crate) fn sandbox_id(&self) -> &str {
        &self.sandbox_id
    }

    pub(crate) fn config(&self) -> &Config {
        self.client.config()
    }

    pub(crate) fn version(&self) -> EnvdVersion {
        self.version
    }

    /// The user that agents of old have to be told, since they know no default.
    pub(crate) fn forced_user(&self) -> Option<&'static str> {
        (self.version < EnvdVersion::DEFAULT_USER).then_some("user")
    }

    fn transport(&self) -> &Transport {
        &self.client.inner.transport
    }

    pub(crate) fn http(&self) -> &reqwest::Client {
        &self.transport().http
    }

    /// A request with the headers that every one needs.
    pub(crate) fn request(&self, http: &reqwest::Client, method: Method, path_and_query: &str) -> RequestBuilder {
        let mut builder = http
            .request(method, format!("{}{path_and_query}", self.origin))
            .header("User-Agent", &self.config().user_agent)
            .header(header::SANDBOX_ID, &self.sandbox_id)
            .header(header::SANDBOX_PORT, ENVD_PORT.to_string());
        if let Some(token) = &self.token {
            builder = builder.header(header::ACCESS_TOKEN, token.expose());
        }
        builder
    }

    /// A request for an RPC. No user is named unless one is asked for: the template's own is the right one.
    fn rpc(&self, http: &reqwest::Client, path: &str, user: Option<&str>, limit: Duration) -> RequestBuilder {
        let millis = limit.as_millis().clamp(1, u128::from(u32::MAX));
        let builder = self
            .request(http, Method::POST, path)
            .header(header::CONNECT_PROTOCOL_VERSION, "1")
            .header(header::CONNECT_TIMEOUT_MS, millis.to_string());
        match user.or_else(|| self.forced_user()) {
            Some(user) => builder.header("Authorization", format!("Basic {}", STANDARD.encode(format!("{user}:")))),
            None => builder,
        }
    }

    /// Opens any request, trying again only where no connection came about.
    pub(crate) async fn open(
        &self,
        limit: Duration,
        make: impl Fn(&reqwest::Client) -> RequestBuilder,
    ) -> Result<Response, Error> {
        match self.transport().open(&self.origin, limit, make).await {
            Err(error @ (Error::Broken { .. } | Error::Unreachable { .. })) => Err(self.diagnose(error).await),
            outcome => outcome,
        }
    }

    /// Reads an answer that is to come at once.
    pub(crate) async fn whole(&self, response: Response) -> Result<Answer, Error> {
        let limit = self.config().request_timeout;
        match tokio::time::timeout(limit, read_answer(response)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.diagnose(error).await),
            Err(_elapsed) => Err(self.diagnose(Error::RequestTimedOut { limit }).await),
        }
    }

    /// One question, one answer.
    pub(crate) async fn unary<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        question: &Q,
        user: Option<&str>,
    ) -> Result<A, Error> {
        let body = json(question)?;
        let limit = self.config().request_timeout;
        let make = |http: &reqwest::Client| {
            self.rpc(http, path, user, limit).header("Content-Type", header::UNARY_CONTENT_TYPE).body(body.clone())
        };
        let answer = self.whole(self.open(limit, make).await?).await?;
        if answer.status != 200 {
            return Err(self.rpc_error(ConnectError::of_answer(answer.status, &answer.body)).await);
        }
        answer.parse(path)
    }

    /// One question, a stream of answers that lasts for `limit` at most.
    pub(crate) async fn stream<Q: Serialize>(
        &self,
        path: &str,
        question: &Q,
        user: Option<&str>,
        limit: Duration,
    ) -> Result<MessageStream, Error> {
        let body = Frame::message(question).map_err(|error| unwritable(&error))?;
        let interval = self.config().keepalive_interval.as_secs().max(1);
        let make = |http: &reqwest::Client| {
            self.rpc(http, path, user, limit)
                .header("Content-Type", header::STREAM_CONTENT_TYPE)
                .header(header::KEEPALIVE_PING_INTERVAL, interval.to_string())
                .body(body.clone())
        };
        let deadline = deadline_after(limit.saturating_add(GRACE));
        let opening = self.config().request_timeout;
        let whole = limit.saturating_add(GRACE);
        let response = match self.open(opening.min(whole), make).await {
            Err(Error::RequestTimedOut { .. }) if whole <= opening => return Err(Error::CommandTimedOut { limit }),
            outcome => outcome?,
        };
        if response.status().as_u16() != 200 {
            let answer = self.whole(response).await?;
            return Err(self.rpc_error(ConnectError::of_answer(answer.status, &answer.body)).await);
        }
        Ok(MessageStream::new(self.clone(), response, limit, deadline))
    }

    /// Asks the agent for a sign of life.
    pub(crate) async fn health(&self) -> Health {
        let whole = async {
            let response = self.request(&self.transport().http, Method::GET, "/health").send().await?;
            let status = response.status().as_u16();
            Ok::<_, reqwest::Error>((status, response.bytes().await.unwrap_or_default()))
        };
        match tokio::time::timeout(HEALTH_LIMIT, whole).await {
            Ok(Ok((200..=299, _))) => Health::Good,
            // A proxy's page is as good as its JSON: whoever answers 502 has no sandbox behind it.
            Ok(Ok((502, body))) => Health::Gone(match serde_json::from_slice::<ErrorBody>(&body) {
                Ok(body) => body.message,
                Err(_a_page) => "the sandbox was not found".to_owned(),
            }),
            Ok(Ok((status, _))) => Health::Silent(format!("the probe of the sandbox was answered with {status}")),
            Ok(Err(error)) => Health::Silent(format!("the probe of the sandbox failed: {}", error.without_url())),
            Err(_elapsed) => Health::Silent(format!("the probe of the sandbox got no answer within {HEALTH_LIMIT:?}")),
        }
    }
}

fn json<T: Serialize>(message: &T) -> Result<Bytes, Error> {
    serde_json::to_vec(message).map(Bytes::from).map_err(|error| unwritable(&error))
}

fn unwritable(error: &serde_json::Error) -> Error {
    Error::InvalidArgument { message: format!("a message that cannot be written: {error}") }
}
