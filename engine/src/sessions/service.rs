//! Making, changing and ending sessions. Sending and running are in `send` and [`super::supervise`].

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;

use super::change::{ChangeOutcome, Guard, SessionChange};
use super::state::SessionState;
use super::supervise::Runner;
use super::wishes::{AgentOverrides, NewResource, NewSession, SendRequest, SessionError, SessionPatch};
use super::writer::SessionWriter;
use crate::backend::MediaBackend;
use crate::broker::{Broker, Heard, Signal, Signals};
use crate::clock::Clock;
use crate::events::body::EventBody;
use crate::ids::{ResourceId, SessionId, VideoId};
use crate::lifecycle::Lifecycle;
use crate::store::Store;
use crate::store::records::{
    AgentRecord, AgentTool, Metadata, Mode, ResourceRecord, SandboxRecord, SessionRecord, UsageTotals, sandbox_status,
};

/// The most that metadata may ask for.
const MOST_TURNS: u32 = 200;
/// Pairs of metadata that a thing may carry.
const MOST_METADATA_PAIRS: usize = 16;
/// How long a deletion waits for the run that it interrupted.
const END_OF_RUN_PATIENCE: Duration = Duration::from_secs(20);

/// The sessions of this engine. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sessions {
    pub(super) parts: Arc<Parts>,
}

/// What sessions are made of.
#[derive(Debug)]
pub struct Parts {
    /// Where sessions are kept.
    pub store: Arc<dyn Store>,
    /// What engines agree on.
    pub broker: Arc<dyn Broker>,
    /// The time.
    pub clock: Clock,
    /// The owner of runs.
    pub lifecycle: Lifecycle,
    /// Where media work is done.
    pub backend: Arc<dyn MediaBackend>,
    /// What a run does.
    pub runner: Runner,
    /// Rounds of tools that a run may take unless the session's metadata says otherwise (`MAX_TURNS_PER_RUN`).
    pub max_turns: u32,
}

impl Sessions {
    /// Sessions over these parts.
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    pub(super) fn writer(&self) -> SessionWriter {
        SessionWriter::new(Arc::clone(&self.parts.store), Arc::clone(&self.parts.broker), self.parts.clock.clone())
    }

    /// Where media work is done.
    pub fn backend(&self) -> &Arc<dyn MediaBackend> {
        &self.parts.backend
    }

    /// Makes a session. Where there is nothing to boot it is idle at once; else it boots in the background.
    ///
    /// # Errors
    /// When the agent, environment or video is not there or cannot be used; then nothing is stored.
    pub async fn create(&self, wish: NewSession) -> Result<(SessionRecord, Vec<ResourceRecord>), SessionError> {
        let agent = self.usable_agent(&wish).await?;
        self.check_environment(&wish).await?;
        let video_id = self.chosen_video(&wish.metadata, &wish.resources).await?;
        let mode = mode_of(&wish.metadata, &agent)?;
        let max_turns = max_turns_of(&wish.metadata, self.parts.max_turns)?;
        let now = self.parts.clock.now();
        let id = SessionId::generate();
        let boots = self.parts.backend.boots(mode);
        let session = SessionRecord {
            id: id.clone(),
            state: if boots { SessionState::Pending { since: now } } else { SessionState::Idle },
            title: wish.title,
            metadata: wish.metadata,
            agent,
            mode,
            environment_id: wish.environment_id,
            video_id,
            max_turns,
            sandbox: SandboxRecord {
                backend: self.parts.backend.name().to_owned(),
                status: if boots { sandbox_status::STARTING } else { sandbox_status::READY }.to_owned(),
                id: None,
            },
            usage: UsageTotals::default(),
            active_micros: 0,
            run_began_at: None,
            fence: 0,
            interrupted_fence: 0,
            last_seq: 0,
            run_start_seq: 0,
            read_seq: 0,
            message_count: 0,
            pending_actions: Vec::new(),
            last_event_at: now,
            created_at: now,
            updated_at: now,
            archived_at: None,
        };
        let resources: Vec<ResourceRecord> =
            wish.resources.into_iter().map(|resource| resource_record(&id, resource, now)).collect();
        self.parts.store.insert_session(&session, &resources).await?;
        tracing::info!(session.id = %id, agent.id = %session.agent.id, video.id = %session.video_id, "session made");
        if boots {
            self.boot_in_background(id.clone());
        }
        if wish.initial_events.is_empty() {
            return Ok((session, resources));
        }
        // This run waits for the sandbox itself.
        self.send_now(session, SendRequest { events: wish.initial_events, output_structure: None }).await?;
        let session = self.session(&id).await?;
        Ok((session, resources))
    }

