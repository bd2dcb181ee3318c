//! The sandboxes that this engine works with: which session or job has which, how it gets one, and how a lost one is replaced.
//!
//! The store says which sandbox a session has; what is held here can be rebuilt from it on any engine. A sandbox's id is stored
//! before its first use, and one that cannot be stored is ended at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

use super::handle::Handle;
use super::told::{command_failure, lost, no_sandbox};
use super::{Inner, boot_lease};
use crate::backend::BackendError;
use crate::ids::{RunId, SessionId, VideoId};
use crate::sessions::change::Guard;
use crate::sessions::state::SessionState;
use crate::store::records::{SessionRecord, sandbox_status};
use crate::store::{StoreError, chain};

/// What is said when the store keeps a session's sandbox from being known.
const NO_STORE: &str = "the database does not answer; try again";
/// Entries of sessions without a sandbox of ours are cleared from so many on.
const MANY: usize = 1000;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Held(Mutex<HashMap<SessionId, Arc<Entry>>>);

/// What one session or job has.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// Held while a sandbox is looked for, made or given up.
    pub(crate) turn: tokio::sync::Mutex<()>,
    seat: Mutex<Seat>,
}

#[derive(Debug, Default)]
struct Seat {
    handle: Option<Arc<Handle>>,
    /// The run in which a lost sandbox was replaced: another one would be lost alike.
    renewed_in: Option<RunId>,
    /// Set for a job: its video.
    job: Option<VideoId>,
}

impl Entry {
    pub(crate) fn handle(&self) -> Option<Arc<Handle>> {
        self.seat().handle.clone()
    }

    pub(crate) fn put(&self, handle: Option<Arc<Handle>>) {
        self.seat().handle = handle;
    }

    pub(crate) fn job(&self) -> Option<VideoId> {
        self.seat().job.clone()
    }

    fn seat(&self) -> std::sync::MutexGuard<'_, Seat> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    pub(crate) fn entry(&self, id: &SessionId) -> Arc<Entry> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() > MANY {
            entries
                .retain(|_id, entry| Arc::strong_count(entry) > 1 || entry.handle().is_some() || entry.job().is_some());
        }
        Arc::clone(entries.entry(id.clone()).or_default())
    }

    pub(crate) fn begin_job(&self, job: &SessionId, video: &VideoId) {
        self.entry(job).seat().job = Some(video.clone());
    }

    pub(crate) fn remove(&self, id: &SessionId) -> Option<Arc<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(id)
    }

    /// Everybody with a sandbox at hand.
    pub(crate) fn all(&self) -> Vec<(SessionId, Arc<Entry>)> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let held = entries.iter().filter(|(_id, entry)| entry.handle().is_some());
        held.map(|(id, entry)| (id.clone(), Arc::clone(entry))).collect()
    }
}

/// What a command of a session needs first.
#[derive(Debug)]
pub(crate) enum Need {
    /// This sandbox.
    Use(String),
    /// A sandbox that nobody has seen missing.
    First,
    /// One in the place of that which is gone.
    Renewal,
    /// There is none to be had.
    Nothing(BackendError),
}

/// Decides it. `is_booting` says that some engine makes one at this moment.
pub(crate) fn need(session: &SessionRecord, recreate: bool, is_booting: bool, renewed_in: Option<&RunId>) -> Need {
    if session.archived_at.is_some() {
        return Need::Nothing(no_sandbox("the session is archived"));
    }
    if let SessionState::Terminated { error } = &session.state {
        return Need::Nothing(no_sandbox(&format!("the session is terminated: {error}")));
    }
    if let Some(id) = &session.sandbox.id {
        return Need::Use(id.clone());
    }
    if is_booting {
        return Need::Nothing(no_sandbox("it is still starting; try again in a moment"));
    }
    match session.sandbox.status.as_str() {
        sandbox_status::FAILED => Need::Nothing(no_sandbox("it did not boot; the session's events have the reason")),
        sandbox_status::LOST if !recreate => Need::Nothing(lost(
            "this session's sandbox is gone, and it gets no new one (`SANDBOX_RECREATE=false`); make a new session over the same video",
        )),
        sandbox_status::LOST => match (&session.state, renewed_in) {
            (SessionState::Running { run, .. }, Some(renewed)) if run == renewed => {
                Need::Nothing(lost("this session's sandbox was lost twice in a row; its next message brings a new one"))
            }
            _ => Need::Renewal,
        },
        _ => Need::First,
    }
}

