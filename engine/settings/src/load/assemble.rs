//! One line a field: which setting it comes from, and what stands in for it when nobody set it.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use percent_encoding::percent_decode_str;
use secrecy::SecretString;
use url::{Host, Url};

use super::values::Values;
use crate::settings::{
    AgentSettings, ArtifactSettings, BashSettings, ClipSettings, DescriptionSettings, E2bSettings, FastSettings,
    IngestSettings, LlmSettings, LogFormat, LogSettings, MediaSettings, S3Settings, SandboxBackend, SandboxSettings,
    ServerSettings, SessionSettings, Settings, SourceSettings, StoreSettings, TileSettings, YoutubeSettings,
};
use crate::urls::{DatabaseUrl, Endpoint, HttpUrl};

/// The region of services that have none of their own; R2 takes it too.
const USUAL_REGION: &str = "us-east-1";

/// Builds the settings. Where a value was refused the result holds a stand-in, and the faults say so.
pub(super) fn assemble(values: &mut Values<'_>) -> Settings {
    let home = home(values);
    let media = media(values, &home);
    let llm_key = values.secret("LLM_API_KEY");
    let llm = llm(values, llm_key.clone());
    let agent = agent(values, &llm, llm_key);
    Settings {
        server: server(values),
        logs: logs(values),
        store: store(values, &home),
        fast: FastSettings {
            max_tokens: values.whole("FAST_MAX_TOKENS"),
            disable_thinking: values.switch("FAST_DISABLE_THINKING"),
        },
        sessions: SessionSettings {
            idle_ttl: values.limit("SESSION_IDLE_TTL_SECONDS"),
            hard_ttl: values.limit("SESSION_HARD_TTL_SECONDS"),
        },
        bash: BashSettings {
            enabled: values.switch("ENABLE_BASH_TOOL"),
            timeout: values.seconds("BASH_TIMEOUT_SECONDS"),
            max_output_bytes: values.whole("BASH_MAX_OUTPUT_BYTES"),
            working_directory: values.path("BASH_CWD").unwrap_or_else(|| media.video_folder.clone()),
        },
        clips: ClipSettings {
            fps: values.decimal("ANALYSIS_FPS"),
            max_dimension: values.whole("ANALYSIS_MAX_DIM"),
            max_size_bytes: values.mebibytes("ANALYSIS_MAX_SIZE_MB"),
            inline: values.switch("INLINE_CLIPS"),
        },
        s3: s3(values),
        source: SourceSettings {
            stream: values.switch("STREAM_SOURCE_VIDEO"),
            stream_min_bytes: values.whole("STREAM_MIN_BYTES"),
            url_ttl: values.seconds("SOURCE_URL_TTL"),
            overview_seek_concurrency: values.whole("OVERVIEW_SEEK_CONCURRENCY"),
            upload_concurrency: values.whole("UPLOAD_CONCURRENCY"),
        },
        artifacts: ArtifactSettings {
            url_ttl: values.seconds("ARTIFACT_URL_TTL_SECONDS"),
            max_size_bytes: values.mebibytes("ARTIFACT_MAX_SIZE_MB"),
        },
        sandbox: sandbox(values, &media),
        e2b: e2b(values),
        description: DescriptionSettings {
            model: values.optional_text("DESCRIPTION_MODEL").unwrap_or_else(|| llm.model.clone()),
            max_frames: values.whole("DESCRIPTION_MAX_FRAMES"),
            max_dimension: values.whole("DESCRIPTION_MAX_DIM"),
        },
        ingest: ingest(values),
        tiles: TileSettings {
            enabled: values.switch("TILING_ENABLED"),
            local: values.switch("TILING_LOCAL"),
            length: values.seconds("TILE_SECONDS"),
            fps: values.decimal("TILE_FPS"),
            max_dimension: values.whole("TILE_MAX_DIM"),
            workers: values.count("TILE_WORKERS"),
        },
        youtube: YoutubeSettings {
            import_enabled: values.switch("YOUTUBE_IMPORT_ENABLED"),
            max_height: Some(values.whole("YOUTUBE_MAX_HEIGHT")).filter(|height| *height > 0),
            max_duration: values.seconds("YOUTUBE_MAX_DURATION_SECONDS"),
            max_size_bytes: values.whole("YOUTUBE_MAX_SIZE_BYTES"),
            download_timeout: values.seconds("YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS"),
        },
        home,
        media,
        llm,
        agent,
        written: BTreeMap::new(),
    }
}

