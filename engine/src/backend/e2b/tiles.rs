//! Clips out of a video's tiles, and whether its tiles are whole.
//!
//! The engine reads the manifest, which is small, and decides; the clip is put together in the sandbox. Tiles never keep a clip from being made:
//! whatever is wrong with them is logged, and the clip is cut from the source.

use std::sync::Arc;

use ambient_media::{BucketTiles, Rate, Tile, TileError, TileManifest, TileStore as _};
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::handle::MediaTool;
use super::media::MediaFailure;
use super::words::{self, ClipAnswer};
use crate::backend::{BackendError, ClipMade, ClipWish, Target};
use crate::ids::VideoId;
use crate::store::chain;
use crate::store::records::FileRecord;

/// The metadata `source` of what this host would store; it only reads.
const READ_BY: &str = "engine";

impl Inner {
    fn tiles_of(&self, video: &VideoId) -> BucketTiles {
        // No tile is fetched to this host, so the folder for those is never made.
        BucketTiles::new(self.objects.clone(), video.as_str(), READ_BY, self.config.video_folder.join(video.as_str()))
    }

    /// The clip, put together in the sandbox from tiles; `None` if it has to be cut from the source.
    pub(crate) async fn clip_from_tiles(
        self: &Arc<Self>,
        target: &Target,
        wish: &ClipWish,
        stop: &CancellationToken,
    ) -> Result<Option<ClipMade>, BackendError> {
        let tiles = &self.config.tiles;
        let is_same_rate = wish.frames_per_second.is_some_and(|rate| Rate::from_f64(rate) == Rate::from_f64(tiles.fps));
        if !tiles.enabled || target.path.is_some() || !is_same_rate {
            return Ok(None);
        }
        let manifest = tokio::select! {
            () = stop.cancelled() => return Err(BackendError::Cancelled),
            manifest = self.manifest_of(&target.video) => manifest,
        };
        let Some(manifest) = manifest else { return Ok(None) };
        let Some(keys) = covering(&manifest, wish) else { return Ok(None) };
        let handle = self.handle(&target.session, stop).await?;
        // The Python tool's clips of tiles are whole tiles, and so not what is asked for.
        if !matches!(handle.tool().await, Ok(MediaTool::Ours { .. })) {
            return Ok(None);
        }
        let join = |_: &_| words::clip_of_tiles(&target.video, &keys, wish);
        let made: ClipAnswer = match self.media(&target.session, join, None, stop).await {
            Ok(made) => made,
            Err(MediaFailure::Other(error)) => return Err(error),
            Err(MediaFailure::Tool(failure)) => {
                tracing::warn!(
                    video.id = %target.video,
                    error = %chain(&failure),
                    "the tiles of a video cannot be used, and a clip is cut from the source; uploading the video again mends them"
                );
                return Ok(None);
            }
        };
        let clip = self.clip_made(made).await?;
        Ok((clip.size_bytes <= wish.max_size_bytes).then_some(clip))
    }

    /// The manifest of a video's tiles, if they are of the video's own bytes.
    async fn manifest_of(&self, video: &VideoId) -> Option<TileManifest> {
        let record = self.store.file(video).await.ok().flatten()?;
        match TileManifest::of(&self.tiles_of(video)).await {
            Ok(manifest) => manifest.filter(|manifest| is_of(manifest, &record)),
            Err(error) => {
                tracing::warn!(video.id = %video, error = %chain(&error), "it is not known whether a video has tiles");
                None
            }
        }
    }

    /// Whether every tile of this video is there, made as the settings say and of the video's own bytes.
    pub(crate) async fn has_all_tiles(&self, record: &FileRecord) -> Result<bool, TileError> {
        let store = self.tiles_of(&record.id);
        let Some(manifest) = TileManifest::of(&store).await? else { return Ok(false) };
        let tiles = &self.config.tiles;
        let is_same_making = Rate::from_f64(manifest.fps) == Rate::from_f64(tiles.fps)
            && manifest.max_dim == tiles.max_dimension
            && manifest.tile_seconds == tiles.length.as_secs().max(1);
        if !is_same_making || !is_of(&manifest, record) || manifest.tiles.is_empty() {
            return Ok(false);
        }
        let sizes = store.sizes().await?;
        let is_there = |tile: &Tile| {
            let name = tile.key.rsplit('/').next().unwrap_or_default();
            sizes.get(name) == Some(&tile.size_bytes)
        };
        Ok(manifest.tiles.iter().all(is_there))
    }
}

