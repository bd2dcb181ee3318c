//! From `DATABASE_URL` to a store that is ready.

use std::sync::Arc;
use std::time::Duration;

use super::sql_store::SqlStore;
use super::{Store, StoreError, postgres, sqlite};

/// What to do about migrations that the database lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migrate {
    /// Run them, one engine at a time.
    Run,
    /// Refuse to start (`serve --no-migrate`).
    Refuse,
}

/// How the store uses its database.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// What to do about missing migrations.
    pub migrate: Migrate,
    /// Connections that read a SQLite file; it has one more that writes.
    pub readers: u32,
    /// Connections to Postgres.
    pub connections: u32,
    /// How long a statement waits for a free connection before it fails.
    pub acquire_timeout: Duration,
    /// How long a connection may lie idle before it is closed.
    pub idle_timeout: Duration,
}

impl StoreOptions {
    /// The usual sizes. An answer of 503 after three seconds beats one that never comes.
    pub fn new(migrate: Migrate) -> Self {
        Self {
            migrate,
            readers: 4,
            connections: 10,
            acquire_timeout: Duration::from_secs(3),
            idle_timeout: Duration::from_mins(5),
        }
    }
}

/// Opens the store at `url`: `sqlite://PATH`, or `postgres://USER:PASSWORD@HOST:PORT/NAME?sslmode=…` (also
/// `postgresql://`).
///
/// # Errors
/// [`StoreError::Address`] for another kind of address, [`StoreError::Connect`] with the cause told apart (refused,
/// login, name), [`StoreError::Pending`] under [`Migrate::Refuse`], [`StoreError::Migrate`] when a newer engine has been
/// there.
pub async fn connect(url: &str, options: &StoreOptions) -> Result<Arc<dyn Store>, StoreError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _rest)| scheme);
    match scheme {
        "sqlite" => Ok(Arc::new(SqlStore::new(Box::new(sqlite::open(url, options).await?)))),
        "postgres" | "postgresql" => Ok(Arc::new(SqlStore::new(Box::new(postgres::open(url, options).await?)))),
        // A word without `://` may be a password that slipped: it is not repeated.
        other if url.contains("://") => Err(StoreError::Address {
            reason: format!("`{other}://` is no database that the engine knows: use `postgresql://` or `sqlite://`"),
        }),
        _ => Err(StoreError::Address {
            reason: "it is no URL: write `postgresql://…` or `sqlite://` and a path".to_owned(),
        }),
    }
}

pub(super) fn pending(missing: usize) -> StoreError {
    StoreError::Pending { missing }
}
