//! The owner of every task of the engine.
//!
//! Two kinds: a service lives as long as the engine, and its early end (by panic too) drains the rest, since a half-alive
//! engine is worse than none; a job is work that ends, and its panic fails that work alone. Two tokens: `draining` asks
//! for no new work, `aborting` ends what still goes on.

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long tasks may take to end once they were told to: a run's last words, and the streams that carry them.
const AFTER_ABORT: Duration = Duration::from_secs(15);

/// Starts, counts and ends tasks. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    tasks: TaskTracker,
    draining: CancellationToken,
    aborting: CancellationToken,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self::new()
    }
}

impl Lifecycle {
    /// With no task yet.
    pub fn new() -> Self {
        Self { tasks: TaskTracker::new(), draining: CancellationToken::new(), aborting: CancellationToken::new() }
    }

    /// Cancelled when no new work is to be taken.
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Cancelled when running work is to end now.
    pub fn aborting(&self) -> &CancellationToken {
        &self.aborting
    }

    /// Starts a task that lives as long as the engine. It gets the draining token and is to end soon after it.
    pub fn spawn_service<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let ends_all = self.draining.clone().drop_guard();
        let work = task(self.draining.child_token());
        self.tasks.spawn(async move {
            work.await;
            tracing::debug!(service = name, "service ended");
            drop(ends_all);
        });
    }

    /// Starts work that ends by itself. It gets the aborting token. A panic ends this work alone and is logged.
    pub fn spawn_job<F>(&self, name: &'static str, task: impl FnOnce(CancellationToken) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let work = task(self.aborting.child_token());
        let watched = self.tasks.spawn(work);
        self.tasks.spawn(async move {
            if let Err(failure) = watched.await
                && failure.is_panic()
            {
                tracing::error!(job = name, "a job panicked");
            }
        });
    }

    /// Asks everything to end: new work first, what goes on after `grace`. `false` when a task outlived both.
    pub async fn shut_down(&self, grace: Duration) -> bool {
        self.draining.cancel();
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_ok() {
            return true;
        }
        self.aborting.cancel();
        tokio::time::timeout(AFTER_ABORT, self.tasks.wait()).await.is_ok()
    }
}
