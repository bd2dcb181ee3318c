//! Where everything is kept. Two engines, one behaviour: SQLite for one machine, Postgres for a fleet, both held to one
//! contract suite (`engine/tests/store_contract.rs`).
//!
//! A session changes in one way only: [`Store::change_session`] loads the row under a lock, lets the pure
//! [`crate::sessions::change::apply`] decide, and writes row, events and messages in one transaction. So the state is
//! never behind the events, numbers have no gaps, and two replicas cannot take one run.

mod connect;
mod engine;
mod lately;
mod migrations;
mod postgres;
mod range;
pub mod records;
mod revisions;
mod rows;
mod sql;
mod sql_store;
mod sqlite;

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::ids::{AgentId, EnvironmentId, EventId, ResourceId, SessionId, VideoId};
use crate::sessions::change::{ChangeOutcome, SessionChange};
pub use connect::{Migrate, StoreOptions, connect};
use records::{
    AgentRecord, EnvironmentRecord, EventRecord, FileRecord, MessageRecord, ResourceRecord, SessionRecord, WorkStatus,
};

/// What the store can fail with. Absence is no failure.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database does not answer or has no free connection.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// It answers, but every connection of the pool is at work.
    #[error("all {connections} connections to the database are in use")]
    Busy {
        /// How many the pool may have.
        connections: u32,
    },
    /// The first connection was not made: a start fails with this.
    #[error("{reason}")]
    Connect {
        /// What is wrong and how to mend it, without the password.
        reason: String,
        /// What the database or the system said.
        #[source]
        source: sqlx::Error,
    },
    /// It answered with an error.
    #[error("the database refused a statement")]
    Query(#[source] sqlx::Error),
    /// The database is older than this engine, which was told not to change that.
    #[error("the database lacks {missing} migration(s): start the engine once without `--no-migrate`")]
    Pending {
        /// How many.
        missing: usize,
    },
    /// The database is from another version of the engine, or could not be brought to this one.
    #[error("the database could not be migrated")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    /// `DATABASE_URL` is no address of a database.
    #[error("`DATABASE_URL` is not usable: {reason}")]
    Address {
        /// What is wrong, without the password.
        reason: String,
    },
    /// A row holds what no version of the engine wrote.
    #[error("a row of `{table}` does not read back: {reason}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// A place between two items of a list: right behind the item with this time and id. Survives new and deleted items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The item's `created_at`.
    pub at: Timestamp,
    /// Its id, which tells items of the same moment apart.
    pub id: String,
}

/// Which items of a list are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// At most so many.
    pub limit: u32,
    /// Oldest first instead of newest first.
    pub ascending: bool,
    /// Only items behind this one, in the order of the list.
    pub after: Option<Position>,
    /// Only items before this one, in the order of the list (the nearest `limit` of them, still in list order).
    pub before: Option<Position>,
}

/// Items of a list, in its order, and whether there are more in the direction of travel.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    pub items: Vec<T>,
    pub has_more: bool,
}

/// Bounds on a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBounds {
    pub gt: Option<Timestamp>,
    pub gte: Option<Timestamp>,
    pub lt: Option<Timestamp>,
    pub lte: Option<Timestamp>,
}

/// Which sessions are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub agent_id: Option<AgentId>,
    pub agent_version: Option<u32>,
    /// State names; empty means all.
    pub statuses: Vec<&'static str>,
    pub include_archived: bool,
    pub created: TimeBounds,
}

/// Which events are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Event types; empty means all.
    pub types: Vec<String>,
    /// On the time of processing.
    pub processed: TimeBounds,
}

/// Part of a session's event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventWindow {
    pub limit: u32,
    /// Newest first instead of oldest first.
    pub descending: bool,
    /// Only events behind this number, in the order asked for.
    pub after_seq: Option<u64>,
    pub filter: EventFilter,
}

/// What an insert met.
#[derive(Clone, Debug, PartialEq)]
pub enum Inserted<T> {
    /// The thing is new.
    New,
    /// It was there already: this is what stands.
    Existing(Box<T>),
}

