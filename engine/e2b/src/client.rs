//! The client: sandboxes by way of the control plane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::Method;

use crate::api_error::{Subject, api_error, is_about_route};
use crate::config::Config;
use crate::error::Error;
use crate::new_sandbox::whole_seconds;
use crate::protocol::{ConnectSandbox, PauseSandbox, SandboxDetail, SandboxInstance, SetTimeout};
use crate::sandbox::Sandbox;
use crate::templates::Templates;
use crate::transport::{Answer, ApiRequest, Transport};

/// Id of the one sandbox of debug mode.
pub(crate) const DEBUG_SANDBOX_ID: &str = "debug_sandbox_id";

/// Speaks with E2B for one team. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) transport: Transport,
    /// Set once the server has shown that it is of before `/v2`.
    is_of_old: AtomicBool,
}

impl Client {
    /// A client with these settings and an HTTP client of its own, which uses no proxy.
    ///
    /// # Errors
    /// When TLS cannot be set up on this machine.
    pub fn new(config: Config) -> Result<Self, Error> {
        Ok(Self::of(Transport::new(config)?))
    }

    /// A client with these settings that sends through `http`, such as one with a proxy or certificates of its own. A time limit set on `http` would cut long
    /// streams: leave limits to `config`.
    pub fn with_http(config: Config, http: reqwest::Client) -> Self {
        Self::of(Transport { http, config })
    }

    fn of(transport: Transport) -> Self {
        Self { inner: Arc::new(Inner { transport, is_of_old: AtomicBool::new(false) }) }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.inner.transport.config
    }

    /// Templates of the team.
    pub fn templates(&self) -> Templates<'_> {
        Templates::new(self)
    }

    /// Joins a sandbox that runs, or wakes one that is paused, and sees to it that it lives for `timeout` from now at least.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none.
    pub async fn connect(&self, sandbox_id: &str, timeout: Duration) -> Result<Sandbox, Error> {
        self.connect_as(sandbox_id, ConnectSandbox { timeout: Some(whole_seconds(timeout)), memory: None }).await
    }

    /// Like [`connect`](Self::connect), but boots a paused sandbox from its disk rather than going on with its processes.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none.
    pub async fn reboot(&self, sandbox_id: &str, timeout: Duration) -> Result<Sandbox, Error> {
        self.connect_as(sandbox_id, ConnectSandbox { timeout: Some(whole_seconds(timeout)), memory: Some(false) }).await
    }

    async fn connect_as(&self, sandbox_id: &str, body: ConnectSandbox) -> Result<Sandbox, Error> {
        if self.config().debug {
            return Ok(Sandbox::new(self, debug_instance()));
        }
        let id = checked_id(sandbox_id)?;
        let answer = self
            .now_or_of_old(
                || ApiRequest::new(Method::POST, format!("/v2/sandboxes/{id}/connect")).body(&body),
                || ApiRequest::new(Method::POST, format!("/sandboxes/{id}/connect")).body(&body),
            )
            .await?;
        let instance = parse(&answer, Subject::Sandbox(id), "a sandbox")?;
        Ok(Sandbox::new(self, instance))
    }

    /// What the control plane knows about a sandbox.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none.
    pub async fn info(&self, sandbox_id: &str) -> Result<SandboxDetail, Error> {
        let id = checked_id(sandbox_id)?;
        let answer = self.api(&ApiRequest::new(Method::GET, format!("/sandboxes/{id}"))).await?;
        parse(&answer, Subject::Sandbox(id), "a sandbox's detail")
    }

    /// Moves a sandbox's end to `timeout` from now, earlier or later than it was.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none, or it is paused.
    pub async fn set_timeout(&self, sandbox_id: &str, timeout: Duration) -> Result<(), Error> {
        if self.config().debug {
            return Ok(());
        }
        let id = checked_id(sandbox_id)?;
        let body = SetTimeout { timeout: i64::try_from(whole_seconds(timeout)).unwrap_or(i64::MAX) };
        let request = ApiRequest::new(Method::POST, format!("/sandboxes/{id}/timeout")).body(&body)?;
        done(&self.api(&request).await?, Subject::Sandbox(id))
    }

    /// Ends a sandbox, running or paused. `false` says that there was none.
    ///
    /// # Errors
    /// When it is not known whether it ended.
    pub async fn kill(&self, sandbox_id: &str) -> Result<bool, Error> {
        if self.config().debug {
            return Ok(true);
        }
        let id = checked_id(sandbox_id)?;
        let answer = self.api(&ApiRequest::new(Method::DELETE, format!("/sandboxes/{id}"))).await?;
        if answer.status == 404 {
            // An earlier try whose answer got lost has ended it.
            return Ok(answer.follows_a_loss);
        }
        done(&answer, Subject::Sandbox(id)).map(|()| true)
    }

    /// Pauses a sandbox, keeping its processes if `keep_memory`. `false` says that it was paused already.
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when there is none.
    pub async fn pause(&self, sandbox_id: &str, keep_memory: bool) -> Result<bool, Error> {
        let id = checked_id(sandbox_id)?;
        let body = PauseSandbox { memory: (!keep_memory).then_some(false), require_healthy_guest: None };
        let request = ApiRequest::new(Method::POST, format!("/sandboxes/{id}/pause")).body(&body)?;
        let answer = self.api(&request).await?;
        if answer.status == 409 {
            return Ok(answer.follows_a_loss);
        }
        done(&answer, Subject::Sandbox(id)).map(|()| true)
    }

    /// Sends the request of today, or the one of before `/v2` once the server has shown to know no other.
    pub(crate) async fn now_or_of_old(
        &self,
        now: impl FnOnce() -> Result<ApiRequest, Error>,
        of_old: impl FnOnce() -> Result<ApiRequest, Error>,
    ) -> Result<Answer, Error> {
        if !self.inner.is_of_old.load(Ordering::Relaxed) {
            let answer = self.api(&now()?).await?;
            if !is_about_route(&answer) {
                return Ok(answer);
            }
        }
        let answer = self.api(&of_old()?).await?;
        // A server without either path must not be remembered as one of old.
        if !is_about_route(&answer) {
            self.inner.is_of_old.store(true, Ordering::Relaxed);
        }
        Ok(answer)
    }

    pub(crate) async fn api(&self, request: &ApiRequest) -> Result<Answer, Error> {
        self.inner.transport.api(request).await
    }
}

/// The one sandbox of debug mode.
pub(crate) fn debug_instance() -> SandboxInstance {
    SandboxInstance {
        template_id: String::new(),
        sandbox_id: DEBUG_SANDBOX_ID.to_owned(),
        client_id: String::new(),
        envd_version: "99.99.99".to_owned(),
        alias: None,
        envd_access_token: None,
        traffic_access_token: None,
        domain: None,
    }
}

/// An id that may stand in a path and a host name. Ids of old have a tail behind a dash.
pub(crate) fn checked_id(sandbox_id: &str) -> Result<&str, Error> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if sandbox_id.is_empty() || !sandbox_id.bytes().all(is_plain) {
        return Err(Error::InvalidArgument { message: format!("`{sandbox_id}` is no sandbox id") });
    }
    Ok(sandbox_id)
}

/// The message of a successful answer, or the error of another.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(
    answer: &Answer,
    subject: Subject<'_>,
    what: &str,
) -> Result<T, Error> {
    done(answer, subject)?;
    answer.parse(what)
}

/// That an answer is a success.
pub(crate) fn done(answer: &Answer, subject: Subject<'_>) -> Result<(), Error> {
    if answer.is_success() { Ok(()) } else { Err(api_error(answer, subject)) }
}
