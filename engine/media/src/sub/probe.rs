//! `ambientctl media probe`

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Places;
use super::envelope::Failure;
use super::target::{Found, Target};
use crate::config::MediaConfig;

/// What `probe` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,
}

pub(super) async fn run(
    args: Args, config: MediaConfig, places: &Places, stop: &CancellationToken,
) -> Result<Value, Failure> {
    let Found { video_id, source, media, .. } = args.target.find(config, places).await?;
    let probe = media.probe(&source, stop).await?;
    let size = probe.video.as_ref().map(|video| video.size);
    let mut data = json!({
        "video_id": video_id,
        "accepted": probe.is_accepted(),
        "has_audio": probe.has_audio(),
        "width": size.map(|size| size.width),
        "height": size.map(|size| size.height),
        "fps": probe.video.as_ref().map(|video| video.rate),
        "rotation": probe.video.as_ref().map(|video| video.rotation),
    });
    let details = serde_json::to_value(&probe).map_err(|error| Failure::new("Internal", error.to_string()))?;
    if let (Some(data), Value::Object(details)) = (data.as_object_mut(), details) {
        data.extend(details);
    }
    Ok(data)
}
