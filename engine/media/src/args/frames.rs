//! One ffmpeg call that writes chosen pictures as files, each named by its own time stamp.

use super::filters::{self, Target};
use super::{Seek, input, thinned_alone, words};
use crate::header::Video;
use crate::probe::Size;
use crate::source::Opened;
use crate::thin::Thinned;

/// How a picture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// ffmpeg's quality scale for JPEG: 2 is best, 31 is smallest.
    Jpeg { scale: u8 },
    /// Without loss, for pictures that are drawn on next.
    Png,
}

impl Format {
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Jpeg { .. } => "jpg",
            Self::Png => "png",
        }
    }
}

/// The pictures to write. Invariant: `ticks` is not empty, ascends and has no doubles.
#[derive(Debug)]
pub(crate) struct Shots<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) video: &'a Video,
    pub(crate) ticks: &'a [i64],
    pub(crate) seek: Seek,
    /// The pictures without those that are not needed, if they were sorted out; the source is not read then.
    pub(crate) thinned: Option<&'a Thinned>,
    pub(crate) size: Size,
    pub(crate) format: Format,
    pub(crate) threads: usize,
    pub(crate) max_pixels: u64,
}

/// The file that the picture at `tick` is written to; counted from the first asked one, so that no name is negative.
pub(crate) fn file_name(shots: &Shots<'_>, tick: i64) -> String {
    format!("frame-{}.{}", tick - shots.ticks[0], shots.format.suffix())
}

pub(crate) fn args(shots: &Shots<'_>) -> Vec<String> {
    let Shots { opened, video, ticks, seek, thinned, size, format, threads, max_pixels } = shots;
    let base = video.timeline.base();
    let (target, codec) = match format {
        Format::Jpeg { scale } => (Target::Jpeg, words(&["-c:v", "mjpeg", "-q:v", &scale.to_string()])),
        Format::Png => (Target::Png, words(&["-c:v", "png", "-compression_level", "1"])),
    };
    let wanted: Vec<String> = ticks.iter().map(|tick| format!("eq(pts\\,{tick})")).collect();
    let chain: Vec<String> = filters::clock(video)
        .into_iter()
        .chain(filters::deinterlace(video))
        .chain([
            format!("select={}", wanted.join("+")),
            format!("setpts=PTS-{}", signed(ticks[0])),
            filters::render(video, *size, target),
        ])
        .collect();

    let (mut args, pictures) = match thinned {
        Some(thinned) => thinned_alone(thinned, *threads, *max_pixels),
        None => (input(opened, &video.clock, *seek, *threads, *max_pixels), format!("[0:{}]", video.index)),
    };
    args.extend(words(&["-filter_complex", &format!("{pictures}{}[shown]", chain.join(","))]));
    args.extend(words(&["-map", "[shown]", "-fps_mode", "passthrough", "-enc_time_base", &base.to_string()]));
    args.extend(codec);
    args.extend(words(&[
        "-frames:v",
        &ticks.len().to_string(),
        "-f",
        "image2",
        "-frame_pts",
        "1",
        &format!("frame-%d.{}", format.suffix()),
    ]));
    args
}

/// A number that may follow a minus in a filter expression.
pub(super) fn signed(tick: i64) -> String {
    format!("({tick})")
}
