//! What the commands that make a clip say of it.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::bucket::{MADE_BY, Outbox};
use super::envelope::Failure;
use crate::clip::Clip;
use crate::objects::{About, ObjectKey};

/// A clip as it is told: the data of `fetch-clip` and `concat-tiles`.
#[derive(Debug)]
pub(super) struct Told<'a> {
    /// The id of the clip.
    pub(super) id: &'a str,
    /// Where its object lies in the bucket.
    pub(super) folder: &'a str,
    /// What its object is named, beyond the id, so that clips of other bytes have other names.
    pub(super) object: &'a str,
    /// The id of the video, if it has one.
    pub(super) video_id: Option<&'a str>,
    /// Whether the window was cut before the clip was made.
    pub(super) is_cut: bool,
}

/// Sends the clip to the bucket where that was asked for, and says what it is.
pub(super) async fn clip_data(
    told: Told<'_>,
    clip: &Clip,
    outbox: Option<Outbox>,
    stop: &CancellationToken,
) -> Result<Value, Failure> {
    let mut url = None;
    if let Some(outbox) = outbox {
        let name = format!("{}_{}_{}b", told.id, told.object, clip.size_bytes);
        let about = About::new("video/mp4", MADE_BY);
        url = Some(outbox.send(&ObjectKey::clip(told.folder, &name), &clip.path, &about, stop).await?.url);
    }
    Ok(json!({
        "clip": {
            "id": told.id,
            "video_id": told.video_id,
            "start_time": clip.start,
            "end_time": clip.end,
            "clip_file_path": clip.path,
            "clip_url": url,
            "size_bytes": clip.size_bytes,
            "width": clip.width,
            "height": clip.height,
            "has_audio": clip.has_audio,
            "clamped": clip.clamped || told.is_cut,
            "held": clip.held,
            "source_pictures": clip.source_pictures,
        }
    }))
}
