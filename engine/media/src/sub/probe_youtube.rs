//! `ambientctl media probe-youtube`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::envelope::Failure;
use super::target::check_id;
use crate::media::Media;
use crate::youtube::{Youtube, YoutubeInfo};

pub(super) const EXAMPLES: &str = "Example:\n  \
    ambientctl media probe-youtube --video-id vid_0123456789abcdef --url https://www.youtube.com/watch?v=dQw4w9WgXcQ\n\n\
    Nothing is fetched. A video that would not be fetched (live, a playlist, over a `YOUTUBE_MAX_…` limit) is an error.";

/// What `probe-youtube` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The id that the video has here
    #[arg(long, value_name = "ID")]
    video_id: String,

    /// The video's page
    #[arg(long)]
    url: String,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    check_id(&args.video_id)?;
    let youtube = youtube(around);
    let extraction = youtube.extract(&args.url, stop).await?;
    let YoutubeInfo { id: _, title, duration_seconds, width, height, webpage_url, extractor, format_id, size_bytes } =
        extraction.info();
    Ok(json!({
        "video_id": args.video_id,
        "title": title,
        "duration": duration_seconds,
        "width": width,
        "height": height,
        "webpage_url": webpage_url,
        "extractor": extractor,
        "format_id": format_id,
        "size_bytes": size_bytes,
    }))
}

/// Works in a hidden folder beside the videos, so that a finished download is renamed and not copied.
pub(super) fn youtube(around: &Surroundings) -> Youtube {
    let work_folder = around.video_folder.join(".work");
    let mut media = around.media.clone();
    media.work_folder.clone_from(&work_folder);
    let mut config = around.youtube.clone();
    config.work_folder = work_folder;
    Youtube::new(config, Media::new(media))
}
