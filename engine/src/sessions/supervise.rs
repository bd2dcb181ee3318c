//! The life of one run: its lease, its heartbeat, what can stop it, and its end.
//!
//! Whatever happens to the work (an answer, an error, a panic, an interrupt, a shutdown), the run ends with its terminal
//! event, after every open tool call got its result. The one exception is a run that lost its session: it ends without a
//! word, since somebody else speaks by then.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::change::{Changed, Move, SessionChange};
use super::send::LEASE_TTL;
use super::service::Sessions;
use super::writer::{RunWriteError, RunWriter};
use crate::agent::{RunContext, RunOutcome};
use crate::broker::{Heard, Lease, Signal, Signals};
use crate::events::body::{ContentBlock, EventBody, FailureKind, RetryStatus, SessionFailure, StopReason};
use crate::ids::{EventId, RunId, SessionId};
use crate::store::records::{MessageBody, MessageRecord, SessionRecord};
use crate::store::{StoreError, chain};

/// Heartbeats in the life of a lease: two may fail before it is lost.
const HEARTBEATS_PER_LEASE: u32 = 3;
/// How long work that was told to stop may take to do so before it is dropped.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// How long the end of a run is tried against a store that fails. After that the recovery of runs writes it.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// First pause between two such tries; it doubles.
const END_PAUSE: Duration = Duration::from_millis(100);

/// What a run does: the agent, or a script of the tests.
#[derive(Clone)]
pub struct Runner(RunFunction);

type RunFunction = Arc<dyn Fn(RunContext) -> BoxFuture<'static, Result<RunOutcome, RunWriteError>> + Send + Sync>;

impl Runner {
    /// A runner that does this for each run.
    pub fn new<F>(work: impl Fn(RunContext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<RunOutcome, RunWriteError>> + Send + 'static,
    {
        Self(Arc::new(move |context| work(context).boxed()))
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runner")
    }
}

/// A run that was just begun in the store.
#[derive(Debug)]
pub(super) struct RunStart {
    pub(super) session: SessionRecord,
    pub(super) run: RunId,
    pub(super) fence: u64,
    pub(super) lease: Lease,
    /// Heard since before the run began.
    pub(super) signals: Signals,
    pub(super) output_structure: Option<Value>,
}

/// Why the work was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Interrupted,
    LostLease,
    ShuttingDown,
}

impl Sessions {
    /// Runs a run to its end.
    pub(super) async fn supervise(self, start: RunStart, aborting: CancellationToken) {
        let RunStart { session, run, fence, lease, signals, output_structure } = start;
        let began = std::time::Instant::now();
        let id = session.id.clone();
        let writer = RunWriter::new(self.writer(), id.clone(), run.clone(), fence);
        let stop = CancellationToken::new();
        let work = self.work(session, writer.clone(), output_structure, stop.clone());
        let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        let watched = self.watch(&id, &lease, fence, signals, &aborting);
        let (cause, outcome) = tokio::select! {
            outcome = &mut work => (None, Some(outcome)),
            cause = watched => {
                stop.cancel();
                (Some(cause), tokio::time::timeout(STOP_GRACE, &mut work).await.ok())
            }
        };
        // What is left of the work, child processes too, ends here.
        drop(work);
        let end = ending(cause, outcome);
        tracing::info!(session.id = %id, run.id = %run, run.end = end.name(), run.seconds = began.elapsed().as_secs_f64(), "run ended");
        self.end(&writer, end, &lease).await;
    }

    /// Writes the end of a run, gives its lease back, and only then tells the readers: who sees the idle event can send
    /// the next message at once.
    pub(super) async fn end(&self, writer: &RunWriter, end: Ending, lease: &Lease) {
        let written = if matches!(end, Ending::Lost) { None } else { self.write_end(writer, end).await };
        self.give_back(lease).await;
        if let Some(changed) = written {
            writer.publish(&changed).await;
        }
    }

    async fn work(
        &self,
        session: SessionRecord,
        writer: RunWriter,
        output_structure: Option<Value>,
        stop: CancellationToken,
    ) -> Result<RunOutcome, RunWriteError> {
        let Some(session) = self.with_sandbox(session, &stop).await? else { return Err(RunWriteError::Lost) };
        let Some(file) = self.parts.store.file(&session.video_id).await? else {
            return Ok(RunOutcome::Failed(failure(format!(
                "the video {} was deleted; make a new session over another file",
                session.video_id
            ))));
        };
        let context =
            RunContext { writer, session, file, backend: Arc::clone(&self.parts.backend), output_structure, stop };
        (self.parts.runner.0)(context).await
    }

