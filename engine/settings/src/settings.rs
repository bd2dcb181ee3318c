//! The loaded settings: one plain value, built once, passed down and never changed.
//!
//! Fields are typed and grouped by the part that uses them; each says which setting it comes from. `Debug` never shows a
//! secret. Lengths of time are `Duration`, sizes are bytes, and a limit that `0` turns off is an `Option`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::{ExposeSecret as _, SecretString};

use crate::catalogue::Setting;
use crate::report::Origin;
use crate::urls::{DatabaseUrl, Endpoint, HttpUrl};

/// All settings of an engine.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `AMBIENT_HOME`: the folder of everything on disk. Absolute.
    pub home: Utf8PathBuf,
    /// Address, key and limits of the HTTP server.
    pub server: ServerSettings,
    /// What is logged and how.
    pub logs: LogSettings,
    /// Database and broker.
    pub store: StoreSettings,
    /// Models and where they are reached.
    pub llm: LlmSettings,
    /// The agent loop.
    pub agent: AgentSettings,
    /// Fast mode.
    pub fast: FastSettings,
    /// Limits of a session's life.
    pub sessions: SessionSettings,
    /// The shell tool.
    pub bash: BashSettings,
    /// Folders, programs and limits of media work on the host.
    pub media: MediaSettings,
    /// Quality of clips.
    pub clips: ClipSettings,
    /// The bucket.
    pub s3: S3Settings,
    /// How sources are read from the bucket.
    pub source: SourceSettings,
    /// Exported files.
    pub artifacts: ArtifactSettings,
    /// Where media work runs.
    pub sandbox: SandboxSettings,
    /// The E2B account and service.
    pub e2b: E2bSettings,
    /// Descriptions of uploaded videos.
    pub description: DescriptionSettings,
    /// The job queue.
    pub ingest: IngestSettings,
    /// Clip tiles.
    pub tiles: TileSettings,
    /// Imports.
    pub youtube: YoutubeSettings,
    pub(crate) written: BTreeMap<&'static str, Written>,
}

/// What somebody set for a setting, and where. Secrets and credentials in URLs are not kept here.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) origin: Origin,
    pub(crate) text: Option<String>,
}

impl Settings {
    /// Where the value of the setting `name` came from. A name that is not in the catalogue has nothing but its default.
    pub fn origin(&self, name: &str) -> Origin {
        self.written.get(name).map_or(Origin::Default, |written| written.origin)
    }

    /// The setting's value for people: as it was written, `(secret)` for a secret that somebody set, else the default in
    /// the words of the reference.
    pub fn shown(&self, setting: &Setting) -> String {
        match self.written.get(setting.name) {
            Some(Written { origin: Origin::Default, .. }) | None => setting.preset.to_string(),
            Some(Written { text: Some(text), .. }) => text.clone(),
            Some(Written { text: None, .. }) => "(secret)".to_owned(),
        }
    }

    /// Settings for a test: the defaults of a fresh machine with everything under `home`, port 0, the key `dev-token`,
    /// and no background fetch of the model catalogue. The process environment and `.env` are not looked at, so a test
    /// means the same on every machine; change fields of the result for what the test is about.
    ///
    /// # Panics
    /// When `home` is empty, or is relative and the working directory is gone.
    pub fn for_tests(home: &Utf8Path) -> Self {
        let fixed = [
            ("AMBIENT_HOME", home.as_str()),
            ("HOME", home.as_str()),
            ("SERVER_PORT", "0"),
            ("MODEL_CATALOGUE_URL", ""),
        ];
        Self::load(fixed.map(|(name, value)| (name.into(), value.into())), None)
            .expect("defaults and fixed values have no fault")
            .settings
    }
}

/// Address, key and limits of the HTTP server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// `SERVER_HOST`: an IP address or a host name.
    pub host: String,
    /// `SERVER_PORT`; 0 takes a free port.
    pub port: u16,
    /// `SERVER_WORKERS`: threads of the runtime.
    pub worker_threads: NonZeroUsize,
    /// `API_KEY`: what clients must send.
    pub api_key: SecretString,
    /// `SECRETS_KEY`: what seals the secrets in the database; `None` leaves that to the API key.
    pub secrets_key: Option<SecretString>,
    /// `ALLOW_DEV_TOKEN`: the default key is taken on any address.
    pub allow_dev_token: bool,
    /// `MAX_UPLOAD_BYTES`.
    pub max_upload_bytes: u64,
    /// `SHUTDOWN_GRACE_SECONDS`: how long runs may finish after a signal.
    pub shutdown_grace: Duration,
    /// `WORKER_ID`: a name to recognise this process by; uniqueness is added by whoever uses it.
    pub worker_id: Option<String>,
}

