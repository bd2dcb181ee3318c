//! `ambientctl media transcode-tiles`

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::bucket::locate;
use super::envelope::Failure;
use super::target::check_id;
use super::tiles::{media, store};
use super::words::rate;
use super::{Listener, Progress, Surroundings};
use crate::tiles::TilesSpec;

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ambientctl media transcode-tiles --video-id vid_0123456789abcdef\n  \
    ambientctl media transcode-tiles --video-id vid_0123456789abcdef --tile-seconds 30 --fps 1 --workers 2\n\n\
    Tiles go to the bucket, or without one to `VIDEO_FOLDER/<id>/tiles`. Those that are there already are not made again, so a call that was\n\
    broken off is simply made again. The answer is the manifest.";

/// What `transcode-tiles` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The id of the video
    #[arg(long, value_name = "ID")]
    video_id: String,

    /// The length of a tile; `TILE_SECONDS` unless given
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    tile_seconds: Option<u64>,

    /// Pictures a second; `TILE_FPS` unless given
    #[arg(long)]
    fps: Option<f64>,

    /// The longest side, in pixels; `TILE_MAX_DIM` unless given
    #[arg(long, value_name = "PIXELS")]
    max_dim: Option<u32>,

    /// How many tiles are made at once; `TILE_WORKERS` unless given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,

    /// Insists on a bucket; with one, tiles go there in any case
    #[arg(long)]
    upload_s3: bool,
}

pub(super) async fn run(
    args: Args,
    around: &Surroundings,
    progress: Listener<'_>,
    stop: &CancellationToken,
) -> Result<Value, Failure> {
    check_id(&args.video_id)?;
    if args.upload_s3 {
        super::bucket::store(around)?;
    }
    let defaults = &around.tiles;
    let spec = TilesSpec {
        video_id: args.video_id.clone(),
        fps: rate(args.fps.unwrap_or(defaults.fps))?,
        max_dim: args.max_dim.unwrap_or(defaults.max_dimension),
        tile_seconds: args.tile_seconds.unwrap_or(defaults.length.as_secs()),
        workers: args.workers.map_or(defaults.workers.get(), usize::from),
    };
    let source = locate(around, &args.video_id, stop).await?;
    let store = store(around, &args.video_id);
    let told = |done| progress(Progress::Tiles(done));
    let manifest = media(around, &args.video_id, "tiles")?.make_tiles(&source, &spec, &*store, &told, stop).await?;
    serde_json::to_value(&manifest).map_err(|error| Failure::new("Internal", error.to_string()))
}
