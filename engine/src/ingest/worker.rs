//! A worker: takes one file after the other from the queue and brings it as far as it goes.
//!
//! The queue gives a job to one worker at a time, and a lease on the file keeps a second job of the same file away. Both
//! are kept alive while the work goes on; if they are lost all the same, the work stops, and what it found is not written,
//! because records change only as long as nobody else has taken them.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::description::{self, Described};
use super::source::Sourced;
use super::tiles::{self, Tiled};
use super::{IngestParts, lease_name};
use crate::broker::{BrokerError, Job, Lease, TakenJob};
use crate::ids::{SessionId, VideoId};
use crate::store::records::{FileRecord, WorkStatus};
use crate::store::{StoreError, chain};

/// How often the signs of life come within the time after which a job is taken over.
const BEATS: u32 = 3;
/// How much longer each further pause between two tries is.
const RETRY_FACTOR: u32 = 4;
/// Between two looks at a queue that does not answer.
const BROKER_PAUSE: Duration = Duration::from_secs(1);
/// Before a job is tried again whose record could not be read or written.
const STORE_PAUSE: Duration = Duration::from_secs(10);
/// How often a record is read again that somebody else changed in between.
const WRITE_TRIES: u32 = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) parts: IngestParts,
}

/// How a job ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing is left to do.
    Done,
    /// It is to be tried again after a pause.
    Again(Duration),
    /// The job or the file went to somebody else.
    Lost,
}

impl Worker {
    pub(super) fn new(parts: IngestParts) -> Self {
        Self { parts }
    }

    pub(super) async fn run(self, draining: CancellationToken) {
        loop {
            // A job that is lost by dropping the look comes again, as after a crash.
            let taken = tokio::select! {
                biased;
                () = draining.cancelled() => return,
                taken = self.parts.broker.take(self.parts.config.block, self.parts.config.stale_after) => taken,
            };
            let outcome = match taken {
                Ok(None) => continue,
                Ok(Some(job)) => self.work(&job, &draining).await,
                Err(error) => Err(error),
            };
            if let Err(error) = outcome {
                tracing::warn!(error = %chain(&error), "the queue of background work failed");
                tokio::select! {
                    () = draining.cancelled() => return,
                    () = tokio::time::sleep(BROKER_PAUSE) => {}
                }
            }
        }
    }

    async fn work(&self, job: &TakenJob, draining: &CancellationToken) -> Result<(), BrokerError> {
        let Job::Ingest { video } = &job.job;
        let broker = &self.parts.broker;
        let Some(lease) = broker.acquire(&lease_name(video), self.parts.config.stale_after).await? else {
            // Another worker is at it, and may have looked already at what this wish is about: so it comes back when that one is done.
            broker.enqueue(&job.job, self.parts.config.first_retry).await?;
            return broker.finish(job).await;
        };
        let stop = draining.child_token();
        let ended = {
            let stages = self.stages(video, &stop);
            tokio::pin!(stages);
            tokio::select! {
                ended = &mut stages => ended,
                () = self.beat(job, &lease) => {
                    stop.cancel();
                    let _unwritten = stages.await;
                    Ok(Ended::Lost)
                }
            }
        };
        let again = match ended {
            Ok(Ended::Lost) => return Ok(()),
            Ok(Ended::Done) => None,
            Ok(Ended::Again(pause)) => Some(pause),
            Err(error) => {
                tracing::warn!(video.id = %video, error = %chain(&error), "a file's record could not be used");
                Some(STORE_PAUSE)
            }
        };
        // The lease goes first, or whoever takes the next try would find the video still taken. Until it is finished, this job comes back
        // by itself.
        broker.release(&lease).await?;
        if let Some(pause) = again {
            broker.enqueue(&job.job, pause).await?;
        }
        broker.finish(job).await
    }

