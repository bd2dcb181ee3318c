//! The broker of a single engine process: nothing outlives it, nothing leaves it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::ears::Ears;
use super::{Broker, BrokerError, Job, Lease, Signal, Signals, TakenJob, token};
use crate::ids::SessionId;

/// Leases that ran out are swept when there are more than this, and then when there are twice as many as were left.
const SWEEP_FROM: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct MemoryBroker {
    ears: Arc<Ears>,
    leases: Mutex<Leases>,
    jobs: Mutex<Jobs>,
    jobs_changed: Notify,
}

#[derive(Debug)]
struct Leases {
    held: HashMap<String, Held>,
    /// One counter for all names is larger each time, for each name too.
    last_fence: u64,
    sweep_at: usize,
}

#[derive(Debug)]
struct Held {
    token: String,
    until: Instant,
}

/// Jobs by when they are due, then by when they came.
#[derive(Debug, Default)]
struct Jobs {
    waiting: BTreeMap<(Instant, u64), Waiting>,
    taken: HashMap<String, Taken>,
    last_number: u64,
}

#[derive(Debug)]
struct Waiting {
    job: Job,
    /// How often it was taken before.
    attempts: u32,
}

#[derive(Debug)]
struct Taken {
    job: Job,
    attempts: u32,
    lease: Duration,
    until: Instant,
}

impl MemoryBroker {
    pub(super) fn new() -> Self {
        Self {
            ears: Ears::new(Box::new(|_session| {})),
            leases: Mutex::new(Leases { held: HashMap::new(), last_fence: 0, sweep_at: SWEEP_FROM }),
            jobs: Mutex::default(),
            jobs_changed: Notify::new(),
        }
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryBroker {
    fn drop(&mut self) {
        self.ears.close();
    }
}

impl Leases {
    /// Who has it now.
    fn holder(&self, name: &str) -> Option<&Held> {
        self.held.get(name).filter(|held| held.until > Instant::now())
    }

    fn sweep(&mut self) {
        if self.held.len() >= self.sweep_at {
            let now = Instant::now();
            self.held.retain(|_name, held| held.until > now);
            self.sweep_at = SWEEP_FROM.max(self.held.len() * 2);
        }
    }
}

impl Jobs {
    /// A job that waits already is not added, but is due no later, and has been tried no less often.
    fn add(&mut self, job: Job, due: Instant, attempts: u32) {
        let same = self.waiting.iter().find(|(_place, waiting)| waiting.job == job).map(|(place, _waiting)| *place);
        let standing = same.and_then(|place| Some((place, self.waiting.remove(&place)?)));
        self.last_number += 1;
        let (place, attempts) = match standing {
            Some((place, waiting)) if place.0 <= due => (place, attempts.max(waiting.attempts)),
            Some((_later, waiting)) => ((due, self.last_number), attempts.max(waiting.attempts)),
            None => ((due, self.last_number), attempts),
        };
        self.waiting.insert(place, Waiting { job, attempts });
    }

    /// Puts back what its holder fell silent about.
    fn take_back(&mut self, now: Instant) {
        let silent: Vec<String> = self
            .taken
            .iter()
            .filter(|(_receipt, taken)| taken.until <= now)
            .map(|(receipt, _taken)| receipt.clone())
            .collect();
        for receipt in silent {
            if let Some(taken) = self.taken.remove(&receipt) {
                self.add(taken.job, now, taken.attempts);
            }
        }
    }

    /// The first job that is due.
    fn take(&mut self, now: Instant, lease: Duration) -> Option<TakenJob> {
        let first = self.waiting.first_entry().filter(|entry| entry.key().0 <= now)?;
        let Waiting { job, attempts } = first.remove();
        let attempt = attempts + 1;
        let receipt = token();
        self.taken.insert(receipt.clone(), Taken { job: job.clone(), attempts: attempt, lease, until: now + lease });
        Some(TakenJob { job, attempt, receipt })
    }

    /// When something may change by itself.
    fn next_change(&self) -> Option<Instant> {
        let due = self.waiting.first_key_value().map(|(place, _waiting)| place.0);
        due.into_iter().chain(self.taken.values().map(|taken| taken.until)).min()
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    async fn ping(&self) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn acquire(&self, name: &str, ttl: Duration) -> Result<Option<Lease>, BrokerError> {
        let mut leases = self.leases();
        if leases.holder(name).is_some() {
            return Ok(None);
        }
        leases.sweep();
        leases.last_fence += 1;
        let lease = Lease { name: name.to_owned(), token: token(), fence: leases.last_fence };
        leases.held.insert(lease.name.clone(), Held { token: lease.token.clone(), until: Instant::now() + ttl });
        Ok(Some(lease))
    }

    async fn extend(&self, lease: &Lease, ttl: Duration) -> Result<bool, BrokerError> {
        let mut leases = self.leases();
        if leases.holder(&lease.name).is_none_or(|held| held.token != lease.token) {
            return Ok(false);
        }
        leases.held.insert(lease.name.clone(), Held { token: lease.token.clone(), until: Instant::now() + ttl });
        Ok(true)
    }

    async fn release(&self, lease: &Lease) -> Result<(), BrokerError> {
        let mut leases = self.leases();
        if leases.held.get(&lease.name).is_some_and(|held| held.token == lease.token) {
            leases.held.remove(&lease.name);
        }
        Ok(())
    }

    async fn is_held(&self, name: &str) -> Result<bool, BrokerError> {
        Ok(self.leases().holder(name).is_some())
    }

    async fn publish(&self, session: &SessionId, signal: Signal) -> Result<(), BrokerError> {
        self.ears.tell(session, signal);
        Ok(())
    }

    async fn subscribe(&self, session: &SessionId) -> Result<Signals, BrokerError> {
        Ok(self.ears.listen(session))
    }

    async fn enqueue(&self, job: &Job, delay: Duration) -> Result<(), BrokerError> {
        self.jobs().add(job.clone(), Instant::now() + delay, 0);
        self.jobs_changed.notify_waiters();
        Ok(())
    }

    async fn take(&self, patience: Duration, lease: Duration) -> Result<Option<TakenJob>, BrokerError> {
        let until = Instant::now() + patience;
        loop {
            // Listened to before the look, so that a job that comes in between is not slept over.
            let mut changed = std::pin::pin!(self.jobs_changed.notified());
            changed.as_mut().enable();
            let now = Instant::now();
            let wake = {
                let mut jobs = self.jobs();
                jobs.take_back(now);
                if let Some(taken) = jobs.take(now, lease) {
                    return Ok(Some(taken));
                }
                jobs.next_change().map_or(until, |change| change.min(until))
            };
            if now >= until {
                return Ok(None);
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(wake) => {}
            }
        }
    }

    async fn keep(&self, job: &TakenJob) -> Result<bool, BrokerError> {
        let now = Instant::now();
        let mut jobs = self.jobs();
        jobs.take_back(now);
        Ok(jobs.taken.get_mut(&job.receipt).map(|taken| taken.until = now + taken.lease).is_some())
    }

    async fn finish(&self, job: &TakenJob) -> Result<(), BrokerError> {
        self.jobs().taken.remove(&job.receipt);
        Ok(())
    }
}