    /// A session.
    ///
    /// # Errors
    /// When there is none with this id.
    pub async fn session(&self, id: &SessionId) -> Result<SessionRecord, SessionError> {
        self.parts.store.session(id).await?.ok_or_else(|| SessionError::NotFound(id.clone()))
    }

    async fn usable_agent(&self, wish: &NewSession) -> Result<AgentRecord, SessionError> {
        let choice = &wish.agent;
        let found = self.parts.store.agent(&choice.id, choice.version).await?;
        let Some(mut agent) = found else {
            return Err(SessionError::Unknown(match choice.version {
                Some(version) if self.parts.store.agent(&choice.id, None).await?.is_some() => {
                    format!("agent {} has no version {version}", choice.id)
                }
                _ => "session.agent must reference an existing agent (call agents.create first)".to_owned(),
            }));
        };
        if agent.archived_at.is_some() {
            return Err(SessionError::Invalid(format!(
                "agent {} is archived; choose another agent for a new session",
                agent.id
            )));
        }
        let AgentOverrides { model, system, tools } = choice.overrides.clone();
        if let Some(model) = model {
            agent.model = model;
        }
        if let Some(system) = system {
            agent.system = system;
        }
        if let Some(tools) = tools {
            agent.tools = tools;
        }
        Ok(agent)
    }

    async fn check_environment(&self, wish: &NewSession) -> Result<(), SessionError> {
        match self.parts.store.environment(&wish.environment_id).await? {
            None => Err(SessionError::Unknown(format!("environment {} not found", wish.environment_id))),
            Some(environment) if environment.archived_at.is_some() => Err(SessionError::Invalid(format!(
                "environment {} is archived; choose another environment for a new session",
                environment.id
            ))),
            Some(_) => Ok(()),
        }
    }

    async fn chosen_video(&self, metadata: &Metadata, resources: &[NewResource]) -> Result<VideoId, SessionError> {
        let mut wanted: Vec<VideoId> = Vec::new();
        if let Some(text) = metadata.get("video_id") {
            let id = text
                .parse()
                .map_err(|_bad| SessionError::Unknown(format!("metadata.video_id: file {text} not found")))?;
            wanted.push(id);
        }
        wanted.extend(resources.iter().map(|resource| resource.file_id.clone()));
        let Some(video) = wanted.first().cloned() else {
            return Err(SessionError::Invalid(
                "video_id is required: pass metadata={'video_id': '...'} or a resource carrying it".to_owned(),
            ));
        };
        for id in &wanted {
            if self.parts.store.file(id).await?.is_none() {
                return Err(SessionError::Unknown(format!("file {id} not found")));
            }
        }
        Ok(video)
    }

