//! The store's SQLite: one file, one writer connection, a few that read.
//!
//! SQLite takes one writer at a time, and a transaction that read before it writes fails at once when another writer was
//! there in between. So writers queue for the one connection and begin with `begin immediate`; readers see the last
//! commit (WAL) and wait for nobody.

use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, Row as _, Sqlite, SqliteConnection, TypeInfo, ValueRef};

use super::connect::{Migrate, StoreOptions, pending};
use super::engine::{Arg, Cell, Engine, Row, SessionParts, Transaction, sqlx_calls};
use super::migrations::{self, Flavour};
use super::sql::{self, Dialect};
use super::{StoreError, failed};

/// How long a statement waits for another process that writes (a second engine that starts, `sqlite3`, a backup).
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two tries of what SQLite does not wait for by itself.
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Takes the write lock at once: see the module's header.
const BEGIN: &str = "begin immediate";

#[derive(Debug)]
pub(super) struct SqliteEngine {
    writer: SqlitePool,
    readers: SqlitePool,
}

/// The path in `sqlite://path`.
pub(super) fn path_of(url: &str) -> Result<PathBuf, StoreError> {
    let path = url.strip_prefix("sqlite://").or_else(|| url.strip_prefix("sqlite:")).unwrap_or_default();
    let refuse = |reason: &str| Err(StoreError::Address { reason: reason.to_owned() });
    if path.is_empty() {
        return refuse(
            "it names no file: write `sqlite://` and a path, such as `sqlite:///var/lib/ambient/ambient.db`",
        );
    }
    if path.contains(":memory:") {
        return refuse("the engine keeps its data in a file: write `sqlite://` and a path");
    }
    if path.contains('?') {
        return refuse("a `sqlite://` address takes no parameters: remove the `?` and what follows");
    }
    Ok(PathBuf::from(path))
}

/// Opens the file, which is made, with its folders, if it is not there.
pub(super) async fn open(url: &str, options: &StoreOptions) -> Result<SqliteEngine, StoreError> {
    let path = path_of(url)?;
    if options.migrate == Migrate::Refuse && !path.exists() {
        return Err(pending(migrations::count()));
    }
    make_private_file(&path).map_err(|source| StoreError::Connect {
        reason: format!("the database file `{}` cannot be made or opened", path.display()),
        source: sqlx::Error::Io(source),
    })?;
    let base = SqliteConnectOptions::new().filename(&path).busy_timeout(BUSY_TIMEOUT).foreign_keys(true);
    let writing = base.clone().journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Normal);
    let mut connection = connect(&writing).await.map_err(|source| StoreError::Connect {
        reason: format!("the database file `{}` cannot be opened", path.display()),
        source,
    })?;
    prepare(&mut connection, options.migrate).await?;
    connection.close().await.map_err(failed)?;
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(options.acquire_timeout)
        .max_lifetime(None)
        .idle_timeout(None)
        // A connection to a file does not go stale, so none is asked before it is used.
        .test_before_acquire(false);
    Ok(SqliteEngine {
        writer: pool.clone().max_connections(1).connect_lazy_with(writing),
        readers: pool
            .max_connections(options.readers.max(1))
            .idle_timeout(options.idle_timeout)
            .connect_lazy_with(base.read_only(true)),
    })
}

/// The first connection. It makes the file a WAL, for which SQLite waits for nobody who writes: engines that start at once would refuse each other.
async fn connect(options: &SqliteConnectOptions) -> Result<SqliteConnection, sqlx::Error> {
    let patience = Instant::now() + BUSY_TIMEOUT;
    loop {
        match options.connect().await {
            Err(error) if is_busy(&error) && Instant::now() < patience => tokio::time::sleep(BUSY_PAUSE).await,
            outcome => return outcome,
        }
    }
}

/// Whether another connection holds a lock, [in any way](https://www.sqlite.org/rescode.html): the first byte of a code is its kind.
fn is_busy(error: &sqlx::Error) -> bool {
    const BUSY: u32 = 5;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == BUSY)
}

