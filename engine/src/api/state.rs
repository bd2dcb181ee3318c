//! What handlers work with.

use std::ops::Deref;
use std::sync::Arc;

use ambient_settings::Settings;

use super::auth::KeyCheck;
use super::health::ReadyChecks;
use super::retries::RetriedSends;
use super::session_reads::SessionReads;
use crate::broker::Broker;
use crate::clock::Clock;
use crate::events::stream::Streams;
use crate::ingest::upload::Uploads;
use crate::lifecycle::Lifecycle;
use crate::secrets::Secrets;
use crate::sessions::service::Sessions;
use crate::store::Store;

/// The parts of the engine that the HTTP surface stands on.
#[derive(Clone, Debug)]
pub struct AppParts {
    /// As loaded at start.
    pub settings: Arc<Settings>,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// Signals and jobs.
    pub broker: Arc<dyn Broker>,
    /// The time.
    pub clock: Clock,
    /// Owner of what goes on when its client hangs up.
    pub lifecycle: Lifecycle,
    /// Conversations.
    pub sessions: Sessions,
    /// Readers of their events.
    pub streams: Streams,
    /// Takes in videos.
    pub uploads: Uploads,
    /// Seals agents' keys.
    pub secrets: Secrets,
}

/// Everything a handler may need. Cheap to clone, which happens several times in each request.
#[derive(Clone, Debug)]
pub struct App(Arc<Held>);

impl Deref for App {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

/// What an [`App`] holds.
#[derive(Debug)]
pub struct Held {
    /// As loaded at start.
    pub settings: Arc<Settings>,
    /// Where everything is kept.
    pub store: Arc<dyn Store>,
    /// The time.
    pub clock: Clock,
    /// Owner of what goes on when its client hangs up.
    pub lifecycle: Lifecycle,
    /// Conversations.
    pub sessions: Sessions,
    /// Readers of their events.
    pub streams: Streams,
    /// Sends of the last minute.
    pub retries: RetriedSends,
    /// Sessions as they are answered.
    pub session_reads: SessionReads,
    /// Takes in videos.
    pub uploads: Uploads,
    /// Seals agents' keys.
    pub secrets: Secrets,
    /// Who may use the API.
    pub key: KeyCheck,
    /// What `/readyz` asks.
    pub ready: ReadyChecks,
}

impl App {
    /// Over these parts. `/readyz` asks the store, the broker, the bucket and who provides sandboxes; [`ReadyChecks::with`] adds to that.
    pub fn new(parts: AppParts) -> Self {
        let AppParts { settings, store, broker, clock, lifecycle, sessions, streams, uploads, secrets } = parts;
        let asked_store = Arc::clone(&store);
        let ready = ReadyChecks::default()
            .with("store", move || {
                let store = Arc::clone(&asked_store);
                async move { Ok(store.ping().await?) }
            })
            .with("broker", move || {
                let broker = Arc::clone(&broker);
                async move { Ok(broker.ping().await?) }
            });
        let ready = match uploads.objects().cloned() {
            None => ready,
            Some(bucket) => ready.with("bucket", move || {
                let bucket = bucket.clone();
                async move { Ok(bucket.ping().await?) }
            }),
        };
        let backend = Arc::clone(sessions.backend());
        let ready = if backend.name() == "e2b" {
            ready.with("sandboxes", move || {
                let backend = Arc::clone(&backend);
                async move { Ok(backend.ping().await?) }
            })
        } else {
            ready
        };
        Self(Arc::new(Held {
            key: KeyCheck::new(&settings.server.api_key, settings.server.is_loopback()),
            retries: RetriedSends::default(),
            session_reads: SessionReads::new(Arc::clone(&store)),
            settings,
            store,
            clock,
            lifecycle,
            sessions,
            streams,
            uploads,
            secrets,
            ready,
        }))
    }
}
