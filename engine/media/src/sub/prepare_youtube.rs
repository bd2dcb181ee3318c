//! `ambientctl media prepare-youtube`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bucket::{MADE_BY, content_type};
use super::envelope::Failure;
use super::probe_youtube::youtube;
use super::progress::Progress;
use super::target::check_id;
use super::upload::Upload;
use super::{Listener, Surroundings};
use crate::error::MediaError;
use crate::objects::About;

pub(super) const EXAMPLES: &str = "Example:\n  \
    ambientctl media prepare-youtube --video-id vid_0123456789abcdef --url https://www.youtube.com/watch?v=dQw4w9WgXcQ\n\n\
    The page is looked at once, and the limits of the `YOUTUBE_MAX_…` settings are checked before anything is fetched.\n\
    Progress goes to stderr, a line `AMBIENT_PROGRESS {…}` each.";

/// What `prepare-youtube` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The id that the video gets here
    #[arg(long, value_name = "ID")]
    video_id: String,

    /// The video's page
    #[arg(long)]
    url: String,

    #[command(flatten)]
    upload: Upload,
}

pub(super) async fn run(
    args: Args,
    around: &Surroundings,
    progress: Listener<'_>,
    stop: &CancellationToken,
) -> Result<Value, Failure> {
    check_id(&args.video_id)?;
    let outbox = args.upload.outbox(around)?;
    let youtube = youtube(around);
    let extraction = youtube.extract(&args.url, stop).await?;
    let downloaded = youtube.download(extraction, &|so_far| progress(Progress::Youtube(so_far)), stop).await?;
    let (info, probe) = (downloaded.info().clone(), downloaded.probe().clone());
    let extension = match probe.container.as_deref() {
        Some("mov") => "mp4",
        Some("matroska") => "mkv",
        Some("mpegts") => "ts",
        Some("flv") => "flv",
        Some(_) | None => "video",
    };
    let folder = around.video_folder.join(&args.video_id);
    fs_err::tokio::create_dir_all(&folder).await.map_err(MediaError::file("make the folder of the video"))?;
    let path = folder.join(format!("{}.{extension}", args.video_id));
    downloaded.move_to(&path).await?;
    let sent = match (outbox, &around.bucket) {
        (Some(outbox), Some(bucket)) => {
            let key = bucket.store.source_key(&args.video_id, extension);
            Some(outbox.send(&key, &path, &About::new(content_type(&path), MADE_BY), stop).await?)
        }
        _ => None,
    };
    let video = probe.video.as_ref();
    Ok(json!({
        "video_id": args.video_id,
        "source_file_path": path,
        "r2_key": sent.as_ref().map(|sent| &sent.key),
        "s3_uri": sent.as_ref().map(|sent| &sent.uri),
        "size_bytes": probe.size_bytes,
        "duration": probe.duration,
        "width": video.map(|video| video.size.width),
        "height": video.map(|video| video.size.height),
        "source_kind": "youtube",
        "download_info": {
            "extractor": info.extractor,
            "webpage_url": info.webpage_url,
            "title": info.title,
            "format_id": info.format_id,
        },
    }))
}