impl ServerSettings {
    /// Whether `host` can only be reached from this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

/// Whether a bind address can only be reached from this machine. A host name other than `localhost` counts as reachable.
pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What is logged and how.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// `RUST_LOG`: a filter in the form of `tracing_subscriber::EnvFilter`.
    pub filter: String,
    /// `LOG_FORMAT`.
    pub format: LogFormat,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Database and broker.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// `DATABASE_URL`, or a SQLite file in the home folder.
    pub database: DatabaseUrl,
    /// `REDIS_URL`; `None` is the broker inside the process.
    pub redis_url: Option<SecretString>,
    /// Whether migrations that the database lacks are run at the start, or stop it. No setting of the catalogue:
    /// `serve --no-migrate` chooses.
    pub migrate: bool,
}

/// Models and where they are reached.
#[derive(Clone, Debug)]
pub struct LlmSettings {
    /// `LLM_MODEL`: the video model.
    pub model: String,
    /// `LLM_BASE_URL` and `LLM_API_KEY`; `None` when no address is set, and then nothing can be asked.
    pub endpoint: Option<Endpoint>,
    /// `LLM_ALLOW_PRIVATE_URLS`: an agent's own `base_url` may point at private addresses.
    pub allow_private_urls: bool,
    /// `MODEL_CATALOGUE_URL`; `None` means that it was set empty: nothing is fetched.
    pub catalogue_url: Option<HttpUrl>,
    /// `MODEL_DEFINITIONS_FILE`; `None` is the built-in list.
    pub definitions_file: Option<Utf8PathBuf>,
    /// `OPENROUTER_PROVIDERS_FILE`; `None` is the built-in list.
    pub providers_file: Option<Utf8PathBuf>,
    /// `TRACK_USAGE`.
    pub track_usage: bool,
}

/// The agent loop.
#[derive(Clone, Debug)]
pub struct AgentSettings {
    /// `AGENT_MODEL`: the model of the built-in agents.
    pub model: String,
    /// `AGENT_BASE_URL` and `AGENT_API_KEY`, each falling back to its `LLM_*` twin; `None` when neither address is set.
    pub endpoint: Option<Endpoint>,
    /// `DEFAULT_AGENT_NAME`.
    pub default_name: String,
    /// `DEFAULT_AGENT_SYSTEM`; may be empty.
    pub default_system: String,
    /// `MAX_TURNS_PER_RUN`.
    pub max_turns_per_run: u32,
    /// `EXPOSE_THINKING`.
    pub expose_thinking: bool,
    /// `DISABLE_SELF_VIDEO_ANALYSIS_TOOL`: the video model looks at clips, whatever the agent model could do.
    pub disable_self_video_analysis: bool,
    /// `MAX_CLIPS_PER_PROMPT`.
    pub max_clips_per_prompt: usize,
    /// `MAX_FRAMES_PER_PROMPT`.
    pub max_frames_per_prompt: usize,
    /// `FIRST_TURN_WAIT_FOR_DESCRIPTION`.
    pub first_turn_waits_for_description: bool,
    /// `FIRST_TURN_DESCRIPTION_TIMEOUT_SECONDS`.
    pub first_turn_description_timeout: Duration,
}

/// Fast mode.
#[derive(Clone, Debug)]
pub struct FastSettings {
    /// `FAST_MAX_TOKENS`.
    pub max_tokens: u32,
    /// `FAST_DISABLE_THINKING`.
    pub disable_thinking: bool,
}

/// Limits of a session's life.
#[derive(Clone, Debug)]
pub struct SessionSettings {
    /// `SESSION_IDLE_TTL_SECONDS`; `None` is no limit.
    pub idle_ttl: Option<Duration>,
    /// `SESSION_HARD_TTL_SECONDS`; `None` is no limit.
    pub hard_ttl: Option<Duration>,
}