fn home(values: &mut Values<'_>) -> Utf8PathBuf {
    if let Some(home) = values.path("AMBIENT_HOME") {
        return home;
    }
    if values.is_default("AMBIENT_HOME") {
        if let Some(user) = values.home_folder() {
            return user.join(".ambient");
        }
        values.refuse(
            "AMBIENT_HOME",
            "it has no default, because `HOME` is not set",
            "set `AMBIENT_HOME` to a folder, or set `HOME`",
        );
    }
    Utf8PathBuf::new()
}

fn server(values: &mut Values<'_>) -> ServerSettings {
    ServerSettings {
        host: host(values, "SERVER_HOST", "accepted: an address or a host name; the port goes into `SERVER_PORT`"),
        port: values.whole("SERVER_PORT"),
        worker_threads: values.count("SERVER_WORKERS"),
        api_key: SecretString::from(values.text("API_KEY")),
        secrets_key: values.secret("SECRETS_KEY"),
        allow_dev_token: values.switch("ALLOW_DEV_TOKEN"),
        max_upload_bytes: values.whole("MAX_UPLOAD_BYTES"),
        shutdown_grace: values.seconds("SHUTDOWN_GRACE_SECONDS"),
        worker_id: values.optional_text("WORKER_ID"),
    }
}

/// A host alone. An IPv6 address has colons too, and may stand in brackets.
fn host(values: &mut Values<'_>, name: &str, accepted: &str) -> String {
    let host = values.text(name);
    if Host::parse(&host).is_err() && host.parse::<Ipv6Addr>().is_err() {
        values.refuse(name, "the value is no host name or address", accepted);
    }
    host
}

fn logs(values: &mut Values<'_>) -> LogSettings {
    LogSettings {
        filter: values.text("RUST_LOG"),
        format: if values.text("LOG_FORMAT") == "json" { LogFormat::Json } else { LogFormat::Text },
    }
}

fn store(values: &mut Values<'_>, home: &Utf8Path) -> StoreSettings {
    let database = match values.url("DATABASE_URL") {
        Some(url) if url.scheme() == "sqlite" => sqlite_file(values, &url).map(DatabaseUrl::Sqlite),
        Some(url) => Some(DatabaseUrl::Postgres(SecretString::from(url.as_str()))),
        None => None,
    };
    StoreSettings {
        database: database.unwrap_or_else(|| DatabaseUrl::Sqlite(home.join("ambient.db"))),
        redis_url: values.url("REDIS_URL").map(|url| SecretString::from(url.as_str())),
        migrate: true,
    }
}

/// The file of a SQLite URL: `sqlite:///srv/ambient.db`, or relative as `sqlite://data/ambient.db` or `sqlite:ambient.db`.
fn sqlite_file(values: &mut Values<'_>, url: &Url) -> Option<Utf8PathBuf> {
    const ACCEPTED: &str = "accepted: `sqlite:///FOLDER/FILE`, with nothing behind the file";
    if url.query().is_some() || url.fragment().is_some() {
        values.refuse("DATABASE_URL", "a SQLite URL has something behind the file's name", ACCEPTED);
        return None;
    }
    let written = url.as_str().trim_start_matches("sqlite:");
    let encoded = written.strip_prefix("//").unwrap_or(written);
    let path = percent_decode_str(encoded).decode_utf8_lossy().into_owned();
    if path.is_empty() || path == ":memory:" || path.ends_with('/') {
        values.refuse("DATABASE_URL", "a SQLite URL names no file", ACCEPTED);
        return None;
    }
    values.absolute("DATABASE_URL", Utf8Path::new(&path))
}

