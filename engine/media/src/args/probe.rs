//! Calls that look and make nothing: what streams there are, and when their packets or pictures come.

use super::{Seek, generated, guarded, input, words};
use crate::header::{Clock, Video};
use crate::source::Opened;
use crate::time::clock_seconds;

/// A stretch of the file's own clock, in nanoseconds; `None` is its beginning or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) from: Option<i128>,
    pub(crate) to: Option<i128>,
}

impl Stretch {
    pub(crate) const WHOLE: Self = Self { from: None, to: None };

    fn text(self) -> String {
        let seconds = |nanos: Option<i128>| nanos.map(clock_seconds).unwrap_or_default();
        format!("{}%{}", seconds(self.from), seconds(self.to))
    }
}

/// Streams and container as JSON, and `with_packets` the times of all packets.
pub(crate) fn streams(opened: &Opened, max_pixels: u64, with_packets: bool) -> Vec<String> {
    let mut args = words(&["-hide_banner", "-loglevel", "error", "-max_pixels", &max_pixels.to_string()]);
    args.extend(guarded(opened));
    args.extend(words(&["-of", "json=c=1", "-show_format", "-show_streams"]));
    if with_packets {
        args.extend(words(&["-show_entries", PACKET_ENTRIES]));
    }
    args.push(opened.argument());
    args
}

const PACKET_ENTRIES: &str = "packet=stream_index,pts,dts,duration,size,pos,flags";

/// One line a packet of each of the stretches: stream, presentation time, decoding time, length, size, place, flags. Nothing is decoded.
pub(crate) fn packets(opened: &Opened, clock: &Clock, stream: Option<u32>, stretches: &[Stretch]) -> Vec<String> {
    let mut args = words(&["-hide_banner", "-loglevel", "error"]);
    args.extend(guarded(opened));
    args.extend(generated(clock));
    if let Some(index) = stream {
        args.extend(words(&["-select_streams", &index.to_string()]));
    }
    if !stretches.contains(&Stretch::WHOLE) {
        let intervals: Vec<String> = stretches.iter().map(|stretch| stretch.text()).collect();
        args.extend(words(&["-read_intervals", &intervals.join(",")]));
    }
    args.extend(words(&["-of", "csv=p=0", "-show_entries", PACKET_ENTRIES, &opened.argument()]));
    args
}

/// An ffmpeg call that decodes the whole file and prints a line a picture, for streams whose packets do not tell when they are shown: there only
/// the order in which the decoder gives them counts.
pub(crate) fn decoded(opened: &Opened, video: &Video, threads: usize, max_pixels: u64) -> Vec<String> {
    let base = video.timeline.base();
    let mut args = input(opened, &video.clock, Seek::Beginning, threads, max_pixels);
    args.extend(words(&["-filter_complex", &format!("[0:{}]null[stamps]", video.index), "-map", "[stamps]"]));
    args.extend(words(&["-fps_mode", "passthrough", "-enc_time_base", &base.to_string()]));
    args.extend(words(&["-c:v", "wrapped_avframe", "-f", "framecrc", "pipe:1"]));
    args
}