impl Inner {
    /// The sandbox for a command of a session or job, made if there is none. A stop leaves a boot that goes on to those who come
    /// next.
    pub(crate) async fn handle(
        self: &Arc<Self>,
        session: &SessionId,
        stop: &CancellationToken,
    ) -> Result<Arc<Handle>, BackendError> {
        let (done, found) = tokio::sync::oneshot::channel();
        let entry = self.held.entry(session);
        // The quick way: somebody has it at hand, and the command's own keep-alive finds out whether it is still there.
        if let Some(handle) = entry.handle() {
            return Ok(handle);
        }
        let (inner, id) = (Arc::clone(self), session.clone());
        self.lifecycle.spawn_job("sandbox for a command", |_aborting| async move {
            let _nobody_waits = done.send(inner.find(&id, &entry).await);
        });
        tokio::select! {
            () = stop.cancelled() => Err(BackendError::Cancelled),
            found = found => found.unwrap_or_else(|_dropped| Err(no_sandbox("the engine is shutting down"))),
        }
    }

    async fn find(self: &Arc<Self>, session: &SessionId, entry: &Arc<Entry>) -> Result<Arc<Handle>, BackendError> {
        let _turn = entry.turn.lock().await;
        if let Some(handle) = entry.handle() {
            return Ok(handle);
        }
        if let Some(video) = entry.job() {
            let handle = self.make_for_job(session, &video).await?;
            entry.put(Some(Arc::clone(&handle)));
            return Ok(handle);
        }
        let record = self.record_of(session).await?;
        let is_booting = self.is_booting(session).await?;
        let renewed_in = entry.seat().renewed_in.clone();
        match need(&record, self.config.recreate, is_booting, renewed_in.as_ref()) {
            Need::Nothing(error) => Err(error),
            Need::Use(id) => match self.join(&id).await {
                Ok(handle) => {
                    entry.put(Some(Arc::clone(&handle)));
                    Ok(handle)
                }
                Err(error) if error.is_sandbox_lost() => {
                    self.forget(session, entry, &id).await;
                    let record = self.record_of(session).await?;
                    match need(&record, self.config.recreate, false, renewed_in.as_ref()) {
                        Need::Renewal => self.renew(&record, entry).await,
                        Need::Nothing(error) => Err(error),
                        Need::Use(_) | Need::First => Err(command_failure(&error, &id)),
                    }
                }
                Err(error) => Err(command_failure(&error, &id)),
            },
            Need::First => self.make_for_session(session, entry, false).await,
            Need::Renewal => self.renew(&record, entry).await,
        }
    }

    async fn renew(self: &Arc<Self>, record: &SessionRecord, entry: &Arc<Entry>) -> Result<Arc<Handle>, BackendError> {
        let handle = self.make_for_session(&record.id, entry, true).await?;
        if let SessionState::Running { run, .. } = &record.state {
            entry.seat().renewed_in = Some(run.clone());
        }
        Ok(handle)
    }

    /// Takes the sandbox of a session away, unless it runs by now: `false`.
    pub(crate) async fn retire(&self, session: &SessionId, sandbox: &str) -> Result<bool, StoreError> {
        let entry = self.held.entry(session);
        let _turn = entry.turn.lock().await;
        if !self.take_away(session, sandbox, Guard::NotRunning).await? {
            return Ok(false);
        }
        if entry.handle().is_some_and(|handle| handle.id() == sandbox) {
            entry.put(None);
        }
        Ok(true)
    }

    /// Notes that a session's sandbox is gone.
    pub(crate) async fn gave_up(&self, session: &SessionId, sandbox: &str) {
        let entry = self.held.entry(session);
        let _turn = entry.turn.lock().await;
        self.forget(session, &entry, sandbox).await;
    }

    async fn forget(&self, session: &SessionId, entry: &Entry, sandbox: &str) {
        if entry.handle().is_some_and(|handle| handle.id() != sandbox) {
            // Somebody else saw it first, and there is a new one.
            return;
        }
        entry.put(None);
        if entry.job().is_some() {
            return;
        }
        tracing::warn!(session.id = %session, sandbox.id = sandbox, "a session's sandbox is gone");
        if let Err(error) = self.store_lost(session, sandbox).await {
            tracing::warn!(session.id = %session, error = %chain(&error), "a lost sandbox could not be noted; it is found out again");
        }
    }

    pub(crate) async fn record_of(&self, session: &SessionId) -> Result<SessionRecord, BackendError> {
        match self.store.session(session).await {
            Ok(Some(record)) => Ok(record),
            Ok(None) => Err(no_sandbox("there is no such session any more")),
            Err(error) => {
                tracing::warn!(session.id = %session, error = %chain(&error), "a session's sandbox is not known");
                Err(BackendError::Media(NO_STORE.to_owned()))
            }
        }
    }

    pub(crate) async fn is_booting(&self, session: &SessionId) -> Result<bool, BackendError> {
        self.broker.is_held(&boot_lease(session)).await.map_err(|error| {
            tracing::warn!(session.id = %session, error = %chain(&error), "it is not known whether a sandbox boots");
            BackendError::Media("the broker does not answer; try again".to_owned())
        })
    }
}