/// The address of a model server. The whole address of its chat completions is a usual slip, and would be called with the
/// path twice.
fn base_url(values: &mut Values<'_>, name: &str) -> Option<HttpUrl> {
    let url = values.url(name)?;
    if url.path().trim_end_matches('/').ends_with("/chat/completions") {
        values.refuse(
            name,
            "the address ends in `/chat/completions`, which the engine adds itself",
            "leave that part out, as in `https://openrouter.ai/api/v1`",
        );
    }
    Some(HttpUrl::new(url))
}

fn llm(values: &mut Values<'_>, api_key: Option<SecretString>) -> LlmSettings {
    let base_url = base_url(values, "LLM_BASE_URL");
    LlmSettings {
        model: values.text("LLM_MODEL"),
        endpoint: base_url.map(|base_url| Endpoint { base_url, api_key }),
        allow_private_urls: values.switch("LLM_ALLOW_PRIVATE_URLS"),
        catalogue_url: values.url("MODEL_CATALOGUE_URL").map(HttpUrl::new),
        definitions_file: values.path("MODEL_DEFINITIONS_FILE"),
        providers_file: values.path("OPENROUTER_PROVIDERS_FILE"),
        track_usage: values.switch("TRACK_USAGE"),
    }
}

fn agent(values: &mut Values<'_>, llm: &LlmSettings, llm_key: Option<SecretString>) -> AgentSettings {
    let shared = llm.endpoint.as_ref();
    let base_url = base_url(values, "AGENT_BASE_URL").or_else(|| shared.map(|endpoint| endpoint.base_url.clone()));
    // The key falls back by itself, also when `LLM_API_KEY` has no address of its own.
    let api_key = values.secret("AGENT_API_KEY").or(llm_key);
    AgentSettings {
        model: values.text("AGENT_MODEL"),
        endpoint: base_url.map(|base_url| Endpoint { base_url, api_key }),
        default_name: values.text("DEFAULT_AGENT_NAME"),
        default_system: values.text("DEFAULT_AGENT_SYSTEM"),
        max_turns_per_run: values.whole("MAX_TURNS_PER_RUN"),
        expose_thinking: values.switch("EXPOSE_THINKING"),
        disable_self_video_analysis: values.switch("DISABLE_SELF_VIDEO_ANALYSIS_TOOL"),
        max_clips_per_prompt: values.whole("MAX_CLIPS_PER_PROMPT"),
        max_frames_per_prompt: values.whole("MAX_FRAMES_PER_PROMPT"),
        first_turn_waits_for_description: values.switch("FIRST_TURN_WAIT_FOR_DESCRIPTION"),
        first_turn_description_timeout: values.seconds("FIRST_TURN_DESCRIPTION_TIMEOUT_SECONDS"),
    }
}

fn media(values: &mut Values<'_>, home: &Utf8Path) -> MediaSettings {
    MediaSettings {
        video_folder: values.path("VIDEO_FOLDER").unwrap_or_else(|| home.join("videos")),
        allowed_roots: values.paths("EXTERNAL_VIDEO_ALLOWED_ROOTS"),
        concurrency: values.count("MEDIA_CONCURRENCY"),
        cache_max_bytes: values.whole("MEDIA_CACHE_MAX_BYTES"),
        ffmpeg: values.program("FFMPEG_PATH"),
        ffprobe: values.program("FFPROBE_PATH"),
        yt_dlp: values.program("YTDLP_PATH"),
        cpu_limit: values.seconds("SANDBOX_CPU_SECONDS"),
        memory_limit_bytes: values.mebibytes("SANDBOX_MEMORY_MB"),
    }
}

