//! The tiles of a video: an aid for clips, made where clips will use them.

use std::time::Duration;

use ambient_settings::Settings;
use tokio_util::sync::CancellationToken;

use super::IngestParts;
use crate::agent::plan::Quality;
use crate::agent::vision::Vision;
use crate::backend::BackendError;
use crate::ids::SessionId;
use crate::store::chain;
use crate::store::records::{FileRecord, WorkStatus};

/// How often it is looked whether the file was deleted meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// How tiles are made, to tell whether clips will use them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileWish {
    /// The quality of clips for models that want no other.
    pub clip_quality: Quality,
    /// `TILE_FPS`.
    pub frames_per_second: f64,
    /// `TILE_MAX_DIM`.
    pub max_dimension: u32,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tiled {
    /// There is nothing more to do, whether or not there are tiles.
    Settled,
    /// It was stopped, and goes on from there the next time.
    Stopped,
}

impl TileWish {
    /// As the settings say; `None` where they want no tiles.
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        let tiles = &settings.tiles;
        let is_wanted = tiles.enabled && (tiles.local || settings.s3.bucket.is_some());
        is_wanted.then_some(Self {
            clip_quality: Quality {
                frames_per_second: settings.clips.fps,
                max_dimension: settings.clips.max_dimension,
                max_size_bytes: settings.clips.max_size_bytes,
            },
            frames_per_second: tiles.fps,
            max_dimension: tiles.max_dimension,
        })
    }

    /// Tiles cost as much as a clip of the whole video, so they are made only for a model that is sent clips, and of the same quality.
    #[expect(clippy::float_cmp, reason = "two settings are compared as written, nothing was computed")]
    fn serves(&self, vision: &Vision) -> bool {
        let quality = Quality::of(vision.model().unwrap_or_default(), self.clip_quality);
        vision.takes_video()
            && quality.frames_per_second == self.frames_per_second
            && quality.max_dimension == self.max_dimension
    }
}

/// Makes what is missing of a file's tiles.
pub(super) async fn make(parts: &IngestParts, job: &SessionId, file: &FileRecord, stop: &CancellationToken) -> Tiled {
    let serves = |wish: TileWish| parts.vision.as_ref().is_some_and(|vision| wish.serves(vision));
    if file.source_status != WorkStatus::Ready || !parts.config.tiles.is_some_and(serves) {
        return Tiled::Settled;
    }
    let made = tokio::select! {
        made = parts.backend.make_tiles(job, &file.id, stop) => made,
        () = deleted(parts, file) => {
            // Whoever deleted the file may have been there before the last tile.
            if let Some(uploads) = &parts.uploads {
                uploads.remove_leftovers(file).await;
            }
            return Tiled::Settled;
        }
    };
    match made {
        Ok(()) => Tiled::Settled,
        Err(BackendError::Cancelled) => Tiled::Stopped,
        Err(error) => {
            tracing::warn!(video.id = %file.id, error = %chain(&error), "a video stays without tiles, and its clips are cut from it");
            Tiled::Settled
        }
    }
}

/// Waits until the file is gone.
async fn deleted(parts: &IngestParts, file: &FileRecord) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if matches!(parts.store.file(&file.id).await, Ok(None)) {
            return;
        }
    }
}
