//! Media time, exact where it matters.
//!
//! Containers count in integer ticks of a time base, and so does everything here that decides which picture belongs to a moment.
//! [`MediaTime`] is what the rest of the product speaks: the time since the first moment of the medium as a player shows it,
//! whatever its own stamps say (a transport stream may start at one hour).
//!
//! A time that went through text or a model has lost its last digits (`0.033` for the picture at 1001/30000 s), so a picture that
//! starts up to [`SLACK`] after an asked moment counts as being there at that moment. Every comparison uses the same slack, hence clips `[a, b)` and
//! `[b, c)` never share a picture nor lose one between them.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Half a millisecond: the rounding of a time written with three decimals.
pub(crate) const SLACK: Duration = Duration::from_micros(500);

/// Past this many seconds (about 31 years) a time is a mistake and not a moment of a video.
const LATEST_SECONDS: f64 = 1e9;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A moment of a medium, counted from its first moment; never negative, to the nanosecond.
///
/// In JSON it is a number of seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MediaTime(Duration);

/// A number that is no moment of a medium.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("`{seconds}` is not a time in a video: accepted are seconds from 0 on")]
pub struct BadTime {
    seconds: f64,
}

impl MediaTime {
    /// The first moment.
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Reads seconds as they come from a client or a model.
    ///
    /// # Errors
    ///
    /// [`BadTime`] for what is not a number, infinite, negative or absurdly large.
    pub fn from_secs_f64(seconds: f64) -> Result<Self, BadTime> {
        if seconds > LATEST_SECONDS {
            return Err(BadTime { seconds });
        }
        Duration::try_from_secs_f64(seconds).map(Self).map_err(|_not_a_moment| BadTime { seconds })
    }

    /// The moment so many milliseconds after the first.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }

    /// Seconds, for JSON and for text; what decides stays with the exact value.
    pub fn as_secs_f64(self) -> f64 {
        self.0.as_secs_f64()
    }

    /// The distance from the first moment.
    pub const fn since_start(self) -> Duration {
        self.0
    }

    /// The length from `earlier` to this moment; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `length` later.
    #[must_use]
    pub const fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length))
    }
}

impl From<Duration> for MediaTime {
    fn from(since_start: Duration) -> Self {
        Self(since_start)
    }
}

impl fmt::Display for MediaTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.as_secs_f64())
    }
}

impl Serialize for MediaTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_secs_f64())
    }
}

impl<'de> Deserialize<'de> for MediaTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_secs_f64(f64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// How long one tick of a stream is, in seconds, as a fraction. Invariant: both parts are above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeBase {
    numerator: u32,
    denominator: u32,
}

impl TimeBase {
    pub(crate) const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        if numerator == 0 || denominator == 0 { None } else { Some(Self { numerator, denominator }) }
    }

    /// Reads ffprobe's `1/15360`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (numerator, denominator) = text.split_once('/')?;
        Self::new(numerator.parse().ok()?, denominator.parse().ok()?)
    }

    pub(crate) const fn numerator(self) -> u32 {
        self.numerator
    }

    pub(crate) const fn denominator(self) -> u32 {
        self.denominator
    }

    /// Nanoseconds on the stream's own clock, to the nearest.
    pub(crate) fn nanos(self, ticks: i64) -> i128 {
        let scaled = i128::from(ticks) * i128::from(self.numerator) * NANOS_PER_SECOND;
        let denominator = i128::from(self.denominator);
        (scaled + denominator / 2).div_euclid(denominator)
    }

    /// The tick next to `nanos`.
    pub(crate) fn nearest(self, nanos: i128) -> i64 {
        let half = i128::from(self.numerator) * NANOS_PER_SECOND / i128::from(self.denominator) / 2;
        self.floor(nanos + half)
    }

    /// The last tick at or before `nanos`.
    pub(crate) fn floor(self, nanos: i128) -> i64 {
        let ticks = (nanos * i128::from(self.denominator)).div_euclid(i128::from(self.numerator) * NANOS_PER_SECOND);
        clamp_ticks(ticks)
    }

    /// The first tick at or after `nanos`.
    fn ceil(self, nanos: i128) -> i64 {
        let divisor = i128::from(self.numerator) * NANOS_PER_SECOND;
        let ticks = -(-(nanos * i128::from(self.denominator))).div_euclid(divisor);
        clamp_ticks(ticks)
    }
}

impl fmt::Display for TimeBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.numerator, self.denominator)
    }
}

fn clamp_ticks(ticks: i128) -> i64 {
    i64::try_from(ticks).unwrap_or(if ticks < 0 { i64::MIN } else { i64::MAX })
}

