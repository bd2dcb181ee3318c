//! The one way a session changes, decided without effects.
//!
//! The store loads a session, calls [`apply`], and writes what it gives if the session is still as it was loaded; else it
//! begins again. Everything that must hold between state, events and history holds because it is decided here: event
//! numbers without gaps, times that do not go back, legal moves only, and no word of a run that lost its session.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::state::SessionState;
use crate::events::body::EventBody;
use crate::ids::{EventId, RunId};
use crate::store::records::{
    ActionAnswer, EventRecord, MessageBody, MessageRecord, Metadata, PendingAction, SandboxRecord, SessionRecord,
    UsageTotals,
};

/// A wanted change. Everything in it happens, or nothing does.
#[derive(Clone, Debug)]
pub struct SessionChange {
    /// What has to be true of the session.
    pub guard: Guard,
    /// Where it moves.
    pub to: Option<Move>,
    /// Facts to append, in order. Their ids are the caller's, so that others can be told of them beforehand.
    pub events: Vec<NewEvent>,
    /// The id of the `session.status_running` that stands behind these events if the change begins a run.
    pub running_event: Option<EventId>,
    /// The id of a `session.usage` that stands before the last of these events and tells the totals after the change.
    pub usage_event: Option<EventId>,
    /// Messages to append to the history, in order.
    pub messages: Vec<MessageBody>,
    /// The run that these messages belong to.
    pub run: Option<RunId>,
    /// Usage to add.
    pub usage: Option<UsageTotals>,
    /// Replaces the calls that wait for the client.
    pub pending_actions: Option<Vec<PendingAction>>,
    /// The client's answers to calls that wait. One that nothing waits for refuses the change.
    pub answers: Vec<(EventId, ActionAnswer)>,
    /// Replaces the title.
    pub title: Option<Option<String>>,
    /// Replaces the metadata.
    pub metadata: Option<Metadata>,
    /// Replaces the sandbox.
    pub sandbox: Option<SandboxRecord>,
    /// Asks the run under way to stop.
    pub interrupt: bool,
    /// Archives the session.
    pub archive: bool,
}

impl SessionChange {
    /// A change that does nothing yet.
    pub fn new(guard: Guard) -> Self {
        Self {
            guard,
            to: None,
            events: Vec::new(),
            running_event: None,
            usage_event: None,
            messages: Vec::new(),
            run: None,
            usage: None,
            pending_actions: None,
            answers: Vec::new(),
            title: None,
            metadata: None,
            sandbox: None,
            interrupt: false,
            archive: false,
        }
    }

    /// Appends an event with a new id, which is given back.
    pub fn event(&mut self, body: EventBody) -> EventId {
        let id = EventId::generate();
        self.events.push(NewEvent { id: id.clone(), body });
        id
    }
}

/// What has to be true for a change to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Nothing.
    Always,
    /// Not archived and not terminated.
    Open,
    /// Waiting for input (pending counts too: a run may start before its sandbox is up), not archived.
    Ready,
    /// Booting.
    Pending,
    /// This run has it.
    Run {
        /// Which.
        run: RunId,
        /// Its number.
        fence: u64,
    },
    /// No run is under way.
    NotRunning,
    /// A run is under way, whichever.
    Running,
}

/// Where a session moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// A run begins; it gets the next fence. The first event of the change is the one that begins it.
    Run(RunId),
    /// As [`Self::Run`] once no call waits for the client any more; until then the session stays as it is.
    RunOnceAnswered(RunId),
    /// The run or boot is over.
    Idle,
    /// The session is over.
    Terminated(String),
}

/// An event to append.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEvent {
    /// Its id from now on.
    pub id: EventId,
    /// What it says.
    pub body: EventBody,
}

/// What came of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeOutcome {
    /// It happened.
    Done(Box<Changed>),
    /// The guard did not hold, or the move is not allowed: this is how the session stands.
    Refused(Box<SessionRecord>),
    /// There is no such session.
    Gone,
}

/// A session after a change, and what was appended.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// As it stands now.
    pub session: SessionRecord,
    /// The new events.
    pub events: Vec<EventRecord>,
    /// The new messages.
    pub messages: Vec<MessageRecord>,
}

