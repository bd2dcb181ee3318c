//! Tiles of videos on this host: made once in the background, and put together into clips where they fit the wish.
//!
//! With a bucket they lie there, for all replicas; without one they lie beside the video if the settings want that. Tiles never keep a clip from being
//! made: whatever is wrong with them is logged, and the clip is cut from the source.

use ambient_media::{
    BucketTiles, Clip, ClipSpec, FolderTiles, Media, MediaError, Rate, Source, TileManifest, TileStore, TilesSpec,
};
use ambient_settings::TileSettings;
use camino::Utf8PathBuf;
use tokio_util::sync::CancellationToken;

use crate::store::chain;
use crate::store::records::FileRecord;

/// The metadata `source` of tiles that the engine stores.
const MADE_BY: &str = "engine";
/// Where tiles lie without a bucket, below the folder of the video. What makes room on the disk passes it over.
pub(super) const LOCAL: &str = "tiles";
/// Where tiles of the bucket are kept once they were read, likewise. They go when room is needed.
const FETCHED: &str = "fetched-tiles";

/// See the module.
#[derive(Debug)]
pub(super) struct Tiles {
    media: Media,
    settings: TileSettings,
    video_folder: Utf8PathBuf,
    concurrency: usize,
}

impl Tiles {
    /// `None` where the settings want no tiles. `concurrency` is how many media programs may run at once.
    pub(super) fn new(
        media: &Media,
        settings: &TileSettings,
        video_folder: &Utf8PathBuf,
        concurrency: usize,
    ) -> Option<Self> {
        let is_wanted = settings.enabled && (settings.local || media.objects().is_some());
        is_wanted.then(|| Self {
            media: media.for_caller("tiles"),
            settings: settings.clone(),
            video_folder: video_folder.clone(),
            concurrency,
        })
    }

    fn store(&self, record: &FileRecord) -> Box<dyn TileStore> {
        let folder = self.video_folder.join(record.id.as_str());
        match self.media.objects() {
            Some(objects) => {
                Box::new(BucketTiles::new(objects.clone(), record.id.as_str(), MADE_BY, folder.join(FETCHED)))
            }
            None => Box::new(FolderTiles::new(folder.join(LOCAL))),
        }
    }

    /// Makes what is missing of a video's tiles.
    pub(super) async fn make(
        &self,
        source: &Source,
        record: &FileRecord,
        stop: &CancellationToken,
    ) -> Result<(), MediaError> {
        let fps = Rate::from_f64(self.settings.fps)
            .ok_or_else(|| MediaError::BadRequest(format!("`{}` is no rate of tiles", self.settings.fps)))?;
        let spec = TilesSpec {
            video_id: record.id.to_string(),
            fps,
            max_dim: self.settings.max_dimension,
            tile_seconds: self.settings.length.as_secs().max(1),
            // One program is left to those who wait for an answer.
            workers: self.settings.workers.get().min(self.concurrency.saturating_sub(1)).max(1),
        };
        let store = self.store(record);
        let told = |done| tracing::debug!(video.id = %record.id, ?done, "tiles are made");
        let manifest = self.media.make_tiles(source, &spec, &*store, &told, stop).await?;
        tracing::info!(video.id = %record.id, tiles = manifest.tiles.len(), "a video has its tiles");
        Ok(())
    }

    /// A clip out of tiles, in the name of the caller of `media`; `None` if it has to be cut from the source.
    pub(super) async fn clip(
        &self,
        media: &Media,
        record: &FileRecord,
        spec: &ClipSpec,
        stop: &CancellationToken,
    ) -> Result<Option<Clip>, MediaError> {
        if record.sha256.is_empty() || spec.fps != Rate::from_f64(self.settings.fps) {
            return Ok(None);
        }
        let store = self.store(record);
        let manifest = tokio::select! {
            () = stop.cancelled() => return Err(MediaError::Cancelled),
            manifest = TileManifest::of(&*store) => manifest.map_err(MediaError::from),
        };
        let made = match manifest {
            Ok(Some(manifest)) if manifest.is_of(record.size_bytes, &record.sha256) => {
                media.clip_from_tiles(&manifest, spec, &*store, stop).await
            }
            Ok(_none_of_ours) => Ok(None),
            Err(error) => Err(error),
        };
        match made {
            Ok(clip) => Ok(clip),
            Err(MediaError::Cancelled) => Err(MediaError::Cancelled),
            Err(error) => {
                tracing::warn!(
                    video.id = %record.id,
                    error = %chain(&error),
                    "the tiles of a video cannot be used, and a clip is cut from the source; uploading the video again mends them"
                );
                Ok(None)
            }
        }
    }
}
