//! The migrations, embedded, with one number for both databases. They only add: an engine of the version before must
//! still run on what they leave.

use std::borrow::Cow;

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};

use super::StoreError;
use super::connect::pending;
use super::engine::Row;

/// Which database's text is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavour {
    Sqlite,
    Postgres,
}

struct Step {
    number: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! step {
    ($number:literal, $name:literal, $file:literal) => {
        Step {
            number: $number,
            name: $name,
            sqlite: include_str!(concat!("../../migrations/sqlite/", $file)),
            postgres: include_str!(concat!("../../migrations/postgres/", $file)),
        }
    };
}

const STEPS: &[Step] = &[step!(1, "first", "0001_first.sql")];

/// A row if the table of applied migrations is there.
pub(super) const SQLITE_KNOWN: &str = "select name from sqlite_master where name = '_sqlx_migrations'";
/// The same in Postgres, on the connection's search path.
pub(super) const POSTGRES_KNOWN: &str = "select cast(1 as bigint) where to_regclass('_sqlx_migrations') is not null";
/// Numbers of the applied ones.
pub(super) const APPLIED: &str = "select version from _sqlx_migrations where success order by version";

/// How many there are.
pub(super) fn count() -> usize {
    STEPS.len()
}

/// Runs what is not applied yet.
pub(super) fn migrator(flavour: Flavour) -> Migrator {
    let migrations = STEPS.iter().map(|step| {
        let text = match flavour {
            Flavour::Sqlite => step.sqlite,
            Flavour::Postgres => step.postgres,
        };
        Migration::new(step.number, Cow::Borrowed(step.name), MigrationType::Simple, text.into_sql_str(), false)
    });
    Migrator::with_migrations(migrations.collect())
}

/// Refuses a database that lacks some, or has some that this engine does not know.
pub(super) fn check(applied: Vec<Row>) -> Result<(), StoreError> {
    let applied: Vec<i64> =
        applied.into_iter().map(|row| row.of("_sqlx_migrations").number()).collect::<Result<_, _>>()?;
    if let Some(unknown) = applied.iter().find(|number| STEPS.iter().all(|step| step.number != **number)) {
        return Err(StoreError::Migrate(MigrateError::VersionMissing(*unknown)));
    }
    match STEPS.len() - applied.len() {
        0 => Ok(()),
        missing => Err(pending(missing)),
    }
}
