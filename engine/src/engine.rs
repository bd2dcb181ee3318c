//! The engine as a whole: its parts put together, its start, its end.
//!
//! Start: store, broker, media, backend, agent, sessions, HTTP; what a dead engine left behind is mended by services that
//! run from then on. End: no new work, runs may finish, what is left is interrupted with its terminal events, and last of
//! all the shell's children, the store and the broker go.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ambient_media::objects::ObjectStore;
use ambient_media::{BucketReading, Media, MediaError, Youtube};
use ambient_settings::{DatabaseUrl, SandboxBackend, Settings};
use axum::Router;
use axum::serve::ListenerExt as _;
use futures::future::BoxFuture;
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::agent::catalogue::{Catalogue, CatalogueError};
use crate::agent::client::ModelClient;
use crate::agent::config::{AgentConfig, AgentParts, KeyOpener};
use crate::agent::resolve::{RecentAddresses, Resolver};
use crate::agent::run::Agent;
use crate::agent::vision::Vision;
use crate::api::health;
use crate::api::state::{App, AppParts};
use crate::backend::MediaBackend;
use crate::backend::e2b::{E2b, E2bConfig, E2bConfigError, E2bParts};
use crate::backend::inprocess::{InProcess, InProcessConfig, media_config};
use crate::broker::{Broker, BrokerError, BrokerOptions};
use crate::clock::Clock;
use crate::events::stream::Streams;
use crate::ingest::copies::BucketCopies;
use crate::ingest::tiles::TileWish;
use crate::ingest::upload::Uploads;
use crate::ingest::{self, IngestConfig, IngestParts, youtube_config};
use crate::lifecycle::Lifecycle;
use crate::secrets::{Secrets, SecretsError};
use crate::sessions::service::{Parts, Sessions};
use crate::sessions::supervise::Runner;
use crate::store::{Migrate, Store, StoreError, StoreOptions};
use crate::tools::toolbox::{Toolbox, ToolboxConfig};

/// How long links to media live that a model's server fetches.
const LINK_TTL: Duration = Duration::from_hours(2);
/// Between two sweeps of expired files and left-over uploads.
const FILE_SWEEP_PERIOD: Duration = Duration::from_mins(5);
/// How long aborts of unfinished uploads may take at the end.
const BUCKET_GRACE: Duration = Duration::from_secs(10);
/// Between two foldings of the metrics.
const METRICS_PERIOD: Duration = Duration::from_secs(5);

