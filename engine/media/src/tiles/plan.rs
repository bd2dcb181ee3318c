//! Whether tiles can serve a request, and which of them. Pure.

use std::ops::Range;

use super::grid::Grid;
use super::manifest::{Tile, TileManifest};
use crate::clip::{ClipSpec, DEFAULT_CRF};
use crate::facts::ROUNDING;
use crate::time::MediaTime;

/// What of the tiles a window needs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Without holes, in the order of time.
    pub(super) tiles: Vec<Tile>,
    /// The pictures. Invariant: not empty, and all of them are in the tiles.
    pub(super) steps: Range<u64>,
    /// The moment of the first picture.
    pub(super) start: MediaTime,
    pub(super) end: MediaTime,
    /// Whether the window reaches past the pictures of the video.
    pub(super) is_clamped: bool,
}

/// `None` if the request wants another rate, size or quality, or a stretch of which there is no tile.
pub(super) fn plan(manifest: &TileManifest, grid: Grid, spec: &ClipSpec) -> Option<Plan> {
    let is_fine_enough = spec.crf.unwrap_or(DEFAULT_CRF) >= manifest.crf;
    if !is_same_rate(spec, grid) || !is_same_size(spec, manifest) || !is_fine_enough || spec.end <= spec.start {
        return None;
    }
    let first_tile = manifest.tiles.first()?;
    let end = spec.end.min(manifest.duration);
    let first = grid.first_from(spec.start);
    let is_early = first_tile.index == 0 && first < first_tile.first_step;
    let steps = if is_early { first_tile.first_step } else { first }..grid.first_from(end);
    let is_needed = |tile: &&Tile| tile.first_step < steps.end && tile.first_step + tile.steps > steps.start;
    let tiles: Vec<Tile> = manifest.tiles.iter().filter(is_needed).cloned().collect();
    // No step may be missing: each tile begins where the one before ends.
    let has_all = tiles.first().is_some_and(|tile| tile.first_step <= steps.start)
        && tiles.last().is_some_and(|tile| tile.first_step + tile.steps >= steps.end)
        && tiles.windows(2).all(|pair| pair[0].first_step + pair[0].steps == pair[1].first_step);
    let is_clamped = is_early || spec.end > manifest.duration.plus(ROUNDING);
    (has_all && !steps.is_empty()).then(|| Plan { tiles, start: grid.moment(steps.start), steps, end, is_clamped })
}

fn is_same_rate(spec: &ClipSpec, grid: Grid) -> bool {
    let product = |one: u32, other: u32| u64::from(one) * u64::from(other);
    spec.fps.is_some_and(|fps| {
        product(fps.numerator(), grid.rate.denominator()) == product(grid.rate.numerator(), fps.denominator())
    })
}

