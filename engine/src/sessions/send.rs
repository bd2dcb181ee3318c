//! Taking what a client sends: check all of it, then store it with the run that it begins, in one change.

use std::time::Duration;

use serde_json::Value;

use super::change::{ChangeOutcome, Guard, Move, SessionChange};
use super::service::{Sessions, archived};
use super::state::SessionState;
use super::supervise::RunStart;
use super::wishes::{SendRequest, SessionError};
use crate::broker::{Lease, Signals};
use crate::events::body::{Confirmation, ContentBlock, EventBody, MediaSource};
use crate::ids::{EventId, RunId, SessionId};
use crate::store::records::{
    ActionAnswer, EventRecord, MediaRef, MessageBody, Origin, Part, PendingAction, PendingKind, SessionRecord,
};

/// The lease of a run ends by itself so long after its engine fell silent.
pub(super) const LEASE_TTL: Duration = Duration::from_secs(30);
/// A run's lease is given back a moment after its end is stored; so long a sender waits for that moment.
const LEASE_PATIENCE: Duration = Duration::from_secs(3);
/// Between two looks at a lease in that moment: first, and at most.
const LEASE_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_LEASE_PAUSE: Duration = Duration::from_millis(50);

/// What the model is told of a call whose answer never came.
const MOVED_ON: &str = "the user sent a new message instead of answering this call";

pub(super) fn lease_name(id: &SessionId) -> String {
    format!("session:{id}:owner")
}

impl Sessions {
    /// Takes events, in order, all or none, and answers as soon as they are stored.
    ///
    /// # Errors
    /// When the session cannot take them now or at all; then nothing was stored, except that an interrupt ahead of a
    /// message may have ended a run.
    pub async fn send(&self, id: &SessionId, request: SendRequest) -> Result<Vec<EventRecord>, SessionError> {
        let session = self.session(id).await?;
        if matches!(session.state, SessionState::Pending { .. })
            && session.sandbox.id.is_none()
            && Wish::of(&session, &request).is_ok_and(|wish| wish.begins_run())
        {
            check_open(&session)?;
            return Err(SessionError::SandboxStarting);
        }
        self.send_now(session, request).await
    }

    /// The same for a session whose sandbox may still be starting: the run waits for it.
    pub(super) async fn send_now(
        &self,
        session: SessionRecord,
        request: SendRequest,
    ) -> Result<Vec<EventRecord>, SessionError> {
        let id = &session.id;
        check_open(&session)?;
        let wish = Wish::of(&session, &request)?;
        if !wish.begins_run() {
            return self.note(id, &request.events, wish.interrupts).await;
        }
        if self.parts.lifecycle.draining().is_cancelled() {
            return Err(SessionError::ShuttingDown);
        }
        // Subscribed before the run is there, so that no interrupt of it can be missed.
        let mut signals = self.parts.broker.subscribe(id).await?;
        let mut events = request.events;
        let mut stored = Vec::new();
        if matches!(session.state, SessionState::Running { .. }) {
            if !wish.interrupts_first {
                return Err(SessionError::RunInFlight);
            }
            let ahead = events.iter().take_while(|body| matches!(body, EventBody::UserInterrupt { .. })).count();
            let message = events.split_off(ahead);
            stored = self.note(id, &std::mem::replace(&mut events, message), true).await?;
            self.wait_until_not_running(id, &mut signals).await?;
        }
        let request = SendRequest { events, output_structure: request.output_structure };
        stored.extend(self.begin(id, wish.answers, request, signals).await?);
        Ok(stored)
    }

    /// Stores events that begin no run: interrupts, instructions, some of several answers.
    async fn note(
        &self,
        id: &SessionId,
        events: &[EventBody],
        interrupts: bool,
    ) -> Result<Vec<EventRecord>, SessionError> {
        let mut change = SessionChange::new(Guard::Open);
        change.messages = messages_of(&with_ids(events), None);
        for body in events {
            change.event(body.clone());
        }
        change.interrupt = interrupts;
        match self.writer().change(id, change).await? {
            ChangeOutcome::Done(changed) => Ok(changed.events),
            ChangeOutcome::Refused(session) => Err(check_open(&session).err().unwrap_or(SessionError::RunInFlight)),
            ChangeOutcome::Gone => Err(SessionError::NotFound(id.clone())),
        }
    }