    /// Keeps the lease until something says that the run has to stop.
    async fn watch(
        &self,
        id: &SessionId,
        lease: &Lease,
        fence: u64,
        mut signals: Signals,
        aborting: &CancellationToken,
    ) -> Cause {
        let period = LEASE_TTL / HEARTBEATS_PER_LEASE;
        let mut heartbeat = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
        heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut kept_at = tokio::time::Instant::now();
        let mut listening = true;
        loop {
            tokio::select! {
                () = aborting.cancelled() => return Cause::ShuttingDown,
                heard = signals.next(), if listening => match heard {
                    Heard::Signal(signal) => match signal.as_ref() {
                        Signal::Interrupt { fence: wanted } if *wanted == fence => return Cause::Interrupted,
                        Signal::Events(_) | Signal::Preview(_) | Signal::Interrupt { .. } => {}
                    },
                    Heard::Missed => {
                        if self.was_interrupted(id, fence).await {
                            return Cause::Interrupted;
                        }
                    }
                    Heard::Closed => listening = false,
                },
                _ = heartbeat.tick() => {
                    match self.parts.broker.extend(lease, LEASE_TTL).await {
                        Ok(true) => kept_at = tokio::time::Instant::now(),
                        Ok(false) => return Cause::LostLease,
                        Err(error) => {
                            tracing::warn!(lease = %lease.name, error = %chain(&error), "a heartbeat failed");
                            if kept_at.elapsed() >= LEASE_TTL {
                                return Cause::LostLease;
                            }
                        }
                    }
                    // A signal may have been lost on its way from another engine; the store has not lost the wish.
                    if self.was_interrupted(id, fence).await {
                        return Cause::Interrupted;
                    }
                }
            }
        }
    }

    async fn was_interrupted(&self, id: &SessionId, fence: u64) -> bool {
        match self.parts.store.session(id).await {
            Ok(Some(session)) => session.interrupted_fence == fence,
            Ok(None) => true,
            Err(_unreachable) => false,
        }
    }

