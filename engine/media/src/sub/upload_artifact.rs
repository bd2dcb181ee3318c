//! `ambientctl media upload-artifact`

use std::time::Duration;

use camino::Utf8PathBuf;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::{Outbox, content_type};
use super::envelope::Failure;
use super::target::check_id;
use super::words::{megabytes, unix_seconds};
use crate::error::MediaError;
use crate::objects::{About, ObjectKey};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    ambientctl media upload-artifact --path table.csv --video-id vid_0123456789abcdef\n  \
    ambientctl media upload-artifact --path table.csv --key artifacts/reports/table.csv";

/// Who made an object, as its metadata says.
const MADE_BY: &str = "upload_artifact";

/// What `upload-artifact` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The file
    #[arg(long, allow_hyphen_values = true)]
    path: Utf8PathBuf,

    /// The key that it gets in the bucket
    #[arg(long, required_unless_present = "video_id")]
    key: Option<String>,

    /// The video that it belongs to, for a key under `artifacts/<id>/`
    #[arg(long, value_name = "ID")]
    video_id: Option<String>,

    /// Its media type; told from its name if left out
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,

    /// The largest file, in megabytes of 1024 x 1024 bytes; `ARTIFACT_MAX_SIZE_MB` if left out
    #[arg(long, value_name = "MEGABYTES")]
    max_size_mb: Option<f64>,

    /// How long the link lives, in seconds: a week at most; `ARTIFACT_URL_TTL_SECONDS` if left out
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    s3_presigned_expires: Option<u64>,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    let limit_bytes = match args.max_size_mb {
        Some(size) => megabytes("--max-size-mb", size)?,
        None => around.artifact_max_bytes,
    };
    let key = key_of(&args)?;
    let facts = match fs_err::tokio::metadata(&args.path).await {
        Ok(facts) if facts.is_file() => facts,
        Ok(_) => return Err(Failure::new("ArtifactNotFound", format!("`{}` is no plain file", args.path))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::new("ArtifactNotFound", format!("there is no file `{}`", args.path)));
        }
        Err(error) => return Err(MediaError::file("look at the artifact")(error).into()),
    };
    if facts.len() > limit_bytes {
        return Err(Failure::new(
            "ArtifactTooLarge",
            format!("`{}` has {} bytes, over the limit of {limit_bytes}", args.path, facts.len()),
        ));
    }
    let life = args.s3_presigned_expires.map_or(around.artifact_url_life, Duration::from_secs);
    let outbox = Outbox::new(around, life)?;
    let kind = args.content_type.unwrap_or_else(|| content_type(&args.path).to_owned());
    let about = About { download_name: args.path.file_name().map(str::to_owned), ..About::new(kind, MADE_BY) };
    let sent = outbox.send(&key, &args.path, &about, stop).await?;
    Ok(json!({
        "source_path": args.path,
        "s3_key": sent.key,
        "s3_uri": sent.uri,
        "url": sent.url,
        "size_bytes": sent.size_bytes,
    }))
}

fn key_of(args: &Args) -> Result<ObjectKey, Failure> {
    match (&args.key, &args.video_id) {
        (Some(key), _id) => key.parse().map_err(|error| Failure::bad_request(format!("--key: {error}"))),
        (None, Some(id)) => {
            check_id(id)?;
            let name = args.path.file_name().unwrap_or_default();
            Ok(ObjectKey::artifact(id, name, unix_seconds()))
        }
        (None, None) => Err(Failure::bad_request("name a --key, or the --video-id that the file belongs to")),
    }
}
