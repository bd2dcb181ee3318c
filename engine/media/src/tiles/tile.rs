//! One tile.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::ops::Range;

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use super::grid::{Grid, SOUND_FRAME, SOUND_RATE, sound_frames, sound_nanos};
use super::manifest::{Tile, tile_name};
use super::store::TileStore;
use crate::args::tile::{self as tile_args, Look, TILE, TileCut, TileSound};
use crate::clip::AUDIO_BITS_PER_SECOND;
use crate::error::MediaError;
use crate::facts::Facts;
use crate::media::{Media, last_line, stamps_of};
use crate::mp4::{self, Kind};
use crate::thin;
use crate::time::{MediaTime, SLACK, nanos_of};
use crate::workspace::Workspace;

/// Frames of sound before the first one that is used: the encoder's own delay, and some for it to settle, so that the frame that is used is the same
/// as if the sound before had been encoded too.
const SETTLING_FRAMES: i64 = 3;

/// What all tiles of a video have in common.
#[derive(Debug)]
pub(super) struct Making<'a> {
    pub(super) media: &'a Media,
    pub(super) facts: &'a Facts,
    pub(super) grid: Grid,
    pub(super) look: Look,
    /// Threads of one program.
    pub(super) threads: usize,
    pub(super) store: &'a dyn TileStore,
    pub(super) stop: &'a CancellationToken,
}

impl Making<'_> {
    /// Makes and stores a tile; `None` if it holds no picture, or none of its pictures decodes.
    pub(super) async fn tile(&self, index: u64) -> Result<Option<Tile>, MediaError> {
        let Self { media, facts, grid, stop, .. } = self;
        let steps = self.steps_shown(index);
        if steps.is_empty() {
            return Ok(None);
        }
        let name = tile_name(index);
        let start = grid.moment(steps.start);
        let stretch_start = MediaTime::from_millis(index * grid.tile_seconds * 1000);
        let end = MediaTime::from_millis((index + 1) * grid.tile_seconds * 1000).min(facts.end);
        let sound = self.sound(stretch_start, end);
        let timeline = facts.video.timeline;
        let (from, to) = (timeline.last_at(start), timeline.last_at(grid.moment(steps.end - 1)));
        let pictures = media.index(facts, from.max(facts.first), to, stop).await?;
        let Some(first) = pictures.shown_at(from).or(pictures.first()) else { return Ok(None) };
        let workspace = Workspace::new(&media.config().work_folder).await?;
        let count = steps.end - steps.start;
        let step_nanos = timeline.on_clock(start) + nanos_of(SLACK);
        let mut wanted = thin::shown_at_steps(&pictures, facts, step_nanos, grid.rate, count);
        wanted.retain(|tick| (first..=to.max(first)).contains(tick));
        let source_pictures = pictures.between(first, to.max(first) + 1).len();
        let thinned = media.thinned(facts, &pictures, wanted, source_pictures, workspace.path(), stop).await?;
        let mut complaint = String::new();
        let seeks = pictures.seeks(first, &facts.video, facts.container());
        for (seek, thinned) in thin::ways(thinned.as_ref(), &seeks) {
            let cut = TileCut {
                opened: &facts.opened,
                video: &facts.video,
                seek,
                first,
                beyond: to.max(first) + 1,
                step_nanos,
                steps: count,
                sound: sound.map(|(cut, _first)| cut),
                look: self.look,
                thinned,
                decoder_threads: Media::decoder_threads(self.threads),
                threads: self.threads,
                max_pixels: media.config().max_pixels,
            };
            let finished = media.ffmpeg(tile_args::args(&cut), workspace.path(), stop).await?;
            if finished.status.code().is_none() {
                return Err(finished.succeeded(&media.config().ffmpeg).expect_err("a killed program did not succeed"));
            }
            let came: BTreeSet<i64> = stamps_of(&finished.stdout).into_iter().collect();
            let misses_some = thinned.is_some_and(|thinned| !thinned.is_whole(&came));
            let path = workspace.file(TILE);
            let is_good = finished.status.success() && !misses_some && pictures_in(&path).await == Some(count);
            complaint = finished.stderr_tail;
            if !is_good {
                tracing::debug!(media.path = %facts.opened.path, media.tile = index, ?seek, thinned = thinned.is_some(), "a tile lacks pictures");
                continue;
            }
            let size_bytes = fs_err::tokio::metadata(&path).await.map_err(MediaError::file("look at a tile"))?.len();
            tokio::select! {
                () = stop.cancelled() => return Err(MediaError::Cancelled),
                stored = self.store.put(&name, &path) => stored?,
            }
            return Ok(Some(Tile {
                index,
                start,
                end,
                key: self.store.key(&name),
                size_bytes,
                first_step: steps.start,
                steps: count,
                first_sound_frame: sound.map(|(_cut, first)| first),
            }));
        }
        tracing::warn!(
            media.path = %facts.opened.path,
            media.tile = index,
            reason = last_line(&complaint),
            "a tile could not be made and is left out"
        );
        Ok(None)
    }

    /// The steps of a tile at which a picture is on screen.
    fn steps_shown(&self, index: u64) -> Range<u64> {
        let Self { facts, grid, .. } = self;
        let tile = grid.of_tile(index);
        let first = grid.first_from(facts.video.timeline.time_of(facts.first));
        let beyond = grid.first_from(facts.end).max(first + 1);
        tile.start.max(first)..tile.end.min(beyond)
    }

    /// The sound of a stretch, and the number of the first frame that the encoder gives of it.
    fn sound(&self, start: MediaTime, end: MediaTime) -> Option<(TileSound, i64)> {
        let (audio, _sound_end) = self.facts.sound.as_ref()?;
        let frames = sound_frames(start.since_start(), end.since_start());
        let first = (frames.start - SETTLING_FRAMES).max(0);
        // One frame more than is used, since each sounds together with the next one.
        let samples = (frames.end + 1 - first) * i64::from(SOUND_FRAME);
        let cut = TileSound {
            index: audio.index,
            channels: audio.track.channels,
            rate: SOUND_RATE,
            bit_rate: AUDIO_BITS_PER_SECOND,
            from_nanos: self.facts.header.origin_nanos + sound_nanos(first),
            samples: u64::try_from(samples).unwrap_or(0),
        };
        // The encoder gives a frame of silence before the first one.
        Some((cut, first - 1))
    }
}

/// How many pictures the index of a tile tells; `None` if there is no such file.
async fn pictures_in(path: &Utf8Path) -> Option<u64> {
    let path = path.to_owned();
    let count = tokio::task::spawn_blocking(move || {
        let tracks = mp4::read(&mut File::open(path)?)?;
        let video = tracks.iter().find(|track| track.kind == Kind::Video);
        Ok::<_, io::Error>(video.map_or(0, |track| track.samples.len()))
    });
    u64::try_from(count.await.ok()?.ok()?).ok()
}
