//! What several engines have to agree on while they work: who runs a session, what just happened, what is to be done.
//!
//! In-process by default, Redis when `REDIS_URL` is set; both are held to one contract suite
//! (`engine/tests/broker_contract.rs`). Nothing here is the truth: leases keep two engines from working on one thing, and
//! the store's fence refuses the one that lost its lease without noticing; signals may be missed, and a reader that
//! missed some reads the store again; a job that was lost is found again by the sweep.

mod ears;
mod memory;
mod redis;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::ids::{EventId, SessionId, VideoId};
use crate::store::records::EventRecord;

/// What a broker can fail with.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Redis does not answer, or refused a command.
    #[error("the broker did not answer")]
    Unavailable(#[source] ::redis::RedisError),
    /// The first connection was not made: a start fails with this.
    #[error("{reason}")]
    Connect {
        /// What is wrong and how to mend it, without the password.
        reason: String,
        /// What Redis or the system said.
        #[source]
        source: ::redis::RedisError,
    },
    /// `REDIS_URL` is no address of a Redis that the engine can use.
    #[error("`REDIS_URL` is not usable: {reason}")]
    Address {
        /// What is wrong, without the password.
        reason: String,
    },
}

/// A right to work on something, until it ends or is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What it is on, `session:<id>` for one.
    pub name: String,
    /// Tells this holder from every other.
    pub token: String,
    /// Larger than that of every earlier lease on the same name.
    pub fence: u64,
}

/// What readers of a session are told at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// These events were stored, in order.
    Events(Vec<EventRecord>),
    /// A piece of an event that is still being written. Never stored.
    Preview(Preview),
    /// The run with this fence is to stop.
    Interrupt {
        /// Which run.
        fence: u64,
    },
}

/// A piece of an event to come, for readers that asked for previews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Preview {
    /// An event with this id and type is being written.
    Start {
        /// The id that the event will have.
        id: EventId,
        /// `agent.message` or `agent.thinking`.
        event_type: String,
    },
    /// More of its text.
    Text {
        /// Which event.
        id: EventId,
        /// What comes next.
        text: String,
    },
}

/// A reader's ear on a session.
#[derive(Debug)]
pub struct Signals {
    // Dropped in this order: the seat looks whether other receivers are left.
    receiver: broadcast::Receiver<Heard>,
    _seat: ears::Seat,
}

/// What a reader hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// A signal.
    Signal(Arc<Signal>),
    /// Some were missed (the reader was slow, or the connection broke): read the store.
    Missed,
    /// The broker is gone.
    Closed,
}

impl Signals {
    /// The next thing heard. Cancel-safe.
    pub async fn next(&mut self) -> Heard {
        match self.receiver.recv().await {
            Ok(heard) => heard,
            Err(broadcast::error::RecvError::Lagged(_)) => Heard::Missed,
            Err(broadcast::error::RecvError::Closed) => Heard::Closed,
        }
    }
}

/// A piece of background work.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Job {
    /// Whatever the file still lacks: source, description, tiles.
    Ingest {
        /// Which file.
        video: VideoId,
    },
}

/// A job that this engine has, until it finishes or its lease runs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenJob {
    /// What is to be done.
    pub job: Job,
    /// How often it was taken, this time included.
    pub attempt: u32,
    /// The broker's name for this delivery.
    pub receipt: String,
}

/// The broker.
#[async_trait]
pub trait Broker: Send + Sync + fmt::Debug {
    /// Answers when the broker does.
    async fn ping(&self) -> Result<(), BrokerError>;

    /// Takes the lease if nobody has it.
    async fn acquire(&self, name: &str, ttl: Duration) -> Result<Option<Lease>, BrokerError>;
    /// Keeps a lease for another `ttl` from now; `false` says that it was lost.
    async fn extend(&self, lease: &Lease, ttl: Duration) -> Result<bool, BrokerError>;
    /// Gives a lease back; one that was lost stays with its new holder.
    async fn release(&self, lease: &Lease) -> Result<(), BrokerError>;
    /// Whether anybody has it.
    async fn is_held(&self, name: &str) -> Result<bool, BrokerError>;

    /// Tells everybody who listens to this session, on every engine, in the order of the calls.
    async fn publish(&self, session: &SessionId, signal: Signal) -> Result<(), BrokerError>;
    /// Listens from now on: what is published after this returned is heard.
    async fn subscribe(&self, session: &SessionId) -> Result<Signals, BrokerError>;

    /// Adds a job. The same job twice in the queue may run once.
    async fn enqueue(&self, job: &Job, delay: Duration) -> Result<(), BrokerError>;
    /// Takes the next job, waiting at most `patience`. Jobs whose holder fell silent for `lease` come again.
    async fn take(&self, patience: Duration, lease: Duration) -> Result<Option<TakenJob>, BrokerError>;
    /// Says that the work goes on; `false` says that the job went to somebody else.
    async fn keep(&self, job: &TakenJob) -> Result<bool, BrokerError>;
    /// The job is done, for good or for bad.
    async fn finish(&self, job: &TakenJob) -> Result<(), BrokerError>;
}

/// Which broker is wanted, and under which names it works.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Names this engine in Redis, for who looks into it (`WORKER_ID`). Processes may share it: each adds something random.
    pub engine_id: String,
    /// The stream of jobs (`INGEST_STREAM`).
    pub stream: String,
    /// Its group of workers (`INGEST_GROUP`).
    pub group: String,
}

/// The in-process broker, or the one at `redis_url` when there is one.
///
/// # Errors
/// [`BrokerError::Address`] for what is no address of a Redis, [`BrokerError::Unavailable`] when it does not answer.
pub async fn connect(redis_url: Option<&str>, options: &BrokerOptions) -> Result<Arc<dyn Broker>, BrokerError> {
    match redis_url {
        None => Ok(Arc::new(memory::MemoryBroker::new())),
        Some(url) => Ok(Arc::new(self::redis::connect(url, options).await?)),
    }
}

/// A text that nobody else has: 128 random bits.
fn token() -> String {
    format!("{:032x}", rand::random::<u128>())
}