/// The store. `None` is absence; a `bool` says whether a compare-and-set took.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Answers when the database does.
    async fn ping(&self) -> Result<(), StoreError>;
    /// Closes all connections.
    async fn close(&self);

    /// Adds version 1 of an agent; what stands already stays.
    async fn insert_agent(&self, agent: &AgentRecord) -> Result<Inserted<AgentRecord>, StoreError>;
    /// A version of an agent, the newest by default.
    async fn agent(&self, id: &AgentId, version: Option<u32>) -> Result<Option<AgentRecord>, StoreError>;
    /// Adds the version after `next.version - 1`, if that one is still the newest and the agent is not archived.
    async fn add_agent_version(&self, next: &AgentRecord) -> Result<bool, StoreError>;
    /// Archives an agent; archiving again keeps the first time.
    async fn archive_agent(&self, id: &AgentId, at: Timestamp) -> Result<Option<AgentRecord>, StoreError>;
    /// The newest versions of agents, newest agent first; bounds are on the agent's `created_at`.
    async fn agents(
        &self,
        window: &Window,
        include_archived: bool,
        created: TimeBounds,
    ) -> Result<Listed<AgentRecord>, StoreError>;
    /// Versions of one agent, newest first, only those below `below`.
    async fn agent_versions(
        &self,
        id: &AgentId,
        below: Option<u32>,
        limit: u32,
    ) -> Result<Listed<AgentRecord>, StoreError>;

    /// Adds an environment; what stands already, with its id or (living) with its name, stays and is given.
    async fn insert_environment(
        &self,
        environment: &EnvironmentRecord,
    ) -> Result<Inserted<EnvironmentRecord>, StoreError>;
    async fn environment(&self, id: &EnvironmentId) -> Result<Option<EnvironmentRecord>, StoreError>;
    /// Whether a living (not archived) environment other than `but` has this name.
    async fn environment_name_taken(&self, name: &str, but: &EnvironmentId) -> Result<bool, StoreError>;
    /// Replaces an environment if its `updated_at` is still `expected` and no other living one has its new name.
    async fn update_environment(&self, next: &EnvironmentRecord, expected: Timestamp) -> Result<bool, StoreError>;
    async fn delete_environment(&self, id: &EnvironmentId) -> Result<bool, StoreError>;
    async fn environments(
        &self,
        window: &Window,
        include_archived: bool,
    ) -> Result<Listed<EnvironmentRecord>, StoreError>;

    /// Adds a file; what stands already stays.
    async fn insert_file(&self, file: &FileRecord) -> Result<Inserted<FileRecord>, StoreError>;
    async fn file(&self, id: &VideoId) -> Result<Option<FileRecord>, StoreError>;
    /// Replaces a file if its `updated_at` is still `expected`.
    async fn update_file(&self, next: &FileRecord, expected: Timestamp) -> Result<bool, StoreError>;
    async fn delete_file(&self, id: &VideoId) -> Result<bool, StoreError>;
    async fn files(&self, window: &Window) -> Result<Listed<FileRecord>, StoreError>;
    /// Those of these that exist, in the order asked for.
    async fn files_by_id(&self, ids: &[VideoId]) -> Result<Vec<FileRecord>, StoreError>;
    /// Files whose description has one of these states and has not been touched since `before`, oldest first.
    async fn files_with_description(
        &self,
        statuses: &[WorkStatus],
        before: Timestamp,
        limit: u32,
    ) -> Result<Vec<FileRecord>, StoreError>;

    /// Adds a session with its first resources and events (numbers and `last_seq` are set by the caller's record).
    async fn insert_session(&self, session: &SessionRecord, resources: &[ResourceRecord]) -> Result<(), StoreError>;
    async fn session(&self, id: &SessionId) -> Result<Option<SessionRecord>, StoreError>;
    /// A number that is another one after each change of the session, of its resources too, and stays while nothing
    /// changes. `None` where other engines write as well, so that this one cannot know.
    fn revision(&self, id: &SessionId) -> Option<u64>;
    /// The sessions of these that are there, in no order, each with everything that is attached to it, oldest first.
    async fn sessions_with_resources(
        &self,
        ids: &[SessionId],
    ) -> Result<Vec<(SessionRecord, Vec<ResourceRecord>)>, StoreError>;
    async fn sessions(&self, window: &Window, filter: &SessionFilter) -> Result<Listed<SessionRecord>, StoreError>;
    /// Sessions in this state, oldest first.
    async fn sessions_in_state(&self, state: &'static str, limit: u32) -> Result<Vec<SessionRecord>, StoreError>;
    /// The one way a session changes. Refused changes write nothing.
    async fn change_session(
        &self,
        id: &SessionId,
        change: SessionChange,
        now: Timestamp,
    ) -> Result<ChangeOutcome, StoreError>;
    /// Deletes a session with its events, messages and resources.
    async fn delete_session(&self, id: &SessionId) -> Result<bool, StoreError>;
    /// Notes that an idle event was handed out; the number never goes back.
    async fn mark_read(&self, id: &SessionId, seq: u64) -> Result<(), StoreError>;

    /// Events of a session; empty for one that is not there.
    async fn events(&self, id: &SessionId, window: &EventWindow) -> Result<Listed<EventRecord>, StoreError>;
    /// The number of an event of this session.
    async fn event_seq(&self, id: &SessionId, event: &EventId) -> Result<Option<u64>, StoreError>;
    /// One event of a session.
    async fn event(&self, id: &SessionId, event: &EventId) -> Result<Option<EventRecord>, StoreError>;
    /// The whole conversation, in order, from this index on.
    async fn messages(&self, id: &SessionId, from_index: u64) -> Result<Vec<MessageRecord>, StoreError>;

    async fn insert_resource(&self, resource: &ResourceRecord) -> Result<(), StoreError>;
    async fn resource(&self, session: &SessionId, id: &ResourceId) -> Result<Option<ResourceRecord>, StoreError>;
    /// In the order they were added.
    async fn resources(&self, session: &SessionId, window: &Window) -> Result<Listed<ResourceRecord>, StoreError>;
    /// Everything that is attached to these sessions, oldest first.
    async fn resources_of(&self, sessions: &[SessionId]) -> Result<Vec<ResourceRecord>, StoreError>;
    async fn delete_resource(&self, session: &SessionId, id: &ResourceId) -> Result<bool, StoreError>;
}

