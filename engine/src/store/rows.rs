//! Records to statement parameters and rows back to records. The order of columns is that of `super::sql`.

use jiff::Timestamp;
use serde::Serialize;

use super::StoreError;
use super::engine::{Arg, Reader, Row};
use super::records::{
    AgentRecord, EnvironmentRecord, EventRecord, FileRecord, MessageRecord, Mode, ResourceRecord, SessionRecord,
    WorkStatus,
};
use crate::ids::{ResourceId, RunId, VideoId};
use crate::sessions::change::Changed;

impl Arg {
    /// An enum's name in JSON.
    fn word<T: Serialize>(value: T) -> Self {
        match serde_json::to_value(value) {
            Ok(serde_json::Value::String(word)) => Self::Text(Some(word)),
            other => unreachable!("only enums without data are words, not {other:?}"),
        }
    }
}

/// Parameters of [`super::sql::INSERT_AGENT_VERSION`].
pub(super) fn agent_version_args(agent: &AgentRecord) -> Vec<Arg> {
    vec![
        agent.id.as_str().into(),
        agent.version.into(),
        (&agent.name).into(),
        agent.description.as_deref().into(),
        Arg::json(&agent.model),
        agent.system.as_deref().into(),
        Arg::json(&agent.tools),
        Arg::json(&agent.metadata),
        Arg::maybe_json(agent.endpoint.as_ref()),
        agent.updated_at.into(),
    ]
}

pub(super) fn agent(row: Row) -> Result<AgentRecord, StoreError> {
    let mut row = row.of("agent_versions");
    Ok(AgentRecord {
        id: row.parsed()?,
        version: row.number()?,
        name: row.text()?,
        description: row.maybe_text()?,
        model: row.json()?,
        system: row.maybe_text()?,
        tools: row.json()?,
        metadata: row.json()?,
        endpoint: row.maybe_json()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        archived_at: row.maybe_time()?,
    })
}

pub(super) fn environment_args(environment: &EnvironmentRecord) -> Vec<Arg> {
    vec![
        environment.id.as_str().into(),
        (&environment.name).into(),
        (&environment.description).into(),
        Arg::json(&environment.config),
        Arg::json(&environment.metadata),
        environment.scope.as_deref().into(),
        environment.created_at.into(),
        environment.updated_at.into(),
        environment.archived_at.into(),
    ]
}

pub(super) fn environment(row: Row) -> Result<EnvironmentRecord, StoreError> {
    let mut row = row.of("environments");
    Ok(EnvironmentRecord {
        id: row.parsed()?,
        name: row.text()?,
        description: row.text()?,
        config: row.json()?,
        metadata: row.json()?,
        scope: row.maybe_text()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        archived_at: row.maybe_time()?,
    })
}

pub(super) fn file_args(file: &FileRecord) -> Vec<Arg> {
    vec![
        file.id.as_str().into(),
        (&file.filename).into(),
        (&file.mime_type).into(),
        (&file.extension).into(),
        Arg::count(file.size_bytes),
        (&file.sha256).into(),
        Arg::json(&file.source),
        file.source_status.name().into(),
        file.source_error.as_deref().into(),
        file.bucket_key.as_deref().into(),
        Arg::maybe_json(file.media.as_ref()),
        file.description_status.map(WorkStatus::name).into(),
        file.description.as_deref().into(),
        file.description_error.as_deref().into(),
        file.description_attempts.into(),
        Arg::json(&file.metadata),
        file.expires_at.into(),
        file.created_at.into(),
        file.updated_at.into(),
    ]
}

