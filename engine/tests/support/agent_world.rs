//! Sessions of the real agent over a real SQLite store and the in-process broker, a scripted model, and media that need
//! no ffmpeg.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ambient_engine::agent::catalogue::Catalogue;
use ambient_engine::agent::client::ModelClient;
use ambient_engine::agent::config::{AgentConfig, AgentParts, KeyOpener};
use ambient_engine::agent::endpoint::Endpoint;
use ambient_engine::agent::resolve::{RecentAddresses, Resolver};
use ambient_engine::agent::retry::RetryPolicy;
use ambient_engine::agent::run::Agent;
use ambient_engine::agent::vision::Vision;
use ambient_engine::backend::{
    AnnotatedMade, ArtifactMade, BackendError, BoxWish, ClipMade, ClipWish, FrameMade, FramesWish, MediaBackend,
    ShellDone, ShellWish, Target,
};
use ambient_engine::broker::{Broker, BrokerOptions};
use ambient_engine::clock::Clock;
use ambient_engine::events::body::{ContentBlock, EventBody, SessionFailure, StopReason};
use ambient_engine::ids::{AgentId, EnvironmentId, SessionId, VideoId};
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::sessions::service::{Parts, Sessions};
use ambient_engine::sessions::state::SessionState;
use ambient_engine::sessions::supervise::Runner;
use ambient_engine::sessions::wishes::{AgentChoice, AgentOverrides, NewSession, SendRequest};
use ambient_engine::store::records::{
    AgentModel, AgentRecord, AgentTool, EnvironmentRecord, EventRecord, FileRecord, FileSource, MediaFacts, MediaRef,
    Metadata, SessionRecord, WorkStatus,
};
use ambient_engine::store::{EventFilter, EventWindow, Migrate, Store, StoreOptions};
use ambient_engine::tools::toolbox::{Toolbox, ToolboxConfig};
use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;
use tokio::sync::Barrier;
use tokio_util::sync::CancellationToken;

use super::model::Model;

pub(crate) type Fault = Box<dyn std::error::Error + Send + Sync>;

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// The engine's own key: it may reach the engine's own model and nothing else.
pub(crate) const ENGINE_KEY: &str = "engine-key-1234";

/// Media without ffmpeg: frames and clips are a few bytes, the shell answers with the command.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Bytes of the source video.
    pub(crate) source_bytes: u64,
    /// Bytes of a frame; they are no picture.
    pub(crate) frame: Vec<u8>,
    /// Bytes of the video and of clips.
    pub(crate) clip: Vec<u8>,
    /// Links are handed out.
    pub(crate) has_bucket: bool,
    /// `meet` waits here for another command to come.
    pub(crate) meeting: Barrier,
    /// Commands that began, and those that were dropped or stopped before their end.
    pub(crate) begun: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    /// Times that frames were asked for.
    pub(crate) framed: AtomicUsize,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            source_bytes: 1000,
            frame: b"frame".to_vec(),
            clip: b"clip".to_vec(),
            has_bucket: false,
            meeting: Barrier::new(2),
            begun: AtomicUsize::new(0),
            dropped: AtomicUsize::new(0),
            framed: AtomicUsize::new(0),
        }
    }
}

struct OnDrop<'a>(&'a AtomicUsize);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn local(name: String, mime_type: &str) -> MediaRef {
    MediaRef::Local { path: Utf8PathBuf::from(name), mime_type: mime_type.to_owned() }
}

fn none<T>() -> Result<T, BackendError> {
    Err(BackendError::Media("this test has none".to_owned()))
}

