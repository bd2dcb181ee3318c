//! Putting the streams of a video into an MP4 whose index comes first, without touching a picture.

use super::{Seek, input, words};
use crate::header::Clock;
use crate::source::Opened;

/// What the MP4 is called, in the working folder.
pub(crate) const OUTPUT: &str = "remuxed.mp4";

/// Pictures and sound as they are.
pub(crate) fn args(opened: &Opened, video: u32, max_pixels: u64) -> Vec<String> {
    let mut args = input(opened, &Clock::Stored, Seek::Beginning, 1, max_pixels);
    args.extend(words(&["-map", &format!("0:{video}"), "-map", "0:a?", "-c", "copy"]));
    args.extend(words(&["-movflags", "+faststart", "-avoid_negative_ts", "make_zero", "-f", "mp4", OUTPUT]));
    args
}
