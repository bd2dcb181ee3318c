//! `ambientctl media read-image`

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::MADE_BY;
use super::envelope::Failure;
use super::extract_frames::JPEG;
use super::upload::Upload;
use super::words::{digest, unix_seconds};
use crate::image_file::ImageSpec;
use crate::media::Media;
use crate::objects::{About, ObjectKey};

pub(super) const EXAMPLES: &str = "Example:\n  ambientctl media read-image --path chart.png --max-dim 1024\n\n\
    PNG and JPEG are read by content, turned upright, fitted and written as JPEG.";

/// No visible loss for a model, at a tenth of the size of a PNG.
const JPEG_QUALITY: u8 = 85;

/// What `read-image` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The picture: PNG or JPEG, whatever its name
    #[arg(long, allow_hyphen_values = true)]
    path: Utf8PathBuf,

    /// The longest side, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 768)]
    max_dim: u32,

    #[command(flatten)]
    upload: Upload,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    if !fs_err::tokio::metadata(&args.path).await.is_ok_and(|facts| facts.is_file()) {
        return Err(Failure::new("ImageNotFound", format!("there is no file `{}`", args.path)));
    }
    let outbox = args.upload.outbox(around)?;
    let mut config = around.media.clone();
    config.work_folder.clone_from(&around.temporary_folder);
    let spec = ImageSpec { max_dim: Some(args.max_dim), jpeg_quality: JPEG_QUALITY };
    let picture = Media::new(config).read_image(&args.path, &spec, stop).await?;
    let mut url = None;
    if let Some(outbox) = outbox {
        // Two pictures of one name in one second are two objects.
        let stem = args.path.file_stem().unwrap_or("picture");
        let which = digest(&format!("{} {}", args.path, args.max_dim));
        let key = ObjectKey::read_image(&format!("{stem}-{which}"), unix_seconds());
        url = Some(outbox.send(&key, &picture.path, &About::new(JPEG, MADE_BY), stop).await?.url);
    }
    Ok(json!({
        "source_path": args.path,
        "image_file_path": picture.path,
        "image_url": url,
        "width": picture.width,
        "height": picture.height,
        "size_bytes": picture.size_bytes,
    }))
}
