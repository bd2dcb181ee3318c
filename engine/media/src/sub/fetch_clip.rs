//! `ambientctl media fetch-clip`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Places;
use super::envelope::Failure;
use super::extract_frames::{bad_rate, seconds};
use super::target::{Found, Target};
use crate::clip::ClipSpec;
use crate::config::MediaConfig;
use crate::probe::Rate;

/// What `fetch-clip` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Where the clip begins, in seconds.
    #[arg(long)]
    start: f64,

    /// Where the clip ends, in seconds.
    #[arg(long)]
    end: f64,

    /// Pictures a second; 0 keeps the video's own.
    #[arg(long, default_value_t = 5.0)]
    fps: f64,

    /// x264's quality from 0 (best) to 51.
    #[arg(long)]
    crf: Option<u8>,

    /// The longest side, in pixels.
    #[arg(long)]
    max_dim: Option<u32>,

    /// The largest file, in megabytes.
    #[arg(long)]
    max_size_mb: Option<f64>,
}

pub(super) async fn run(
    args: Args, config: MediaConfig, places: &Places, stop: &CancellationToken,
) -> Result<Value, Failure> {
    let fps = match args.fps {
        0.0 => None,
        rate => Some(Rate::from_f64(rate).ok_or_else(|| bad_rate(rate))?),
    };
    let spec = ClipSpec {
        start: seconds(args.start)?,
        end: seconds(args.end)?,
        fps,
        max_dim: args.max_dim,
        max_size_bytes: args.max_size_mb.map(bytes).transpose()?,
        crf: args.crf,
    };
    let Found { video_id, label, source, media } = args.target.find(config, places).await?;
    let clip = media.clip(&source, &spec, stop).await?;
    let length = clip.end.since(clip.start).as_secs_f64();
    Ok(json!({
        "clip": {
            "id": format!("{label}_clip_{}_{length:.3}secs", clip.start),
            "video_id": video_id,
            "start_time": clip.start,
            "end_time": clip.end,
            "clip_file_path": clip.path,
            "clip_url": null,
            "size_bytes": clip.size_bytes,
            "width": clip.width,
            "height": clip.height,
            "has_audio": clip.has_audio,
            "clamped": clip.clamped,
            "held": clip.held,
            "source_pictures": clip.source_pictures,
        }
    }))
}

fn bytes(megabytes: f64) -> Result<u64, Failure> {
    if !(megabytes > 0.0 && megabytes < 1e6) {
        return Err(Failure::new("BadRequest", format!("`{megabytes}` megabytes is no size for a clip")));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 10^12 by the check above")]
    Ok((megabytes * 1024.0 * 1024.0) as u64)
}
