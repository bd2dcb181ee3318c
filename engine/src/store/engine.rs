//! What the two databases have to be able to do: run a statement, give rows, hold a transaction.
//!
//! Values cross this line as [`Arg`] and [`Row`], so that everything above is written once. Text that goes in never holds
//! a NUL character, which Postgres refuses: it is replaced here, at the one edge that all text passes.

use std::fmt;
use std::vec;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use super::sql::Dialect;

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Arg {
    /// A `bigint` column.
    Int(Option<i64>),
    /// A `text` column.
    Text(Option<String>),
}

impl Arg {
    /// JSON for a `text` column.
    pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Self {
        // The records hold maps with text keys and finite numbers alone.
        Self::Text(Some(serde_json::to_string(value).expect("a record is always JSON")))
    }

    /// JSON, or null.
    pub(super) fn maybe_json<T: Serialize>(value: Option<&T>) -> Self {
        value.map_or(Self::Text(None), Self::json)
    }

    /// A count or number. Those of the engine stay far below 2⁶³.
    pub(super) fn count(value: u64) -> Self {
        Self::Int(Some(i64::try_from(value).unwrap_or(i64::MAX)))
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Text(Some(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.to_owned() }))
    }
}

impl From<&String> for Arg {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Option<&str>> for Arg {
    fn from(text: Option<&str>) -> Self {
        text.map_or(Self::Text(None), Self::from)
    }
}

impl From<u32> for Arg {
    fn from(value: u32) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<bool> for Arg {
    fn from(value: bool) -> Self {
        Self::Int(Some(i64::from(value)))
    }
}

impl From<Option<u32>> for Arg {
    fn from(value: Option<u32>) -> Self {
        Self::Int(value.map(i64::from))
    }
}

impl From<Timestamp> for Arg {
    fn from(time: Timestamp) -> Self {
        Self::Int(Some(time.as_microsecond()))
    }
}

impl From<Option<Timestamp>> for Arg {
    fn from(time: Option<Timestamp>) -> Self {
        Self::Int(time.map(Timestamp::as_microsecond))
    }
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Null,
    Int(i64),
    Text(String),
}

/// A row, read from left to right in the order of the `select`.
#[derive(Debug)]
pub(super) struct Row {
    cells: vec::IntoIter<Cell>,
}

impl Row {
    pub(super) fn new(cells: Vec<Cell>) -> Self {
        Self { cells: cells.into_iter() }
    }

    /// Begins to read, naming the table for errors.
    pub(super) fn of(self, table: &'static str) -> Reader {
        Reader { table, cells: self.cells }
    }
}

/// Reads a row's cells into types. Each call takes the next cell.
#[derive(Debug)]
pub(super) struct Reader {
    table: &'static str,
    cells: vec::IntoIter<Cell>,
}

impl Reader {
    pub(super) fn corrupt(&self, reason: impl fmt::Display) -> StoreError {
        StoreError::Corrupt { table: self.table, reason: reason.to_string() }
    }

    pub(super) fn maybe_int(&mut self) -> Result<Option<i64>, StoreError> {
        match self.cells.next() {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Int(value)) => Ok(Some(value)),
            Some(Cell::Text(_)) => Err(self.corrupt("text where a number belongs")),
            None => Err(self.corrupt("a column is missing")),
        }
    }

    pub(super) fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.cells.next() {
            Some(Cell::Null) => Ok(None),
            Some(Cell::Text(value)) => Ok(Some(value)),
            Some(Cell::Int(_)) => Err(self.corrupt("a number where text belongs")),
            None => Err(self.corrupt("a column is missing")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        self.maybe_text()?.ok_or_else(|| self.corrupt("null where text belongs"))
    }

    /// A number of the wanted kind.
    pub(super) fn number<T: TryFrom<i64>>(&mut self) -> Result<T, StoreError> {
        let value = self.maybe_int()?.ok_or_else(|| self.corrupt("null where a number belongs"))?;
        T::try_from(value).map_err(|_out_of_range| self.corrupt(format_args!("the number `{value}` is out of range")))
    }

    pub(super) fn maybe_time(&mut self) -> Result<Option<Timestamp>, StoreError> {
        self.maybe_int()?
            .map(|micros| Timestamp::from_microsecond(micros).map_err(|error| self.corrupt(error)))
            .transpose()
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.maybe_time()?.ok_or_else(|| self.corrupt("null where a time belongs"))
    }

    /// An id or another type that is parsed from text.
    pub(super) fn parsed<T: TryFrom<String, Error: fmt::Display>>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        T::try_from(text).map_err(|error| self.corrupt(error))
    }