    /// Stores the events and begins the run, if nobody else does.
    async fn begin(
        &self,
        id: &SessionId,
        answers: Vec<(EventId, ActionAnswer)>,
        request: SendRequest,
        signals: Signals,
    ) -> Result<Vec<EventRecord>, SessionError> {
        let lease = self.lease(id).await?;
        let run = RunId::generate();
        let events = with_ids(&request.events);
        let has_message = request.events.iter().any(|body| matches!(body, EventBody::UserMessage { .. }));
        let mut change = SessionChange::new(Guard::Ready);
        change.run = Some(run.clone());
        change.messages = messages_of(&events, request.output_structure.as_ref());
        change.answers = answers;
        change.to = Some(if has_message { Move::Run(run.clone()) } else { Move::RunOnceAnswered(run.clone()) });
        for (event, body) in events {
            change.events.push(super::change::NewEvent { id: event, body });
        }
        let sent = change.events.len();
        change.running_event = Some(EventId::generate());
        let outcome = self.writer().change(id, change).await;
        let changed = match outcome {
            Ok(ChangeOutcome::Done(changed)) => *changed,
            Ok(ChangeOutcome::Refused(session)) => {
                self.give_back(&lease).await;
                return Err(match check_open(&session) {
                    Err(error) => error,
                    Ok(()) if matches!(session.state, SessionState::Running { .. }) => SessionError::RunInFlight,
                    Ok(()) => SessionError::Invalid(
                        "another request answered one of these tool calls first; read the events and send what is \
                         still missing"
                            .to_owned(),
                    ),
                });
            }
            Ok(ChangeOutcome::Gone) => {
                self.give_back(&lease).await;
                return Err(SessionError::NotFound(id.clone()));
            }
            Err(error) => {
                self.give_back(&lease).await;
                return Err(error.into());
            }
        };
        let mut stored = changed.events;
        stored.truncate(sent);
        let SessionState::Running { run, fence } = changed.session.state.clone() else {
            self.give_back(&lease).await;
            return Ok(stored);
        };
        let start = RunStart {
            session: changed.session,
            run,
            fence,
            lease,
            signals,
            output_structure: request.output_structure,
        };
        let sessions = self.clone();
        self.parts.lifecycle.spawn_job("run", move |aborting| sessions.supervise(start, aborting));
        Ok(stored)
    }

    /// The lease of the session. A run's engine gives it back a moment after the end of the run is stored, so an idle
    /// session with a lease is waited for.
    async fn lease(&self, id: &SessionId) -> Result<Lease, SessionError> {
        let name = lease_name(id);
        let deadline = tokio::time::Instant::now() + LEASE_PATIENCE;
        let mut pause = LEASE_PAUSE;
        loop {
            if let Some(lease) = self.parts.broker.acquire(&name, LEASE_TTL).await? {
                return Ok(lease);
            }
            let session = self.session(id).await?;
            if matches!(session.state, SessionState::Running { .. }) || tokio::time::Instant::now() >= deadline {
                return Err(SessionError::RunInFlight);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LEASE_PAUSE);
        }
    }

    pub(super) async fn give_back(&self, lease: &Lease) {
        if let Err(error) = self.parts.broker.release(lease).await {
            tracing::warn!(lease = %lease.name, error = %crate::store::chain(&error), "a lease was not given back; it ends by itself");
        }
    }
}

/// Whether a session takes events at all.
fn check_open(session: &SessionRecord) -> Result<(), SessionError> {
    if session.archived_at.is_some() {
        return Err(archived(&session.id));
    }
    if let SessionState::Terminated { error } = &session.state {
        return Err(SessionError::Invalid(format!(
            "session {} is terminated ({error}); make a new session over the same video",
            session.id
        )));
    }
    Ok(())
}

/// What a request comes to.
#[derive(Debug)]
struct Wish {
    interrupts: bool,
    interrupts_first: bool,
    has_message: bool,
    answers: Vec<(EventId, ActionAnswer)>,
    answers_by_client: usize,
}

