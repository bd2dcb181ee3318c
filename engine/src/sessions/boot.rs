//! The boot of a session's sandbox: begun with the session, waited for by a run that begins first, and taken up again when the
//! engine that began it died.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::change::{ChangeOutcome, Guard, Move, SessionChange};
use super::service::Sessions;
use super::state::SessionState;
use super::supervise::failure;
use super::wishes::SessionError;
use crate::events::body::EventBody;
use crate::ids::SessionId;
use crate::store::records::{Mode, SandboxRecord, SessionRecord, sandbox_status};
use crate::store::{StoreError, chain};

/// How long a run waits for the boot before it goes on without a sandbox.
const BOOT_PATIENCE: Duration = Duration::from_mins(2);
/// Between two looks at a boot: first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LONGEST_LOOK: Duration = Duration::from_millis(500);
/// Pending sessions looked at a time.
const BATCH: u32 = 500;
/// A boot whose engine has just begun may not be known to others yet.
const YOUNG: Duration = Duration::from_secs(5);

impl Sessions {
    pub(super) fn boot_in_background(&self, id: SessionId) {
        let sessions = self.clone();
        self.parts.lifecycle.spawn_job("sandbox boot", move |aborting| async move {
            if let Err(error) = sessions.parts.backend.boot(&id, &aborting).await {
                let error = chain(&error);
                tracing::error!(session.id = %id, error, "a session's sandbox did not boot");
                if let Err(error) = sessions.boot_failed(&id, error).await {
                    tracing::error!(session.id = %id, error = %chain(&error), "the failed boot could not be stored; it is tried again");
                }
            }
        });
    }

    /// Ends a session whose sandbox did not boot, with the reason before the end.
    async fn boot_failed(&self, id: &SessionId, error: String) -> Result<(), StoreError> {
        let mut change = SessionChange::new(Guard::Open);
        change.sandbox = Some(SandboxRecord {
            backend: self.parts.backend.name().to_owned(),
            status: sandbox_status::FAILED.to_owned(),
            id: None,
        });
        change.event(EventBody::SessionError { error: failure(error.clone()) });
        change.event(EventBody::StatusTerminated {});
        change.to = Some(Move::Terminated(error));
        match self.writer().change(id, change).await? {
            ChangeOutcome::Done(_) | ChangeOutcome::Refused(_) | ChangeOutcome::Gone => Ok(()),
        }
    }

    /// Boots what engines that died left pending.
    ///
    /// # Errors
    /// When store or backend fail; a later look goes on.
    pub async fn recover_boots(&self) -> Result<(), SessionError> {
        for session in self.parts.store.sessions_in_state("pending", BATCH).await? {
            let SessionState::Pending { since } = session.state else { continue };
            let is_young = self.parts.clock.now().duration_since(since).unsigned_abs() < YOUNG;
            if is_young || session.archived_at.is_some() {
                continue;
            }
            match self.parts.backend.is_booting(&session.id).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(session.id = %session.id, "a boot was cut off and is begun again");
                    self.boot_in_background(session.id);
                }
                Err(error) => tracing::warn!(error = %chain(&error), "it is not known whether a boot goes on"),
            }
        }
        Ok(())
    }

    /// The session once its sandbox is there, or as it is when that takes too long. `None` when the session is over or gone.
    pub(super) async fn with_sandbox(
        &self,
        session: SessionRecord,
        stop: &CancellationToken,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let session = if is_starting(&session) { self.wait_for_boot(session, stop).await? } else { Some(session) };
        if let Some(session) = session.as_ref().filter(|session| session.mode == Mode::Agent) {
            let (backend, session, stop) = (Arc::clone(&self.parts.backend), session.clone(), stop.clone());
            self.parts.lifecycle.spawn_job("sandbox of a run", move |_aborting| async move {
                backend.freshen(&session, &stop).await;
            });
        }
        Ok(session)
    }

    async fn wait_for_boot(
        &self,
        mut session: SessionRecord,
        stop: &CancellationToken,
    ) -> Result<Option<SessionRecord>, StoreError> {
        let began = tokio::time::Instant::now();
        let deadline = began + BOOT_PATIENCE;
        let mut pause = FIRST_LOOK;
        while is_starting(&session) && tokio::time::Instant::now() < deadline {
            tokio::select! {
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_LOOK);
            if began.elapsed() >= YOUNG && matches!(self.parts.backend.is_booting(&session.id).await, Ok(false)) {
                // Its engine died; the first command that needs a sandbox boots one.
                break;
            }
            match self.parts.store.session(&session.id).await? {
                Some(now) if matches!(now.state, SessionState::Terminated { .. }) => return Ok(None),
                Some(now) => session = now,
                None => return Ok(None),
            }
        }
        Ok(Some(session))
    }
}

fn is_starting(session: &SessionRecord) -> bool {
    session.sandbox.status == sandbox_status::STARTING && session.sandbox.id.is_none()
}
