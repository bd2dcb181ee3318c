//! `ambientctl media extract-frames`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Places;
use super::envelope::Failure;
use super::target::{Found, Target};
use crate::config::MediaConfig;
use crate::frames::{FramesSpec, MOST_FRAMES, Pick};
use crate::probe::Rate;
use crate::time::MediaTime;

/// What `extract-frames` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Pictures a second.
    #[arg(long, default_value_t = 1.0)]
    fps: f64,

    /// Where the window begins, in seconds.
    #[arg(long, default_value_t = 0.0)]
    start: f64,

    /// Where the window ends, in seconds; the end of the pictures if left out. The same as --start gives the one picture there.
    #[arg(long)]
    end: Option<f64>,

    /// The most pictures; they spread further apart where there would be more.
    #[arg(long)]
    max_frames: Option<usize>,

    /// The longest side, in pixels.
    #[arg(long)]
    max_dim: Option<u32>,

    /// JPEG quality from 1 to 100.
    #[arg(long, default_value_t = 85)]
    jpeg_quality: u8,
}

pub(super) async fn run(
    args: Args, config: MediaConfig, places: &Places, stop: &CancellationToken,
) -> Result<Value, Failure> {
    let fps = Rate::from_f64(args.fps).ok_or_else(|| bad_rate(args.fps))?;
    let start = seconds(args.start)?;
    let Found { video_id, label, source, media } = args.target.find(config, places).await?;
    let end = match args.end {
        Some(end) => seconds(end)?,
        None => media.facts(&source, stop).await?.end.max(start),
    };
    let pick = Pick::Window { start, end, fps, max_frames: args.max_frames.unwrap_or(MOST_FRAMES) };
    let spec = FramesSpec { pick, max_dim: args.max_dim, jpeg_quality: args.jpeg_quality };
    let answer = media.frames(&source, &spec, stop).await?;
    let frames: Vec<Value> = answer
        .frames
        .iter()
        .map(|frame| {
            json!({
                "id": format!("{label}_fps{}_t{}", args.fps, frame.timestamp),
                "video_id": video_id,
                "timestamp": frame.timestamp,
                "asked": frame.asked,
                "clamped": frame.clamped,
                "frame_file_path": frame.path,
                "frame_url": null,
                "size_bytes": frame.size_bytes,
            })
        })
        .collect();
    Ok(json!({
        "frames": frames,
        "duration": answer.duration,
        "width": answer.size.width,
        "height": answer.size.height,
        "missing": answer.missing,
    }))
}

pub(super) fn seconds(value: f64) -> Result<MediaTime, Failure> {
    MediaTime::from_secs_f64(value).map_err(|error| Failure::new("BadRequest", error.to_string()))
}

pub(super) fn bad_rate(value: f64) -> Failure {
    Failure::new("BadRequest", format!("`{value}` is no rate: accepted are 0.001 to 1000 pictures a second"))
}