/// The shell tool.
#[derive(Clone, Debug)]
pub struct BashSettings {
    /// `ENABLE_BASH_TOOL`.
    pub enabled: bool,
    /// `BASH_TIMEOUT_SECONDS`.
    pub timeout: Duration,
    /// `BASH_MAX_OUTPUT_BYTES`, for each of the two streams.
    pub max_output_bytes: usize,
    /// `BASH_CWD`, or the video folder. Absolute.
    pub working_directory: Utf8PathBuf,
}

/// Folders, programs and limits of media work on the host.
#[derive(Clone, Debug)]
pub struct MediaSettings {
    /// `VIDEO_FOLDER`. Absolute.
    pub video_folder: Utf8PathBuf,
    /// `EXTERNAL_VIDEO_ALLOWED_ROOTS`. Absolute.
    pub allowed_roots: Vec<Utf8PathBuf>,
    /// `MEDIA_CONCURRENCY`: media processes at once.
    pub concurrency: NonZeroUsize,
    /// `MEDIA_CACHE_MAX_BYTES`: disk that clips and frames may fill.
    pub cache_max_bytes: u64,
    /// `FFMPEG_PATH`: a name for `PATH`, or a path.
    pub ffmpeg: Utf8PathBuf,
    /// `FFPROBE_PATH`: a name for `PATH`, or a path.
    pub ffprobe: Utf8PathBuf,
    /// `YTDLP_PATH`: a name for `PATH`, or a path.
    pub yt_dlp: Utf8PathBuf,
    /// `SANDBOX_CPU_SECONDS`: processor time of one command on the host.
    pub cpu_limit: Duration,
    /// `SANDBOX_MEMORY_MB`, in bytes: memory of one command on the host.
    pub memory_limit_bytes: u64,
}

/// Quality of clips for models without a quality of their own.
#[derive(Clone, Debug)]
pub struct ClipSettings {
    /// `ANALYSIS_FPS`: frames a second.
    pub fps: f64,
    /// `ANALYSIS_MAX_DIM`: the longer side in pixels.
    pub max_dimension: u32,
    /// `ANALYSIS_MAX_SIZE_MB`, in bytes.
    pub max_size_bytes: u64,
    /// `INLINE_CLIPS`: clips go inside the request even when there is a bucket.
    pub inline: bool,
}

/// The bucket.
#[derive(Clone, Debug)]
pub struct S3Settings {
    /// `S3_BUCKET`; `None` is no bucket.
    pub bucket: Option<String>,
    /// `S3_ENDPOINT` as `scheme://host[:port]` without a slash at the end; `None` is AWS.
    pub endpoint: Option<String>,
    /// `AWS_REGION`, else `AWS_DEFAULT_REGION`, else what the endpoint's host says, else `us-east-1`.
    pub region: String,
    /// `S3_VIDEO_BASE_KEY`, without slashes at its ends.
    pub video_base_key: String,
    /// `AWS_ACCESS_KEY_ID`; set exactly when the secret is.
    pub access_key_id: Option<SecretString>,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: Option<SecretString>,
}

/// How sources are read from the bucket.
#[derive(Clone, Debug)]
pub struct SourceSettings {
    /// `STREAM_SOURCE_VIDEO`.
    pub stream: bool,
    /// `STREAM_MIN_BYTES`: the size from which on ranges are read.
    pub stream_min_bytes: u64,
    /// `SOURCE_URL_TTL`: the life of a presigned link to a source.
    pub url_ttl: Duration,
    /// `OVERVIEW_SEEK_CONCURRENCY`.
    pub overview_seek_concurrency: usize,
    /// `UPLOAD_CONCURRENCY`: clips and frames uploaded at once.
    pub upload_concurrency: usize,
}

/// Exported files.
#[derive(Clone, Debug)]
pub struct ArtifactSettings {
    /// `ARTIFACT_URL_TTL_SECONDS`.
    pub url_ttl: Duration,
    /// `ARTIFACT_MAX_SIZE_MB`, in bytes.
    pub max_size_bytes: u64,
}

/// Where media work runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxBackend {
    /// On the engine's host.
    InProcess,
    /// In an E2B sandbox for each session.
    E2b,
}

/// Where media work runs, and how long a sandbox lives.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// `SANDBOX_BACKEND`.
    pub backend: SandboxBackend,
    /// `SANDBOX_WALL_SECONDS`: the life of a sandbox after its last command; at least a second.
    pub wall: Duration,
    /// `SANDBOX_RECREATE`: a session whose sandbox is gone gets a new one.
    pub recreate: bool,
    /// `SANDBOX_CPU_SECONDS`, for the limits that a session shows.
    pub cpu_seconds: u64,
    /// `SANDBOX_MEMORY_MB`, for the limits that a session shows.
    pub memory_mb: u64,
    /// `BOX_VIDEO_FOLDER`: the folder of videos inside a sandbox.
    pub video_folder: Utf8PathBuf,
}