pub(super) fn file(row: Row) -> Result<FileRecord, StoreError> {
    let mut row = row.of("files");
    Ok(FileRecord {
        id: row.parsed()?,
        filename: row.text()?,
        mime_type: row.text()?,
        extension: row.text()?,
        size_bytes: row.number()?,
        sha256: row.text()?,
        source: row.json()?,
        source_status: row.word()?,
        source_error: row.maybe_text()?,
        bucket_key: row.maybe_text()?,
        media: row.maybe_json()?,
        description_status: row.maybe_word()?,
        description: row.maybe_text()?,
        description_error: row.maybe_text()?,
        description_attempts: row.number()?,
        metadata: row.json()?,
        expires_at: row.maybe_time()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

/// Parameters of [`super::sql::INSERT_SESSION`].
pub(super) fn session_args(session: &SessionRecord) -> Vec<Arg> {
    vec![
        session.id.as_str().into(),
        session.state.name().into(),
        Arg::json(&session.state),
        session.title.as_deref().into(),
        Arg::json(&session.metadata),
        session.agent.id.as_str().into(),
        session.agent.version.into(),
        Arg::json(&session.agent),
        Arg::word(session.mode),
        session.environment_id.as_str().into(),
        session.video_id.as_str().into(),
        session.max_turns.into(),
        Arg::json(&session.sandbox),
        Arg::json(&session.usage),
        Arg::count(session.active_micros),
        session.run_began_at.into(),
        Arg::count(session.fence),
        Arg::count(session.interrupted_fence),
        Arg::count(session.last_seq),
        Arg::count(session.run_start_seq),
        Arg::count(session.read_seq),
        Arg::count(session.message_count),
        Arg::json(&session.pending_actions),
        session.last_event_at.into(),
        session.created_at.into(),
        session.updated_at.into(),
        session.archived_at.into(),
    ]
}

/// Parameters of [`super::sql::Dialect::write_session`], for a session that was changed at `was` before.
pub(super) fn changed_args(changed: &Changed, was: Timestamp) -> Vec<Arg> {
    let session = &changed.session;
    // All messages of one change are of one run.
    let run = changed.messages.first().and_then(|first| first.run.as_ref());
    vec![
        session.id.as_str().into(),
        session.state.name().into(),
        Arg::json(&session.state),
        session.title.as_deref().into(),
        Arg::json(&session.metadata),
        Arg::json(&session.sandbox),
        Arg::json(&session.usage),
        Arg::count(session.active_micros),
        session.run_began_at.into(),
        Arg::count(session.fence),
        Arg::count(session.interrupted_fence),
        Arg::count(session.last_seq),
        Arg::count(session.run_start_seq),
        Arg::count(session.message_count),
        Arg::json(&session.pending_actions),
        session.last_event_at.into(),
        session.archived_at.into(),
        session.updated_at.into(),
        was.into(),
        event_list(&changed.events),
        run.map(RunId::as_str).into(),
        message_list(&changed.messages),
    ]
}

pub(super) fn session(row: Row) -> Result<SessionRecord, StoreError> {
    session_of(&mut row.of("sessions"))
}

/// Id, file, path, and the times in microseconds.
type ResourceParts = (ResourceId, VideoId, String, i64, i64);

/// A row of [`super::sql::Dialect::sessions_with_resources`].
pub(super) fn session_with_resources(row: Row) -> Result<(SessionRecord, Vec<ResourceRecord>), StoreError> {
    let mut row = row.of("sessions");
    let session = session_of(&mut row)?;
    let attached: Option<Vec<ResourceParts>> = row.maybe_json()?;
    let time = |micros: i64| Timestamp::from_microsecond(micros).map_err(|error| row.corrupt(error));
    let resource = |(id, file_id, mount_path, created_at, updated_at)| {
        let (created_at, updated_at) = (time(created_at)?, time(updated_at)?);
        Ok(ResourceRecord { id, session_id: session.id.clone(), file_id, mount_path, created_at, updated_at })
    };
    let resources = attached.unwrap_or_default().into_iter().map(resource).collect::<Result<_, _>>()?;
    Ok((session, resources))
}

fn session_of(row: &mut Reader) -> Result<SessionRecord, StoreError> {
    let id = row.parsed()?;
    // For filters only: what they hold stands in full in `state_detail` and `agent`.
    let _state_name = row.text()?;
    let state = row.json()?;
    let title = row.maybe_text()?;
    let metadata = row.json()?;
    let _agent_id = row.text()?;
    let _agent_version: u32 = row.number()?;
    Ok(SessionRecord {
        id,
        state,
        title,
        metadata,
        agent: row.json()?,
        mode: row.word::<Mode>()?,
        environment_id: row.parsed()?,
        video_id: row.parsed()?,
        max_turns: row.number()?,
        sandbox: row.json()?,
        usage: row.json()?,
        active_micros: row.number()?,
        run_began_at: row.maybe_time()?,
        fence: row.number()?,
        interrupted_fence: row.number()?,
        last_seq: row.number()?,
        run_start_seq: row.number()?,
        read_seq: row.number()?,
        message_count: row.number()?,
        pending_actions: row.json()?,
        last_event_at: row.time()?,
        created_at: row.time()?,
        updated_at: row.time()?,
        archived_at: row.maybe_time()?,
    })
}

pub(super) fn resource_args(resource: &ResourceRecord) -> Vec<Arg> {
    vec![
        resource.id.as_str().into(),
        resource.session_id.as_str().into(),
        resource.file_id.as_str().into(),
        (&resource.mount_path).into(),
        resource.created_at.into(),
        resource.updated_at.into(),
    ]
}

pub(super) fn resource(row: Row) -> Result<ResourceRecord, StoreError> {
    let mut row = row.of("resources");
    Ok(ResourceRecord {
        id: row.parsed()?,
        session_id: row.parsed()?,
        file_id: row.parsed()?,
        mount_path: row.text()?,
        created_at: row.time()?,
        updated_at: row.time()?,
    })
}

/// All events as the one JSON parameter of `insert_events`.
fn event_list(events: &[EventRecord]) -> Arg {
    let rows: Vec<_> = events
        .iter()
        .map(|event| (event.seq, &event.id, event.at.as_microsecond(), event.body.type_name(), text_of(&event.body)))
        .collect();
    Arg::json(&rows)
}

pub(super) fn event(row: Row) -> Result<EventRecord, StoreError> {
    let mut row = row.of("events");
    Ok(EventRecord {
        session_id: row.parsed()?,
        seq: row.number()?,
        id: row.parsed()?,
        at: row.time()?,
        body: row.json()?,
    })
}

/// All messages as the one JSON parameter of `insert_messages`.
fn message_list(messages: &[MessageRecord]) -> Arg {
    let rows: Vec<_> = messages.iter().map(|message| (message.index, text_of(&message.body))).collect();
    Arg::json(&rows)
}

pub(super) fn message(row: Row) -> Result<MessageRecord, StoreError> {
    let mut row = row.of("messages");
    Ok(MessageRecord { index: row.number()?, run: row.maybe_parsed()?, body: row.json()? })
}

fn text_of<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("a record is always JSON")
}
