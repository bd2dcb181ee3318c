//! `ambientctl media upload-source`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::{MADE_BY, content_type, store};
use super::envelope::Failure;
use super::target::{check_id, in_folder};
use crate::error::MediaError;
use crate::objects::About;

pub(super) const EXAMPLES: &str = "Example:\n  ambientctl media upload-source --video-id vid_0123456789abcdef\n\n\
    A copy of the same size that is there already is left alone.";

/// What `upload-source` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The id of a video in `VIDEO_FOLDER`
    #[arg(long, value_name = "ID")]
    video_id: String,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    check_id(&args.video_id)?;
    let bucket = store(around)?;
    let path = in_folder(around, &args.video_id).await?;
    let facts = fs_err::tokio::metadata(&path).await.map_err(MediaError::file("look at the source"))?;
    let key = bucket.source_key(&args.video_id, path.extension().unwrap_or_default());
    let sent = async {
        let known = bucket.head(&key).await?;
        if known.is_some_and(|known| known.size_bytes == facts.len()) {
            return Ok(false);
        }
        bucket.put_file(&key, &path, &About::new(content_type(&path), MADE_BY)).await?;
        Ok::<_, Failure>(true)
    };
    let uploaded = tokio::select! {
        () = stop.cancelled() => return Err(MediaError::Cancelled.into()),
        sent = sent => sent?,
    };
    Ok(json!({
        "video_id": args.video_id,
        "r2_key": key.as_str(),
        "s3_uri": bucket.uri(&key),
        "size_bytes": facts.len(),
        "uploaded": uploaded,
    }))
}
