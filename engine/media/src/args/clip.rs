//! One ffmpeg call that makes a clip, and at the same time prints the time stamp of each source picture that went in.

use std::time::Duration;

use super::filters::{self, Target};
use super::frames::signed;
use super::{Inputs, Seek, inputs, words};
use crate::header::Video;
use crate::probe::{Rate, Size};
use crate::source::Opened;
use crate::thin::Thinned;
use crate::time::clock_seconds;

/// Which source pictures a clip shows, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pictures {
    /// All of them, at their own times.
    Own,
    /// The one shown at each step of a rate, counted from the first picture; `count` steps.
    Sampled { rate: Rate, count: u64 },
    /// One picture for the whole length, since no other begins inside; `count` steps of a rate.
    Held { rate: Rate, count: u64 },
}

/// What to encode.
#[derive(Debug)]
pub(crate) struct Cut<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) video: &'a Video,
    pub(crate) seek: Seek,
    /// The first source picture, in ticks.
    pub(crate) first: i64,
    /// The first tick that is no longer shown.
    pub(crate) beyond: i64,
    pub(crate) pictures: Pictures,
    pub(crate) size: Size,
    pub(crate) sound: Option<Sound>,
    pub(crate) crf: u8,
    /// The most that pictures may take, in bits a second.
    pub(crate) max_bit_rate: Option<u64>,
    /// The pictures without those that are not needed, if they were sorted out.
    pub(crate) thinned: Option<&'a Thinned>,
    pub(crate) decoder_threads: usize,
    pub(crate) threads: usize,
    pub(crate) max_pixels: u64,
}

/// The sound of a clip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sound {
    pub(crate) index: u32,
    pub(crate) channels: u32,
    pub(crate) bit_rate: u64,
    /// The moments of the file's own clock between which it is heard, in nanoseconds.
    pub(crate) from_nanos: i128,
    pub(crate) length: Duration,
}

/// The name of the clip in the folder that ffmpeg runs in.
pub(crate) const OUTPUT: &str = "clip.mp4";

pub(crate) fn args(cut: &Cut<'_>) -> Vec<String> {
    let base = cut.video.timeline.base();
    let Inputs { mut args, pictures, sound } =
        inputs(cut.opened, cut.video, cut.seek, cut.thinned, cut.decoder_threads, cut.max_pixels);
    args.extend(words(&["-filter_complex", &graph(cut, &pictures, sound)]));

    args.extend(words(&["-map", "[shown]"]));
    if cut.sound.is_some() {
        args.extend(words(&["-map", "[heard]"]));
    }
    args.extend(words(&["-fps_mode", "passthrough", "-enc_time_base:v"]));
    args.push(match cut.pictures {
        Pictures::Own => base.to_string(),
        Pictures::Sampled { rate, .. } | Pictures::Held { rate, .. } => {
            format!("{}/{}", rate.denominator(), rate.numerator())
        }
    });
    args.extend(words(&[
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-pix_fmt",
        "yuv420p",
        "-crf",
        &cut.crf.to_string(),
    ]));
    if let Some(bit_rate) = cut.max_bit_rate {
        args.extend(words(&["-maxrate", &bit_rate.to_string(), "-bufsize", &bit_rate.to_string()]));
    }
    args.extend(words(&[
        "-colorspace",
        "bt709",
        "-color_primaries",
        "bt709",
        "-color_trc",
        "bt709",
        "-color_range",
        "tv",
    ]));
    args.extend(words(&["-threads:v", &cut.threads.to_string()]));
    if let Some(sound) = &cut.sound {
        args.extend(words(&[
            "-c:a",
            "aac",
            "-b:a",
            &sound.bit_rate.to_string(),
            "-ac",
            &sound.channels.min(2).to_string(),
        ]));
    }
    args.extend(words(&["-map_metadata", "-1", "-map_chapters", "-1", "-movflags", "+faststart", "-f", "mp4", OUTPUT]));

    // The second output carries no picture data: a line with the time stamp for each source picture that reached the clip.
    args.extend(words(&["-map", "[stamps]", "-fps_mode", "passthrough", "-enc_time_base:v", &base.to_string()]));
    args.extend(words(&["-c:v", "wrapped_avframe", "-f", "framecrc", "pipe:1"]));
    args
}

fn graph(cut: &Cut<'_>, pictures: &str, sound: usize) -> String {
    let mut chain: Vec<String> = filters::clock(cut.video).into_iter().chain(filters::deinterlace(cut.video)).collect();
    chain.push(format!("trim=start_pts={}:end_pts={}", cut.first, cut.beyond));
    chain.push(format!("setpts=PTS-{}", signed(cut.first)));
    let mut shown = Vec::new();
    match cut.pictures {
        Pictures::Own => {}
        Pictures::Sampled { rate, count } => {
            // Rounding up gives each step the last picture that has begun by then, which is the one on screen. The padding repeats
            // the last picture up to the end that `count` sets.
            shown.push(format!("fps=fps={}/{}:round=up", rate.numerator(), rate.denominator()));
            shown.push("tpad=stop=-1:stop_mode=clone".to_owned());
            shown.push(format!("trim=end_frame={count}"));
        }
        Pictures::Held { rate, count } => {
            shown.push(format!("loop=loop={}:size=1:start=0", count.saturating_sub(1)));
            shown.push(format!("settb={}/{},setpts=N", rate.denominator(), rate.numerator()));
        }
    }
    shown.push(filters::render(cut.video, cut.size, Target::Clip));

    let pictures = format!("{pictures}{},split[once][stamps];[once]{}[shown]", chain.join(","), shown.join(","));
    // Sound that starts late or has holes is filled with silence, so that it stays with the pictures.
    let heard = cut.sound.as_ref().map(|heard| {
        let from = clock_seconds(heard.from_nanos);
        let length = heard.length.as_secs_f64();
        format!(
            "[{sound}:{}]asetpts=PTS-({from})/TB,atrim=start=0:end={length:.6},aresample=async=1000:first_pts=0[heard]",
            heard.index
        )
    });
    [Some(pictures), heard].into_iter().flatten().collect::<Vec<_>>().join(";")
}
