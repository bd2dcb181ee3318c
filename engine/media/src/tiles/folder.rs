//! Tiles in a folder of this host.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};

use super::store::{TileError, TileStore, WantedTile};

/// The tiles of one video as files of a folder, which is made when it is needed.
#[derive(Clone, Debug)]
pub struct FolderTiles {
    folder: Utf8PathBuf,
}

impl FolderTiles {
    /// Tiles in `folder`, such as `VIDEO_FOLDER/<video_id>/tiles`. Files are moved into it, so it must lie on the file system of the work folder.
    pub fn new(folder: impl Into<Utf8PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        self.folder.join(name)
    }

    fn list(folder: &Utf8Path) -> io::Result<HashMap<String, u64>> {
        let mut sizes = HashMap::new();
        for entry in present(fs_err::read_dir(folder))?.into_iter().flatten() {
            let entry = entry?;
            let facts = entry.metadata()?;
            if let Some(name) = entry.file_name().to_str().filter(|_name| facts.is_file()) {
                sizes.insert(name.to_owned(), facts.len());
            }
        }
        Ok(sizes)
    }
}

/// A file that is not there is no failure.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[async_trait]
impl TileStore for FolderTiles {
    async fn text(&self, name: &str) -> Result<Option<Vec<u8>>, TileError> {
        present(fs_err::tokio::read(self.path(name)).await).map_err(|error| TileError::new("read", name, error))
    }

    async fn put_text(&self, name: &str, text: Vec<u8>) -> Result<(), TileError> {
        let written = async {
            fs_err::tokio::create_dir_all(&self.folder).await?;
            let aside = tempfile::Builder::new().prefix(".part-").tempfile_in(&self.folder)?.into_temp_path();
            fs_err::tokio::write(&aside, text).await?;
            aside.persist(self.path(name)).map_err(|error| error.error)
        };
        written.await.map_err(|error| TileError::new("write", name, error))
    }

    async fn sizes(&self) -> Result<HashMap<String, u64>, TileError> {
        let folder = self.folder.clone();
        let listed = tokio::task::spawn_blocking(move || Self::list(&folder)).await;
        let listed = listed.map_err(io::Error::other).and_then(|listed| listed);
        listed.map_err(|error| TileError::new("list", self.folder.as_str(), error))
    }

    async fn put(&self, name: &str, path: &Utf8Path) -> Result<(), TileError> {
        let moved = async {
            fs_err::tokio::create_dir_all(&self.folder).await?;
            fs_err::tokio::rename(path, self.path(name)).await
        };
        moved.await.map_err(|error| TileError::new("store", name, error))
    }

    async fn file(&self, wanted: &WantedTile) -> Result<Utf8PathBuf, TileError> {
        let path = self.path(&wanted.name);
        let facts =
            fs_err::tokio::metadata(&path).await.map_err(|error| TileError::new("read", &wanted.name, error))?;
        if facts.len() != wanted.size_bytes {
            let reason = format!("it has {} bytes, and the manifest says {}", facts.len(), wanted.size_bytes);
            return Err(TileError::new("read", &wanted.name, reason));
        }
        Ok(path)
    }

    async fn remove(&self, name: &str) -> Result<(), TileError> {
        let removed = present(fs_err::tokio::remove_file(self.path(name)).await);
        removed.map(|_there| ()).map_err(|error| TileError::new("remove", name, error))
    }

    fn key(&self, name: &str) -> String {
        self.path(name).into_string()
    }
}