#[async_trait::async_trait]
impl MediaBackend for Stage {
    fn name(&self) -> &'static str {
        "inprocess"
    }
    async fn clip(&self, _: &Target, wish: &ClipWish, _: &CancellationToken) -> Result<ClipMade, BackendError> {
        let media = local(format!("clip-{}-{}.mp4", wish.start, wish.end), "video/mp4");
        Ok(ClipMade { media, start: wish.start, end: wish.end, size_bytes: 4, has_audio: false })
    }
    async fn frames(
        &self,
        _: &Target,
        wish: &FramesWish,
        _: &CancellationToken,
    ) -> Result<Vec<FrameMade>, BackendError> {
        self.framed.fetch_add(1, Ordering::SeqCst);
        let frames = (0..wish.max_frames).map(|number| {
            let media = local(format!("frame-{}-{number}.jpg", wish.start), "image/jpeg");
            #[expect(clippy::cast_precision_loss, reason = "a few frames")]
            let time = wish.start + number as f64 / wish.frames_per_second;
            FrameMade { media, time, width: 10, height: 10 }
        });
        Ok(frames.collect())
    }
    async fn annotate(
        &self,
        _: &Target,
        _: f64,
        _: &[BoxWish],
        _: u32,
        _: &CancellationToken,
    ) -> Result<AnnotatedMade, BackendError> {
        none()
    }
    async fn read_image(&self, _: &Target, _: &str, _: u32, _: &CancellationToken) -> Result<FrameMade, BackendError> {
        none()
    }
    async fn shell(&self, _: &Target, wish: &ShellWish, stop: &CancellationToken) -> Result<ShellDone, BackendError> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        match wish.command.as_str() {
            "hang" => {
                let _seen = OnDrop(&self.dropped);
                stop.cancelled().await;
                return Err(BackendError::Cancelled);
            }
            "meet" => {
                self.meeting.wait().await;
            }
            _ => {}
        }
        Ok(ShellDone {
            exit_code: 0,
            stdout: format!("ran {}", wish.command),
            stderr: String::new(),
            stdout_cut: 0,
            stderr_cut: 0,
            timed_out: false,
        })
    }
    async fn upload_artifact(
        &self,
        _: &Target,
        _: &str,
        _: Option<&str>,
        _: &CancellationToken,
    ) -> Result<ArtifactMade, BackendError> {
        none()
    }
    async fn source_hint(&self, _: &Target) -> Option<String> {
        Some("The source is in your workspace.".to_owned())
    }
    async fn end_session(&self, _: &SessionId) -> Result<(), BackendError> {
        Ok(())
    }
    async fn read(&self, media: &MediaRef) -> Result<bytes::Bytes, BackendError> {
        match media {
            MediaRef::Local { mime_type, .. } if mime_type.starts_with("image/") => Ok(self.frame.clone().into()),
            _ => Ok(self.clip.clone().into()),
        }
    }
    async fn link(&self, media: &MediaRef, _: Duration) -> Result<Option<String>, BackendError> {
        Ok(match media {
            MediaRef::Local { path, .. } if self.has_bucket => {
                Some(format!("https://bucket.example/{path}?signature=s"))
            }
            _ => None,
        })
    }
    async fn source(&self, _: &VideoId) -> Result<(MediaRef, u64), BackendError> {
        Ok((local("source.mp4".to_owned(), "video/mp4"), self.source_bytes))
    }
    fn workspace(&self, _: &SessionId) -> Option<Utf8PathBuf> {
        None
    }
}

/// How a world is made.
pub(crate) struct Plan {
    pub(crate) stage: Stage,
    pub(crate) model_id: &'static str,
    pub(crate) tools: Vec<AgentTool>,
    pub(crate) system: Option<&'static str>,
    pub(crate) duration: f64,
    pub(crate) description_status: Option<WorkStatus>,
    pub(crate) metadata: Vec<(&'static str, &'static str)>,
    pub(crate) own_endpoint: Option<String>,
    pub(crate) allow_private: bool,
    pub(crate) idle_limit: Duration,
    pub(crate) configure: fn(&mut AgentConfig),
}