    /// Changes title or metadata.
    ///
    /// # Errors
    /// When the session is not there, is archived, or the result would break a limit.
    pub async fn update(&self, id: &SessionId, patch: SessionPatch) -> Result<SessionRecord, SessionError> {
        let session = self.session(id).await?;
        if session.archived_at.is_some() {
            return Err(archived(id));
        }
        let metadata = patch.metadata.map(|changes| patched(&session.metadata, changes)).transpose()?;
        let title = patch.title.filter(|title| *title != session.title);
        let metadata = metadata.filter(|metadata| *metadata != session.metadata);
        if title.is_none() && metadata.is_none() {
            return Ok(session);
        }
        let mut change = SessionChange::new(Guard::Open);
        change.event(EventBody::SessionUpdated {
            title: title.clone().map(|title| title.map_or(Value::Null, Value::from)),
            metadata: metadata.clone(),
        });
        change.title = title;
        change.metadata = metadata;
        match self.writer().change(id, change).await? {
            ChangeOutcome::Done(changed) => Ok(changed.session),
            ChangeOutcome::Refused(_) => Err(archived(id)),
            ChangeOutcome::Gone => Err(SessionError::NotFound(id.clone())),
        }
    }

    /// Archives a session: it takes no more events, and can still be read. Archiving again changes nothing.
    ///
    /// # Errors
    /// When the session is not there, or a run is under way.
    pub async fn archive(&self, id: &SessionId) -> Result<SessionRecord, SessionError> {
        let session = self.session(id).await?;
        if session.archived_at.is_some() {
            return Ok(session);
        }
        let mut change = SessionChange::new(Guard::NotRunning);
        change.archive = true;
        match self.writer().change(id, change).await? {
            ChangeOutcome::Done(changed) => {
                self.end_workspace(id).await;
                Ok(changed.session)
            }
            ChangeOutcome::Refused(_) => Err(SessionError::Invalid(format!(
                "session {id} is running; wait for session.status_idle, or send user.interrupt first"
            ))),
            ChangeOutcome::Gone => Err(SessionError::NotFound(id.clone())),
        }
    }

    /// Deletes a session with all that belongs to it. A run under way is interrupted first; open streams get
    /// `session.deleted` and end.
    ///
    /// # Errors
    /// When the session is not there, or its run does not end in time.
    pub async fn delete(&self, id: &SessionId) -> Result<(), SessionError> {
        let mut signals = self.parts.broker.subscribe(id).await?;
        let mut change = SessionChange::new(Guard::Running);
        change.interrupt = true;
        match self.writer().change(id, change).await? {
            ChangeOutcome::Done(_) => self.wait_until_not_running(id, &mut signals).await?,
            ChangeOutcome::Refused(_) => {}
            ChangeOutcome::Gone => return Err(SessionError::NotFound(id.clone())),
        }
        let mut change = SessionChange::new(Guard::NotRunning);
        change.archive = true;
        change.event(EventBody::SessionDeleted {});
        match self.writer().change(id, change).await? {
            ChangeOutcome::Done(_) => {}
            ChangeOutcome::Refused(_) => return Err(SessionError::RunInFlight),
            ChangeOutcome::Gone => return Err(SessionError::NotFound(id.clone())),
        }
        self.end_workspace(id).await;
        self.parts.store.delete_session(id).await?;
        tracing::info!(session.id = %id, "session deleted");
        Ok(())
    }

    async fn end_workspace(&self, id: &SessionId) {
        if let Err(error) = self.parts.backend.end_session(id).await {
            tracing::warn!(session.id = %id, error = %crate::store::chain(&error), "a session's workspace was not removed");
        }
    }

    /// Waits for the run under way to end; `signals` were subscribed before it was asked to.
    pub(super) async fn wait_until_not_running(
        &self,
        id: &SessionId,
        signals: &mut Signals,
    ) -> Result<(), SessionError> {
        let ended = async {
            loop {
                match self.parts.store.session(id).await? {
                    Some(session) if matches!(session.state, SessionState::Running { .. }) => {}
                    Some(_) | None => return Ok(()),
                }
                loop {
                    match signals.next().await {
                        Heard::Signal(signal) => match signal.as_ref() {
                            Signal::Events(events)
                                if events.iter().any(|event| {
                                    matches!(event.body, EventBody::StatusIdle { .. } | EventBody::StatusTerminated {})
                                }) =>
                            {
                                break;
                            }
                            Signal::Events(_) | Signal::Preview(_) | Signal::Interrupt { .. } => {}
                        },
                        Heard::Missed => break,
                        Heard::Closed => return Err(SessionError::ShuttingDown),
                    }
                }
            }
        };
        match tokio::time::timeout(END_OF_RUN_PATIENCE, ended).await {
            Ok(ended) => ended,
            Err(_elapsed) => Err(SessionError::RunInFlight),
        }
    }

