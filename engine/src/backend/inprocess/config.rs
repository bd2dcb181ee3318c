//! What the settings say of this host as a backend.

use std::time::Duration;

use ambient_media::MediaConfig;
use ambient_settings::{Settings, TileSettings};
use camino::Utf8PathBuf;

use crate::backend::shell::ShellLimits;

/// Where sessions' workspaces are.
const SESSIONS: &str = "sessions";
/// Where media work happens, on the file system of the video folder so that results can be moved.
const WORK: &str = ".work";

/// How this host serves as a backend.
#[derive(Clone, Debug)]
pub struct InProcessConfig {
    /// `VIDEO_FOLDER`.
    pub video_folder: Utf8PathBuf,
    /// The folder of the workspaces of all sessions.
    pub workspaces: Utf8PathBuf,
    /// Folders that every session may read, besides its workspace.
    pub extra_roots: Vec<Utf8PathBuf>,
    /// `MEDIA_CACHE_MAX_BYTES`: what clips and pictures may take on disk.
    pub cache_max_bytes: u64,
    /// `ARTIFACT_MAX_SIZE_MB`, in bytes.
    pub artifact_max_bytes: u64,
    /// `ARTIFACT_URL_TTL_SECONDS`: how long links to exported files live.
    pub artifact_link_life: Duration,
    /// `TILE_…` and `TILING_…`: whether and how tiles are made.
    pub tiles: TileSettings,
    /// `MEDIA_CONCURRENCY`: how many media programs run at once.
    pub concurrency: usize,
    /// Whether there is a shell.
    pub has_shell: bool,
    /// What one process of a shell command may use.
    pub shell_limits: ShellLimits,
}

impl InProcessConfig {
    /// As the settings say.
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            video_folder: settings.media.video_folder.clone(),
            workspaces: settings.bash.working_directory.join(SESSIONS),
            extra_roots: settings.media.allowed_roots.clone(),
            cache_max_bytes: settings.media.cache_max_bytes,
            artifact_max_bytes: settings.artifacts.max_size_bytes,
            artifact_link_life: settings.artifacts.url_ttl,
            tiles: settings.tiles.clone(),
            concurrency: settings.media.concurrency.get(),
            has_shell: settings.bash.enabled,
            shell_limits: ShellLimits {
                cpu: settings.media.cpu_limit,
                memory_bytes: settings.media.memory_limit_bytes,
            },
        }
    }
}

/// How media programs are run on this host, as the settings say. Results can be moved into the video folder.
pub fn media_config(settings: &Settings) -> MediaConfig {
    MediaConfig {
        ffmpeg: settings.media.ffmpeg.clone(),
        ffprobe: settings.media.ffprobe.clone(),
        concurrency: settings.media.concurrency.get(),
        cpu_seconds: settings.media.cpu_limit.as_secs().max(1),
        memory_bytes: settings.media.memory_limit_bytes,
        ..MediaConfig::in_folder(settings.media.video_folder.join(WORK))
    }
}