    pub(super) fn maybe_parsed<T: TryFrom<String, Error: fmt::Display>>(&mut self) -> Result<Option<T>, StoreError> {
        self.maybe_text()?.map(|text| T::try_from(text).map_err(|error| self.corrupt(error))).transpose()
    }

    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        serde_json::from_str(&text).map_err(|error| self.corrupt(error))
    }

    pub(super) fn maybe_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        self.maybe_text()?.map(|text| serde_json::from_str(&text).map_err(|error| self.corrupt(error))).transpose()
    }

    /// A word that is one of an enum's names in JSON.
    pub(super) fn word<T: DeserializeOwned>(&mut self) -> Result<T, StoreError> {
        let text = self.text()?;
        serde_json::from_value(serde_json::Value::String(text)).map_err(|error| self.corrupt(error))
    }

    pub(super) fn maybe_word<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StoreError> {
        self.maybe_text()?
            .map(|text| serde_json::from_value(serde_json::Value::String(text)).map_err(|error| self.corrupt(error)))
            .transpose()
    }
}

/// What is written with a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionParts {
    pub(super) events: bool,
    pub(super) messages: bool,
}

/// A database.
#[async_trait]
pub(super) trait Engine: Send + Sync + fmt::Debug {
    /// The statements that this database words in its own way.
    fn dialect(&self) -> &'static Dialect;

    /// Whether other engines may write to the same database.
    fn is_shared(&self) -> bool;

    /// Rows of a statement that only reads.
    async fn rows(&self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError>;

    /// Runs one writing statement by itself; gives how many rows it touched.
    async fn execute(&self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError>;

    /// Writes a session with events and messages if it is still as it was; gives whether it was. `args` are those of
    /// [`Dialect::write_session`].
    async fn write_session(&self, parts: SessionParts, args: Vec<Arg>) -> Result<bool, StoreError>;

    /// Begins a transaction that may write.
    async fn begin(&self) -> Result<Box<dyn Transaction>, StoreError>;

    /// Closes all connections.
    async fn close(&self);
}

/// A transaction. Dropped without [`Transaction::commit`], it leaves no trace.
#[async_trait]
pub(super) trait Transaction: Send {
    async fn rows(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError>;
    async fn execute(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError>;
    async fn commit(self: Box<Self>) -> Result<(), StoreError>;
}

/// Implements [`Transaction`] and gives `run_rows` and `run_execute` for one of sqlx's databases, which share their
/// interface but no usable trait.
macro_rules! sqlx_calls {
    ($database:ty, $cell:path) => {
        fn bound(
            statement: &'static str,
            args: Vec<Arg>,
        ) -> sqlx::query::Query<'static, $database, <$database as sqlx::Database>::Arguments> {
            args.into_iter().fold(sqlx::query(statement), |query, arg| match arg {
                Arg::Int(value) => query.bind(value),
                Arg::Text(value) => query.bind(value),
            })
        }

        async fn run_rows<'c, E>(on: E, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, sqlx::Error>
        where
            E: sqlx::Executor<'c, Database = $database>,
        {
            let rows = bound(statement, args).fetch_all(on).await?;
            rows.iter()
                .map(|row| Ok(Row::new((0..sqlx::Row::len(row)).map(|n| $cell(row, n)).collect::<Result<_, _>>()?)))
                .collect()
        }

        async fn run_execute<'c, E>(on: E, statement: &'static str, args: Vec<Arg>) -> Result<u64, sqlx::Error>
        where
            E: sqlx::Executor<'c, Database = $database>,
        {
            Ok(bound(statement, args).execute(on).await?.rows_affected())
        }

        #[async_trait]
        impl Transaction for sqlx::Transaction<'static, $database> {
            async fn rows(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<Vec<Row>, StoreError> {
                run_rows(&mut **self, statement, args).await.map_err(failed)
            }

            async fn execute(&mut self, statement: &'static str, args: Vec<Arg>) -> Result<u64, StoreError> {
                run_execute(&mut **self, statement, args).await.map_err(failed)
            }

            async fn commit(self: Box<Self>) -> Result<(), StoreError> {
                sqlx::Transaction::commit(*self).await.map_err(failed)
            }
        }
    };
}
pub(super) use sqlx_calls;
