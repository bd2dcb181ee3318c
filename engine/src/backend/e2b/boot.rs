//! Making sandboxes and ending them, so that none is left that nobody knows of.
//!
//! Each carries in its metadata which installation it belongs to and what it is for, so that even one whose id was never stored is
//! found by [`super::reaper`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use ambient_e2b::{NewSandbox, Sandbox};
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;

use super::handle::Handle;
use super::held::Entry;
use super::told::{boot_failure, command_failure, may_pass, no_sandbox};
use super::{Inner, boot_lease};
use crate::backend::BackendError;
use crate::broker::Lease;
use crate::events::body::EventBody;
use crate::ids::{SessionId, VideoId};
use crate::sessions::change::{ChangeOutcome, Guard, Move, SessionChange};
use crate::sessions::state::SessionState;
use crate::store::records::{SandboxRecord, sandbox_status};
use crate::store::{StoreError, chain};

/// Metadata: the installation.
pub(crate) const ENGINE: &str = "ambient_engine";
/// Metadata: the session that has it.
pub(crate) const SESSION: &str = "ambient_session";
/// Metadata: the video that a job works on.
pub(crate) const VIDEO: &str = "ambient_video";
/// Metadata: tells this boot from every other.
const BOOT: &str = "ambient_boot";
/// The right to boot a session's sandbox ends by itself so long after its engine fell silent. Longer than a boot takes at worst.
const BOOT_TTL: Duration = Duration::from_secs(150);
/// Pauses before a sandbox is asked for again, where the service may have had a bad moment. A session whose boot fails is over.
const BOOT_PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];
/// After so long it is not asked for again: whoever waits for it waits for no more than two minutes.
const BOOT_PATIENCE: Duration = Duration::from_secs(20);
/// Tries to end a sandbox; after that its timeout and the reaper do.
const KILL_TRIES: u32 = 3;
const KILL_PAUSE: Duration = Duration::from_millis(300);
/// What a session is told that got a new sandbox.
const RENEWED: &str =
    "the session's sandbox was gone, so it got a new one; files that commands had left in the old one are lost";

