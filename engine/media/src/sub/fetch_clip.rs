//! `ambientctl media fetch-clip`

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::clip_data::{Told, clip_data};
use super::envelope::Failure;
use super::target::{Found, Target};
use super::upload::Upload;
use super::words::{megabytes, rate, seconds};
use crate::clip::{ClipSpec, DEFAULT_CRF};

/// The longest clip. A longer window is cut at its end, and the answer says so.
const LONGEST: Duration = Duration::from_mins(10);

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ambientctl media fetch-clip --source-path film.mp4 --start 60 --end 90 --max-dim 768 --max-size-mb 8\n  \
    ambientctl media fetch-clip --video-id vid_0123456789abcdef --start 60 --end 90 --fps 0\n\n\
    The second one keeps all pictures at their own times. A clip is 600 s long at most.";

/// What `fetch-clip` takes.
#[derive(clap::Args, Debug)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Where the clip begins, in seconds
    #[arg(long)]
    start: f64,

    /// Where the clip ends, in seconds
    #[arg(long)]
    end: f64,

    /// Pictures a second; 0 keeps the video's own
    #[arg(long, default_value_t = 5.0)]
    fps: f64,

    /// The quality of x264, from 0 (best) to 51
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=51))]
    crf: Option<u8>,

    /// The longest side, in pixels
    #[arg(long, value_name = "PIXELS")]
    max_dim: Option<u32>,

    /// The largest file, in megabytes of 1024 x 1024 bytes
    #[arg(long, value_name = "MEGABYTES")]
    max_size_mb: Option<f64>,

    #[command(flatten)]
    upload: Upload,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    let fps = if args.fps == 0.0 { None } else { Some(rate(args.fps)?) };
    let start = seconds("--start", args.start)?;
    let asked_end = seconds("--end", args.end)?;
    let spec = ClipSpec {
        start,
        end: asked_end.min(start.plus(LONGEST)),
        fps,
        max_dim: args.max_dim,
        max_size_bytes: args.max_size_mb.map(|size| megabytes("--max-size-mb", size)).transpose()?,
        crf: args.crf,
    };
    let outbox = args.upload.outbox(around)?;
    let Found { video_id, label, source, media } = args.target.find(around, "clips", stop).await?;
    let clip = media.clip(&source, &spec, stop).await?;
    let length = clip.end.since(clip.start).as_secs_f64();
    let id = format!("{label}_clip_{}_{length:.3}secs", clip.start);
    // Clips of one window differ by their quality.
    let crf = args.crf.unwrap_or(DEFAULT_CRF);
    let object = format!("{}x{}_fps{}_crf{crf}", clip.width, clip.height, args.fps);
    let is_cut = spec.end < asked_end;
    let told = Told { id: &id, folder: &label, object: &object, video_id: video_id.as_deref(), is_cut };
    clip_data(told, &clip, outbox, stop).await
}
