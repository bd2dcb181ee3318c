//! Tiles of a whole video, several at once, each stored when it is made.

use std::collections::HashMap;

use futures::stream::StreamExt;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::grid::Grid;
use super::manifest::{FORMAT, MANIFEST, Tile, TileManifest, UNFINISHED, tile_name};
use super::source_hash;
use super::store::{TileError, TileStore};
use super::tile::Making;
use crate::args::tile::Look;
use crate::clip::DEFAULT_CRF;
use crate::error::MediaError;
use crate::media::Media;
use crate::probe::Rate;
use crate::source::Source;

/// How tiles are made.
#[derive(Clone, Debug, PartialEq)]
pub struct TilesSpec {
    /// The video, as the manifest names it.
    pub video_id: String,
    /// Pictures a second.
    pub fps: Rate,
    /// The longest side, in pixels.
    pub max_dim: u32,
    /// How long a tile is.
    pub tile_seconds: u64,
    /// How many tiles are made at once; never more than children may run.
    pub workers: usize,
}

/// How far the making is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TilesDone {
    /// Tiles that are there.
    pub done_tiles: u64,
    /// Tiles in all.
    pub total_tiles: u64,
}

impl Media {
    /// Makes the tiles of a video, as far as they are not there, and then the manifest. `told` hears how many are there, of how many.
    ///
    /// Tiles of other bytes or another way of making are made anew. When the call ends early, what is made stays, and the next call goes on from
    /// there. A source in a bucket is fetched whole for it, since it is read whole.
    ///
    /// # Errors
    ///
    /// When the source is refused, the store fails, a program fails, or `stop` fires.
    pub async fn make_tiles(
        &self,
        source: &Source,
        spec: &TilesSpec,
        store: &dyn TileStore,
        told: &(dyn Fn(TilesDone) + Send + Sync),
        stop: &CancellationToken,
    ) -> Result<TileManifest, MediaError> {
        if spec.tile_seconds == 0 {
            return Err(MediaError::BadRequest("a tile cannot be `0` seconds long".to_owned()));
        }
        // Held until the end, so that it does not go while it is read.
        let local = self.on_disk(source, stop).await?;
        let facts = self.facts(&Source::File(local.path().to_owned()), stop).await?;
        let grid = Grid { rate: spec.fps, tile_seconds: spec.tile_seconds };
        let whole = facts.video.size.fit(None).even();
        let size = facts.video.size.fit(Some(spec.max_dim)).even();
        let hash = tokio::select! {
            () = stop.cancelled() => return Err(MediaError::Cancelled),
            hash = source_hash::of_file(local.path()) => hash?,
        };
        let mut manifest = TileManifest {
            format: FORMAT,
            video_id: spec.video_id.clone(),
            source: hash,
            fps: spec.fps.as_f64(),
            max_dim: spec.max_dim,
            crf: DEFAULT_CRF,
            tile_seconds: spec.tile_seconds,
            duration: facts.end,
            width: size.width,
            height: size.height,
            is_full_size: size == whole,
            tiles: Vec::new(),
        };
        let total = grid.tiles(facts.end.since_start());
        let known = Known::look(&manifest, store).await?;
        if let Some(finished) = known.finished {
            told(done_of(total, total));
            return Ok(finished);
        }

        let workers = spec.workers.clamp(1, self.config().concurrency.max(1));
        let making = Making {
            media: self,
            facts: &facts,
            grid,
            look: Look { rate: grid.rate, size, crf: DEFAULT_CRF, key_distance: grid.key_distance() },
            threads: self.threads(workers),
            store,
            stop,
        };
        let making = &making;
        let missing: Vec<u64> =
            (0..total).filter(|index| !known.tiles.iter().any(|tile| tile.index == *index)).collect();
        manifest.tiles = known.tiles;
        let mut done = total - u64::try_from(missing.len()).unwrap_or(total);
        told(done_of(done, total));
        let mut made = futures::stream::iter(missing)
            .map(|index| async move { making.tile(index).await })
            .buffer_unordered(workers);
        while let Some(tile) = made.next().await {
            done += 1;
            if let Some(tile) = tile? {
                let place = manifest.tiles.partition_point(|known| known.index < tile.index);
                manifest.tiles.insert(place, tile);
                // Only what stands in here is taken for made by whoever goes on after a crash.
                write(store, UNFINISHED, &manifest).await?;
            }
            told(done_of(done, total));
        }
        drop(made);
        write(store, MANIFEST, &manifest).await?;
        tidy(&manifest, known.names, store).await;
        Ok(manifest)
    }
}

const fn done_of(done_tiles: u64, total_tiles: u64) -> TilesDone {
    TilesDone { done_tiles, total_tiles }
}

/// What is there of the tiles that are wanted.
struct Known {
    /// The manifest, if nothing is missing.
    finished: Option<TileManifest>,
    tiles: Vec<Tile>,
    /// The names of all files in the store.
    names: Vec<String>,
}

impl Known {
    async fn look(wanted: &TileManifest, store: &dyn TileStore) -> Result<Self, MediaError> {
        let sizes = store.sizes().await?;
        let is_there = |tile: &Tile| sizes.get(&tile_name(tile.index)) == Some(&tile.size_bytes);
        let mut known = Self { finished: None, tiles: Vec::new(), names: sizes.keys().cloned().collect() };
        for name in [MANIFEST, UNFINISHED] {
            let Some(manifest) = read(store, name, &sizes).await?.filter(|found| wanted.is_same_making(found)) else {
                continue;
            };
            if name == MANIFEST && manifest.tiles.iter().all(is_there) {
                known.finished = Some(manifest);
                return Ok(known);
            }
            for tile in manifest.tiles.into_iter().filter(is_there) {
                if let Err(place) = known.tiles.binary_search_by_key(&tile.index, |tile| tile.index) {
                    known.tiles.insert(place, tile);
                }
            }
        }
        Ok(known)
    }
}

async fn read(
    store: &dyn TileStore,
    name: &str,
    sizes: &HashMap<String, u64>,
) -> Result<Option<TileManifest>, TileError> {
    if !sizes.contains_key(name) {
        return Ok(None);
    }
    Ok(store.text(name).await?.and_then(|text| serde_json::from_slice(&text).ok()))
}

async fn write(store: &dyn TileStore, name: &str, manifest: &TileManifest) -> Result<(), MediaError> {
    let text = serde_json::to_vec(manifest).map_err(|error| TileError::new("write", name, error))?;
    Ok(store.put_text(name, text).await?)
}

/// Removes what no manifest speaks of any more. It does no harm where it stays, as in a bucket whose key may not delete.
async fn tidy(manifest: &TileManifest, names: Vec<String>, store: &dyn TileStore) {
    let stays = |name: &String| {
        name == MANIFEST || manifest.tiles.iter().any(|tile| tile_name(tile.index) == *name) || !is_ours(name)
    };
    let leftover = names.into_iter().filter(|name| !stays(name) && name != UNFINISHED);
    for name in leftover.chain([UNFINISHED.to_owned()]) {
        if let Err(error) = store.remove(&name).await {
            tracing::debug!(%error, media.video = %manifest.video_id, "a file of earlier tiles stays");
            return;
        }
    }
}

fn is_ours(name: &str) -> bool {
    name.strip_prefix("tile_").is_some_and(|rest| rest.strip_suffix(".mp4").is_some())
}