impl Inner {
    /// See [`crate::backend::MediaBackend::boot`].
    pub(crate) async fn boot(
        self: &Arc<Self>,
        session: &SessionId,
        _stop: &CancellationToken,
    ) -> Result<(), BackendError> {
        // Not stopped midway: a sandbox that is being made is stored or ended, never left.
        let entry = self.held.entry(session);
        let _turn = entry.turn.lock().await;
        let Some(record) = self.store.session(session).await.map_err(|error| {
            tracing::warn!(session.id = %session, error = %chain(&error), "a session could not be read for its boot");
            BackendError::Media("the database does not answer".to_owned())
        })?
        else {
            return Ok(());
        };
        let is_over = record.archived_at.is_some() || matches!(record.state, SessionState::Terminated { .. });
        if record.sandbox.id.is_some() || is_over || self.is_booting(session).await? {
            return Ok(());
        }
        match self.make_for_session(session, &entry, false).await {
            Ok(handle) => {
                // Looked up now, so that the first command need not.
                if let Err(error) = handle.tool().await {
                    tracing::warn!(sandbox.id = handle.id(), error = %chain(&error), "a new sandbox could not be looked into");
                }
                Ok(())
            }
            // Deleted or archived while it booted: nobody waits for it.
            Err(BackendError::Cancelled) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a session's sandbox and stores its id before anybody uses it. To be called with the entry's turn.
    pub(crate) async fn make_for_session(
        self: &Arc<Self>,
        session: &SessionId,
        entry: &Arc<Entry>,
        is_renewal: bool,
    ) -> Result<Arc<Handle>, BackendError> {
        let lease = self.broker.acquire(&boot_lease(session), BOOT_TTL).await.map_err(|error| {
            tracing::warn!(session.id = %session, error = %chain(&error), "a boot could not be announced");
            BackendError::Media("the broker does not answer; try again".to_owned())
        })?;
        let Some(lease) = lease else {
            return Err(no_sandbox("it is still starting; try again in a moment"));
        };
        let made = self.make_unless_there(session, is_renewal).await;
        self.give_back(&lease).await;
        let handle = made?;
        entry.put(Some(Arc::clone(&handle)));
        Ok(handle)
    }

    /// Another engine may have made one between the look at the session and the lease: a second one would take its place, and what is in it along.
    async fn make_unless_there(
        self: &Arc<Self>,
        session: &SessionId,
        is_renewal: bool,
    ) -> Result<Arc<Handle>, BackendError> {
        match self.record_of(session).await?.sandbox.id {
            Some(id) => self.join(&id).await.map_err(|error| command_failure(&error, &id)),
            None => self.make_and_store(session, is_renewal).await,
        }
    }

    async fn make_and_store(
        self: &Arc<Self>,
        session: &SessionId,
        is_renewal: bool,
    ) -> Result<Arc<Handle>, BackendError> {
        let began = Instant::now();
        let sandbox = self.make((SESSION, session.as_str())).await?;
        match self.store_ready(session, sandbox.id(), is_renewal).await {
            Ok(true) => {
                tracing::info!(
                    session.id = %session,
                    sandbox.id = sandbox.id(),
                    boot.seconds = began.elapsed().as_secs_f64(),
                    "a session's sandbox is up"
                );
                Ok(self.at_hand(sandbox))
            }
            Ok(false) => {
                self.kill(sandbox.id()).await;
                Err(BackendError::Cancelled)
            }
            Err(error) => {
                tracing::error!(session.id = %session, error = %chain(&error), "a new sandbox could not be stored, and is ended");
                self.kill(sandbox.id()).await;
                Err(BackendError::Media("the database does not answer".to_owned()))
            }
        }
    }

    /// Makes the sandbox of a job.
    pub(crate) async fn make_for_job(
        self: &Arc<Self>,
        job: &SessionId,
        video: &VideoId,
    ) -> Result<Arc<Handle>, BackendError> {
        let sandbox = self.make((VIDEO, video.as_str())).await?;
        tracing::info!(job.id = %job, video.id = %video, sandbox.id = sandbox.id(), "the sandbox of a job is up");
        Ok(self.at_hand(sandbox))
    }

    async fn make(&self, (key, owner): (&str, &str)) -> Result<Sandbox, BackendError> {
        let installation = self.installation().await.map_err(|error| {
            tracing::warn!(error = %chain(&error), "this installation's name could not be read");
            BackendError::Media("the database does not answer".to_owned())
        })?;
        let environment = self.config.environment.iter().map(|(name, value)| (*name, value.expose_secret()));
        let new = NewSandbox::new(&self.config.template)
            .timeout(self.config.wall)
            .envs(environment)
            .metadata(ENGINE, installation)
            .metadata(key, owner);
        self.create_patiently(&new).await.map_err(|error| {
            tracing::warn!(error = %chain(&error), template = self.config.template, "no sandbox could be made");
            boot_failure(&error, &self.config.template)
        })
    }

    /// Asks again after a failure that may pass. Should the one that got lost come up all the same, it is nobody's, and the reaper ends it.
    async fn create_patiently(&self, new: &NewSandbox) -> Result<Sandbox, ambient_e2b::Error> {
        let began = Instant::now();
        let mut pauses = BOOT_PAUSES.into_iter();
        loop {
            let new = new.clone().identified_by(BOOT, format!("{:032x}", rand::random::<u128>()));
            match self.client.create(&new).await {
                Err(error) if may_pass(&error) && began.elapsed() < BOOT_PATIENCE => {
                    let Some(pause) = pauses.next() else { return Err(error) };
                    tracing::info!(error = %chain(&error), "no sandbox could be made; trying again");
                    tokio::time::sleep(pause).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// A sandbox that is there already, whichever engine made it.
    pub(crate) async fn join(&self, sandbox: &str) -> Result<Arc<Handle>, ambient_e2b::Error> {
        Ok(self.at_hand(self.client.connect(sandbox, self.config.wall).await?))
    }

    pub(crate) fn at_hand(&self, sandbox: Sandbox) -> Arc<Handle> {
        Arc::new(Handle::new(sandbox, self.config.wall, Arc::clone(&self.broker), self.lifecycle.clone()))
    }

    /// Stores a new sandbox; a pending session is idle from then on. `false` says that nobody wants it any more.
    async fn store_ready(&self, session: &SessionId, sandbox: &str, is_renewal: bool) -> Result<bool, StoreError> {
        let change = |guard: Guard, to: Option<Move>| {
            let mut change = SessionChange::new(guard);
            change.sandbox = Some(record(sandbox_status::READY, Some(sandbox)));
            change.to = to;
            if is_renewal {
                change.event(EventBody::SessionProgress { message: RENEWED.to_owned(), percent: None });
            }
            change
        };
        // Archived or terminated sessions fail both guards but for an archived one that is pending; see below.
        match self.writer.change(session, change(Guard::Pending, Some(Move::Idle))).await? {
            ChangeOutcome::Done(changed) => return Ok(changed.session.archived_at.is_none()),
            ChangeOutcome::Gone => return Ok(false),
            ChangeOutcome::Refused(_) => {}
        }
        let outcome = self.writer.change(session, change(Guard::Open, None)).await?;
        Ok(matches!(outcome, ChangeOutcome::Done(_)))
    }

    /// Notes that this sandbox of a session is gone.
    pub(crate) async fn store_lost(&self, session: &SessionId, sandbox: &str) -> Result<(), StoreError> {
        self.take_away(session, sandbox, Guard::Always).await.map(drop)
    }

    /// The same, as long as the guard holds. `false` says that the session keeps it, or has another.
    pub(crate) async fn take_away(&self, session: &SessionId, sandbox: &str, guard: Guard) -> Result<bool, StoreError> {
        let now = self.store.session(session).await?;
        if now.is_none_or(|now| now.sandbox.id.as_deref() != Some(sandbox)) {
            return Ok(false);
        }
        let mut change = SessionChange::new(guard);
        change.sandbox = Some(record(sandbox_status::LOST, None));
        Ok(matches!(self.writer.change(session, change).await?, ChangeOutcome::Done(_)))
    }

    /// Ends a sandbox. Gone is gone: one that is not there is as good.
    pub(crate) async fn kill(&self, sandbox: &str) -> bool {
        for attempt in 1..=KILL_TRIES {
            match self.client.kill(sandbox).await {
                Ok(_was_there) => {
                    tracing::info!(sandbox.id = sandbox, "a sandbox is ended");
                    return true;
                }
                Err(error) if attempt == KILL_TRIES => {
                    tracing::warn!(sandbox.id = sandbox, error = %chain(&error), "a sandbox was not ended; its timeout does that");
                }
                Err(_again) => tokio::time::sleep(KILL_PAUSE * attempt).await,
            }
        }
        false
    }

    pub(crate) async fn give_back(&self, lease: &Lease) {
        if let Err(error) = self.broker.release(lease).await {
            tracing::warn!(lease = %lease.name, error = %chain(&error), "a lease was not given back; it ends by itself");
        }
    }
}

fn record(status: &str, id: Option<&str>) -> SandboxRecord {
    SandboxRecord { backend: super::NAME.to_owned(), status: status.to_owned(), id: id.map(str::to_owned) }
}
