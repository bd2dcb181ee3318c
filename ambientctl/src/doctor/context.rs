//! What every check is given.

use std::fmt;
use std::time::Duration;

use ambient_e2b::Client;
use ambient_e2b::protocol::template::ListedTemplate;
use tokio::sync::OnceCell;
use url::Url;

use super::target::{Target, chain};
use crate::docker::{Address, Connection, DockerError, Wanted, addresses};
use crate::environment::Environment;

/// What the caller asked for.
#[derive(Clone, Debug)]
pub struct Wishes {
    /// How long each check may take.
    pub limit: Duration,
    /// Whether models are asked and a sandbox is booted, which costs.
    pub deep: bool,
    /// The Docker engine that was named.
    pub docker: Option<String>,
    /// The running engine that was named, instead of the target's own.
    pub engine: Option<Url>,
}

/// The target, the caller's wishes, and what several checks share.
pub struct Context {
    /// What is looked at.
    pub target: Target,
    /// What the caller asked for.
    pub wishes: Wishes,
    /// The process's own variables.
    pub environment: Environment,
    /// For plain requests: no redirects, no proxy.
    pub http: reqwest::Client,
    /// Why no server's TLS can be trusted on this machine, if so. `http` then speaks without TLS alone.
    pub no_certificates: Option<String>,
    /// The templates of the key's team; asked once.
    templates: OnceCell<Result<Vec<ListedTemplate>, ambient_e2b::Error>>,
}

/// Without the process's variables, which hold secrets.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("target", &self.target).field("wishes", &self.wishes).finish_non_exhaustive()
    }
}

impl Context {
    /// # Errors
    /// When TLS cannot be set up on this machine. That it has no certificates is no error, but what a check tells.
    pub fn new(target: Target, wishes: Wishes, environment: Environment) -> Result<Self, reqwest::Error> {
        let client = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .user_agent(concat!("ambientctl/", env!("CARGO_PKG_VERSION")))
        };
        let (http, no_certificates) = match client().build() {
            Ok(http) => (http, None),
            // Trusts nobody, rather than everybody.
            Err(error) => (client().tls_certs_only([]).build()?, Some(chain(&error))),
        };
        Ok(Self { target, wishes, environment, http, no_certificates, templates: OnceCell::new() })
    }

    /// How long one request may take, so that its check still has the time to say so.
    pub fn request_limit(&self) -> Duration {
        self.wishes.limit * 4 / 5
    }

    /// A connection to the Docker engine.
    ///
    /// # Errors
    /// In three different words when there is none, when it refuses, and when it is silent.
    pub async fn docker(&self) -> Result<Connection, DockerError> {
        Connection::open(&self.docker_addresses()?, &self.environment).await
    }

    fn docker_addresses(&self) -> Result<Vec<Address>, DockerError> {
        addresses(self.wishes.docker.as_deref(), &self.environment)
    }

    /// What the compose files ask for, where there are some that can be read.
    pub fn wanted(&self) -> Option<&Wanted> {
        self.target.stack.as_ref()?.wanted.as_ref().ok()
    }

    /// A client of E2B with the target's settings.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn e2b(&self) -> Result<Client, ambient_e2b::Error> {
        self.e2b_within(self.request_limit())
    }

    /// The same with this limit for each call.
    ///
    /// # Errors
    /// When the settings cannot be used.
    pub fn e2b_within(&self, limit: Duration) -> Result<Client, ambient_e2b::Error> {
        let e2b = &self.target.settings.e2b;
        let mut config = ambient_e2b::Config::from_lookup(|name| e2b.variable(name))?;
        config.request_timeout = limit;
        Client::new(config)
    }

    /// The base address of the running engine, as this machine reaches it.
    pub fn engine_url(&self) -> Option<Url> {
        self.wishes.engine.clone().or_else(|| self.target.engine_url())
    }

    /// An address of the running engine.
    pub fn engine_path(&self, path: &str) -> Option<Url> {
        let mut url = self.engine_url()?;
        url.path_segments_mut().ok()?.pop_if_empty().extend(path.split('/'));
        Some(url)
    }

    /// The templates of the key's team. The checks that want them run side by side and ask once, so that an E2B that says
    /// nothing is waited for once.
    ///
    /// # Errors
    /// What E2B refused.
    pub async fn templates(&self, client: &Client) -> Result<&[ListedTemplate], &ambient_e2b::Error> {
        let known = self.templates.get_or_init(|| async { client.templates().list().await }).await;
        known.as_deref()
    }
}
