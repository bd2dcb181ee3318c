//! A database of its own for each test, of both kinds.

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::ids::SessionId;
use ambient_engine::store::{Migrate, Store, StoreError, StoreOptions, connect};
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

use crate::postgres::postgres_url;
use crate::servers::Failure;

/// A migrated database that nobody else uses, and its store.
pub(crate) struct Database {
    url: String,
    store: Option<Arc<dyn Store>>,
    /// Holds the SQLite file.
    _folder: Option<tempfile::TempDir>,
}

impl Database {
    pub(crate) async fn sqlite() -> Result<Self, Failure> {
        Self::empty_sqlite()?.migrated().await
    }

    pub(crate) async fn postgres() -> Result<Self, Failure> {
        Self::empty_postgres().await?.migrated().await
    }

    fn empty_sqlite() -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let url = format!("sqlite://{}", folder.path().join("ambient.db").display());
        Ok(Self { url, store: None, _folder: Some(folder) })
    }

    /// A schema that only this test's connections see.
    async fn empty_postgres() -> Result<Self, Failure> {
        let server = postgres_url()?;
        let schema = format!("t{}", SessionId::generate().as_str().trim_start_matches(SessionId::PREFIX));
        let mut connection = server.parse::<PgConnectOptions>()?.connect().await?;
        sqlx::query(sqlx::AssertSqlSafe(format!("create schema {schema}"))).execute(&mut connection).await?;
        connection.close().await?;
        let joint = if server.contains('?') { '&' } else { '?' };
        Ok(Self { url: format!("{server}{joint}options=-csearch_path%3D{schema}"), store: None, _folder: None })
    }

    async fn migrated(mut self) -> Result<Self, Failure> {
        self.store = Some(self.open(Migrate::Run).await?);
        Ok(self)
    }

    /// A new, empty one of the same kind.
    pub(crate) async fn another(&self) -> Result<Self, Failure> {
        if self.url.starts_with("sqlite") { Self::empty_sqlite() } else { Self::empty_postgres().await }
    }

    pub(crate) async fn open(&self, migrate: Migrate) -> Result<Arc<dyn Store>, StoreError> {
        // The machine of a test run is busy with other tests.
        let options = StoreOptions { acquire_timeout: Duration::from_mins(1), ..StoreOptions::new(migrate) };
        connect(&self.url, &options).await
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.store.as_ref().expect("opened by `sqlite` and `postgres`")
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A connection to Postgres past the store.
    pub(crate) async fn connection(&self) -> Result<sqlx::PgConnection, Failure> {
        Ok(self.url.parse::<PgConnectOptions>()?.connect().await?)
    }

    /// Runs a statement past the store.
    pub(crate) async fn execute(&self, statement: &'static str) -> Result<(), Failure> {
        if let Some(path) = self.url.strip_prefix("sqlite://") {
            let options = SqliteConnectOptions::new().filename(path);
            sqlx::query(statement).execute(&mut options.connect().await?).await?;
        } else {
            sqlx::query(statement).execute(&mut self.connection().await?).await?;
        }
        Ok(())
    }
}
