//! Sessions over a real SQLite store and the in-process broker, with a scripted run in the agent's place.

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::agent::{RunContext, RunOutcome};
use ambient_engine::backend::MediaBackend;
use ambient_engine::broker::{Broker, BrokerOptions};
use ambient_engine::clock::Clock;
use ambient_engine::events::body::{ContentBlock, EventBody};
use ambient_engine::events::stream::Streams;
use ambient_engine::ids::{EnvironmentId, SessionId, VideoId};
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::sessions::service::{Parts, Sessions};
use ambient_engine::sessions::supervise::Runner;
use ambient_engine::sessions::wishes::{AgentChoice, AgentOverrides, NewSession, SendRequest, SessionError};
use ambient_engine::sessions::writer::RunWriteError;
use ambient_engine::store::records::{
    AgentModel, AgentRecord, EnvironmentRecord, EventRecord, FileRecord, FileSource, Metadata, SessionRecord,
    WorkStatus,
};
use ambient_engine::store::{EventFilter, EventWindow, Migrate, Store, StoreOptions};
use camino::Utf8Path;

/// How long a test waits for what has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A small engine without HTTP.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) sessions: Sessions,
    pub(crate) streams: Streams,
    pub(crate) lifecycle: Lifecycle,
    _folder: tempfile::TempDir,
}

/// A world whose runs do this.
pub(crate) async fn world<F>(work: impl Fn(RunContext) -> F + Send + Sync + 'static) -> anyhow::Result<World>
where
    F: Future<Output = Result<RunOutcome, RunWriteError>> + Send + 'static,
{
    let folder = tempfile::tempdir()?;
    let home = Utf8Path::from_path(folder.path()).expect("temporary folders have UTF-8 names").to_owned();
    let store = ambient_engine::store::connect(
        &format!("sqlite://{}", home.join("ambient.db")),
        &StoreOptions::new(Migrate::Run),
    )
    .await?;
    let broker = broker().await?;
    let clock = Clock::system();
    let lifecycle = Lifecycle::new();
    seed(store.as_ref(), &clock).await?;
    Ok(assemble(store, broker, clock, lifecycle, Runner::new(work), folder))
}

/// Sessions and streams over parts that stand, so that a test can restart an engine over one store.
pub(crate) fn assemble(
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    clock: Clock,
    lifecycle: Lifecycle,
    runner: Runner,
    folder: tempfile::TempDir,
) -> World {
    let backend: Arc<dyn MediaBackend> = Arc::new(super::backend::NoMedia);
    let streams = Streams::new(
        Arc::clone(&store),
        Arc::clone(&broker),
        lifecycle.draining().clone(),
        lifecycle.aborting().clone(),
    );
    let sessions = Sessions::new(Parts {
        store: Arc::clone(&store),
        broker: Arc::clone(&broker),
        clock,
        lifecycle: lifecycle.clone(),
        backend,
        runner,
        max_turns: 20,
    });
    World { store, broker, sessions, streams, lifecycle, _folder: folder }
}

/// An in-process broker that knows nothing yet.
pub(crate) async fn broker() -> anyhow::Result<Arc<dyn Broker>> {
    let options = BrokerOptions {
        engine_id: "test".to_owned(),
        stream: "ingest:video".to_owned(),
        group: "ingest-workers".to_owned(),
    };
    Ok(ambient_engine::broker::connect(None, &options).await?)
}

/// The video of every session here.
pub(crate) fn video() -> VideoId {
    "vid_0123456789abcdef".parse().expect("an id")
}

pub(crate) async fn seed(store: &dyn Store, clock: &Clock) -> anyhow::Result<()> {
    let now = clock.now();
    store
        .insert_agent(&AgentRecord {
            id: ambient_engine::ids::AgentId::built_in_agent(),
            version: 1,
            name: "agent".to_owned(),
            description: None,
            model: AgentModel { id: "model".to_owned(), speed: None, effort: None },
            system: None,
            tools: Vec::new(),
            metadata: Metadata::new(),
            endpoint: None,
            created_at: now,
            updated_at: now,
            archived_at: None,
        })
        .await?;
    store
        .insert_environment(&EnvironmentRecord {
            id: EnvironmentId::built_in(),
            name: "default".to_owned(),
            description: String::new(),
            config: serde_json::json!({"type": "cloud"}),
            metadata: Metadata::new(),
            scope: None,
            created_at: now,
            updated_at: now,
            archived_at: None,
        })
        .await?;
    store
        .insert_file(&FileRecord {
            id: video(),
            filename: "clip.mp4".to_owned(),
            mime_type: "video/mp4".to_owned(),
            extension: ".mp4".to_owned(),
            size_bytes: 1,
            sha256: "0".repeat(64),
            source: FileSource::Upload,
            source_status: WorkStatus::Ready,
            source_error: None,
            bucket_key: None,
            media: None,
            description_status: None,
            description: None,
            description_error: None,
            description_attempts: 0,
            metadata: Metadata::new(),
            created_at: now,
            updated_at: now,
            expires_at: None,
        })
        .await?;
    Ok(())
}

/// A message of the user.
pub(crate) fn message(text: &str) -> EventBody {
    EventBody::UserMessage { content: vec![ContentBlock::text(text)] }
}

/// A message of the agent.
pub(crate) fn answer(text: &str) -> EventBody {
    EventBody::AgentMessage { content: vec![ContentBlock::text(text)] }
}

impl World {
    /// A new session.
    pub(crate) async fn session(&self) -> Result<SessionId, SessionError> {
        let wish = NewSession {
            agent: AgentChoice {
                id: ambient_engine::ids::AgentId::built_in_agent(),
                version: None,
                overrides: AgentOverrides::default(),
            },
            environment_id: EnvironmentId::built_in(),
            title: None,
            metadata: Metadata::from_iter([("video_id".to_owned(), video().to_string())]),
            resources: Vec::new(),
            initial_events: Vec::new(),
        };
        Ok(self.sessions.create(wish).await?.0.id)
    }

    /// Sends events.
    pub(crate) async fn send(&self, id: &SessionId, events: Vec<EventBody>) -> Result<Vec<EventRecord>, SessionError> {
        self.sessions.send(id, SendRequest { events, output_structure: None }).await
    }

    /// All events of a session.
    pub(crate) async fn events(&self, id: &SessionId) -> anyhow::Result<Vec<EventRecord>> {
        let window = EventWindow { limit: 1000, descending: false, after_seq: None, filter: EventFilter::default() };
        Ok(self.store.events(id, &window).await?.items)
    }

    /// The session once it has no run under way.
    pub(crate) async fn settled(&self, id: &SessionId) -> anyhow::Result<SessionRecord> {
        use ambient_engine::sessions::state::SessionState;
        let mut signals = self.broker.subscribe(id).await?;
        let wait = async {
            loop {
                let session = self.store.session(id).await?.ok_or_else(|| anyhow::anyhow!("the session is gone"))?;
                if !matches!(session.state, SessionState::Running { .. }) {
                    return Ok(session);
                }
                signals.next().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await?
    }
}

/// The types of events, in order.
pub(crate) fn types(events: &[EventRecord]) -> Vec<&'static str> {
    events.iter().map(|event| event.body.type_name()).collect()
}