/// Decides a change.
///
/// # Errors
/// Gives the session back, as it was, when the guard does not hold or the move is not allowed.
pub fn apply(session: SessionRecord, change: SessionChange, now: Timestamp) -> Result<Changed, Box<SessionRecord>> {
    if !holds(&session, &change.guard) {
        return Err(Box::new(session));
    }
    let Some(actions) = answered(&session.pending_actions, change.answers) else {
        return Err(Box::new(session));
    };
    let waits = actions.iter().any(|action| action.answer.is_none());
    let next = match &change.to {
        None => None,
        Some(Move::RunOnceAnswered(_)) if waits => None,
        Some(wanted) => {
            let state = match wanted {
                Move::Run(run) | Move::RunOnceAnswered(run) => {
                    SessionState::Running { run: run.clone(), fence: session.fence + 1 }
                }
                Move::Idle => SessionState::Idle,
                Move::Terminated(error) => SessionState::Terminated { error: error.clone() },
            };
            if !session.state.may_become(&state) {
                return Err(Box::new(session));
            }
            Some(state)
        }
    };
    let mut session = session;
    session.pending_actions = actions;
    if let Some(usage) = &change.usage {
        session.usage.add(usage);
    }
    // A clock that steps back must not step the events back.
    let at = now.max(session.last_event_at);
    let first_seq = session.last_seq + 1;
    let begins = matches!(next, Some(SessionState::Running { .. }));
    let running = change.running_event.filter(|_| begins).map(|id| NewEvent { id, body: EventBody::StatusRunning {} });
    let mut told = change.events;
    if let Some(id) = change.usage_event {
        let body = EventBody::SessionUsage { usage: usage_json(&session.usage) };
        told.insert(told.len().saturating_sub(1), NewEvent { id, body });
    }
    let events: Vec<EventRecord> = (first_seq..)
        .zip(told.into_iter().chain(running))
        .map(|(seq, event)| EventRecord {
            session_id: session.id.clone(),
            seq,
            id: event.id,
            at,
            body: sanitised(event.body),
        })
        .collect();
    let messages: Vec<MessageRecord> = (session.message_count..)
        .zip(change.messages)
        .map(|(index, body)| MessageRecord { index, run: change.run.clone(), body: sanitised(body) })
        .collect();
    if let Some(last) = events.last() {
        session.last_seq = last.seq;
        session.last_event_at = at;
    }
    session.message_count += messages.len() as u64;
    if let Some(state) = next {
        if matches!(session.state, SessionState::Running { .. })
            && let Some(began) = session.run_began_at.take()
        {
            session.active_micros += u64::try_from(at.as_microsecond() - began.as_microsecond()).unwrap_or(0);
        }
        if let SessionState::Running { fence, .. } = &state {
            session.fence = *fence;
            session.run_start_seq = first_seq;
            session.run_began_at = Some(at);
            session.usage.runs += 1;
        }
        session.state = state;
    }
    if change.interrupt {
        session.interrupted_fence = session.fence;
    }
    if let Some(actions) = change.pending_actions {
        session.pending_actions = actions;
    }
    if let Some(title) = change.title {
        session.title = title;
    }
    if let Some(metadata) = change.metadata {
        session.metadata = metadata;
    }
    if let Some(sandbox) = change.sandbox {
        session.sandbox = sandbox;
    }
    if change.archive && session.archived_at.is_none() {
        session.archived_at = Some(at);
    }
    // Each change has a later time than the one before: the store knows by it whether somebody else was first.
    session.updated_at = at.max(session.updated_at + SignedDuration::from_micros(1));
    Ok(Changed { session, events, messages })
}

/// The calls that wait, with these answers; `None` when one answers nothing that waits.
fn answered(waiting: &[PendingAction], answers: Vec<(EventId, ActionAnswer)>) -> Option<Vec<PendingAction>> {
    let mut actions = waiting.to_vec();
    for (event, answer) in answers {
        let action = actions.iter_mut().find(|action| action.event_id == event && action.answer.is_none())?;
        action.answer = Some(answer);
    }
    Some(actions)
}

fn holds(session: &SessionRecord, guard: &Guard) -> bool {
    match guard {
        Guard::Always => true,
        Guard::Open => session.archived_at.is_none() && !matches!(session.state, SessionState::Terminated { .. }),
        Guard::Ready => {
            session.archived_at.is_none() && matches!(session.state, SessionState::Idle | SessionState::Pending { .. })
        }
        Guard::Pending => matches!(session.state, SessionState::Pending { .. }),
        Guard::Run { run, fence } => {
            matches!(&session.state, SessionState::Running { run: has, fence: number } if has == run && number == fence)
        }
        Guard::NotRunning => !matches!(session.state, SessionState::Running { .. }),
        Guard::Running => matches!(session.state, SessionState::Running { .. }),
    }
}

/// The usage object of `session.usage`.
fn usage_json(usage: &UsageTotals) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_input_tokens": usage.cache_read_input_tokens,
        "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": usage.cache_creation_input_tokens},
    })
}

impl UsageTotals {
    /// Adds what another one holds.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cost += other.cost;
        self.requests += other.requests;
        self.turns += other.turns;
        self.runs += other.runs;
        for (mine, theirs) in [(&mut self.by_source, &other.by_source), (&mut self.by_model, &other.by_model)] {
            for (name, share) in theirs {
                let total = mine.entry(name.clone()).or_default();
                total.input_tokens += share.input_tokens;
                total.output_tokens += share.output_tokens;
                total.cost += share.cost;
                total.requests += share.requests;
            }
        }
    }
}

/// NUL characters (a shell's output may hold them) are refused by Postgres' text, so each becomes U+FFFD, in one place
/// for both engines.
fn sanitised<T: serde::Serialize + serde::de::DeserializeOwned>(value: T) -> T {
    let Ok(text) = serde_json::to_string(&value) else { return value };
    if !text.contains("\\u0000") {
        return value;
    }
    let Ok(mut tree) = serde_json::from_str(&text) else { return value };
    replace_nul(&mut tree);
    serde_json::from_value(tree).unwrap_or(value)
}

fn replace_nul(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) if text.contains('\0') => *text = text.replace('\0', "\u{fffd}"),
        serde_json::Value::Array(items) => items.iter_mut().for_each(replace_nul),
        serde_json::Value::Object(fields) => {
            if fields.keys().any(|key| key.contains('\0')) {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(key, value)| (key.replace('\0', "\u{fffd}"), value))
                    .collect();
            }
            fields.values_mut().for_each(replace_nul);
        }
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
