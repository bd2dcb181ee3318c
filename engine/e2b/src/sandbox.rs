//! One sandbox, as its user holds it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::client::Client;
use crate::envd::{Commands, Envd, Files, Health};
use crate::error::Error;
use crate::observe::LogQuery;
use crate::protocol::{
    ENVD_PORT, FileOperation, LogEntry, SandboxDetail, SandboxInstance, SandboxMetric, Token, file_signature,
};
use crate::transport::query_text;

/// A sandbox that was made or joined. Cheap to clone. Dropping it ends nothing: a sandbox ends by [`kill`](Self::kill) or its timeout.
#[derive(Clone, Debug)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    client: Client,
    instance: SandboxInstance,
    envd: Envd,
}

impl Sandbox {
    pub(crate) fn new(client: &Client, instance: SandboxInstance) -> Self {
        let envd = Envd::new(client, &instance);
        Self { inner: Arc::new(Inner { client: client.clone(), instance, envd }) }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.inner.instance.sandbox_id
    }

    /// What create or connect told about it.
    pub fn instance(&self) -> &SandboxInstance {
        &self.inner.instance
    }

    /// Commands in it.
    pub fn commands(&self) -> Commands<'_> {
        Commands::new(&self.inner.envd)
    }

    /// Files in it.
    pub fn files(&self) -> Files<'_> {
        Files::new(&self.inner.envd)
    }

    /// Whether its agent answers. `false` says that it is gone or paused.
    ///
    /// # Errors
    /// When neither can be said.
    pub async fn is_running(&self) -> Result<bool, Error> {
        match self.inner.envd.health().await {
            Health::Good => Ok(true),
            Health::Gone(_) => Ok(false),
            Health::Silent(message) => Err(Error::Broken { message }),
        }
    }

    /// See [`Client::info`].
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when it is gone.
    pub async fn info(&self) -> Result<SandboxDetail, Error> {
        self.inner.client.info(self.id()).await
    }

    /// See [`Client::set_timeout`].
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when it is gone or paused.
    pub async fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.inner.client.set_timeout(self.id(), timeout).await
    }

    /// See [`Client::kill`].
    ///
    /// # Errors
    /// When it is not known whether it ended.
    pub async fn kill(&self) -> Result<bool, Error> {
        self.inner.client.kill(self.id()).await
    }

    /// See [`Client::pause`].
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when it is gone.
    pub async fn pause(&self, keep_memory: bool) -> Result<bool, Error> {
        self.inner.client.pause(self.id(), keep_memory).await
    }

    /// See [`Client::metrics`].
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when it is gone.
    pub async fn metrics(&self, start: Option<Timestamp>, end: Option<Timestamp>) -> Result<Vec<SandboxMetric>, Error> {
        self.inner.client.metrics(self.id(), start, end).await
    }

    /// See [`Client::logs`].
    ///
    /// # Errors
    /// [`Error::SandboxNotFound`] when it is gone.
    pub async fn logs(&self, query: &LogQuery) -> Result<Vec<LogEntry>, Error> {
        self.inner.client.logs(self.id(), query).await
    }

    /// Host under which one of its ports is reached, without a scheme.
    pub fn host(&self, port: u16) -> String {
        let instance = &self.inner.instance;
        self.inner.client.config().host(&instance.sandbox_id, instance.domain.as_deref(), port)
    }

    /// Token for its own ports, where they are not public.
    pub fn traffic_access_token(&self) -> Option<&Token> {
        self.inner.instance.traffic_access_token.as_ref()
    }

    /// An address from which anybody can get a file, until `expires` if that is given. `user` decides what a relative path means.
    ///
    /// The address is a secret as long as it is good: it needs no other right.
    pub fn download_url(&self, path: &str, user: Option<&str>, expires: Option<Timestamp>) -> Token {
        self.file_url(path, FileOperation::Read, user, expires)
    }

    /// An address to which anybody can put a file, as a form with a part named `file`, until `expires` if that is given.
    pub fn upload_url(&self, path: &str, user: Option<&str>, expires: Option<Timestamp>) -> Token {
        self.file_url(path, FileOperation::Write, user, expires)
    }

    fn file_url(&self, path: &str, operation: FileOperation, user: Option<&str>, expires: Option<Timestamp>) -> Token {
        let instance = &self.inner.instance;
        let user = user.or_else(|| self.inner.envd.forced_user());
        let seconds = expires.map(Timestamp::as_second);
        let seconds_text = seconds.map(|seconds| seconds.to_string());
        let signature = instance
            .envd_access_token
            .as_ref()
            .map(|token| file_signature(path, operation, user.unwrap_or_default(), token, seconds));
        let pairs = [
            ("path", Some(path)),
            ("username", user),
            ("signature", signature.as_deref()),
            ("signature_expiration", seconds_text.as_deref().filter(|_| signature.is_some())),
        ];
        let query = query_text(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))));
        let config = self.inner.client.config();
        let origin = config.signed_origin(&instance.sandbox_id, instance.domain.as_deref(), ENVD_PORT);
        Token::new(format!("{origin}/files{query}"))
    }
}
