//! The search for files whose job was lost: with a broker that was emptied, or an engine that died.

use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::{IngestParts, lease_name};
use crate::broker::{BrokerError, Job};
use crate::store::records::WorkStatus;
use crate::store::{StoreError, chain};

/// One engine sweeps in each period.
const LEASE: &str = "ingest:sweeper";
/// The lease ends a little before the period, so that its holder can take it again.
const LEASE_TENTHS_OF_PERIOD: u32 = 9;
/// Files of one sweep; more are left for the next.
const MOST_FILES: u32 = 100;

/// See the module.
#[derive(Debug)]
pub(super) struct Sweep {
    parts: IngestParts,
}

#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error("the files could not be read")]
    Store(#[from] StoreError),
    #[error("the queue could not be used")]
    Broker(#[from] BrokerError),
}

impl Sweep {
    pub(super) fn new(parts: IngestParts) -> Self {
        Self { parts }
    }

    pub(super) async fn run(self, draining: CancellationToken) {
        // After a start everything that waits is looked at, however young: the queue may have gone with the last process.
        // Each engine does that for itself, since a job that stands twice in the queue does no harm.
        self.report(self.sweep(self.parts.clock.now()).await);
        loop {
            tokio::select! {
                () = draining.cancelled() => return,
                () = tokio::time::sleep(self.parts.config.sweep_every) => {}
            }
            self.report(self.sweep_if_first().await);
        }
    }

    fn report(&self, outcome: Result<usize, SweepError>) {
        match outcome {
            Ok(0) => {}
            Ok(count) => tracing::info!(files = count, "files whose background work was lost are queued again"),
            Err(error) => {
                let again = self.parts.config.sweep_every;
                tracing::warn!(error = %chain(&error), ?again, "the sweep of background work failed");
            }
        }
    }

    async fn sweep_if_first(&self) -> Result<usize, SweepError> {
        let ttl = self.parts.config.sweep_every * LEASE_TENTHS_OF_PERIOD / 10;
        if self.parts.broker.acquire(LEASE, ttl).await?.is_none() {
            return Ok(0);
        }
        let now = self.parts.clock.now();
        self.sweep(now.checked_sub(self.parts.config.stale_after).unwrap_or(now)).await
    }

    /// Queues what waits since `before` and nobody works on.
    async fn sweep(&self, before: Timestamp) -> Result<usize, SweepError> {
        let unfinished = [WorkStatus::Pending, WorkStatus::Processing];
        let files = self.parts.store.files_with_description(&unfinished, before, MOST_FILES).await?;
        let mut queued = 0;
        for file in files {
            if !self.parts.broker.is_held(&lease_name(&file.id)).await? {
                self.parts.broker.enqueue(&Job::Ingest { video: file.id }, Duration::ZERO).await?;
                queued += 1;
            }
        }
        Ok(queued)
    }
}
