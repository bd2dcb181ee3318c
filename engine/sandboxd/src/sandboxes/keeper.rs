//! Ends sandboxes in time, and samples what they use.

use std::time::Duration;

use camino::Utf8Path;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::meter::EVERY;
use super::registry::Registry;
use super::sandbox::{Sandbox, State};
use crate::clock::now;

/// How long to sleep when nothing has an end: an end that moves wakes the keeper anyway.
const IDLE: Duration = Duration::from_mins(1);

impl Registry {
    /// Ends what is due, until it is stopped.
    pub(crate) async fn keep(self, tasks: TaskTracker, stop: CancellationToken) {
        loop {
            let mut next = IDLE;
            for sandbox in self.all() {
                match sandbox.deadline().map(until) {
                    Some(Duration::ZERO) => {
                        let registry = self.clone();
                        // Each by itself: one that takes long to end does not hold up the others.
                        tasks.spawn(async move { registry.end_of_time(&sandbox).await });
                    }
                    Some(time) => next = next.min(time),
                    None => {}
                }
            }
            tokio::select! {
                () = tokio::time::sleep(next) => {}
                () = self.moved() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    async fn end_of_time(&self, sandbox: &Sandbox) {
        if !sandbox.behaviour.pause_at_end {
            self.kill_if_due(sandbox).await;
            return;
        }
        if let Err(error) = self.pause_if_due(sandbox, sandbox.behaviour.pause_with_memory).await {
            tracing::error!(
                sandbox.id,
                error = crate::with_causes(&error),
                "a sandbox is ended: it could not be paused"
            );
            self.kill_if_due(sandbox).await;
        }
    }

    /// Samples all that run, until it is stopped.
    pub(crate) async fn measure(self, stop: CancellationToken) {
        loop {
            for sandbox in self.all() {
                self.sample(&sandbox).await;
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Takes one sample, if it runs.
    pub(crate) async fn sample(&self, sandbox: &Sandbox) {
        if let State::Running(alive) = sandbox.state() {
            let usage = alive.machine.usage().await;
            let disk: &Utf8Path = self.launcher().folders().root();
            let mut meter = sandbox.meter.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            meter.add(usage, sandbox.image.limits(), disk);
        }
    }
}

/// Zero when it has come.
fn until(end: Timestamp) -> Duration {
    Duration::try_from(end.duration_since(now())).unwrap_or(Duration::ZERO)
}