    /// Gives signs of life until they are no longer taken.
    async fn beat(&self, job: &TakenJob, lease: &Lease) {
        let ttl = self.parts.config.stale_after;
        loop {
            tokio::time::sleep(ttl / BEATS).await;
            let kept = async {
                Ok::<bool, BrokerError>(
                    self.parts.broker.keep(job).await? && self.parts.broker.extend(lease, ttl).await?,
                )
            };
            match kept.await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(job = ?job.job, "a job went to another worker while it was being done");
                    return;
                }
                // The next beat may get through before the lease ends; if not, the record's own check decides.
                Err(error) => tracing::warn!(error = %chain(&error), "a job's sign of life was not taken"),
            }
        }
    }

    async fn stages(&self, video: &VideoId, stop: &CancellationToken) -> Result<Ended, StoreError> {
        let Some(file) = self.parts.store.file(video).await? else { return Ok(Ended::Done) };
        // The work belongs to no session; what it needs of the backend is its own for as long as it takes.
        let job = SessionId::generate();
        self.parts.backend.begin_job(&job, video).await;
        let ended = self.stages_of(&job, file, stop).await;
        if let Err(error) = self.parts.backend.end_session(&job).await {
            tracing::warn!(video.id = %video, error = %chain(&error), "what a job worked with was not removed");
        }
        ended
    }

    async fn stages_of(
        &self,
        job: &SessionId,
        file: FileRecord,
        stop: &CancellationToken,
    ) -> Result<Ended, StoreError> {
        let file = match Box::pin(self.source(job, file, stop)).await? {
            Sourced::Settled(file) => *file,
            Sourced::Not(ended) => return Ok(ended),
        };
        let of = file.clone();
        let described = async {
            match file.description_status {
                Some(WorkStatus::Pending | WorkStatus::Processing) => self.description(job, file, stop).await,
                Some(WorkStatus::Ready | WorkStatus::Failed) | None => Ok(Ended::Done),
            }
        };
        let (tiled, described) = tokio::join!(Box::pin(tiles::make(&self.parts, job, &of, stop)), Box::pin(described));
        match (tiled, described) {
            (Tiled::Stopped, Ok(Ended::Done)) => Ok(Ended::Again(Duration::ZERO)),
            (_, described) => described,
        }
    }

    async fn description(
        &self,
        job: &SessionId,
        file: FileRecord,
        stop: &CancellationToken,
    ) -> Result<Ended, StoreError> {
        let vision = self.parts.vision.as_ref().filter(|vision| vision.model().is_some());
        let Some(vision) = vision else {
            // Nobody can describe it, which is no failure.
            let freed = self.change(file, |file| {
                let is_open = is_open(file.description_status);
                file.description_status = None;
                is_open
            });
            return Ok(if freed.await?.is_some() { Ended::Done } else { Ended::Lost });
        };
        let most = self.parts.config.max_attempts.max(1);
        let claimed = self.change(file, |file| {
            // Counted before the work, so that a video which takes the engine down with it is given up too.
            file.description_attempts += 1;
            let is_poison = file.description_attempts > most;
            file.description_status = Some(if is_poison { WorkStatus::Failed } else { WorkStatus::Processing });
            file.description_error = is_poison.then(|| format!("no description came of {most} attempts"));
            true
        });
        let Some(file) = claimed.await? else { return Ok(Ended::Lost) };
        if file.description_status == Some(WorkStatus::Failed) {
            return Ok(Ended::Done);
        }

        let vision = vision.with_model(&self.parts.config.description_model);
        let described = description::describe(&self.parts, job, &vision, &file, stop).await;
        let attempt = file.description_attempts;
        let ended = match &described {
            Described::Not { may_help: true, .. } if attempt < most => Ended::Again(self.pause(attempt)),
            Described::As(_) | Described::Not { .. } => Ended::Done,
            Described::Stopped => Ended::Again(Duration::ZERO),
        };
        let video = file.id.clone();
        let written = self.change(file, |file| {
            let is_mine =
                file.description_status == Some(WorkStatus::Processing) && file.description_attempts == attempt;
            match &described {
                Described::As(text) => {
                    file.description_status = Some(WorkStatus::Ready);
                    file.description = Some(text.clone());
                    file.description_error = None;
                }
                Described::Not { .. } if ended != Ended::Done => file.description_status = Some(WorkStatus::Pending),
                Described::Not { reason, .. } => {
                    file.description_status = Some(WorkStatus::Failed);
                    file.description_error = Some(reason.clone());
                }
                Described::Stopped => {
                    file.description_status = Some(WorkStatus::Pending);
                    file.description_attempts -= 1;
                }
            }
            is_mine
        });
        if written.await?.is_none() {
            return Ok(Ended::Lost);
        }
        match (&described, &ended) {
            (Described::As(_), _) => tracing::info!(video.id = %video, "a video is described"),
            (Described::Stopped, _) => tracing::debug!(video.id = %video, "a description is put back"),
            (Described::Not { reason, .. }, Ended::Again(pause)) => {
                tracing::warn!(video.id = %video, reason, attempt, ?pause, "a description failed and is tried again");
            }
            (Described::Not { reason, .. }, Ended::Done | Ended::Lost) => {
                tracing::warn!(video.id = %video, reason, attempt, "a video stays without a description");
            }
        }
        Ok(ended)
    }

    /// Before the try after this one. Shorter than what counts as lost, or the sweep would come first.
    pub(super) fn pause(&self, attempt: u32) -> Duration {
        let factor = RETRY_FACTOR.saturating_pow(attempt.saturating_sub(1));
        let longest = (self.parts.config.stale_after / 2).max(self.parts.config.first_retry);
        self.parts.config.first_retry.saturating_mul(factor).min(longest)
    }

    /// Changes a record. `alter` is asked again when somebody else changed it in between, and says whether the change is
    /// still wanted; `None` when it is not, or the file is gone.
    pub(super) async fn change(
        &self,
        file: FileRecord,
        alter: impl Fn(&mut FileRecord) -> bool + Send,
    ) -> Result<Option<FileRecord>, StoreError> {
        let mut current = file;
        for _try in 0..WRITE_TRIES {
            let mut next = current.clone();
            if !alter(&mut next) {
                return Ok(None);
            }
            let a_moment_later = current.updated_at.checked_add(Duration::from_micros(1)).unwrap_or(current.updated_at);
            next.updated_at = self.parts.clock.now().max(a_moment_later);
            if self.parts.store.update_file(&next, current.updated_at).await? {
                return Ok(Some(next));
            }
            let Some(read_again) = self.parts.store.file(&current.id).await? else { return Ok(None) };
            current = read_again;
        }
        Ok(None)
    }
}

fn is_open(status: Option<WorkStatus>) -> bool {
    matches!(status, Some(WorkStatus::Pending | WorkStatus::Processing))
}
