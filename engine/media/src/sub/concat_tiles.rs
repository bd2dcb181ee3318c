//! `ambientctl media concat-tiles`

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::clip_data::{Told, clip_data};
use super::envelope::Failure;
use super::target::check_id;
use super::tiles::{media, store};
use super::upload::Upload;
use super::words::{rate, seconds};
use crate::clip::ClipSpec;
use crate::tiles::{Tile, TileManifest};

pub(super) const EXAMPLES: &str = "Example:\n  \
    ambientctl media concat-tiles --video-id vid_0123456789abcdef --start 40 --end 50 \\\n    \
    --keys vid_0123456789abcdef/tiles/tile_00000.mp4,vid_0123456789abcdef/tiles/tile_00001.mp4\n\n\
    The keys are those of the manifest that `transcode-tiles` answers with. The clip has the tiles' rate and size, and begins with the first picture\n\
    of their grid in the window.";

/// What `concat-tiles` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The id of the video
    #[arg(long, value_name = "ID")]
    video_id: String,

    /// The tiles, by their keys in the manifest and with commas between
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    keys: Vec<String>,

    /// Where the clip begins, in seconds of the video; where the first tile begins, if that is later
    #[arg(long, default_value_t = 0.0)]
    start: f64,

    /// Where the clip ends, in seconds of the video; 0 is where the last tile ends
    #[arg(long, default_value_t = 0.0)]
    end: f64,

    #[command(flatten)]
    upload: Upload,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    check_id(&args.video_id)?;
    let id = &args.video_id;
    if args.keys.iter().all(|key| key.trim().is_empty()) {
        return Err(Failure::new("NoKeys", "--keys names no tile"));
    }
    let outbox = args.upload.outbox(around)?;
    let store = store(around, id);
    let manifest = TileManifest::of(&*store).await.map_err(crate::error::MediaError::from)?;
    let manifest = manifest.ok_or_else(|| {
        Failure::new("NoTiles", format!("`{id}` has no tiles: make them with `transcode-tiles --video-id {id}`"))
    })?;
    let tiles = named(&manifest, &args.keys)?;
    let (Some(first), Some(last)) = (tiles.first(), tiles.last()) else {
        return Err(Failure::new("NoKeys", "--keys names no tile"));
    };
    let stem = first.key.rsplit('/').next().unwrap_or_default().trim_end_matches(".mp4").to_owned();
    let spec = ClipSpec {
        start: seconds("--start", args.start)?.max(first.start),
        end: if args.end == 0.0 { last.end } else { seconds("--end", args.end)? },
        fps: Some(rate(manifest.fps)?),
        max_dim: Some(manifest.max_dim),
        max_size_bytes: None,
        crf: None,
    };
    let count = tiles.len();
    let manifest = TileManifest { tiles, ..manifest };
    let clip = media(around, id, "clips")?.clip_from_tiles(&manifest, &spec, &*store, stop).await?;
    let clip = clip.ok_or_else(|| {
        let message =
            format!("the named tiles hold no pictures from `{}` s to `{}` s, or not all of them", spec.start, spec.end);
        Failure::new("NoTiles", message)
    })?;
    let clip_id = format!("{id}_tiles_{stem}_{count}");
    // Clips of the same tiles differ by their ends.
    let object = format!("{}_{}", clip.start, clip.end);
    let told = Told { id: &clip_id, folder: id, object: &object, video_id: Some(id.as_str()), is_cut: false };
    clip_data(told, &clip, outbox, stop).await
}

/// The tiles of these keys, in the order of time.
fn named(manifest: &TileManifest, keys: &[String]) -> Result<Vec<Tile>, Failure> {
    let keys: Vec<&str> = keys.iter().map(|key| key.trim()).filter(|key| !key.is_empty()).collect();
    if let Some(stranger) = keys.iter().find(|key| !manifest.tiles.iter().any(|tile| tile.key == **key)) {
        return Err(Failure::new("NoTiles", format!("the manifest knows no tile `{stranger}`")));
    }
    Ok(manifest.tiles.iter().filter(|tile| keys.contains(&tile.key.as_str())).cloned().collect())
}
