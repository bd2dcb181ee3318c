//! Taking in videos, and what is done with them in the background.
//!
//! Each file goes through independent stages: the source, then its tiles and its description side by side. Source and
//! description have a status and retries of their own; tiles are an aid, and a video works without them. Workers take files
//! from the broker's queue; a sweep finds those whose job was lost.

pub mod copies;
mod description;
pub mod form;
mod hash;
pub mod import;
pub(crate) mod incoming;
pub mod kind;
mod source;
mod sweep;
pub mod tiles;
pub mod upload;
mod worker;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use ambient_media::{Youtube, YoutubeConfig};
use ambient_settings::Settings;
use camino::Utf8PathBuf;

use crate::agent::vision::Vision;
use crate::backend::MediaBackend;
use crate::backend::inprocess::media_config;
use crate::broker::Broker;
use crate::clock::Clock;
use crate::ids::VideoId;
use crate::ingest::tiles::TileWish;
use crate::ingest::upload::Uploads;
use crate::lifecycle::Lifecycle;
use crate::store::Store;

/// What the background work needs.
#[derive(Clone, Debug)]
pub struct IngestParts {
    /// Where files are recorded.
    pub store: Arc<dyn Store>,
    /// Where jobs wait.
    pub broker: Arc<dyn Broker>,
    /// Where frames are taken.
    pub backend: Arc<dyn MediaBackend>,
    /// Who fetches imports. `None` where imports are not wanted.
    pub youtube: Option<Arc<Youtube>>,
    /// `VIDEO_FOLDER`: where imports go.
    pub video_folder: Utf8PathBuf,
    /// Who copies imports to the bucket; `None` leaves that to the sweep of files.
    pub uploads: Option<Uploads>,
    /// Who describes. `None`, or one without an endpoint, leaves files without a description.
    pub vision: Option<Arc<Vision>>,
    /// The time of records.
    pub clock: Clock,
    /// What the settings say.
    pub config: IngestConfig,
}

/// How the background work goes on.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// `INGEST_CONCURRENCY`: files at once in this process.
    pub concurrency: NonZeroUsize,
    /// `INGEST_MAX_ATTEMPTS` of a stage.
    pub max_attempts: u32,
    /// `INGEST_STALE_SECONDS`: a job without a sign of life for so long is taken over.
    pub stale_after: Duration,
    /// `INGEST_SWEEP_SECONDS`: how often lost jobs are looked for.
    pub sweep_every: Duration,
    /// `INGEST_BLOCK_MS`: how long one look into the queue waits.
    pub block: Duration,
    /// How long after a first failure a stage is tried again; each further time it is four times as long.
    pub first_retry: Duration,
    /// How often an import's progress is written down, and looked after whether somebody deleted it.
    pub progress_every: Duration,
    /// `TILE_…`; `None` makes no tiles.
    pub tiles: Option<TileWish>,
    /// `DESCRIPTION_MODEL`.
    pub description_model: String,
    /// `DESCRIPTION_MAX_FRAMES`.
    pub description_max_frames: usize,
    /// `DESCRIPTION_MAX_DIM`, in pixels of the longer side.
    pub description_max_dimension: u32,
}

impl IngestConfig {
    /// A model's server that is overloaded is rarely well again sooner.
    const FIRST_RETRY: Duration = Duration::from_secs(5);
    /// A reader is told soon enough, and the store hardly notices.
    const PROGRESS_EVERY: Duration = Duration::from_secs(1);

    /// As the settings say.
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            concurrency: settings.ingest.concurrency,
            max_attempts: settings.ingest.max_attempts,
            stale_after: settings.ingest.stale_after,
            sweep_every: settings.ingest.sweep_every,
            block: settings.ingest.block,
            first_retry: Self::FIRST_RETRY,
            progress_every: Self::PROGRESS_EVERY,
            tiles: TileWish::from_settings(settings),
            description_model: settings.description.model.clone(),
            description_max_frames: settings.description.max_frames,
            description_max_dimension: settings.description.max_dimension,
        }
    }
}

/// How videos are fetched from YouTube, as the settings say. Downloads can be moved into the video folder.
pub fn youtube_config(settings: &Settings) -> YoutubeConfig {
    YoutubeConfig {
        program: settings.media.yt_dlp.clone(),
        max_height: settings.youtube.max_height,
        max_duration: settings.youtube.max_duration,
        max_size_bytes: settings.youtube.max_size_bytes,
        download_timeout: settings.youtube.download_timeout,
        cpu_seconds: settings.media.cpu_limit.as_secs().max(1),
        concurrency: settings.ingest.concurrency.get(),
        work_folder: media_config(settings).work_folder,
    }
}

/// Starts the workers and the sweep.
pub fn start(lifecycle: &Lifecycle, parts: &IngestParts) {
    for _slot in 0..parts.config.concurrency.get() {
        let worker = worker::Worker::new(parts.clone());
        lifecycle.spawn_service("ingest worker", |draining| worker.run(draining));
    }
    let sweep = sweep::Sweep::new(parts.clone());
    lifecycle.spawn_service("ingest sweep", |draining| sweep.run(draining));
}

/// The lease under which one engine works on a file.
pub(crate) fn lease_name(video: &VideoId) -> String {
    format!("ingest:{video}")
}
