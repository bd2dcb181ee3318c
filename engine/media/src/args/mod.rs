//! Argument lists of every program call, made by pure functions. Nothing here starts anything.

pub(crate) mod clip;
pub(crate) mod filters;
pub(crate) mod frames;
pub(crate) mod probe;
pub(crate) mod remux;
pub(crate) mod tile;
pub(crate) mod youtube;

use crate::header::{Clock, Video};
use crate::source::Opened;
use crate::thin::{THINNED, Thinned};
use crate::time::clock_seconds;

/// What ffmpeg steps back before a seek by decoding time when pictures are reordered (3/23 s in its source, in whole microseconds).
/// Adding it back makes the seek land on the key frame that was meant and not on the one before.
pub(crate) const DECODE_LEAD_NANOS: i128 = 130_434_000;

/// Where decoding begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seek {
    /// At the first byte.
    Beginning,
    /// At the last key frame before that moment of the file's own clock, in nanoseconds.
    To(i128),
}

/// What guards a file of a stranger, in front of each `-i`: one demuxer, chosen by us, that reaches what it needs to read the source and nothing
/// else.
pub(crate) fn guarded(opened: &Opened) -> Vec<String> {
    let demuxer = opened.container.demuxer();
    words(&["-protocol_whitelist", opened.protocols(), "-format_whitelist", demuxer, "-f", demuxer])
}

/// Lets the demuxer fill in presentation times that the container does not store, where its parser knows the order of the pictures.
pub(crate) fn generated(clock: &Clock) -> Vec<String> {
    if matches!(clock, Clock::Generated) { words(&["-fflags", "+genpts"]) } else { Vec::new() }
}

/// The start of every ffmpeg call on a source: the file from `seek` on, with its own time stamps.
pub(crate) fn input(opened: &Opened, clock: &Clock, seek: Seek, threads: usize, max_pixels: u64) -> Vec<String> {
    let mut args = head();
    args.extend(decoder(threads, max_pixels));
    args.extend(guarded(opened));
    args.extend(generated(clock));
    if let Seek::To(nanos) = seek {
        args.extend(words(&["-noaccurate_seek", "-seek_timestamp", "1", "-ss", &clock_seconds(nanos)]));
    }
    args.extend(words(&["-copyts", "-i", &opened.argument()]));
    args
}

/// The start of a call that reads nothing but what was thinned out, and what begins the chain of its pictures.
pub(crate) fn thinned_alone(thinned: &Thinned, threads: usize, max_pixels: u64) -> (Vec<String>, String) {
    let mut args = head();
    args.push("-copyts".to_owned());
    args.extend(thinned_input(threads, max_pixels));
    (args, with_times_of_source("[0:0]", thinned))
}

fn head() -> Vec<String> {
    words(&["-hide_banner", "-nostdin", "-y", "-loglevel", "error", "-max_error_rate", "1"])
}

fn decoder(threads: usize, max_pixels: u64) -> [String; 4] {
    ["-threads".to_owned(), threads.to_string(), "-max_pixels".to_owned(), max_pixels.to_string()]
}

fn thinned_input(threads: usize, max_pixels: u64) -> Vec<String> {
    let mut args = decoder(threads, max_pixels).to_vec();
    args.extend(words(&["-protocol_whitelist", "file,pipe", "-format_whitelist", "mov", "-f", "mov"]));
    args.extend(words(&["-i", &format!("file:{THINNED}")]));
    args
}

fn with_times_of_source(stream: &str, thinned: &Thinned) -> String {
    format!("{stream}setpts=PTS+({}),", thinned.later_by)
}

/// Where the streams of a call come from.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) args: Vec<String>,
    /// What begins the chain of the pictures: its stream, and what gives them the times of the source.
    pub(crate) pictures: String,
    /// The number of the input with the sound.
    pub(crate) sound: usize,
}

/// The start of a call that takes the pictures from what was thinned out if that was done, and the sound from the source in any case.
pub(crate) fn inputs(
    opened: &Opened,
    video: &Video,
    seek: Seek,
    thinned: Option<&Thinned>,
    threads: usize,
    max_pixels: u64,
) -> Inputs {
    let mut args = input(opened, &video.clock, seek, threads, max_pixels);
    let Some(thinned) = thinned else {
        return Inputs { args, pictures: format!("[0:{}]", video.index), sound: 0 };
    };
    args.extend(thinned_input(threads, max_pixels));
    Inputs { args, pictures: with_times_of_source("[1:0]", thinned), sound: 0 }
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
