//! Where tiles are kept.

use std::collections::HashMap;
use std::fmt::Debug;

use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};

use crate::objects::ObjectError;

/// A store of tiles that does not do its work.
#[derive(Debug, thiserror::Error)]
#[error("could not {action} `{name}` in the store of tiles")]
pub struct TileError {
    action: &'static str,
    name: String,
    #[source]
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl TileError {
    /// `action` is what was attempted, such as `write`.
    pub fn new(
        action: &'static str,
        name: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { action, name: name.into(), source: source.into() }
    }

    /// A short, stable word for the kind of failure: the bucket's, where it was the bucket.
    pub(crate) fn code(&self) -> &'static str {
        self.source.downcast_ref::<ObjectError>().map_or("TileStoreFailed", ObjectError::code)
    }
}

/// A tile that is wanted, as the manifest tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedTile {
    /// Its name in the store.
    pub name: String,
    /// Its size; a file of another size is another tile.
    pub size_bytes: u64,
    /// Tells the tiles of one making from those of another.
    pub making: String,
}

/// The tiles of one video under their names. What is written is there whole or not at all.
#[async_trait]
pub trait TileStore: Debug + Send + Sync {
    /// A small file; `None` if there is none.
    async fn text(&self, name: &str) -> Result<Option<Vec<u8>>, TileError>;

    /// Writes a small file.
    async fn put_text(&self, name: &str, text: Vec<u8>) -> Result<(), TileError>;

    /// The names of all files that are there, and their sizes in bytes.
    async fn sizes(&self) -> Result<HashMap<String, u64>, TileError>;

    /// Stores a tile in place of one of that name; the file at `path` is the store's from then on, and is moved or removed.
    async fn put(&self, name: &str, path: &Utf8Path) -> Result<(), TileError>;

    /// A tile as a file to read, which the caller leaves alone. One of another size than wanted is an error.
    async fn file(&self, wanted: &WantedTile) -> Result<Utf8PathBuf, TileError>;

    /// Removes a file. One that is not there is no error.
    async fn remove(&self, name: &str) -> Result<(), TileError>;

    /// How a tile is called in the manifest.
    fn key(&self, name: &str) -> String;
}