/// Why an engine did not start. Nothing of it runs then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store is not usable.
    #[error("the store could not be opened")]
    Store(#[from] StoreError),
    /// The broker is not usable.
    #[error("the broker could not be reached")]
    Broker(#[from] BrokerError),
    /// A folder could not be made.
    #[error("`{folder}` could not be made")]
    Folder {
        /// Which.
        folder: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The listener has no address.
    #[error("the listening socket has no address")]
    Listener(#[source] io::Error),
    /// The model catalogue's files do not read.
    #[error("the model catalogue could not be loaded")]
    Catalogue(#[from] CatalogueError),
    /// The way to the bucket could not be prepared.
    #[error("the client for the bucket could not be made")]
    Bucket(#[source] MediaError),
    /// The HTTP client for models could not be made.
    #[error("the HTTP client for models could not be made")]
    Client(#[from] reqwest::Error),
    /// The key for sealed secrets could not be made.
    #[error("the key for stored secrets could not be derived")]
    Secrets(#[from] SecretsError),
    /// `SANDBOX_BACKEND=e2b` without what it needs.
    #[error(transparent)]
    Sandboxes(#[from] E2bConfigError),
}

/// A running engine. Dropping it leaves it running; [`Self::shut_down`] ends it.
#[derive(Debug)]
pub struct Engine {
    address: SocketAddr,
    lifecycle: Lifecycle,
    grace: Duration,
    backend: Arc<dyn MediaBackend>,
    store: Arc<dyn Store>,
    bucket: Option<ObjectStore>,
}

impl Engine {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Comes when the engine drains: because it was told to, or because a part of it that must live ended.
    pub async fn stopped(&self) {
        self.lifecycle.draining().cancelled().await;
    }

    /// Takes no new work, lets runs finish for `SHUTDOWN_GRACE_SECONDS`, interrupts what is left, and ends. `false`
    /// when a task outlived all of that.
    pub fn shut_down(&self) -> BoxFuture<'_, bool> {
        Box::pin(self.end())
    }

    async fn end(&self) -> bool {
        let all_ended = self.lifecycle.shut_down(self.grace).await;
        self.backend.shut_down().await;
        if let Some(bucket) = &self.bucket {
            // Uploads that were cut short are aborted, or their parts would stay.
            if tokio::time::timeout(BUCKET_GRACE, bucket.settle()).await.is_err() {
                tracing::warn!("parts of unfinished uploads stay in the bucket");
            }
        }
        self.store.close().await;
        if !all_ended {
            tracing::warn!("a task outlived the engine");
        }
        all_ended
    }
}

/// Starts an engine on this listener.
///
/// The future is boxed, as is that of [`Engine::shut_down`]: the code of all that it awaits is then made here once, and not again in
/// every program that starts an engine.
///
/// # Errors
/// When a part of it is not usable; nothing is left running then.
pub fn start(settings: Settings, listener: TcpListener) -> BoxFuture<'static, Result<Engine, StartError>> {
    Box::pin(started(settings, listener))
}

async fn started(settings: Settings, listener: TcpListener) -> Result<Engine, StartError> {
    // What is missing for sandboxes is told before anything is opened.
    let sandboxes = match settings.sandbox.backend {
        SandboxBackend::E2b => Some(E2bConfig::from_settings(&settings)?),
        SandboxBackend::InProcess => None,
    };
    let address = listener.local_addr().map_err(StartError::Listener)?;
    let settings = Arc::new(settings);
    let clock = Clock::system();
    let store = open_store(&settings).await?;
    let broker = open_broker(&settings).await?;
    crate::built_in::seed(store.as_ref(), &settings, clock.now()).await?;
    health::begin_metrics();

    let lifecycle = Lifecycle::new();
    let media = match BucketReading::on_host(&settings) {
        Some(bucket) => Media::with_bucket(media_config(&settings), bucket).map_err(StartError::Bucket)?,
        None => Media::new(media_config(&settings)),
    };
    let bucket = media.objects().cloned();
    let backend: Arc<dyn MediaBackend> = match (sandboxes, &bucket) {
        (Some(config), Some(objects)) => {
            let backend = E2b::new(E2bParts {
                config,
                store: Arc::clone(&store),
                broker: Arc::clone(&broker),
                clock: clock.clone(),
                lifecycle: lifecycle.clone(),
                media: media.clone(),
                objects: objects.clone(),
            })?;
            backend.start_reaper();
            Arc::new(backend)
        }
        (Some(_), None) => return Err(E2bConfigError::BucketMissing { names: vec!["S3_BUCKET"] }.into()),
        (None, _) => {
            Arc::new(InProcess::new(InProcessConfig::from_settings(&settings), Arc::clone(&store), media.clone()))
        }
    };
    let secrets = Secrets::new(&settings)?;
    let uploads = open_uploads(&settings, media.clone(), &store, &broker, &clock, &lifecycle)?;
    let thinking = Thinking::new(&settings, &secrets, &store, Arc::clone(&backend))?;

    let agent = thinking.agent;
    let sessions = Sessions::new(Parts {
        store: Arc::clone(&store),
        broker: Arc::clone(&broker),
        clock: clock.clone(),
        lifecycle: lifecycle.clone(),
        backend: Arc::clone(&backend),
        runner: Runner::new(move |context| {
            let agent = agent.clone();
            async move { agent.run(context).await }
        }),
        max_turns: settings.agent.max_turns_per_run,
    });
    let streams = Streams::new(
        Arc::clone(&store),
        Arc::clone(&broker),
        lifecycle.draining().clone(),
        lifecycle.aborting().clone(),
    );
    let app = App::new(AppParts {
        settings: Arc::clone(&settings),
        store: Arc::clone(&store),
        broker: Arc::clone(&broker),
        clock: clock.clone(),
        lifecycle: lifecycle.clone(),
        sessions: sessions.clone(),
        streams,
        uploads: uploads.clone(),
        secrets,
    });

    lifecycle.spawn_service("cut-off runs", |draining| sessions.recover_runs(draining));
    ingest::start(
        &lifecycle,
        &IngestParts {
            store: Arc::clone(&store),
            broker: Arc::clone(&broker),
            backend: Arc::clone(&backend),
            youtube: settings.youtube.import_enabled.then(|| Arc::new(Youtube::new(youtube_config(&settings), media))),
            video_folder: settings.media.video_folder.clone(),
            uploads: Some(uploads.clone()),
            vision: Some(Arc::new(thinking.vision)),
            clock,
            config: IngestConfig::from_settings(&settings),
        },
    );
    lifecycle.spawn_service("files", |draining| every(FILE_SWEEP_PERIOD, draining, move || sweep(uploads.clone())));
    lifecycle.spawn_service("metrics", |draining| {
        every(METRICS_PERIOD, draining, || {
            health::tidy_metrics();
            std::future::ready(())
        })
    });
    if let Some(url) = &settings.llm.catalogue_url {
        let (catalogue, url) = (thinking.catalogue, url.clone());
        lifecycle.spawn_service("model catalogue", |draining| async move {
            catalogue.refresh(url.as_url().as_str(), draining).await;
        });
    }
    serve(&lifecycle, listener, crate::api::router(app));
    tracing::info!(%address, "engine started");
    Ok(Engine { address, lifecycle, grace: settings.server.shutdown_grace, backend, store, bucket })
}

async fn open_store(settings: &Settings) -> Result<Arc<dyn Store>, StartError> {
    let migrate = if settings.store.migrate { Migrate::Run } else { Migrate::Refuse };
    let url = match &settings.store.database {
        DatabaseUrl::Sqlite(path) => format!("sqlite://{path}"),
        DatabaseUrl::Postgres(url) => url.expose_secret().to_owned(),
    };
    Ok(crate::store::connect(&url, &StoreOptions::new(migrate)).await?)
}

async fn open_broker(settings: &Settings) -> Result<Arc<dyn Broker>, StartError> {
    // `WORKER_ID` may be the same for several processes of one host, so something random goes with it.
    let name = settings.server.worker_id.as_deref().unwrap_or("engine");
    let options = BrokerOptions {
        engine_id: format!("{name}-{:016x}", rand::random::<u64>()),
        stream: settings.ingest.stream.clone(),
        group: settings.ingest.group.clone(),
    };
    let url = settings.store.redis_url.as_ref().map(secrecy::ExposeSecret::expose_secret);
    Ok(crate::broker::connect(url, &options).await?)
}

fn open_uploads(
    settings: &Settings,
    media: Media,
    store: &Arc<dyn Store>,
    broker: &Arc<dyn Broker>,
    clock: &Clock,
    lifecycle: &Lifecycle,
) -> Result<Uploads, StartError> {
    // In a sandbox there is nothing but what the bucket has.
    let is_needed = settings.sandbox.backend == SandboxBackend::E2b;
    let copies = media.objects().map(|bucket| BucketCopies::new(bucket.clone(), lifecycle.clone(), is_needed));
    let folder = &settings.media.video_folder;
    let (store, broker) = (Arc::clone(store), Arc::clone(broker));
    Uploads::new(folder, settings.server.max_upload_bytes, media, store, broker, clock.clone(), copies)
        .map(|uploads| uploads.with_tiles(TileWish::from_settings(settings).is_some()))
        .map_err(|source| StartError::Folder { folder: folder.to_string(), source })
}

/// Everything that asks models.
struct Thinking {
    agent: Agent,
    vision: Vision,
    catalogue: Arc<Catalogue>,
}

impl Thinking {
    fn new(
        settings: &Settings,
        secrets: &Secrets,
        store: &Arc<dyn Store>,
        backend: Arc<dyn MediaBackend>,
    ) -> Result<Self, StartError> {
        let client = ModelClient::new(settings.llm.allow_private_urls)?;
        let catalogue = Arc::new(Catalogue::load(
            settings.llm.definitions_file.as_deref(),
            settings.llm.providers_file.as_deref(),
        )?);
        let config = AgentConfig::from_settings(settings);
        let resolver = Resolver::new(backend, Arc::clone(store), None, LINK_TTL);
        let vision = Vision::new(client.clone(), config.vision_endpoint.clone(), Arc::clone(&catalogue), resolver);
        let toolbox = Toolbox::new(ToolboxConfig::from_settings(settings), Some(Arc::new(vision.clone())));
        let secrets = secrets.clone();
        let keys = KeyOpener::new(move |endpoint| {
            secrets.open(&endpoint.sealed_api_key, &endpoint.base_url).map_err(|_sealed| {
                "the agent's own key does not open any more, since `SECRETS_KEY` or `API_KEY` changed; give the agent \
                 its `api_key` again"
                    .to_owned()
            })
        });
        let agent = Agent::new(AgentParts {
            client,
            catalogue: Arc::clone(&catalogue),
            config,
            store: Arc::clone(store),
            toolbox,
            keys,
            recent: RecentAddresses::default(),
        });
        Ok(Self { agent, vision, catalogue })
    }
}

async fn sweep(uploads: Uploads) {
    if let Err(error) = uploads.sweep().await {
        tracing::warn!(error = %crate::store::chain(&error), "expired files could not be swept");
    }
}

/// Does something now and again until the engine drains.
async fn every<F: Future<Output = ()>>(period: Duration, draining: CancellationToken, mut work: impl FnMut() -> F) {
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = draining.cancelled() => return,
            _ = ticks.tick() => work().await,
        }
    }
}

/// Serves until the engine drains, then lets open answers end; when everything is to end, they end too.
fn serve(lifecycle: &Lifecycle, listener: TcpListener, router: Router) {
    // Frames of a stream are small and must not wait for more.
    let listener = listener.tap_io(|connection| {
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
    });
    let aborting = lifecycle.aborting().clone();
    lifecycle.spawn_service("http", |draining| async move {
        let served = axum::serve(listener, router).with_graceful_shutdown(draining.cancelled_owned());
        tokio::select! {
            ended = served => {
                if let Err(error) = ended {
                    tracing::error!(%error, "the HTTP server ended");
                }
            }
            () = last_answers(aborting) => tracing::debug!("open connections were closed"),
        }
    });
}

/// After the abort, streams still give the last events of their runs; then connections are closed.
async fn last_answers(aborting: CancellationToken) {
    aborting.cancelled().await;
    tokio::time::sleep(LAST_ANSWERS).await;
}

/// A run that is told to stop takes some seconds at most, see `sessions::supervise`.
const LAST_ANSWERS: Duration = Duration::from_secs(9);
