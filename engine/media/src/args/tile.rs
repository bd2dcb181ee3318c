//! One ffmpeg call that makes a tile, and the small one that encodes a few pictures of a tile anew.

use super::filters::{self, Target};
use super::{Inputs, Seek, inputs, words};
use crate::header::Video;
use crate::probe::{Rate, Size};
use crate::source::Opened;
use crate::thin::Thinned;
use crate::time::clock_seconds;

/// A tile to make.
#[derive(Clone, Debug)]
pub(crate) struct TileCut<'a> {
    pub(crate) opened: &'a Opened,
    pub(crate) video: &'a Video,
    pub(crate) seek: Seek,
    /// The picture on screen at the first step, in ticks.
    pub(crate) first: i64,
    /// The first tick that is on screen at no step.
    pub(crate) beyond: i64,
    /// The moment of the first step on the file's own clock, in nanoseconds; pictures that begin up to here count as being there.
    pub(crate) step_nanos: i128,
    pub(crate) steps: u64,
    pub(crate) sound: Option<TileSound>,
    pub(crate) look: Look,
    /// The pictures without those that are not needed, if they were sorted out.
    pub(crate) thinned: Option<&'a Thinned>,
    pub(crate) decoder_threads: usize,
    pub(crate) threads: usize,
    pub(crate) max_pixels: u64,
}

/// How the pictures of all tiles of a video are encoded: the same for each, so that they can stand in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) rate: Rate,
    pub(crate) size: Size,
    pub(crate) crf: u8,
    /// Pictures from one key frame to the next.
    pub(crate) key_distance: u64,
}

/// The sound of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileSound {
    pub(crate) index: u32,
    pub(crate) channels: u32,
    pub(crate) rate: u32,
    pub(crate) bit_rate: u64,
    /// Where it begins on the file's own clock, in nanoseconds.
    pub(crate) from_nanos: i128,
    pub(crate) samples: u64,
}

/// The name of a tile in the folder that ffmpeg runs in.
pub(crate) const TILE: &str = "tile.mp4";
/// The name of the pictures before the first key frame of a clip, encoded anew.
pub(crate) const HEAD: &str = "head.mp4";

pub(crate) fn args(cut: &TileCut<'_>) -> Vec<String> {
    let Inputs { mut args, pictures, sound } =
        inputs(cut.opened, cut.video, cut.seek, cut.thinned, cut.decoder_threads, cut.max_pixels);
    args.extend(words(&["-filter_complex", &graph(cut, &pictures, sound), "-map", "[shown]"]));
    if cut.sound.is_some() {
        args.extend(words(&["-map", "[heard]"]));
    }
    args.extend(encoder(cut.look, cut.threads));
    if let Some(sound) = &cut.sound {
        let channels = sound.channels.clamp(1, 2).to_string();
        args.extend(words(&["-c:a", "aac", "-b:a", &sound.bit_rate.to_string(), "-ac", &channels]));
    }
    args.extend(muxer(TILE));
    // The second output carries no picture data: a line with the time stamp for each source picture that came out of the decoder.
    let base = cut.video.timeline.base().to_string();
    args.extend(words(&["-map", "[stamps]", "-fps_mode", "passthrough", "-enc_time_base:v", &base]));
    args.extend(words(&["-c:v", "wrapped_avframe", "-f", "framecrc", "pipe:1"]));
    args
}

/// Encodes the pictures `skipped..` of a file of ours anew.
pub(crate) fn head(file: &str, skipped: u64, look: Look, threads: usize) -> Vec<String> {
    let Look { rate, .. } = look;
    let graph =
        format!("[0:v:0]trim=start_frame={skipped},settb={}/{},setpts=N[shown]", rate.denominator(), rate.numerator());
    let mut args = words(&["-hide_banner", "-nostdin", "-y", "-loglevel", "error", "-protocol_whitelist", "file,pipe"]);
    args.extend(words(&["-format_whitelist", "mov", "-f", "mov", "-i", &format!("file:{file}")]));
    args.extend(words(&["-filter_complex", &graph, "-map", "[shown]"]));
    args.extend(encoder(look, threads));
    args.extend(muxer(HEAD));
    args
}

fn encoder(look: Look, threads: usize) -> Vec<String> {
    let Look { rate, crf, key_distance, .. } = look;
    let mut args = words(&["-fps_mode", "passthrough", "-enc_time_base:v"]);
    args.push(format!("{}/{}", rate.denominator(), rate.numerator()));
    args.extend(words(&["-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-crf", &crf.to_string()]));
    // Pictures in the order of showing and key frames at a fixed distance: a clip may end anywhere, and begin at each key frame.
    let keys = format!("keyint={key_distance}:min-keyint={key_distance}:scenecut=0:bframes=0:open-gop=0");
    args.extend(words(&["-x264-params", &keys, "-r", &format!("{}/{}", rate.numerator(), rate.denominator())]));
    args.extend(words(&["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709"]));
    args.extend(words(&["-color_range", "tv", "-threads:v", &threads.to_string()]));
    args
}

fn muxer(name: &str) -> Vec<String> {
    // The bit rate of one tile in its description would make it another one than its neighbour's.
    words(&[
        "-map_metadata",
        "-1",
        "-map_chapters",
        "-1",
        "-write_btrt",
        "0",
        "-movflags",
        "+faststart",
        "-f",
        "mp4",
        name,
    ])
}

fn graph(cut: &TileCut<'_>, pictures: &str, sound: usize) -> String {
    let Look { rate, size, .. } = cut.look;
    let mut chain: Vec<String> = filters::clock(cut.video).into_iter().chain(filters::deinterlace(cut.video)).collect();
    chain.push(format!("trim=start_pts={}:end_pts={},split[once][stamps];[once]null", cut.first, cut.beyond));
    // In microseconds from the first step on. Rounding up gives each step the last picture that has begun by then; the picture that is on screen at
    // the first step may have begun long before it, and counts as beginning with it.
    let micros = cut.step_nanos.div_euclid(1000);
    chain.push(format!("settb=1/1000000,setpts=max(PTS-({micros})\\,0)"));
    // A filter that is told the end right behind its only picture gives none; the copy keeps it from that and is on screen at no earlier step.
    chain.push("tpad=stop=1:stop_mode=clone".to_owned());
    chain.push(format!("fps=fps={}/{}:round=up:start_time=0", rate.numerator(), rate.denominator()));
    chain.push("tpad=stop=-1:stop_mode=clone".to_owned());
    chain.push(format!("trim=end_frame={}", cut.steps));
    chain.push(filters::render(cut.video, size, Target::Clip));
    let shown = format!("{pictures}{}[shown]", chain.join(","));
    let heard = cut.sound.as_ref().map(|heard| {
        format!(
            "[{sound}:{}]asetpts=PTS-({})/TB,aresample={}:async=1000:first_pts=0,atrim=start_sample=0,apad,atrim=end_sample={}[heard]",
            heard.index,
            clock_seconds(heard.from_nanos),
            heard.rate,
            heard.samples
        )
    });
    [Some(shown), heard].into_iter().flatten().collect::<Vec<_>>().join(";")
}
