//! The tracks of a clip out of tiles: which packets, and how long each is shown or heard. Pure.

use std::time::Duration;

use super::grid::{SOUND_FRAME, SOUND_RATE, sound_frames};
use super::plan::Plan;
use super::select::Selected;
use crate::mp4::{Edit, Kind, MOVIE_SCALE, Piece, Written};
use crate::probe::{Rate, Size};
use crate::time::nanos_of;

/// The clock of pictures in clips from tiles: at least so many ticks a second, for the last picture to end where the clip does.
const LEAST_SCALE: u32 = 10_000;
/// Frames of sound before the first one that is heard, since each sounds together with the one before.
const SOUND_LEAD: i64 = 1;
/// The number of the frame of silence that the encoder puts in front of the first one.
const PRIMING_FRAME: i64 = -1;

impl Selected {
    /// The tracks of the clip; `None` if the tiles do not stand together.
    pub(super) fn tracks(&self, plan: &Plan, rate: Rate, size: Size) -> Option<Vec<Written>> {
        let presented = plan.end.since(plan.start);
        let video = self.shown(presented, rate, size)?;
        let heard = self.sound(plan, presented)?;
        Some(std::iter::once(video).chain(heard).collect())
    }

    fn shown(&self, presented: Duration, rate: Rate, size: Size) -> Option<Written> {
        let description = &self.tiles.first()?.video.description;
        if self.tiles.iter().any(|tile| tile.video.description != *description) {
            return None;
        }
        // A scale in which a picture's length is whole.
        let factor = LEAST_SCALE.div_ceil(rate.numerator());
        let scale = rate.numerator().checked_mul(factor)?;
        let length = rate.denominator().checked_mul(factor)?;
        let mut left = ticks(presented, scale)?;
        let count = self.pictures.len();
        let mut pieces = Vec::with_capacity(count);
        for (place, &(file, number)) in self.pictures.iter().enumerate() {
            // The last picture ends with the clip.
            let own = if place + 1 == count { left.clamp(1, length) } else { length };
            left = left.saturating_sub(own);
            pieces.push(Piece { file, sample: self.tiles[file].video.samples[number], length: own, later: 0 });
        }
        let shown: u64 = pieces.iter().map(|piece| u64::from(piece.length)).sum();
        let presented = u32::try_from(shown * u64::from(MOVIE_SCALE) / u64::from(scale)).ok()?;
        Some(Written {
            kind: Kind::Video,
            description: description.clone(),
            scale,
            width: u16::try_from(size.width).ok()?,
            height: u16::try_from(size.height).ok()?,
            pieces,
            edit: Some(Edit { skipped: 0, presented }),
        })
    }

    /// The frames of sound of the clip: no track where the video is silent, `None` if a frame is missing.
    fn sound(&self, plan: &Plan, presented: Duration) -> Option<Vec<Written>> {
        let silent = plan.tiles.iter().filter(|tile| tile.first_sound_frame.is_none()).count();
        if silent > 0 {
            return (silent == plan.tiles.len()).then(Vec::new);
        }
        let heard = sound_frames(plan.start.since_start(), plan.end.since_start());
        let first = (heard.start - SOUND_LEAD).max(PRIMING_FRAME);
        let mut pieces = Vec::new();
        let mut file = 0;
        for frame in first..heard.end {
            // A frame that lies across a border is taken from the tile before it.
            while file + 1 < plan.tiles.len() && frames_until(plan.tiles[file].end.since_start()) <= frame {
                file += 1;
            }
            let from = plan.tiles[file].first_sound_frame?;
            let samples = &self.tiles[file].audio.as_ref()?.samples;
            let sample = *samples.get(usize::try_from(frame - from).ok()?)?;
            pieces.push(Piece { file, sample, length: SOUND_FRAME, later: 0 });
        }
        let before = i64::from(ticks(plan.start.since_start(), SOUND_RATE)?) - first * i64::from(SOUND_FRAME);
        Some(vec![Written {
            kind: Kind::Audio,
            description: self.tiles.first()?.audio.as_ref()?.description.clone(),
            scale: SOUND_RATE,
            width: 0,
            height: 0,
            pieces,
            edit: Some(Edit { skipped: u32::try_from(before).ok()?, presented: ticks(presented, MOVIE_SCALE)? }),
        }])
    }
}

/// How many frames of sound, from time 0 on, begin before a moment.
fn frames_until(moment: Duration) -> i64 {
    sound_frames(Duration::ZERO, moment).end
}

/// A length in ticks of a clock, to the nearest; `None` if it is days long.
fn ticks(length: Duration, scale: u32) -> Option<u32> {
    let ticks = (nanos_of(length) * i128::from(scale) + 500_000_000).div_euclid(1_000_000_000);
    u32::try_from(ticks).ok()
}
