//! `ambientctl media read-image`

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Places;
use super::envelope::Failure;
use crate::config::MediaConfig;
use crate::image_file::ImageSpec;
use crate::media::Media;

/// What `read-image` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The picture: PNG or JPEG, whatever its name.
    #[arg(long)]
    path: Utf8PathBuf,

    /// The longest side, in pixels.
    #[arg(long, default_value_t = 768)]
    max_dim: u32,
}

pub(super) async fn run(
    args: Args, mut config: MediaConfig, places: &Places, stop: &CancellationToken,
) -> Result<Value, Failure> {
    if !fs_err::tokio::try_exists(&args.path).await.is_ok_and(|there| there) {
        return Err(Failure::new("ImageNotFound", format!("there is no file `{}`", args.path)));
    }
    config.work_folder.clone_from(&places.temporary_folder);
    let spec = ImageSpec { max_dim: Some(args.max_dim), jpeg_quality: 85 };
    let picture = Media::new(config).read_image(&args.path, &spec, stop).await?;
    Ok(json!({
        "source_path": args.path,
        "image_file_path": picture.path,
        "image_url": null,
        "width": picture.width,
        "height": picture.height,
        "size_bytes": picture.size_bytes,
    }))
}