/// What the database holds is nobody else's: the conversations and the agents' sealed keys.
fn make_private_file(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // One that is there is not touched: to close it again would end the locks that this process holds on it.
    match std::fs::OpenOptions::new().create_new(true).append(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Brings the database to this version of the engine, or checks that it is there. Several engines may start at once, and
/// sqlx does not lock SQLite: one transaction around all of it does.
async fn prepare(connection: &mut SqliteConnection, migrate: Migrate) -> Result<(), StoreError> {
    match migrate {
        Migrate::Run => {
            let mut transaction = connection.begin_with(BEGIN).await.map_err(failed)?;
            migrations::migrator(Flavour::Sqlite)
                .run_direct(None, &mut *transaction, false)
                .await
                .map_err(StoreError::Migrate)?;
            transaction.commit().await.map_err(failed)
        }
        Migrate::Refuse => {
            let known = run_rows(&mut *connection, migrations::SQLITE_KNOWN, Vec::new()).await.map_err(failed)?;
            let applied = if known.is_empty() {
                Vec::new()
            } else {
                run_rows(connection, migrations::APPLIED, Vec::new()).await.map_err(failed)?
            };
            migrations::check(applied)
        }
    }
}

fn cell(row: &SqliteRow, column: usize) -> Result<Cell, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    if value.is_null() {
        return Ok(Cell::Null);
    }
    let is_text = value.type_info().name() == "TEXT";
    Ok(if is_text { Cell::Text(row.try_get(column)?) } else { Cell::Int(row.try_get(column)?) })
}

sqlx_calls!(Sqlite, cell);

#[async_trait]
impl Engine for SqliteEngine {
    fn dialect(&self) -> &'static Dialect {
        &sql::SQLITE
    }

    fn is_shared(&self) -> bool {
        // Runs and streams of a second engine would not reach the first one: see `broker`.
        false
    }

    async fn rows(&self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
        run_rows(&self.readers, statement, args).await.map_err(|error| acquired(&self.readers, error))
    }

    async fn execute(&self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
        run_execute(&self.writer, statement, args).await.map_err(|error| acquired(&self.writer, error))
    }

    async fn write_session(&self, parts: SessionParts, args: Vec<Arg>) -> Result<bool, StoreError> {
        let connection = self.writer.acquire().await.map_err(|error| acquired(&self.writer, error))?;
        let mut script = Script { connection, ended: false };
        let rows =
            run_rows(&mut *script.connection, self.dialect().write_session(parts), args).await.map_err(failed)?;
        script.ended = true;
        Ok(!rows.is_empty())
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, StoreError> {
        let transaction = self.writer.begin_with(BEGIN).await.map_err(|error| acquired(&self.writer, error))?;
        Ok(Box::new(transaction))
    }

    async fn close(&self) {
        // Readers first: the last connection to close folds the WAL into the file, which a reader could not.
        self.readers.close().await;
        self.writer.close().await;
    }
}

/// A connection that runs a script with a transaction in it. If the script does not come to its end, the connection is
/// closed and the transaction with it.
struct Script {
    connection: PoolConnection<Sqlite>,
    ended: bool,
}

impl Drop for Script {
    fn drop(&mut self) {
        if !self.ended {
            self.connection.close_on_drop();
        }
    }
}

fn acquired(pool: &SqlitePool, error: sqlx::Error) -> StoreError {
    super::acquire_failed(error, pool.size(), pool.options().get_max_connections())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_start_waits_for_whoever_writes_to_the_file_before_it_is_a_wal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ambient.db");
        let mut other = SqliteConnectOptions::new().filename(&path).create_if_missing(true).connect().await.unwrap();
        let writes = other.begin_with(BEGIN).await.unwrap();
        let options = StoreOptions::new(Migrate::Run);
        let address = format!("sqlite://{}", path.display());
        let mut opening = std::pin::pin!(open(&address, &options));
        let early = tokio::time::timeout(Duration::from_millis(200), opening.as_mut()).await;
        assert!(early.is_err(), "{early:?}");
        writes.rollback().await.unwrap();
        opening.await.unwrap().close().await;
    }

    #[test]
    fn an_address_is_a_path_and_nothing_else() {
        let path = |url| path_of(url).map(|path| path.display().to_string()).map_err(|error| error.to_string());
        assert_eq!(path("sqlite:///a/b.db").unwrap(), "/a/b.db");
        assert_eq!(path("sqlite://b c%20.db").unwrap(), "b c%20.db");
        for bad in ["sqlite://", "sqlite::memory:", "sqlite:///a.db?mode=rwc"] {
            assert!(path(bad).unwrap_err().starts_with("`DATABASE_URL` is not usable: "), "{bad}");
        }
    }
}
