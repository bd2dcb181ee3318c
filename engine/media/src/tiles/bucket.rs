//! Tiles in a bucket, under `<video_id>/tiles/`. Tiles that are read are kept on this host, in a folder that the caller clears as it likes.

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};

use super::folder::FolderTiles;
use super::store::{TileError, TileStore, WantedTile};
use crate::objects::{About, BadObjectKey, ObjectError, ObjectKey, ObjectStore};

/// Manifests are a few hundred bytes a tile.
const LARGEST_TEXT_BYTES: u64 = 64 << 20;

/// The tiles of one video in a bucket.
#[derive(Clone, Debug)]
pub struct BucketTiles {
    objects: ObjectStore,
    video_id: String,
    made_by: &'static str,
    /// Tiles that were fetched; their names tell the making and the size, so that one that was replaced is fetched again.
    fetched: Utf8PathBuf,
}

impl BucketTiles {
    /// Tiles of `video_id`, which `made_by` says it stores; what is read from the bucket is kept in `fetched`, under names that differ between
    /// videos and makings.
    pub fn new(
        objects: ObjectStore,
        video_id: impl Into<String>,
        made_by: &'static str,
        fetched: impl Into<Utf8PathBuf>,
    ) -> Self {
        Self { objects, video_id: video_id.into(), made_by, fetched: fetched.into() }
    }

    fn object(&self, name: &str) -> Result<ObjectKey, TileError> {
        self.key(name).parse().map_err(|error: BadObjectKey| TileError::new("name", name, error))
    }

    /// Brings a tile here under `kept_name`.
    async fn fetch(&self, wanted: &WantedTile, kept_name: &str) -> Result<(), TileError> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| TileError::new("fetch", &wanted.name, error);
        fs_err::tokio::create_dir_all(&self.fetched).await.map_err(|error| failed(error.into()))?;
        let part = tempfile::Builder::new().prefix(".part-").tempfile_in(&self.fetched);
        let part = part.map_err(|error| failed(error.into()))?.into_temp_path();
        let path = Utf8Path::from_path(&part).ok_or_else(|| failed("the folder's name is not UTF-8".into()))?;
        let facts =
            self.objects.download(&self.object(&wanted.name)?, path).await.map_err(|error| failed(error.into()))?;
        if facts.size_bytes != wanted.size_bytes {
            let reason = format!("it has {} bytes, and the manifest says {}", facts.size_bytes, wanted.size_bytes);
            return Err(failed(reason.into()));
        }
        part.persist(self.fetched.join(kept_name)).map_err(|error| failed(error.error.into()))
    }
}

#[async_trait]
impl TileStore for BucketTiles {
    async fn text(&self, name: &str) -> Result<Option<Vec<u8>>, TileError> {
        let failed = |error: ObjectError| TileError::new("read", name, error);
        match self.objects.get(&self.object(name)?).await {
            Ok(reader) => reader.into_bytes(LARGEST_TEXT_BYTES).await.map(|text| Some(text.into())).map_err(failed),
            Err(ObjectError::NotFound { .. }) => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    async fn put_text(&self, name: &str, text: Vec<u8>) -> Result<(), TileError> {
        let about = About::new("application/json", self.made_by);
        let put = self.objects.put_bytes(&self.object(name)?, Bytes::from(text), &about).await;
        put.map_err(|error| TileError::new("write", name, error))
    }

    async fn sizes(&self) -> Result<HashMap<String, u64>, TileError> {
        let prefix = self.key("");
        let listed = self.objects.list(&prefix).await.map_err(|error| TileError::new("list", &prefix, error))?;
        let name = |key: &str| key.strip_prefix(&prefix).map(str::to_owned);
        Ok(listed.iter().filter_map(|object| Some((name(&object.key)?, object.size_bytes))).collect())
    }

    async fn put(&self, name: &str, path: &Utf8Path) -> Result<(), TileError> {
        let about = About::new("video/mp4", self.made_by);
        let put = self.objects.put_file(&self.object(name)?, path, &about).await;
        put.map_err(|error| TileError::new("store", name, error))?;
        fs_err::tokio::remove_file(path).await.map_err(|error| TileError::new("remove the local copy of", name, error))
    }

    async fn file(&self, wanted: &WantedTile) -> Result<Utf8PathBuf, TileError> {
        // The hyphen sets the number of the tile apart from what is common to the tiles of one making.
        let kept =
            WantedTile { name: format!("{}.{}-{}", self.video_id, wanted.making, wanted.name), ..wanted.clone() };
        let folder = FolderTiles::new(self.fetched.clone());
        if let Ok(path) = folder.file(&kept).await {
            return Ok(path);
        }
        self.fetch(wanted, &kept.name).await?;
        folder.file(&kept).await
    }

    async fn remove(&self, name: &str) -> Result<(), TileError> {
        self.objects.delete(&self.object(name)?).await.map_err(|error| TileError::new("remove", name, error))
    }

    fn key(&self, name: &str) -> String {
        format!("{}/tiles/{name}", self.video_id)
    }
}