fn s3(values: &mut Values<'_>) -> S3Settings {
    let endpoint = values.url("S3_ENDPOINT");
    let default_region = values.optional_text("AWS_DEFAULT_REGION");
    let region = values
        .optional_text("AWS_REGION")
        .or(default_region)
        .or_else(|| endpoint.as_ref().and_then(Url::host_str).and_then(region_in_host).map(str::to_owned))
        .unwrap_or_else(|| USUAL_REGION.to_owned());
    let bucket = values.optional_text("S3_BUCKET");
    if bucket.as_deref().is_some_and(|name| name.contains(['/', ':'])) {
        values.refuse(
            "S3_BUCKET",
            "the value holds more than a bucket's name",
            "accepted: the name alone; a prefix goes into `S3_VIDEO_BASE_KEY`",
        );
    }
    S3Settings {
        bucket,
        // The origin has no slash at its end: with one, signatures would be made for another path than the server sees.
        endpoint: endpoint.map(|url| url.origin().ascii_serialization()),
        region,
        video_base_key: video_base_key(values),
        access_key_id: values.secret("AWS_ACCESS_KEY_ID"),
        secret_access_key: values.secret("AWS_SECRET_ACCESS_KEY"),
    }
}

fn video_base_key(values: &mut Values<'_>) -> String {
    let written = values.text("S3_VIDEO_BASE_KEY");
    let key = written.trim_matches('/');
    let is_proper = !key.is_empty() && key.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !is_proper {
        values.refuse(
            "S3_VIDEO_BASE_KEY",
            "the value is no proper prefix",
            "accepted: names with `/` between them, such as `videos`",
        );
    }
    key.to_owned()
}

/// The region in hosts such as `s3.eu-west-1.amazonaws.com` or `s3.us-west-004.backblazeb2.com`.
fn region_in_host(host: &str) -> Option<&str> {
    let region = host.strip_prefix("s3.")?.split('.').next()?;
    let is_region = region.contains('-')
        && region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    is_region.then_some(region)
}

fn sandbox(values: &mut Values<'_>, media: &MediaSettings) -> SandboxSettings {
    SandboxSettings {
        backend: if values.text("SANDBOX_BACKEND") == "e2b" { SandboxBackend::E2b } else { SandboxBackend::InProcess },
        wall: values.seconds("SANDBOX_WALL_SECONDS"),
        recreate: values.switch("SANDBOX_RECREATE"),
        cpu_seconds: media.cpu_limit.as_secs(),
        memory_mb: media.memory_limit_bytes >> 20,
        video_folder: values.path("BOX_VIDEO_FOLDER").unwrap_or_default(),
    }
}

fn e2b(values: &mut Values<'_>) -> E2bSettings {
    let domain = host(values, "E2B_DOMAIN", "accepted: a domain such as `e2b.app`");
    let debug = values.switch("E2B_DEBUG");
    let usual_url = if debug { "http://localhost:3000".to_owned() } else { format!("https://api.{domain}") };
    // A domain that is no host is a fault already.
    let api_url = values.url("E2B_API_URL").or_else(|| Url::parse(&usual_url).ok());
    E2bSettings {
        api_key: values.secret("E2B_API_KEY"),
        template: values.text("E2B_TEMPLATE"),
        domain,
        api_url: HttpUrl::new(
            api_url.unwrap_or_else(|| Url::parse("https://api.e2b.app").expect("a constant URL parses")),
        ),
        sandbox_url: values.url("E2B_SANDBOX_URL").map(HttpUrl::new),
        debug,
    }
}

fn ingest(values: &mut Values<'_>) -> IngestSettings {
    IngestSettings {
        concurrency: values.count("INGEST_CONCURRENCY"),
        max_attempts: values.whole("INGEST_MAX_ATTEMPTS"),
        stale_after: values.seconds("INGEST_STALE_SECONDS"),
        sweep_every: values.seconds("INGEST_SWEEP_SECONDS"),
        wait_timeout: values.seconds("INGEST_WAIT_TIMEOUT_SECONDS"),
        wait_poll: values.seconds("INGEST_WAIT_POLL_SECONDS"),
        block: Duration::from_millis(values.whole("INGEST_BLOCK_MS")),
        stream: values.text("INGEST_STREAM"),
        group: values.text("INGEST_GROUP"),
    }
}