impl Wish {
    fn of(session: &SessionRecord, request: &SendRequest) -> Result<Self, SessionError> {
        let mut answers: Vec<(EventId, ActionAnswer)> = Vec::new();
        let mut has_message = false;
        let mut interrupts = false;
        let mut answers_by_client = 0;
        for body in &request.events {
            let answer = match body {
                EventBody::UserMessage { .. } => {
                    has_message = true;
                    continue;
                }
                EventBody::UserInterrupt { .. } => {
                    interrupts = true;
                    continue;
                }
                EventBody::UserToolConfirmation { tool_use_id, result, deny_message } => {
                    waiting(session, tool_use_id, PendingKind::Confirmation)?;
                    let answer = match result {
                        Confirmation::Allow => ActionAnswer::Allowed,
                        Confirmation::Deny => ActionAnswer::Denied { message: deny_message.clone() },
                    };
                    (tool_use_id.clone(), answer)
                }
                EventBody::UserCustomToolResult { custom_tool_use_id, content, is_error } => {
                    waiting(session, custom_tool_use_id, PendingKind::CustomResult)?;
                    let text = plain_text(content.as_deref().unwrap_or_default());
                    (custom_tool_use_id.clone(), ActionAnswer::Result { text, is_error: *is_error })
                }
                _ => continue,
            };
            if answers.iter().any(|(event, _)| *event == answer.0) {
                return Err(SessionError::Invalid(format!("the call {} is answered twice in this request", answer.0)));
            }
            answers_by_client += 1;
            answers.push(answer);
        }
        if has_message {
            for action in session.pending_actions.iter().filter(|action| action.answer.is_none()) {
                if !answers.iter().any(|(event, _)| *event == action.event_id) {
                    let answer = match action.kind {
                        PendingKind::CustomResult => ActionAnswer::Result { text: MOVED_ON.to_owned(), is_error: true },
                        PendingKind::Confirmation => ActionAnswer::Denied { message: Some(MOVED_ON.to_owned()) },
                    };
                    answers.push((action.event_id.clone(), answer));
                }
            }
        }
        let interrupts_first = matches!(request.events.first(), Some(EventBody::UserInterrupt { .. }));
        Ok(Self { interrupts, interrupts_first, has_message, answers, answers_by_client })
    }

    fn begins_run(&self) -> bool {
        self.has_message || self.answers_by_client > 0
    }
}

fn waiting<'a>(
    session: &'a SessionRecord,
    event: &EventId,
    kind: PendingKind,
) -> Result<&'a PendingAction, SessionError> {
    session
        .pending_actions
        .iter()
        .find(|action| action.event_id == *event && action.kind == kind && action.answer.is_none())
        .ok_or_else(|| SessionError::NothingPending(event.clone()))
}

fn with_ids(events: &[EventBody]) -> Vec<(EventId, EventBody)> {
    events.iter().map(|body| (EventId::generate(), body.clone())).collect()
}

/// The history's form of what was sent. Pictures stay in the event; the history names them.
fn messages_of(events: &[(EventId, EventBody)], output_structure: Option<&Value>) -> Vec<MessageBody> {
    let mut messages = Vec::new();
    for (event, body) in events {
        match body {
            EventBody::UserMessage { content } => {
                messages.push(MessageBody::User { origin: Origin::User, parts: parts_of(event, content) });
            }
            EventBody::SystemMessage { content } => messages.push(MessageBody::System { text: plain_text(content) }),
            _ => {}
        }
    }
    if let (Some(schema), Some(MessageBody::User { parts, .. })) = (output_structure, messages.last_mut()) {
        parts.push(Part::Text { text: format!("{}{schema}", crate::agent::prompts::FORM) });
    }
    messages
}

fn parts_of(event: &EventId, content: &[ContentBlock]) -> Vec<Part> {
    content
        .iter()
        .enumerate()
        .map(|(block, part)| match part {
            ContentBlock::Text { text } => Part::Text { text: text.clone() },
            ContentBlock::Image { source: MediaSource::Url { url } } => {
                Part::Image { media: MediaRef::Link { url: url.clone() } }
            }
            ContentBlock::Image { .. } => Part::Image { media: MediaRef::Sent { event: event.clone(), block } },
            ContentBlock::Document { source, title, context } => {
                let mut text = String::new();
                for line in [title, context].into_iter().flatten() {
                    text.push_str(line);
                    text.push('\n');
                }
                match source {
                    MediaSource::Text { data, .. } => text.push_str(data),
                    MediaSource::Url { url } => text.push_str(url),
                    MediaSource::File { file_id } => text.push_str(file_id),
                    MediaSource::Base64 { .. } => {}
                }
                Part::Text { text }
            }
        })
        .collect()
}

fn plain_text(content: &[ContentBlock]) -> String {
    content
        .iter()
        .filter_map(|block| match block {
            ContentBlock::Text { text } => Some(text.as_str()),
            ContentBlock::Document { source: MediaSource::Text { data, .. }, .. } => Some(data.as_str()),
            ContentBlock::Image { .. } | ContentBlock::Document { .. } => None,
        })
        .collect::<Vec<_>>()
        .join("\n")
}