/// A source that is not larger than asked is not made larger, so any limit above its size asks for the same.
fn is_same_size(spec: &ClipSpec, manifest: &TileManifest) -> bool {
    let longest = manifest.width.max(manifest.height);
    match spec.max_dim {
        Some(max_dim) => max_dim == manifest.max_dim || manifest.is_full_size && max_dim >= longest,
        None => manifest.is_full_size,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::manifest::{FORMAT, TileSource};
    use super::*;
    use crate::probe::Rate;

    /// 100 s in tiles of 10 s, 2 pictures a second, the first one at 0.5 s.
    fn manifest() -> TileManifest {
        let tile = |index: u64| Tile {
            index,
            start: MediaTime::from_millis(index * 10_000),
            end: MediaTime::from_millis((index + 1) * 10_000),
            key: String::new(),
            size_bytes: 1,
            first_step: (index * 20).max(1),
            steps: if index == 0 { 19 } else { 20 },
            first_sound_frame: None,
        };
        TileManifest {
            format: FORMAT,
            video_id: "v".to_owned(),
            source: TileSource { sha256: "ab".repeat(32), size_bytes: 5 },
            fps: 2.0,
            max_dim: 768,
            crf: DEFAULT_CRF,
            tile_seconds: 10,
            duration: MediaTime::from_millis(100_000),
            width: 640,
            height: 480,
            is_full_size: true,
            tiles: (0..10).map(tile).collect(),
        }
    }

    fn spec(start: u64, end: u64) -> ClipSpec {
        ClipSpec {
            start: MediaTime::from_millis(start),
            end: MediaTime::from_millis(end),
            fps: Rate::new(2, 1),
            max_dim: Some(768),
            max_size_bytes: None,
            crf: None,
        }
    }

    fn planned(manifest: &TileManifest, spec: &ClipSpec) -> Option<(Vec<u64>, Range<u64>, bool)> {
        let plan = plan(manifest, manifest.grid()?, spec)?;
        Some((plan.tiles.iter().map(|tile| tile.index).collect(), plan.steps, plan.is_clamped))
    }

    #[test]
    fn a_window_gets_the_tiles_that_it_touches() {
        let manifest = manifest();
        assert_eq!(planned(&manifest, &spec(10_000, 20_000)), Some((vec![1], 20..40, false)));
        assert_eq!(planned(&manifest, &spec(9_600, 30_100)), Some((vec![1, 2, 3], 20..61, false)));
        assert_eq!(planned(&manifest, &spec(9_500, 30_000)), Some((vec![0, 1, 2], 19..60, false)));
        assert_eq!(planned(&manifest, &spec(0, 5_000)), Some((vec![0], 1..10, true)), "before the first picture");
        assert_eq!(planned(&manifest, &spec(99_000, 101_000)), Some((vec![9], 198..200, true)), "past the last one");
    }

    #[test]
    fn what_tiles_do_not_hold_is_not_served() {
        let manifest = manifest();
        let base = spec(10_000, 20_000);
        assert_eq!(planned(&manifest, &spec(10_100, 10_400)), None, "no step lies inside");
        assert_eq!(planned(&manifest, &spec(100_000, 110_000)), None);
        assert_eq!(planned(&manifest, &ClipSpec { fps: None, ..base.clone() }), None);
        assert_eq!(planned(&manifest, &ClipSpec { fps: Rate::new(1, 1), ..base.clone() }), None);
        assert_eq!(planned(&manifest, &ClipSpec { crf: Some(20), ..base.clone() }), None, "finer than the tiles");
        assert_eq!(planned(&manifest, &ClipSpec { max_dim: Some(320), ..base.clone() }), None);
        assert!(planned(&manifest, &ClipSpec { max_dim: None, crf: Some(30), ..base.clone() }).is_some());
        let small = TileManifest { is_full_size: false, ..manifest };
        assert_eq!(planned(&small, &ClipSpec { max_dim: None, ..base }), None);
    }

    #[test]
    fn a_hole_is_not_bridged() {
        let mut manifest = manifest();
        manifest.tiles.remove(3);
        assert_eq!(planned(&manifest, &spec(20_000, 50_000)), None);
        assert_eq!(planned(&manifest, &spec(30_000, 35_000)), None);
        assert!(planned(&manifest, &spec(40_000, 50_000)).is_some());
        manifest.tiles.remove(0);
        assert_eq!(planned(&manifest, &spec(1_000, 15_000)), None, "the first tile is a hole too");
    }

    proptest! {
        #[test]
        fn the_steps_of_a_plan_are_those_of_the_window(start in 0_u64..99_000, length in 600_u64..60_000) {
            let manifest = manifest();
            let plan = plan(&manifest, manifest.grid().unwrap(), &spec(start, start + length)).unwrap();
            let end = (start + length).min(100_000);
            let inside: Vec<u64> = (1..200).filter(|step| (start..end).contains(&(step * 500))).collect();
            prop_assert_eq!(plan.steps.collect::<Vec<_>>(), inside);
        }
    }
}
