//! `ambientctl media ensure-source`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::bring;
use super::envelope::Failure;
use super::target::check_id;
use crate::error::MediaError;

pub(super) const EXAMPLES: &str = "Example:\n  ambientctl media ensure-source --video-id vid_0123456789abcdef\n\n\
    A video that is only in the bucket is fetched, once. The answer's `source_file_path` is the whole video on this disk, for programs of your own.";

/// What `ensure-source` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The id of the video
    #[arg(long, value_name = "ID")]
    video_id: String,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    check_id(&args.video_id)?;
    let (path, downloaded) = bring(around, &args.video_id, stop).await?;
    let facts = fs_err::tokio::metadata(&path).await.map_err(MediaError::file("look at the source"))?;
    Ok(json!({
        "video_id": args.video_id,
        "source_file_path": path,
        "size_bytes": facts.len(),
        "downloaded": downloaded,
    }))
}
