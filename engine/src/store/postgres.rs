//! The store's Postgres (14 and newer): one pool, `read committed`, rows locked by `for update`.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{ConnectOptions, Connection, Executor, Postgres, Row as _, TypeInfo, ValueRef};

use super::connect::{Migrate, StoreOptions};
use super::engine::{Arg, Cell, Engine, Row, SessionParts, Transaction, sqlx_calls};
use super::migrations::{self, Flavour};
use super::sql::{self, Dialect};
use super::{StoreError, failed};

/// How long the first connection may take. A name that does not resolve or a host that swallows packets is no reason to
/// start for minutes.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection that lay idle for longer is asked whether it still lives before it is used: the server may have been
/// restarted meanwhile. A busy one is not, which saves a round trip.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);

/// An engine that stops in the middle of a transaction (SIGSTOP, a lost network) must not hold a session's row for ever.
const SESSION_LIMITS: &str = "set idle_in_transaction_session_timeout = '30s'; set lock_timeout = '10s'";

#[derive(Debug)]
pub(super) struct PostgresEngine {
    pool: PgPool,
}

/// Connects, so that what is wrong with the address shows now, by its true name.
pub(super) async fn open(url: &str, options: &StoreOptions) -> Result<PostgresEngine, StoreError> {
    let address = PgConnectOptions::from_str(url)
        .map_err(|error| StoreError::Address { reason: format!("it does not parse ({error})") })?
        .application_name("ambient");
    // A pool would try again until its timeout and then report that alone: the first connection is made without one.
    let mut connection = match tokio::time::timeout(CONNECT_TIMEOUT, address.connect()).await {
        Ok(made) => made.map_err(|source| refused(&address, source))?,
        Err(_elapsed) => {
            let silence = io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {CONNECT_TIMEOUT:?}"));
            return Err(refused(&address, sqlx::Error::Io(silence)));
        }
    };
    prepare(&mut connection, options.migrate).await?;
    connection.close().await.map_err(failed)?;
    let pool = PgPoolOptions::new()
        .max_connections(options.connections.max(1))
        .acquire_timeout(options.acquire_timeout)
        .idle_timeout(options.idle_timeout)
        .test_before_acquire(false)
        .before_acquire(|connection, about| {
            Box::pin(async move {
                if about.idle_for > TRUSTED_IDLE {
                    connection.ping().await?;
                }
                Ok(true)
            })
        })
        .after_connect(|connection, _about| {
            Box::pin(async move {
                connection.execute(SESSION_LIMITS).await?;
                Ok(())
            })
        })
        .connect_lazy_with(address);
    Ok(PostgresEngine { pool })
}

/// Says which of the usual mistakes it is.
fn refused(address: &PgConnectOptions, source: sqlx::Error) -> StoreError {
    let place = format!("`{}:{}`", address.get_host(), address.get_port());
    let user = address.get_username();
    let database = address.get_database().unwrap_or(user);
    let code = source.as_database_error().and_then(DatabaseError::code).unwrap_or_default().into_owned();
    let reason = match (&source, code.as_str()) {
        (_, "28P01" | "28000") => {
            format!("Postgres at {place} refused the login of user `{user}`: check user and password in `DATABASE_URL`")
        }
        (_, "3D000") => {
            format!("Postgres at {place} has no database `{database}`: create it, or correct `DATABASE_URL`")
        }
        (_, "53300") => format!("Postgres at {place} has no connection left: raise its `max_connections`"),
        (sqlx::Error::Io(error), _) if error.kind() == io::ErrorKind::ConnectionRefused => {
            format!("nothing listens at {place}: is Postgres running there?")
        }
        (sqlx::Error::Io(_), _) => format!("Postgres at {place} cannot be reached"),
        (sqlx::Error::Tls(_), _) => format!("no TLS with Postgres at {place}: check `sslmode` in `DATABASE_URL`"),
        (_, _) => format!("no connection to Postgres at {place}"),
    };
    StoreError::Connect { reason, source }
}

/// Brings the database to this version of the engine, or checks that it is there. sqlx holds an advisory lock meanwhile,
/// so several engines may start at once.
async fn prepare(connection: &mut PgConnection, migrate: Migrate) -> Result<(), StoreError> {
    match migrate {
        Migrate::Run => migrations::migrator(Flavour::Postgres)
            .run_direct(None, connection, false)
            .await
            .map_err(StoreError::Migrate),
        Migrate::Refuse => {
            let known = run_rows(&mut *connection, migrations::POSTGRES_KNOWN, Vec::new()).await.map_err(failed)?;
            let applied = if known.is_empty() {
                Vec::new()
            } else {
                run_rows(connection, migrations::APPLIED, Vec::new()).await.map_err(failed)?
            };
            migrations::check(applied)
        }
    }
}

fn cell(row: &PgRow, column: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let is_text = value.type_info().name() == "TEXT";
    Ok(if is_text { Cell::Text(row.try_get(column)?) } else { Cell::Int(row.try_get(column)?) })
}

sqlx_calls!(Postgres, cell);

#[async_trait]
impl Engine for PostgresEngine {
    fn dialect(&self) -> &'static Dialect {
        &sql::POSTGRES
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn rows(&self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        run_rows(&self.pool, statement, args).await.map_err(|error| self.acquired(error))
    }

    async fn execute(&self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        run_execute(&self.pool, statement, args).await.map_err(|error| self.acquired(error))
    }

    async fn write_session(&self, parts: SessionParts, args: Vec<Arg>) -> Result<bool, StoreError> {
        Ok(!self.rows(self.dialect().write_session(parts), args).await?.is_empty())
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, StoreError> {
        let transaction = self.pool.begin().await.map_err(|error| self.acquired(error))?;
        Ok(Box::new(transaction))
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

impl PostgresEngine {
    fn acquired(&self, error: sqlx::Error) -> StoreError {
        super::acquire_failed(error, self.pool.size(), self.pool.options().get_max_connections())
    }
}
