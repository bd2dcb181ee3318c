//! A host from its start to its end.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::serve::ListenerExt as _;
use camino::Utf8PathBuf;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, KEY_PREFIX, Teams};
use crate::containers::Containers;
use crate::control::Repeats;
use crate::driver::{Driver, Launcher};
use crate::folders::{FolderFailure, Folders};
use crate::namespace::{self, ControlGroups, Network};
use crate::sandboxes::Registry;
use crate::serve::{Shared, routes};
use crate::templates::{Archives, BaseFailure, Builder, Catalogue, Image, Layers, is_root, make_base};

/// How long requests may take to end once every sandbox is gone.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Why a host did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The namespaces, mounts and control groups of sandboxes are root's to make.
    #[error("sandboxes need root on this machine")]
    NotRoot,
    /// Nobody could use the host.
    #[error("no key is given")]
    NoKey,
    /// E2B's SDKs would refuse it.
    #[error("a key does not begin with `{KEY_PREFIX}`")]
    BadKey,
    /// The data folder is in use, or cannot be.
    #[error("the data folder cannot be used")]
    Folder(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address cannot be had.
    #[error("cannot listen on `{address}`")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// What an earlier host left cannot be removed.
    #[error("cannot clean up after an earlier host")]
    CleanUp(#[source] io::Error),
    /// There is no Docker engine to make containers.
    #[error("cannot use the Docker engine")]
    Docker(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// There is no root for sandboxes.
    #[error("cannot make the root of the template `base`")]
    Base(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file of templates cannot be read.
    #[error("cannot read `{file}`")]
    Templates {
        /// The file.
        file: Utf8PathBuf,
        /// What is wrong with it.
        #[source]
        source: io::Error,
    },
}

impl From<FolderFailure> for StartError {
    fn from(failure: FolderFailure) -> Self {
        Self::Folder(Box::new(failure))
    }
}

impl From<BaseFailure> for StartError {
    fn from(failure: BaseFailure) -> Self {
        Self::Base(Box::new(failure))
    }
}

/// A running host. Dropped, it serves no more, and its sandboxes end.
#[derive(Debug)]
pub struct Host {
    address: SocketAddr,
    stop: CancellationToken,
    ended: CancellationToken,
    tasks: TaskTracker,
    registry: Registry,
    launcher: Arc<Launcher>,
}

impl Host {
    /// Starts a host. The first start in a data folder makes the root of the template `base`, which takes a minute.
    ///
    /// # Errors
    /// When a setting cannot be met, or the machine cannot run sandboxes.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        if !nix::unistd::geteuid().is_root() {
            return Err(StartError::NotRoot);
        }
        check_keys(&config)?;
        allow_open_files();
        let folders = Arc::new(Folders::open(&config.data_folder, &config.driver)?);
        let listener = TcpListener::bind(config.listen).await;
        let listener = listener.map_err(|source| StartError::Listen { address: config.listen, source })?;
        let address = listener.local_addr().map_err(|source| StartError::Listen { address: config.listen, source })?;

        let tasks = TaskTracker::new();
        let launcher = Arc::new(launcher(&config, &folders, &tasks).await?);
        launcher.clean_up().await.map_err(StartError::CleanUp)?;
        let (roots, layers) = (Layers::of_roots(&folders), Layers::of_templates(&folders));
        let base = make_base(&roots).await?;
        launcher.take_base(&roots, &layers, &base).await?;
        let base = Image::of_layer(base);
        let file = folders.templates();
        let catalogue = Catalogue::open(file.clone(), base).map_err(|source| StartError::Templates { file, source })?;
        let catalogue = Arc::new(catalogue);
        let used: HashSet<String> = catalogue.layers().into_iter().collect();
        layers.sweep(&used, is_root).map_err(StartError::CleanUp)?;
        launcher.reconcile(&layers).await.map_err(StartError::CleanUp)?;

        let registry = Registry::new(Arc::clone(&launcher), config.max_sandboxes);
        let archives = Arc::new(Archives::new(folders));
        archives.sweep().map_err(StartError::CleanUp)?;
        let builder = Builder {
            launcher: Arc::clone(&launcher),
            catalogue: Arc::clone(&catalogue),
            archives: Arc::clone(&archives),
            layers,
        };
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let app = Arc::new(Shared {
            teams: Teams::new(&config.keys),
            registry: registry.clone(),
            catalogue,
            archives,
            builder,
            repeats: Repeats::default(),
            tasks: tasks.clone(),
            stop: stop.child_token(),
        });
        tasks.spawn(registry.clone().keep(tasks.clone(), stop.child_token()));
        tasks.spawn(registry.clone().measure(stop.child_token()));
        let stopping = stop.clone().cancelled_owned();
        let at_end = ended.clone().drop_guard();
        let listener = listener.tap_io(|connection| {
            // Events are small and each is awaited: none may wait for the next.
            let _slower_at_worst = connection.set_nodelay(true);
        });
        tasks.spawn(async move {
            let served = axum::serve(listener, routes(app)).with_graceful_shutdown(stopping).await;
            tracing::debug!(?served, "the host serves no more");
            drop(at_end);
        });
        Ok(Self { address, stop, ended, tasks, registry, launcher })
    }

    /// Where both planes are served.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the host serves no more, whatever the reason.
    pub async fn stopped(&self) {
        self.ended.cancelled().await;
    }

    /// Takes no more requests, ends every sandbox and removes its files. Templates stay.
    pub async fn shut_down(&self) {
        self.stop.cancel();
        self.registry.kill_all().await;
        self.tasks.close();
        if tokio::time::timeout(LAST_WORDS, self.tasks.wait()).await.is_err() {
            tracing::warn!("some requests did not end within {LAST_WORDS:?}, and are broken off");
        }
        // One that was just being made.
        self.registry.kill_all().await;
        self.launcher.tear_down().await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// As many open files as this process may have: each connection is one, each sandbox a few, and the usual limit is for programs with a handful.
fn allow_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "the limit of open files stays as it was");
    }
}

async fn launcher(config: &Config, folders: &Arc<Folders>, tasks: &TaskTracker) -> Result<Launcher, StartError> {
    let folders = Arc::clone(folders);
    let tasks = tasks.clone();
    match &config.driver {
        Driver::Namespace => {
            let groups = ControlGroups::find(folders.root());
            if !groups.limits_memory() {
                tracing::warn!("no control group limits memory here: each process of a sandbox is limited by itself");
            }
            if !groups.freezes() {
                tracing::warn!("no control group freezes here: pausing stops the processes of a sandbox one by one");
            }
            let network = Network::set_up(config.network).await;
            let program = config.agent_program.clone();
            Ok(Launcher::Namespaces(namespace::Launcher { folders, groups, network, program, tasks }))
        }
        Driver::Docker { socket } => {
            let opened = Containers::open(socket, config.network, folders, &config.agent_program, tasks).await;
            Ok(Launcher::Containers(Arc::new(opened.map_err(|failure| StartError::Docker(Box::new(failure)))?)))
        }
    }
}

fn check_keys(config: &Config) -> Result<(), StartError> {
    use secrecy::ExposeSecret as _;
    if config.keys.is_empty() {
        return Err(StartError::NoKey);
    }
    let is_good = |key: &secrecy::SecretString| {
        key.expose_secret().len() > KEY_PREFIX.len() && key.expose_secret().starts_with(KEY_PREFIX)
    };
    if config.keys.iter().all(is_good) { Ok(()) } else { Err(StartError::BadKey) }
}
