//! Runs that a crash cut off.
//!
//! A run's lease is taken before the run is stored and given back after its end is stored. So a session that is running
//! and whose lease nobody has is one whose engine died: it gets its terminal events here, from whichever engine sees it
//! first. The fence decides if two do.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::send::{LEASE_TTL, lease_name};
use super::service::Sessions;
use super::state::SessionState;
use super::supervise::{Ending, failure};
use super::writer::RunWriter;
use crate::store::chain;

/// Between two looks. A run of a dead engine ends at most this plus the life of its lease later.
const PERIOD: Duration = Duration::from_secs(10);
/// Sessions looked at a time.
const BATCH: u32 = 500;

impl Sessions {
    /// Ends runs that nobody has, now and from time to time, until the engine drains.
    pub async fn recover_runs(self, draining: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = draining.cancelled() => return,
                _ = ticks.tick() => {
                    if let Err(error) = self.recover_once().await {
                        tracing::warn!(error = %chain(&error), "cut-off runs could not be looked for");
                    }
                    if let Err(error) = self.recover_boots().await {
                        tracing::warn!(error = %chain(&error), "cut-off boots could not be looked for");
                    }
                }
            }
        }
    }

    /// Ends every run that nobody has.
    ///
    /// # Errors
    /// When store or broker fail; a later look goes on.
    pub async fn recover_once(&self) -> Result<(), super::wishes::SessionError> {
        for session in self.parts.store.sessions_in_state("running", BATCH).await? {
            let name = lease_name(&session.id);
            if self.parts.broker.is_held(&name).await? {
                continue;
            }
            let Some(lease) = self.parts.broker.acquire(&name, LEASE_TTL).await? else { continue };
            // Read again under the lease: the run may have ended in between.
            if let SessionState::Running { run, fence } = self.session(&session.id).await?.state {
                tracing::warn!(session.id = %session.id, run.id = %run, "a run was cut off");
                let writer = RunWriter::new(self.writer(), session.id.clone(), run, fence);
                let error = failure("the engine stopped during this run; send the message again".to_owned());
                self.end(&writer, Ending::Failed(error), &lease).await;
            } else {
                self.give_back(&lease).await;
            }
        }
        Ok(())
    }
}