impl Default for Plan {
    /// A model of words alone, so that requests hold no media unless the test is about them.
    fn default() -> Self {
        Self {
            stage: Stage::default(),
            model_id: TEXT_MODEL,
            tools: Vec::new(),
            system: None,
            duration: 12.0,
            description_status: None,
            metadata: Vec::new(),
            own_endpoint: None,
            allow_private: true,
            idle_limit: Duration::from_secs(10),
            configure: |_| {},
        }
    }
}

/// Takes words alone.
pub(crate) const TEXT_MODEL: &str = "deepseek/deepseek-v3.2";
/// Nobody knows it, so it is taken for one that sees everything.
pub(crate) const SEEING_MODEL: &str = "nobody/knows-this";

/// A small engine without HTTP.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) broker: Arc<dyn Broker>,
    pub(crate) sessions: Sessions,
    pub(crate) stage: Arc<Stage>,
    metadata: Metadata,
    _folder: tempfile::TempDir,
}

pub(crate) fn video() -> VideoId {
    "vid_0123456789abcdef".parse().expect("an id")
}

/// A world whose agent asks this model.
pub(crate) async fn world(model: &Model, plan: Plan) -> Result<World, Fault> {
    let folder = tempfile::tempdir()?;
    let home = Utf8Path::from_path(folder.path()).expect("temporary folders have UTF-8 names").to_owned();
    let address = format!("sqlite://{}", home.join("ambient.db"));
    let store = ambient_engine::store::connect(&address, &StoreOptions::new(Migrate::Run)).await?;
    let options = BrokerOptions {
        engine_id: "test".to_owned(),
        stream: "ingest:video".to_owned(),
        group: "ingest-workers".to_owned(),
    };
    let broker = ambient_engine::broker::connect(None, &options).await?;
    let clock = Clock::system();
    seed(store.as_ref(), &clock, &plan).await?;
    let stage = Arc::new(plan.stage);
    let backend: Arc<dyn MediaBackend> = Arc::clone(&stage) as Arc<dyn MediaBackend>;
    let settings = ambient_settings::Settings::for_tests(&home);
    let client = ModelClient::new(plan.allow_private)?.with_idle_limit(plan.idle_limit);
    let catalogue = Arc::new(Catalogue::built_in());
    let endpoint = Endpoint {
        base_url: model.base_url.clone(),
        api_key: Some(ENGINE_KEY.to_owned().into()),
        model: plan.model_id.to_owned(),
        trusted: true,
    };
    let resolver = Resolver::new(Arc::clone(&backend), Arc::clone(&store), None, Duration::from_mins(1));
    let vision = Vision::new(client.clone(), Some(endpoint.clone()), Arc::clone(&catalogue), resolver);
    let mut config = AgentConfig::from_settings(&settings);
    config.agent_endpoint = Some(endpoint.clone());
    config.vision_endpoint = Some(endpoint);
    config.retry = RetryPolicy { tries: 3, first_pause: Duration::from_millis(2), ..RetryPolicy::default() };
    (plan.configure)(&mut config);
    let agent = Agent::new(AgentParts {
        client,
        catalogue,
        config,
        store: Arc::clone(&store),
        toolbox: Toolbox::new(ToolboxConfig::from_settings(&settings), Some(Arc::new(vision))),
        keys: KeyOpener::new(|endpoint| Ok(endpoint.sealed_api_key.clone().into())),
        recent: RecentAddresses::default(),
    });
    let runner = Runner::new(move |context| {
        let agent = agent.clone();
        async move { agent.run(context).await }
    });
    let sessions = Sessions::new(Parts {
        store: Arc::clone(&store),
        broker: Arc::clone(&broker),
        clock,
        lifecycle: Lifecycle::new(),
        backend,
        runner,
        max_turns: 20,
    });
    let mut metadata = Metadata::from_iter([("video_id".to_owned(), video().to_string())]);
    metadata.extend(plan.metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    Ok(World { store, broker, sessions, stage, metadata, _folder: folder })
}

async fn seed(store: &dyn Store, clock: &Clock, plan: &Plan) -> Result<(), Fault> {
    let now = clock.now();
    let endpoint = plan.own_endpoint.as_ref().map(|base_url| ambient_engine::store::records::AgentEndpoint {
        base_url: base_url.clone(),
        sealed_api_key: "own-key".to_owned(),
    });
    let agent = AgentRecord {
        id: AgentId::built_in_agent(),
        version: 1,
        name: "agent".to_owned(),
        description: None,
        model: AgentModel { id: plan.model_id.to_owned(), speed: None, effort: None },
        system: plan.system.map(str::to_owned),
        tools: if plan.tools.is_empty() { vec![toolset()] } else { plan.tools.clone() },
        metadata: Metadata::new(),
        endpoint,
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    store.insert_agent(&agent).await?;
    let environment = EnvironmentRecord {
        id: EnvironmentId::built_in(),
        name: "default".to_owned(),
        description: String::new(),
        config: serde_json::json!({"type": "cloud"}),
        metadata: Metadata::new(),
        scope: None,
        created_at: now,
        updated_at: now,
        archived_at: None,
    };
    store.insert_environment(&environment).await?;
    let file = FileRecord {
        id: video(),
        filename: "street.mp4".to_owned(),
        mime_type: "video/mp4".to_owned(),
        extension: ".mp4".to_owned(),
        size_bytes: 1,
        sha256: "0".repeat(64),
        source: FileSource::Upload,
        source_status: WorkStatus::Ready,
        source_error: None,
        bucket_key: None,
        media: Some(MediaFacts {
            duration_seconds: plan.duration,
            width: 320,
            height: 240,
            frames_per_second: 25.0,
            has_audio: false,
            video_codec: "h264".to_owned(),
            container: "mp4".to_owned(),
        }),
        description_status: plan.description_status,
        description: None,
        description_error: None,
        description_attempts: 0,
        metadata: Metadata::new(),
        created_at: now,
        updated_at: now,
        expires_at: None,
    };
    store.insert_file(&file).await?;
    Ok(())
}

/// All tools of the engine.
pub(crate) fn toolset() -> AgentTool {
    AgentTool::Toolset {
        type_name: "agent_toolset_20260401".to_owned(),
        enabled: true,
        policy: ambient_engine::store::records::PermissionPolicy::AlwaysAllow,
        configs: Vec::new(),
    }
}

impl World {
    /// A new session.
    pub(crate) async fn session(&self) -> Result<SessionId, Fault> {
        let wish = NewSession {
            agent: AgentChoice { id: AgentId::built_in_agent(), version: None, overrides: AgentOverrides::default() },
            environment_id: EnvironmentId::built_in(),
            title: None,
            metadata: self.metadata.clone(),
            resources: Vec::new(),
            initial_events: Vec::new(),
        };
        Ok(self.sessions.create(wish).await?.0.id)
    }

    pub(crate) async fn send(&self, id: &SessionId, events: Vec<EventBody>) -> Result<Vec<EventRecord>, Fault> {
        Ok(self.sessions.send(id, SendRequest { events, output_structure: None }).await?)
    }

    /// Asks and waits for the end of the run; gives the run's events.
    pub(crate) async fn ask(&self, id: &SessionId, text: &str) -> Result<Vec<EventRecord>, Fault> {
        self.ask_for(id, text, None).await
    }

    /// Asks for an answer in a form.
    pub(crate) async fn ask_for(
        &self,
        id: &SessionId,
        text: &str,
        output_structure: Option<Value>,
    ) -> Result<Vec<EventRecord>, Fault> {
        let before = self.events(id).await?.len();
        self.sessions.send(id, SendRequest { events: vec![message(text)], output_structure }).await?;
        self.settled(id).await?;
        Ok(self.events(id).await?.split_off(before))
    }

    /// All events of a session.
    pub(crate) async fn events(&self, id: &SessionId) -> Result<Vec<EventRecord>, Fault> {
        let window = EventWindow { limit: 1000, descending: false, after_seq: None, filter: EventFilter::default() };
        Ok(self.store.events(id, &window).await?.items)
    }

    /// The session once it has no run under way.
    pub(crate) async fn settled(&self, id: &SessionId) -> Result<SessionRecord, Fault> {
        self.until(id, |session, _| !matches!(session.state, SessionState::Running { .. })).await
    }

    /// Waits until an event of this type is there.
    pub(crate) async fn seen(&self, id: &SessionId, wanted: &str) -> Result<(), Fault> {
        self.until(id, |_, events| events.iter().any(|event| event.body.type_name() == wanted)).await?;
        Ok(())
    }

    async fn until(
        &self,
        id: &SessionId,
        done: impl Fn(&SessionRecord, &[EventRecord]) -> bool,
    ) -> Result<SessionRecord, Fault> {
        let mut signals = self.broker.subscribe(id).await?;
        let wait = async {
            loop {
                let session = self.store.session(id).await?.ok_or("the session is gone")?;
                if done(&session, &self.events(id).await?) {
                    return Ok(session);
                }
                signals.next().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await?
    }
}

/// A message of the user.
pub(crate) fn message(text: &str) -> EventBody {
    EventBody::UserMessage { content: vec![ContentBlock::text(text)] }
}

/// The types of events, in order.
pub(crate) fn types(events: &[EventRecord]) -> Vec<&'static str> {
    events.iter().map(|event| event.body.type_name()).collect()
}

/// What the agent said.
pub(crate) fn said(events: &[EventRecord]) -> Vec<String> {
    let texts = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentMessage { content } => Some(text_of(content)),
        _ => None,
    });
    texts.collect()
}

/// Results of tools: text, and whether it is an error.
pub(crate) fn results(events: &[EventRecord]) -> Vec<(String, bool)> {
    let results = events.iter().filter_map(|event| match &event.body {
        EventBody::AgentToolResult { content, is_error, .. } => Some((text_of(content), *is_error)),
        _ => None,
    });
    results.collect()
}

pub(crate) fn failures(events: &[EventRecord]) -> Vec<SessionFailure> {
    let failures = events.iter().filter_map(|event| match &event.body {
        EventBody::SessionError { error } => Some(error.clone()),
        _ => None,
    });
    failures.collect()
}

pub(crate) fn stop_reason(events: &[EventRecord]) -> Option<StopReason> {
    events.iter().rev().find_map(|event| match &event.body {
        EventBody::StatusIdle { stop_reason, .. } => Some(stop_reason.clone()),
        _ => None,
    })
}

fn text_of(content: &[ContentBlock]) -> String {
    let texts = content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What every request to a model has to be like.
pub(crate) fn assert_well_formed(messages: &[Value]) {
    let mut open: Vec<&str> = Vec::new();
    let mut last_role = "";
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            assert!(!open.is_empty() && open.remove(0) == id, "a result out of place: {messages:?}");
        } else {
            assert!(open.is_empty(), "calls without results: {messages:?}");
        }
        assert!(!(role == "user" && last_role == "user"), "two user messages in a row");
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            open.push(call["id"].as_str().unwrap_or_default());
            let arguments = call.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
            assert!(serde_json::from_str::<serde_json::Map<String, Value>>(arguments).is_ok(), "{arguments}");
        }
        for text in texts(message) {
            assert!(!text.contains(";base64,"), "base64 in text");
        }
        last_role = role;
    }
    assert!(open.is_empty());
}

/// The texts of a message.
pub(crate) fn texts(message: &Value) -> Vec<String> {
    match &message["content"] {
        Value::String(text) => vec![text.clone()],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// Addresses of media of this kind (`image_url`, `video_url`) in a request.
pub(crate) fn media(messages: &[Value], kind: &str) -> Vec<String> {
    let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    let urls = parts.filter(|part| part["type"] == kind).filter_map(|part| part.pointer(&format!("/{kind}/url")));
    urls.filter_map(|url| url.as_str().map(str::to_owned)).collect()
}
