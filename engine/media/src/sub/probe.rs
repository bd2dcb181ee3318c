//! `ambientctl media probe`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::envelope::Failure;
use super::target::{Found, Target};
use crate::source::Source;

pub(super) const EXAMPLES: &str = "Examples:\n  ambientctl media probe --source-path film.mp4\n  \
    ambientctl media probe --video-id vid_0123456789abcdef\n\n\
    A file that would be refused is an answer too: `accepted` is false, and `acceptance` says why and what helps.";

/// What `probe` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    let Found { video_id, source, media, .. } = args.target.find(around, "probe", stop).await?;
    let path = match &source {
        Source::File(path) => path.to_string(),
        Source::Object(key) => key.to_string(),
    };
    let probe = media.probe(&source, stop).await?;
    let video = probe.video.as_ref();
    let mut data = json!({
        "video_id": video_id,
        "source_path": path,
        "accepted": probe.is_accepted(),
        "width": video.map(|video| video.size.width),
        "height": video.map(|video| video.size.height),
        "fps": video.map(|video| video.rate),
        "rotation": video.map(|video| video.rotation),
        "video_codec": video.map(|video| &video.codec),
        "audio_codec": probe.audio.as_ref().map(|audio| &audio.codec),
        "has_audio": probe.has_audio(),
    });
    let details = serde_json::to_value(&probe).map_err(|error| Failure::new("Internal", error.to_string()))?;
    if let (Some(data), Value::Object(details)) = (data.as_object_mut(), details) {
        data.extend(details);
    }
    Ok(data)
}