/// Ties the clock of one stream to [`MediaTime`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeline {
    base: TimeBase,
    /// The stream clock's nanoseconds at the first moment of the medium.
    origin_nanos: i128,
}

impl Timeline {
    pub(crate) const fn new(base: TimeBase, origin_nanos: i128) -> Self {
        Self { base, origin_nanos }
    }

    pub(crate) const fn base(self) -> TimeBase {
        self.base
    }

    /// The same clock with its first moment moved to `ticks`.
    pub(crate) fn starting_at(self, ticks: i64) -> Self {
        Self { base: self.base, origin_nanos: self.base.nanos(ticks) }
    }

    /// The same clock with everything shown that much later.
    pub(crate) fn starting_later(self, by: MediaTime) -> Self {
        Self { base: self.base, origin_nanos: self.origin_nanos - nanos_of(by.0) }
    }

    /// When the tick is shown; ticks before the first moment are moved to it.
    pub(crate) fn time_of(self, ticks: i64) -> MediaTime {
        let nanos = (self.base.nanos(ticks) - self.origin_nanos).max(0);
        MediaTime(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// The last tick whose picture has begun at `time`.
    pub(crate) fn last_at(self, time: MediaTime) -> i64 {
        self.base.floor(self.on_clock(time) + nanos_of(SLACK))
    }

    /// The first tick that does not lie before `time`.
    pub(crate) fn first_from(self, time: MediaTime) -> i64 {
        self.base.ceil(self.on_clock(time) - nanos_of(SLACK))
    }

    /// `time` on the stream's own clock, in nanoseconds.
    pub(crate) fn on_clock(self, time: MediaTime) -> i128 {
        self.origin_nanos + nanos_of(time.0)
    }
}

pub(crate) fn nanos_of(length: Duration) -> i128 {
    i128::try_from(length.as_nanos()).unwrap_or(i128::MAX)
}

/// Nanoseconds of a stream clock as the seconds that ffmpeg and ffprobe take, rounded up to their microsecond.
pub(crate) fn clock_seconds(nanos: i128) -> String {
    let micros = -(-nanos).div_euclid(1000);
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timeline(denominator: u32) -> Timeline {
        Timeline::new(TimeBase::new(1, denominator).unwrap(), 0)
    }

    #[test]
    fn seconds_that_are_no_moment_are_refused() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.001, 1e18] {
            assert!(MediaTime::from_secs_f64(bad).is_err(), "{bad} was taken");
        }
        assert_eq!(MediaTime::from_secs_f64(1.5).unwrap(), MediaTime::from_millis(1500));
    }

    #[test]
    fn a_time_written_with_three_decimals_finds_its_picture() {
        let ntsc = Timeline::new(TimeBase::new(1001, 30000).unwrap(), 0);
        for tick in 0..2000 {
            let written = format!("{}", ntsc.time_of(tick));
            let read = MediaTime::from_secs_f64(written.parse().unwrap()).unwrap();
            assert_eq!(ntsc.last_at(read), tick);
            assert_eq!(ntsc.first_from(read), tick);
        }
    }

    #[test]
    fn clock_seconds_round_up_and_keep_their_sign() {
        assert_eq!(clock_seconds(33_366_667), "0.033367");
        assert_eq!(clock_seconds(-1_500_000_000), "-1.500000");
        assert_eq!(clock_seconds(0), "0.000000");
        assert_eq!(clock_seconds(3_601_400_000_000), "3601.400000");
    }

    proptest! {
        #[test]
        fn a_tick_is_found_at_its_own_time(tick in 0_i64..1_000_000_000, denominator in 1_u32..=2000) {
            let timeline = timeline(denominator);
            let time = timeline.time_of(tick);
            prop_assert_eq!(timeline.last_at(time), tick);
            prop_assert_eq!(timeline.first_from(time), tick);
        }

        #[test]
        fn neighbouring_clips_share_no_picture(nanos in 0_u64..10_000_000_000_000, denominator in 1_u32..=200_000, origin in -10_000_000_000_i128..10_000_000_000) {
            let timeline = Timeline::new(TimeBase::new(1, denominator).unwrap(), origin);
            let border = MediaTime::from(Duration::from_nanos(nanos));
            let first = timeline.first_from(border);
            prop_assert!(timeline.base().nanos(first) + 1 >= timeline.on_clock(border) - nanos_of(SLACK));
            prop_assert!(timeline.base().nanos(first - 1) - 1 <= timeline.on_clock(border) - nanos_of(SLACK));
        }
    }
}