/// What a failed statement means.
fn failed(error: sqlx::Error) -> StoreError {
    if is_away(&error) { StoreError::Unavailable(error) } else { StoreError::Query(error) }
}

/// The same for a call that began with a wait for a connection of a pool with `open` of at most `most` connections. The
/// wait ends alike whether the database is away or all connections are at work; who is asked about it needs to know.
fn acquire_failed(error: sqlx::Error, open: u32, most: u32) -> StoreError {
    match error {
        sqlx::Error::PoolTimedOut if open >= most => StoreError::Busy { connections: most },
        error => failed(error),
    }
}

/// Whether trying again later may help, since the database was not there or not able to take the statement.
fn is_away(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::BeginFailed => true,
        sqlx::Error::Database(answer) => answer.code().is_some_and(|code| {
            // Postgres: connection, login, no such database, resources, operator intervention, lock timeout, failover.
            // SQLite (whose codes are numbers; the low byte tells the kind): busy, locked, read only, I/O, full, cannot
            // open.
            code.len() == 5 && ["08", "28", "3D", "53", "57"].iter().any(|class| code.starts_with(class))
                || matches!(code.as_ref(), "55P03" | "25006" | "25P03")
                || code
                    .parse::<u32>()
                    .is_ok_and(|number| code.len() < 5 && matches!(number & 0xff, 5 | 6 | 8 | 10 | 13 | 14))
        }),
        _ => false,
    }
}

/// Whether a unique index refused the statement.
fn is_unique(error: &StoreError) -> bool {
    matches!(error, StoreError::Query(sqlx::Error::Database(answer)) if answer.is_unique_violation())
}

/// An error and its causes on one line, for a log field.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