/// The E2B account and service.
#[derive(Clone, Debug)]
pub struct E2bSettings {
    /// `E2B_API_KEY`.
    pub api_key: Option<SecretString>,
    /// `E2B_TEMPLATE`.
    pub template: String,
    /// `E2B_DOMAIN`.
    pub domain: String,
    /// `E2B_API_URL`, or what the domain and the debug mode make of it.
    pub api_url: HttpUrl,
    /// `E2B_SANDBOX_URL`: one address for all sandboxes.
    pub sandbox_url: Option<HttpUrl>,
    /// `E2B_DEBUG`.
    pub debug: bool,
}

impl E2bSettings {
    /// One of these settings as the environment would hold it, by its name: for E2B's client, which reads them by name. The key is in it.
    pub fn variable(&self, name: &str) -> Option<String> {
        match name {
            "E2B_API_KEY" => self.api_key.as_ref().map(|key| key.expose_secret().to_owned()),
            "E2B_DOMAIN" => Some(self.domain.clone()),
            "E2B_API_URL" => Some(self.api_url.as_url().to_string()),
            "E2B_SANDBOX_URL" => self.sandbox_url.as_ref().map(|url| url.as_url().to_string()),
            "E2B_DEBUG" => Some(self.debug.to_string()),
            _ => None,
        }
    }
}

/// Descriptions of uploaded videos.
#[derive(Clone, Debug)]
pub struct DescriptionSettings {
    /// `DESCRIPTION_MODEL`, or the video model.
    pub model: String,
    /// `DESCRIPTION_MAX_FRAMES`.
    pub max_frames: usize,
    /// `DESCRIPTION_MAX_DIM`: the longer side in pixels.
    pub max_dimension: u32,
}

/// The job queue.
#[derive(Clone, Debug)]
pub struct IngestSettings {
    /// `INGEST_CONCURRENCY`: jobs at once in this process.
    pub concurrency: NonZeroUsize,
    /// `INGEST_MAX_ATTEMPTS`.
    pub max_attempts: u32,
    /// `INGEST_STALE_SECONDS`: a job without a sign of life for this long is taken over.
    pub stale_after: Duration,
    /// `INGEST_SWEEP_SECONDS`: the period of the search for lost work.
    pub sweep_every: Duration,
    /// `INGEST_WAIT_TIMEOUT_SECONDS`: how long a tool waits for a description.
    pub wait_timeout: Duration,
    /// `INGEST_WAIT_POLL_SECONDS`: how often it looks.
    pub wait_poll: Duration,
    /// `INGEST_BLOCK_MS`: how long one read from the Redis queue waits.
    pub block: Duration,
    /// `INGEST_STREAM`.
    pub stream: String,
    /// `INGEST_GROUP`.
    pub group: String,
}

/// Clip tiles.
#[derive(Clone, Debug)]
pub struct TileSettings {
    /// `TILING_ENABLED`.
    pub enabled: bool,
    /// `TILING_LOCAL`: also without a bucket, in `VIDEO_FOLDER`.
    pub local: bool,
    /// `TILE_SECONDS`: the length of a tile.
    pub length: Duration,
    /// `TILE_FPS`: frames a second.
    pub fps: f64,
    /// `TILE_MAX_DIM`: the longer side in pixels.
    pub max_dimension: u32,
    /// `TILE_WORKERS`: tiles cut at once.
    pub workers: NonZeroUsize,
}

/// Imports.
#[derive(Clone, Debug)]
pub struct YoutubeSettings {
    /// `YOUTUBE_IMPORT_ENABLED`.
    pub import_enabled: bool,
    /// `YOUTUBE_MAX_HEIGHT` in pixels; `None` is no limit.
    pub max_height: Option<u32>,
    /// `YOUTUBE_MAX_DURATION_SECONDS`.
    pub max_duration: Duration,
    /// `YOUTUBE_MAX_SIZE_BYTES`.
    pub max_size_bytes: u64,
    /// `YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS`.
    pub download_timeout: Duration,
}
