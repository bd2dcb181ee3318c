//! `ambientctl media extract-frames`

use futures::stream::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::{MADE_BY, Sent};
use super::envelope::Failure;
use super::target::{Found, Target};
use super::upload::Upload;
use super::words::{rate, seconds};
use crate::frames::{Frame, FramesSpec, MOST_FRAMES, Pick};
use crate::objects::{About, ObjectKey};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ambientctl media extract-frames --source-path film.mp4 --start 60 --end 120 --fps 0.5 --max-dim 768\n  \
    ambientctl media extract-frames --video-id vid_0123456789abcdef --start 61.5 --end 61.5 --max-frames 1\n\n\
    The second one gives the picture that is on screen at 61.5 s. `timestamp` is when a picture really begins.";

/// The bucket's own limit on uploads is lower or equal; more at once would only wait there.
const SENT_AT_ONCE: usize = 16;
pub(super) const JPEG: &str = "image/jpeg";

/// What `extract-frames` takes.
#[derive(clap::Args, Debug)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// Pictures a second
    #[arg(long, default_value_t = 1.0)]
    fps: f64,

    /// Where the window begins, in seconds
    #[arg(long, default_value_t = 0.0)]
    start: f64,

    /// Where the window ends, in seconds; where the pictures end if left out. The same as --start gives the one picture there
    #[arg(long)]
    end: Option<f64>,

    /// The most pictures; they spread further apart where there would be more
    #[arg(long, value_name = "COUNT")]
    max_frames: Option<usize>,

    /// The longest side, in pixels
    #[arg(long, value_name = "PIXELS")]
    max_dim: Option<u32>,

    /// JPEG quality from 1 to 100
    #[arg(long, value_name = "QUALITY", default_value_t = 85, value_parser = clap::value_parser!(u8).range(1..=100))]
    jpeg_quality: u8,

    #[command(flatten)]
    upload: Upload,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    let fps = rate(args.fps)?;
    let start = seconds("--start", args.start)?;
    let end = args.end.map(|end| seconds("--end", end)).transpose()?;
    let outbox = args.upload.outbox(around)?;
    let Found { video_id, label, source, media } = args.target.find(around, "frames", stop).await?;
    let end = match end {
        Some(end) => end,
        None => media.facts(&source, stop).await?.end.max(start),
    };
    // A window that no budget is given for may not ask for more than one request can hold.
    let pick = Pick::Window { start, end, fps, max_frames: args.max_frames.unwrap_or(MOST_FRAMES).min(MOST_FRAMES) };
    let spec = FramesSpec { pick, max_dim: args.max_dim, jpeg_quality: args.jpeg_quality };
    let answer = media.frames(&source, &spec, stop).await?;
    let id = |frame: &Frame| format!("{label}_fps{}_t{}", args.fps, frame.timestamp);
    let mut urls = vec![None; answer.frames.len()];
    if let Some(outbox) = outbox {
        // The same moment in another size is another object.
        let look = format!("{}_q{}", answer.size, args.jpeg_quality);
        let sends = answer.frames.iter().map(|frame| {
            let key = ObjectKey::frame(&label, &format!("{}_{look}", id(frame)), "jpg");
            let outbox = &outbox;
            async move { outbox.send(&key, &frame.path, &About::new(JPEG, MADE_BY), stop).await }
        });
        let sent: Vec<Sent> = futures::stream::iter(sends).buffered(SENT_AT_ONCE).try_collect().await?;
        urls = sent.into_iter().map(|sent| Some(sent.url)).collect();
    }
    let frames: Vec<Value> = answer
        .frames
        .iter()
        .zip(urls)
        .map(|(frame, url)| {
            json!({
                "id": id(frame),
                "video_id": video_id,
                "timestamp": frame.timestamp,
                "asked": frame.asked,
                "clamped": frame.clamped,
                "frame_file_path": frame.path,
                "frame_url": url,
                "size_bytes": frame.size_bytes,
            })
        })
        .collect();
    Ok(json!({
        "frames": frames,
        "duration": answer.duration,
        "start": answer.frames.first().map(|frame| frame.timestamp),
        "end": answer.frames.last().map(|frame| frame.timestamp),
        "clamped": end > answer.duration || answer.frames.iter().any(|frame| frame.clamped),
        "width": answer.size.width,
        "height": answer.size.height,
        "missing": answer.missing,
    }))
}
