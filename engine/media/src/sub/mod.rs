//! The commands `ambientctl media …`: the same operations as the library, for a sandbox and for a person at a terminal.
//!
//! Standard output carries one line and nothing else: the [`Envelope`]. Logs and progress go to standard error. The caller in
//! `src/media.rs` prints the envelope and ends with 0 or 1 by [`Envelope::is_ok`].
//!
//! Outputs go to `VIDEO_FOLDER/<id>/` where a video is named by its id, else to the temporary folder; the answer holds
//! their paths, and the true times of what they show.

mod annotate_frame;
mod bucket;
mod clip_data;
mod concat_tiles;
mod ensure_source;
mod envelope;
mod extract_frames;
mod fetch_clip;
mod prepare_youtube;
mod probe;
mod probe_youtube;
mod progress;
mod read_image;
mod target;
mod tiles;
mod transcode_tiles;
mod upload;
mod upload_artifact;
mod upload_source;
mod words;

use std::pin::Pin;
use std::time::Duration;

use ambient_settings::{Settings, TileSettings};
use camino::Utf8PathBuf;
use clap::Subcommand;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use self::envelope::Envelope;
pub use self::progress::Progress;

use self::envelope::Failure;
use crate::config::MediaConfig;
use crate::remote::BucketReading;
use crate::youtube::YoutubeConfig;

/// The words after `ambientctl media`.
#[derive(Debug, Subcommand)]
pub enum MediaCommand {
    /// Tells what a video holds and whether it would be accepted
    #[command(after_help = probe::EXAMPLES)]
    Probe(probe::Args),
    /// Writes pictures of a window as JPEG files
    #[command(after_help = extract_frames::EXAMPLES)]
    ExtractFrames(extract_frames::Args),
    /// Cuts a window as an MP4 of its own
    #[command(after_help = fetch_clip::EXAMPLES)]
    FetchClip(fetch_clip::Args),
    /// Draws boxes and points with labels on one picture
    #[command(after_help = annotate_frame::EXAMPLES)]
    AnnotateFrame(annotate_frame::Args),
    /// Reads a still picture and fits it
    #[command(after_help = read_image::EXAMPLES)]
    ReadImage(read_image::Args),
    /// Puts a file into the bucket, and answers with a link to it
    #[command(after_help = upload_artifact::EXAMPLES)]
    UploadArtifact(upload_artifact::Args),
    /// Puts a video of this disk into the bucket
    #[command(after_help = upload_source::EXAMPLES)]
    UploadSource(upload_source::Args),
    /// Makes sure that a video is on this disk, and tells its path
    #[command(after_help = ensure_source::EXAMPLES)]
    EnsureSource(ensure_source::Args),
    /// Tells what a video on YouTube is and whether it would be fetched
    #[command(after_help = probe_youtube::EXAMPLES)]
    ProbeYoutube(probe_youtube::Args),
    /// Fetches a video from YouTube
    #[command(after_help = prepare_youtube::EXAMPLES)]
    PrepareYoutube(prepare_youtube::Args),
    /// Cuts a whole video into tiles, from which clips are put together at once
    #[command(after_help = transcode_tiles::EXAMPLES)]
    TranscodeTiles(transcode_tiles::Args),
    /// Puts a clip together from tiles
    #[command(after_help = concat_tiles::EXAMPLES)]
    ConcatTiles(concat_tiles::Args),
}

/// What the commands work with; the caller fills it from its settings.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Programs and limits. The work folder is replaced by the place where an output belongs.
    pub media: MediaConfig,
    /// Limits of downloads. The work folder is replaced likewise.
    pub youtube: YoutubeConfig,
    /// `VIDEO_FOLDER`: videos by their id, and below them what is made of them.
    pub video_folder: Utf8PathBuf,
    /// Where outputs go that belong to no video of that folder.
    pub temporary_folder: Utf8PathBuf,
    /// `S3_BUCKET` and how its videos are read, if there is one.
    pub bucket: Option<BucketReading>,
    /// `TILE_…`: how tiles are made unless the words say otherwise.
    pub tiles: TileSettings,
    /// `ARTIFACT_MAX_SIZE_MB`, in bytes.
    pub artifact_max_bytes: u64,
    /// `ARTIFACT_URL_TTL_SECONDS`.
    pub artifact_url_life: Duration,
}

impl Surroundings {
    /// As the settings say, with the host's temporary folder (`TMPDIR`, else `/tmp`).
    pub fn new(media: MediaConfig, youtube: YoutubeConfig, settings: &Settings) -> Self {
        let temporary_folder =
            Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap_or_else(|_not_utf8| "/tmp".into());
        Self {
            media,
            youtube,
            video_folder: settings.media.video_folder.clone(),
            temporary_folder,
            bucket: BucketReading::in_sandbox(settings),
            tiles: settings.tiles.clone(),
            artifact_max_bytes: settings.artifacts.max_size_bytes,
            artifact_url_life: settings.artifacts.url_ttl,
        }
    }
}

/// Who is told how far the work is.
pub type Listener<'a> = &'a (dyn Fn(Progress) + Send + Sync);

impl MediaCommand {
    /// Runs one command to its end. All that happens, failures too, is in the envelope. Boxed, so that the code of all commands is made
    /// in this crate once.
    pub fn run<'a>(
        self,
        around: &'a Surroundings,
        progress: Listener<'a>,
        stop: &'a CancellationToken,
    ) -> Pin<Box<dyn Future<Output = Envelope> + 'a>> {
        Box::pin(self.answered(around, progress, stop))
    }

    async fn answered(self, around: &Surroundings, progress: Listener<'_>, stop: &CancellationToken) -> Envelope {
        let answer: Result<Value, Failure> = match self {
            Self::UploadArtifact(args) => upload_artifact::run(args, around, stop).await,
            Self::UploadSource(args) => upload_source::run(args, around, stop).await,
            Self::Probe(args) => probe::run(args, around, stop).await,
            Self::ExtractFrames(args) => extract_frames::run(args, around, stop).await,
            Self::FetchClip(args) => fetch_clip::run(args, around, stop).await,
            Self::AnnotateFrame(args) => annotate_frame::run(args, around, stop).await,
            Self::ReadImage(args) => read_image::run(args, around, stop).await,
            Self::EnsureSource(args) => ensure_source::run(args, around, stop).await,
            Self::ProbeYoutube(args) => probe_youtube::run(args, around, stop).await,
            Self::PrepareYoutube(args) => prepare_youtube::run(args, around, progress, stop).await,
            Self::TranscodeTiles(args) => transcode_tiles::run(args, around, progress, stop).await,
            Self::ConcatTiles(args) => concat_tiles::run(args, around, stop).await,
        };
        if let Some(bucket) = &around.bucket {
            // Uploads that were broken off leave no parts behind.
            bucket.store.settle().await;
        }
        Envelope::of(answer)
    }
}