    /// Writes the end of a run, again and again while the store fails; gives what was written.
    async fn write_end(&self, writer: &RunWriter, end: Ending) -> Option<Changed> {
        let deadline = tokio::time::Instant::now() + END_PATIENCE;
        let mut pause = END_PAUSE;
        loop {
            match self.try_end(writer, &end).await {
                Ok(written) => return written,
                Err(RunWriteError::Lost) => return None,
                Err(RunWriteError::Store(error)) => {
                    tracing::error!(session.id = %writer.session(), run.id = %writer.run(), error = %chain(&error), "the end of a run could not be stored");
                }
            }
            if tokio::time::Instant::now() + pause > deadline {
                return None;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    async fn try_end(&self, writer: &RunWriter, end: &Ending) -> Result<Option<Changed>, RunWriteError> {
        let mut change = writer.begin();
        if let Some(why) = end.cuts_off() {
            self.close_history(writer.session(), why, &mut change).await?;
        }
        let stop_reason = match end {
            Ending::Answered | Ending::Interrupted => StopReason::EndTurn,
            Ending::Refused => StopReason::Refusal,
            Ending::Waits(actions) => {
                change.pending_actions = Some(actions.clone());
                StopReason::RequiresAction { event_ids: actions.iter().map(|action| action.event_id.clone()).collect() }
            }
            Ending::Failed(error) => {
                change.event(EventBody::SessionError { error: error.clone() });
                StopReason::RetriesExhausted
            }
            Ending::Lost => return Ok(None),
        };
        change.usage_event = Some(EventId::generate());
        change.event(EventBody::StatusIdle { stop_reason, stop_details: None });
        change.to = Some(Move::Idle);
        Ok(Some(writer.store(change).await?))
    }

    /// Gives every call without a result one, and a message without an answer a word in the answer's place. So each call
    /// has exactly one result, and the next message does not run into this one: strict servers want roles to alternate,
    /// and a model that sees both as one would do again what was stopped.
    async fn close_history(
        &self,
        session: &SessionId,
        why: CutOff,
        change: &mut SessionChange,
    ) -> Result<(), StoreError> {
        let history = self.parts.store.messages(session, 0).await?;
        for (call_id, event, name) in open_calls(&history) {
            let told = self.parts.store.event(session, &event).await?;
            if matches!(told.map(|event| event.body), Some(EventBody::AgentToolUse { .. })) {
                change.event(EventBody::AgentToolResult {
                    tool_use_id: event.clone(),
                    content: vec![ContentBlock::text(why.call)],
                    is_error: true,
                });
            }
            change.messages.push(MessageBody::Tool {
                call_id,
                tool_use: event,
                name,
                text: why.call.to_owned(),
                is_error: true,
            });
        }
        let last = change.messages.last().or(history.last().map(|message| &message.body));
        if matches!(last, Some(MessageBody::User { .. } | MessageBody::System { .. })) {
            change.messages.push(MessageBody::Assistant {
                text: Some(why.answer.to_owned()),
                reasoning: None,
                calls: Vec::new(),
            });
        }
        change.pending_actions = Some(Vec::new());
        Ok(())
    }
}

/// The calls of a history that have no result, in order: the model's id, the event, the tool.
fn open_calls(history: &[MessageRecord]) -> Vec<(String, EventId, String)> {
    let mut open = Vec::new();
    for message in history {
        match &message.body {
            MessageBody::Assistant { calls, .. } => {
                open.extend(calls.iter().map(|call| (call.call_id.clone(), call.event_id.clone(), call.name.clone())));
            }
            MessageBody::Tool { tool_use, .. } => open.retain(|(_, event, _)| event != tool_use),
            MessageBody::User { .. } | MessageBody::System { .. } => {}
        }
    }
    open
}

/// The words for what a run left open.
#[derive(Clone, Copy, Debug)]
struct CutOff {
    /// In the place of a call's result.
    call: &'static str,
    /// In the place of the answer.
    answer: &'static str,
}

/// How a run ends.
#[derive(Debug)]
pub(super) enum Ending {
    Answered,
    Refused,
    Interrupted,
    Waits(Vec<crate::store::records::PendingAction>),
    Failed(SessionFailure),
    Lost,
}

impl Ending {
    fn name(&self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::Waits(_) => "waits for the client",
            Self::Failed(_) => "failed",
            Self::Lost => "lost its session",
        }
    }

    /// What stands in the place of results and of the answer; `None` where nothing was cut off.
    fn cuts_off(&self) -> Option<CutOff> {
        match self {
            Self::Interrupted => {
                Some(CutOff { call: "the user interrupted this call", answer: "[the user interrupted this turn]" })
            }
            Self::Failed(_) => Some(CutOff {
                call: "this call did not finish: the run ended with an error",
                answer: "[this turn ended with an error before an answer]",
            }),
            Self::Answered | Self::Refused | Self::Waits(_) | Self::Lost => None,
        }
    }
}

type WorkResult = Result<Result<RunOutcome, RunWriteError>, Box<dyn std::any::Any + Send>>;

fn ending(cause: Option<Cause>, outcome: Option<WorkResult>) -> Ending {
    match (cause, outcome) {
        (Some(Cause::LostLease), _) | (_, Some(Ok(Err(RunWriteError::Lost)))) => Ending::Lost,
        (_, Some(Ok(Ok(RunOutcome::Answered)))) => Ending::Answered,
        (_, Some(Ok(Ok(RunOutcome::Refused)))) => Ending::Refused,
        (Some(Cause::Interrupted), _) | (None, None | Some(Ok(Ok(RunOutcome::Interrupted)))) => Ending::Interrupted,
        (Some(Cause::ShuttingDown), _) => {
            Ending::Failed(failure("the engine was shut down during this run; send the message again".to_owned()))
        }
        (None, Some(Ok(Ok(RunOutcome::RequiresAction(actions))))) => Ending::Waits(actions),
        (None, Some(Ok(Ok(RunOutcome::Failed(error))))) => Ending::Failed(error),
        (None, Some(Ok(Err(RunWriteError::Store(error))))) => {
            tracing::error!(error = %chain(&error), "a run failed at the store");
            Ending::Failed(failure("the engine's store failed during this run; send the message again".to_owned()))
        }
        (None, Some(Err(_panic))) => Ending::Failed(failure(
            "the run failed because of a fault in the engine; its log has the details".to_owned(),
        )),
    }
}

pub(crate) fn failure(message: String) -> SessionFailure {
    SessionFailure { kind: FailureKind::UnknownError, message, retry_status: RetryStatus::Exhausted }
}
