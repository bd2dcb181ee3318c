//! Calls of ffprobe: what streams there are, and when their packets or pictures come.

use super::{guarded, words};
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

/// Streams and container as JSON.
pub(crate) fn streams(opened: &Opened, max_pixels: u64) -> Vec<String> {
    let mut args = words(&["-hide_banner", "-loglevel", "error", "-max_pixels", &max_pixels.to_string()]);
    args.extend(guarded(opened));
    args.extend(words(&["-of", "json", "-show_format", "-show_streams", &opened.argument()]));
    args
}

/// One line a packet: stream, presentation time, decoding time, length, flags. Nothing is decoded.
pub(crate) fn packets(opened: &Opened, stream: Option<u32>, stretch: Stretch) -> Vec<String> {
    listing(opened, stream, stretch, "packet=stream_index,pts,dts,duration,flags")
}

/// One line a picture: key frame or not, time, length. Decodes, for streams whose packets carry no presentation time.
pub(crate) fn pictures(opened: &Opened, stream: u32, stretch: Stretch) -> Vec<String> {
    listing(opened, Some(stream), stretch, "frame=key_frame,best_effort_timestamp,pkt_duration")
}

fn listing(opened: &Opened, stream: Option<u32>, stretch: Stretch, entries: &str) -> Vec<String> {
    let mut args = words(&["-hide_banner", "-loglevel", "error"]);
    args.extend(guarded(opened));
    if let Some(index) = stream {
        args.extend(words(&["-select_streams", &index.to_string()]));
    }
    if stretch != Stretch::WHOLE {
        args.extend(words(&["-read_intervals", &stretch.text()]));
    }
    args.extend(words(&["-of", "csv=p=0", "-show_entries", entries, &opened.argument()]));
    args
}
