//! The end of sandboxes that nobody needs: of sessions that are over or idle for too long, and of engines that died.
//!
//! One engine looks in each period. A sandbox is ended only for what the store says, never because the store or the list could not
//! be read: a list with holes ends nothing, since each sandbox in it is judged by its own record.

use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::ListFilter;
use ambient_e2b::protocol::{ListedSandbox, SandboxState};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::boot::{ENGINE, SESSION, VIDEO};
use super::{Inner, boot_lease};
use crate::broker::BrokerError;
use crate::events::body::EventBody;
use crate::ids::{SessionId, VideoId};
use crate::sessions::change::{Guard, Move, SessionChange};
use crate::sessions::state::SessionState;
use crate::sessions::supervise::failure;
use crate::store::records::SessionRecord;
use crate::store::{StoreError, chain};

/// Between two looks, unless a limit is shorter.
const LONGEST_PERIOD: Duration = Duration::from_mins(1);
const SHORTEST_PERIOD: Duration = Duration::from_secs(1);
/// One engine looks in each period; its right to do so ends a little before.
const LEASE: &str = "sandbox:reaper";
/// A sandbox so young may belong to something that is not stored yet.
const YOUNG: Duration = Duration::from_secs(30);
/// Idle sessions looked at a time, oldest first.
const BATCH: u32 = 500;

#[derive(Debug, thiserror::Error)]
enum ReapError {
    #[error("the sandboxes could not be listed")]
    List(#[from] ambient_e2b::Error),
    #[error("the sessions could not be read")]
    Store(#[from] StoreError),
    #[error("the broker could not be asked")]
    Broker(#[from] BrokerError),
}

/// What becomes of a session's sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Stays,
    /// Nobody has it.
    Stranger,
    /// Its session has been idle for too long.
    Idle,
}

/// Decides it for a sandbox that says it is this session's.
fn verdict(
    session: Option<&SessionRecord>,
    sandbox: &str,
    is_booting: bool,
    idle_ttl: Option<Duration>,
    now: Timestamp,
) -> Verdict {
    let Some(session) = session else { return Verdict::Stranger };
    if session.archived_at.is_some() || matches!(session.state, SessionState::Terminated { .. }) {
        return Verdict::Stranger;
    }
    if session.sandbox.id.as_deref() != Some(sandbox) {
        return if is_booting { Verdict::Stays } else { Verdict::Stranger };
    }
    let is_idle = matches!(session.state, SessionState::Idle);
    let since = session.last_event_at.max(session.created_at);
    match idle_ttl {
        Some(ttl) if is_idle && age(since, now) >= ttl => Verdict::Idle,
        _ => Verdict::Stays,
    }
}

fn age(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

impl Inner {
    /// Looks until the engine drains.
    pub(crate) async fn reap(self: Arc<Self>, draining: CancellationToken) {
        let limits = [self.config.idle_ttl, self.config.hard_ttl];
        let shortest = limits.into_iter().flatten().min().map_or(LONGEST_PERIOD, |limit| limit / 4);
        let period = shortest.clamp(SHORTEST_PERIOD, LONGEST_PERIOD);
        let mut ticks = tokio::time::interval(period);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = draining.cancelled() => return,
                _ = ticks.tick() => {}
            }
            tokio::select! {
                () = draining.cancelled() => return,
                reaped = self.reap_if_first(period) => if let Err(error) = reaped {
                    tracing::warn!(error = %chain(&error), "sandboxes that nobody needs were not looked for");
                }
            }
        }
    }

    async fn reap_if_first(&self, period: Duration) -> Result<(), ReapError> {
        if self.broker.acquire(LEASE, period * 9 / 10).await?.is_none() {
            return Ok(());
        }
        self.end_old_sessions().await?;
        let filter = ListFilter {
            metadata: [(ENGINE.to_owned(), self.installation().await?.to_owned())].into(),
            states: vec![SandboxState::Running, SandboxState::Paused],
            ..ListFilter::default()
        };
        for sandbox in self.client.list(&filter).await? {
            self.judge(&sandbox).await?;
        }
        Ok(())
    }

    async fn judge(&self, sandbox: &ListedSandbox) -> Result<(), ReapError> {
        let now = self.clock.now();
        let metadata = &sandbox.metadata;
        // The list is the service's: what does not say that it is ours is not touched, whatever was filtered for.
        if metadata.get(ENGINE).map(String::as_str) != Some(self.installation().await?) {
            return Ok(());
        }
        if age(sandbox.started_at, now) < YOUNG && !self.is_known(metadata.get(SESSION)).await? {
            return Ok(());
        }
        if let Some(session) = metadata.get(SESSION).and_then(|id| id.parse::<SessionId>().ok()) {
            // In this order: a boot stores the id of its sandbox before it lets go of the lease. The other way round, one that ends in between would
            // look like neither.
            let is_booting = self.broker.is_held(&boot_lease(&session)).await?;
            let record = self.store.session(&session).await?;
            match verdict(record.as_ref(), &sandbox.sandbox_id, is_booting, self.config.idle_ttl, now) {
                Verdict::Stays => {}
                Verdict::Stranger => {
                    tracing::info!(session.id = %session, sandbox.id = sandbox.sandbox_id, "a sandbox that no session has is ended");
                    self.kill(&sandbox.sandbox_id).await;
                }
                Verdict::Idle => {
                    // A message may have come since it was looked at.
                    if self.retire(&session, &sandbox.sandbox_id).await? {
                        tracing::info!(session.id = %session, sandbox.id = sandbox.sandbox_id, "the sandbox of an idle session is ended");
                        self.kill(&sandbox.sandbox_id).await;
                    }
                }
            }
        } else if let Some(video) = metadata.get(VIDEO).and_then(|id| id.parse::<VideoId>().ok()) {
            let is_at_hand = self
                .held
                .all()
                .iter()
                .any(|(_id, entry)| entry.handle().is_some_and(|handle| handle.id() == sandbox.sandbox_id));
            if !is_at_hand && !self.broker.is_held(&crate::ingest::lease_name(&video)).await? {
                tracing::info!(video.id = %video, sandbox.id = sandbox.sandbox_id, "a sandbox whose job is over is ended");
                self.kill(&sandbox.sandbox_id).await;
            }
        }
        Ok(())
    }

    /// Whether a sandbox names a session that is there.
    async fn is_known(&self, session: Option<&String>) -> Result<bool, StoreError> {
        match session.and_then(|id| id.parse::<SessionId>().ok()) {
            Some(id) => Ok(self.store.session(&id).await?.is_some()),
            None => Ok(false),
        }
    }

    /// Ends sessions that are as old as a session may become, once they are idle.
    async fn end_old_sessions(&self) -> Result<(), ReapError> {
        let Some(ttl) = self.config.hard_ttl else { return Ok(()) };
        let now = self.clock.now();
        for session in self.store.sessions_in_state("idle", BATCH).await? {
            if age(session.created_at, now) < ttl
                || session.archived_at.is_some()
                || session.sandbox.backend != super::NAME
            {
                continue;
            }
            let reason = format!(
                "the session is older than `SESSION_HARD_TTL_SECONDS` ({} s) allows; make a new session over the same video",
                ttl.as_secs()
            );
            let mut change = SessionChange::new(Guard::NotRunning);
            change.event(EventBody::SessionError { error: failure(reason.clone()) });
            change.event(EventBody::StatusTerminated {});
            change.to = Some(Move::Terminated(reason));
            self.writer.change(&session.id, change).await?;
            self.end(&session.id).await;
        }
        Ok(())
    }
}