    /// Attaches a file to a session.
    ///
    /// # Errors
    /// When the session or the file is not there, or the session is archived.
    pub async fn add_resource(&self, id: &SessionId, resource: NewResource) -> Result<ResourceRecord, SessionError> {
        let session = self.session(id).await?;
        if session.archived_at.is_some() {
            return Err(archived(id));
        }
        if self.parts.store.file(&resource.file_id).await?.is_none() {
            return Err(SessionError::Unknown(format!("file {} not found", resource.file_id)));
        }
        let record = resource_record(id, resource, self.parts.clock.now());
        self.parts.store.insert_resource(&record).await?;
        Ok(record)
    }
}

/// The refusal to change an archived session.
pub(super) fn archived(id: &SessionId) -> SessionError {
    SessionError::Invalid(format!("session {id} is archived; make a new session over the same video instead"))
}

fn resource_record(session: &SessionId, resource: NewResource, now: jiff::Timestamp) -> ResourceRecord {
    let mount_path = resource.mount_path.unwrap_or_else(|| format!("/mnt/session/uploads/{}", resource.file_id));
    ResourceRecord {
        id: ResourceId::generate(),
        session_id: session.clone(),
        file_id: resource.file_id,
        mount_path,
        created_at: now,
        updated_at: now,
    }
}

fn patched(metadata: &Metadata, changes: Vec<(String, Option<String>)>) -> Result<Metadata, SessionError> {
    let mut patched: IndexMap<String, String> = metadata.clone();
    for (key, value) in changes {
        match value {
            Some(value) => {
                patched.insert(key, value);
            }
            None => {
                patched.shift_remove(&key);
            }
        }
    }
    if patched.len() > MOST_METADATA_PAIRS {
        return Err(SessionError::Invalid(format!(
            "metadata: {} pairs after the change, at most {MOST_METADATA_PAIRS} are allowed; delete some with null",
            patched.len()
        )));
    }
    Ok(patched)
}

fn mode_of(metadata: &Metadata, agent: &AgentRecord) -> Result<Mode, SessionError> {
    match metadata.get("mode").map(String::as_str) {
        Some("fast") => return Ok(Mode::Fast),
        Some("agent") => return Ok(Mode::Agent),
        Some(other) => {
            return Err(SessionError::Invalid(format!("metadata.mode: `{other}` is neither `agent` nor `fast`")));
        }
        None => {}
    }
    let fast = agent.tools.iter().any(|tool| matches!(tool, AgentTool::Fast { .. }));
    let plans = agent.tools.iter().any(|tool| matches!(tool, AgentTool::Toolset { .. } | AgentTool::Custom { .. }));
    // An agent without tools still gets the engine's: fast mode is chosen, never fallen into.
    Ok(if fast && !plans { Mode::Fast } else { Mode::Agent })
}

fn max_turns_of(metadata: &Metadata, usual: u32) -> Result<u32, SessionError> {
    let Some(text) = metadata.get("max_turns_per_run") else { return Ok(usual) };
    text.trim().parse().ok().filter(|turns| (1..=MOST_TURNS).contains(turns)).ok_or_else(|| {
        SessionError::Invalid(format!(
            "metadata.max_turns_per_run: `{text}` is not a whole number from 1 to {MOST_TURNS}"
        ))
    })
}