fn is_of(manifest: &TileManifest, record: &FileRecord) -> bool {
    !record.sha256.is_empty() && manifest.is_of(record.size_bytes, &record.sha256)
}

/// The keys of the tiles that a clip needs, in the order of time; `None` if they are of another size than is wanted, or the clip would become too large.
fn covering(manifest: &TileManifest, wish: &ClipWish) -> Option<Vec<String>> {
    let longest = manifest.width.max(manifest.height);
    let is_same_size = wish.max_dimension == manifest.max_dim || manifest.is_full_size && wish.max_dimension >= longest;
    let is_needed = |tile: &&Tile| tile.end.as_secs_f64() > wish.start && tile.start.as_secs_f64() < wish.end;
    let needed: Vec<&Tile> = manifest.tiles.iter().filter(is_needed).collect();
    if !is_same_size || needed.is_empty() {
        return None;
    }
    // By the share of each tile: what is really needed is known when it is put together.
    let estimate: f64 = needed
        .iter()
        .map(|tile| {
            let (start, end) = (tile.start.as_secs_f64(), tile.end.as_secs_f64());
            let share = (wish.end.min(end) - wish.start.max(start)) / (end - start);
            #[expect(clippy::cast_precision_loss, reason = "an estimate of megabytes")]
            let size = tile.size_bytes as f64;
            size * share.clamp(0.0, 1.0)
        })
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "an estimate of megabytes")]
    let is_small_enough = estimate <= wish.max_size_bytes as f64;
    is_small_enough.then(|| needed.into_iter().map(|tile| tile.key.clone()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// 30 s in tiles of 10 s, 320 by 240 pixels of a larger source.
    fn manifest() -> TileManifest {
        let tile = |index: u64| {
            json!({
                "index": index, "start": index * 10, "end": (index + 1) * 10, "key": format!("vid_1/tiles/tile_0000{index}.mp4"),
                "size_bytes": 1000, "first_step": index * 20, "steps": 20, "first_sound_frame": null,
            })
        };
        let fields = json!({
            "format": 1, "video_id": "vid_1", "source": {"sha256": "ab".repeat(32), "size_bytes": 5}, "fps": 2.0, "max_dim": 320, "crf": 23,
            "tile_seconds": 10, "duration": 30, "width": 320, "height": 240, "is_full_size": false, "tiles": [tile(0), tile(1), tile(2)],
        });
        serde_json::from_value(fields).unwrap()
    }

    fn wish(start: f64, end: f64, max_dimension: u32, max_size_bytes: u64) -> ClipWish {
        ClipWish { start, end, frames_per_second: Some(2.0), max_dimension, max_size_bytes, crf: None }
    }

    #[test]
    fn a_clip_gets_the_tiles_that_it_touches() {
        let check = |wish: ClipWish, expected: Option<&[u64]>| {
            let names = expected.map(|indices| {
                indices.iter().map(|index| format!("vid_1/tiles/tile_0000{index}.mp4")).collect::<Vec<_>>()
            });
            assert_eq!(covering(&manifest(), &wish), names, "{wish:?}");
        };
        check(wish(2.0, 5.0, 320, 10_000), Some(&[0]));
        check(wish(9.0, 10.5, 320, 10_000), Some(&[0, 1]));
        check(wish(10.0, 20.0, 320, 10_000), Some(&[1]));
        check(wish(0.0, 99.0, 320, 10_000), Some(&[0, 1, 2]));
        check(wish(40.0, 50.0, 320, 10_000), None);
        check(wish(2.0, 5.0, 640, 10_000), None);
        check(wish(0.0, 30.0, 320, 2_500), None);
        check(wish(0.0, 15.0, 320, 1_500), Some(&[0, 1]));
    }

    #[test]
    fn small_pictures_serve_whoever_asks_for_larger_ones() {
        let whole = TileManifest { is_full_size: true, ..manifest() };
        assert!(covering(&whole, &wish(0.0, 5.0, 768, 10_000)).is_some());
        assert!(covering(&whole, &wish(0.0, 5.0, 300, 10_000)).is_none());
    }
}
