//! What the settings say of sandboxes, and what must be set before any can boot.

use std::time::Duration;

use ambient_e2b::Config;
use ambient_settings::{Settings, TileSettings};
use camino::Utf8PathBuf;
use secrecy::SecretString;

/// A media command may take so long at least: time to cut a video of three hours into tiles.
const LEAST_MEDIA_TIMEOUT: Duration = Duration::from_mins(30);
/// What a shell is not told: whoever has these two can read and overwrite everybody's videos.
const CREDENTIALS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];

/// How sandboxes are made and used.
#[derive(Clone, Debug)]
pub struct E2bConfig {
    /// How E2B is reached.
    pub client: Config,
    /// `E2B_TEMPLATE`.
    pub template: String,
    /// `SANDBOX_WALL_SECONDS`: how long a sandbox lives after its last command.
    pub wall: Duration,
    /// `SANDBOX_RECREATE`: whether a session whose sandbox is gone gets a new one.
    pub recreate: bool,
    /// How long a media command may take.
    pub media_timeout: Duration,
    /// `SESSION_IDLE_TTL_SECONDS`; `None` is no limit.
    pub idle_ttl: Option<Duration>,
    /// `SESSION_HARD_TTL_SECONDS`; `None` is no limit.
    pub hard_ttl: Option<Duration>,
    /// `VIDEO_FOLDER` of this host, for media that an in-process engine made before.
    pub video_folder: Utf8PathBuf,
    /// `BOX_VIDEO_FOLDER`: the folder of videos inside of a sandbox.
    pub box_video_folder: Utf8PathBuf,
    /// `ARTIFACT_MAX_SIZE_MB`, in bytes.
    pub artifact_max_bytes: u64,
    /// `ARTIFACT_URL_TTL_SECONDS`.
    pub artifact_link_life: Duration,
    /// `TILING_ENABLED` and `TILE_…`: whether and how tiles are made.
    pub tiles: TileSettings,
    /// Whether there is a shell.
    pub has_shell: bool,
    /// What every process in a sandbox is told.
    pub environment: Vec<(&'static str, SecretString)>,
    /// What media commands are told besides.
    pub credentials: Vec<(&'static str, SecretString)>,
}

/// What keeps an engine with `SANDBOX_BACKEND=e2b` from starting.
#[derive(Debug, thiserror::Error)]
pub enum E2bConfigError {
    /// Nobody would make a sandbox.
    #[error(
        "`SANDBOX_BACKEND=e2b` needs `E2B_API_KEY`, which is not set in the engine's environment or `.env`; copy a key from the \
         dashboard of your E2B team and set it, or set `SANDBOX_BACKEND=inprocess`"
    )]
    KeyMissing,
    /// Sandboxes could not get at videos.
    #[error(
        "`SANDBOX_BACKEND=e2b` needs a bucket, since sandboxes fetch videos from it and return clips through it, and {} not set; \
         set {}, or set `SANDBOX_BACKEND=inprocess`",
        are(.names),
        listed(.names)
    )]
    BucketMissing {
        /// The settings that are missing.
        names: Vec<&'static str>,
    },
    /// Key or addresses cannot be used.
    #[error("the client for E2B could not be made of the `E2B_…` settings")]
    Client(#[source] ambient_e2b::Error),
}

fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn are(names: &[&str]) -> String {
    format!("{} {}", listed(names), if names.len() == 1 { "is" } else { "are" })
}

impl E2bConfig {
    /// As the settings say.
    ///
    /// # Errors
    /// When something is missing without which no session could work.
    pub fn from_settings(settings: &Settings) -> Result<Self, E2bConfigError> {
        let (e2b, sandbox, s3) = (&settings.e2b, &settings.sandbox, &settings.s3);
        if e2b.api_key.is_none() && !e2b.debug {
            return Err(E2bConfigError::KeyMissing);
        }
        let needed = [
            ("S3_BUCKET", s3.bucket.is_some()),
            ("AWS_ACCESS_KEY_ID", s3.access_key_id.is_some()),
            ("AWS_SECRET_ACCESS_KEY", s3.secret_access_key.is_some()),
        ];
        let names: Vec<_> = needed.into_iter().filter(|(_, is_set)| !is_set).map(|(name, _)| name).collect();
        if !names.is_empty() {
            return Err(E2bConfigError::BucketMissing { names });
        }
        let client =
            Config::from_lookup(|name| e2b.variable(name)).map_err(|error| E2bConfigError::Client(error.into()))?;
        let (credentials, environment) =
            settings.sandbox_environment().into_iter().partition(|(name, _)| CREDENTIALS.contains(name));
        Ok(Self {
            client,
            template: e2b.template.clone(),
            wall: sandbox.wall,
            recreate: sandbox.recreate,
            media_timeout: settings.youtube.download_timeout.max(LEAST_MEDIA_TIMEOUT),
            idle_ttl: settings.sessions.idle_ttl,
            hard_ttl: settings.sessions.hard_ttl,
            video_folder: settings.media.video_folder.clone(),
            box_video_folder: sandbox.video_folder.clone(),
            artifact_max_bytes: settings.artifacts.max_size_bytes,
            artifact_link_life: settings.artifacts.url_ttl,
            tiles: settings.tiles.clone(),
            has_shell: settings.bash.enabled,
            environment,
            credentials,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use secrecy::ExposeSecret as _;

    use super::*;

    const WHOLE: [(&str, &str); 7] = [
        ("HOME", "/home/ann"),
        ("SANDBOX_BACKEND", "e2b"),
        ("E2B_API_KEY", "e2b_0123"),
        ("S3_BUCKET", "films"),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "bucket-secret"),
        ("LLM_API_KEY", "model-secret"),
    ];

    fn config(without: &[&str], with: &[(&str, &str)]) -> Result<E2bConfig, E2bConfigError> {
        let pairs: std::collections::BTreeMap<&str, &str> =
            WHOLE.iter().filter(|(name, _)| !without.contains(name)).chain(with).copied().collect();
        let environment = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<Vec<_>>();
        E2bConfig::from_settings(&Settings::load(environment, None).unwrap().settings)
    }

    #[test]
    fn what_is_missing_is_told_with_what_mends_it() {
        let told = |without: &[&str]| config(without, &[]).unwrap_err().to_string();
        assert!(told(&["E2B_API_KEY"]).contains("needs `E2B_API_KEY`, which is not set"));
        let one = told(&["S3_BUCKET"]);
        assert!(one.contains("`S3_BUCKET` is not set; set `S3_BUCKET`"), "{one}");
        let two = told(&["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]);
        assert!(two.contains("`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` are not set"), "{two}");
    }

    #[test]
    fn a_shell_is_told_nothing_that_opens_the_bucket() {
        let config = config(&[], &[]).unwrap();
        let names: BTreeSet<_> = config.credentials.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, BTreeSet::from(CREDENTIALS));
        for (name, value) in &config.environment {
            assert!(!["bucket-secret", "model-secret", "e2b_0123", "id"].contains(&value.expose_secret()), "{name}");
        }
        assert!(config.environment.iter().any(|(name, _)| *name == "S3_BUCKET"));
    }

    #[test]
    fn a_media_command_has_half_an_hour_or_as_long_as_a_download() {
        assert_eq!(config(&[], &[]).unwrap().media_timeout, Duration::from_mins(30));
        let longer = config(&[], &[("YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS", "4000")]).unwrap();
        assert_eq!(longer.media_timeout, Duration::from_secs(4000));
    }
}
