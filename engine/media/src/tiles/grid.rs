//! Which moments a tile holds: pure arithmetic on the two grids of a tiled video.

use std::ops::Range;
use std::time::Duration;

use crate::probe::Rate;
use crate::time::{MediaTime, SLACK, nanos_of};

const NANOS: i128 = 1_000_000_000;

/// Sound of tiles has this rate, whatever the source's is, so that all tiles of a video share one grid.
pub(crate) const SOUND_RATE: u32 = 48_000;
/// Samples in a frame of AAC.
pub(crate) const SOUND_FRAME: u32 = 1024;

/// Key frames are this far apart: a clip may begin at each of them without decoding.
const KEY_DISTANCE: Duration = Duration::from_secs(2);

/// The grid of pictures: step `n` is the moment `n / rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) rate: Rate,
    pub(crate) tile_seconds: u64,
}

impl Grid {
    /// The moment of a step, to the nearest nanosecond.
    pub(crate) fn moment(self, step: u64) -> MediaTime {
        let (numerator, denominator) = self.fraction();
        let nanos = (i128::from(step) * NANOS * denominator + numerator / 2) / numerator;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).into()
    }

    /// The first step at or after `time`, with the slack of all comparisons of times.
    pub(crate) fn first_from(self, time: MediaTime) -> u64 {
        self.steps_before(nanos_of(time.since_start()) - nanos_of(SLACK))
    }

    /// The steps of tile `index`.
    pub(crate) fn of_tile(self, index: u64) -> Range<u64> {
        let border = |index: u64| self.steps_before(i128::from(index) * i128::from(self.tile_seconds) * NANOS);
        border(index)..border(index + 1)
    }

    /// How many tiles a video of that length has.
    pub(crate) fn tiles(self, length: Duration) -> u64 {
        u64::try_from(length.as_nanos().div_ceil(u128::from(self.tile_seconds) * 1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// How many steps lie between key frames.
    pub(crate) fn key_distance(self) -> u64 {
        self.steps_before(nanos_of(KEY_DISTANCE)).max(1)
    }

    /// How many steps, from 0 on, lie before that moment.
    fn steps_before(self, nanos: i128) -> u64 {
        let (numerator, denominator) = self.fraction();
        let steps = -(-(nanos * numerator)).div_euclid(NANOS * denominator);
        u64::try_from(steps).unwrap_or(0)
    }

    fn fraction(self) -> (i128, i128) {
        (i128::from(self.rate.numerator()), i128::from(self.rate.denominator()))
    }
}

/// The frames of sound that cover a stretch, in the grid of [`SOUND_FRAME`] samples from time 0 on.
pub(crate) fn sound_frames(start: Duration, end: Duration) -> Range<i64> {
    let samples = |time: Duration| nanos_of(time) * i128::from(SOUND_RATE);
    let frame = NANOS * i128::from(SOUND_FRAME);
    let first = samples(start).div_euclid(frame);
    let beyond = -(-samples(end)).div_euclid(frame);
    i64::try_from(first).unwrap_or(0)..i64::try_from(beyond).unwrap_or(i64::MAX)
}

/// The moment at which a frame of sound begins, in nanoseconds from time 0; negative for a frame before it.
pub(crate) fn sound_nanos(frame: i64) -> i128 {
    i128::from(frame) * i128::from(SOUND_FRAME) * NANOS / i128::from(SOUND_RATE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(numerator: u32, denominator: u32, tile_seconds: u64) -> Grid {
        Grid { rate: Rate::new(numerator, denominator).unwrap(), tile_seconds }
    }

    #[test]
    fn tiles_of_45_seconds_at_2_a_second_hold_90_steps() {
        let grid = grid(2, 1, 45);
        assert_eq!((grid.of_tile(0), grid.of_tile(1)), (0..90, 90..180));
        assert_eq!(grid.moment(90), MediaTime::from_millis(45_000));
        assert_eq!(grid.key_distance(), 4);
        assert_eq!((grid.tiles(Duration::from_secs(90)), grid.tiles(Duration::from_millis(90_001))), (2, 3));
    }

    #[test]
    fn a_step_is_found_at_its_own_written_moment() {
        let grid = grid(3, 1, 10);
        assert_eq!(grid.first_from(MediaTime::from_millis(333)), 1);
        assert_eq!(grid.first_from(MediaTime::from_millis(334)), 2);
        assert_eq!(grid.first_from(MediaTime::ZERO), 0);
    }

    #[test]
    fn sound_covers_its_stretch() {
        assert_eq!(sound_frames(Duration::ZERO, Duration::from_secs(1)), 0..47);
        assert_eq!(sound_frames(Duration::from_secs(45), Duration::from_secs(90)), 2109..4219);
    }

    proptest! {
        #[test]
        fn tiles_share_no_step_and_lose_none(numerator in 1_u32..120_000, denominator in 1_u32..2000, seconds in 5_u64..3600, index in 0_u64..1000) {
            // Beyond a thousand steps a second no moment could be told from the next.
            prop_assume!(numerator <= 960 * denominator);
            let grid = grid(numerator, denominator, seconds);
            prop_assert_eq!(grid.of_tile(index).end, grid.of_tile(index + 1).start);
            for step in grid.of_tile(index).take(3) {
                prop_assert_eq!(grid.first_from(grid.moment(step)), step);
            }
        }
    }
}
