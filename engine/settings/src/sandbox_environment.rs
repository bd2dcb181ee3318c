//! What a sandbox is told: the bucket, and the limits of media work. Never a model's key, a database or the engine's own key.

use secrecy::{ExposeSecret, SecretString};

use crate::settings::Settings;

impl Settings {
    /// The environment of the media tool inside a sandbox: the settings that the catalogue marks as passed on, and the
    /// sandbox's own video folder as `VIDEO_FOLDER`. What is not set is left out. [`Settings::load`] inside the sandbox
    /// gives the same limits back.
    pub fn sandbox_environment(&self) -> Vec<(&'static str, SecretString)> {
        let (source, tiles, youtube, s3) = (&self.source, &self.tiles, &self.youtube, &self.s3);
        let plain = [
            ("VIDEO_FOLDER", self.sandbox.video_folder.to_string()),
            ("S3_VIDEO_BASE_KEY", s3.video_base_key.clone()),
            ("STREAM_SOURCE_VIDEO", source.stream.to_string()),
            ("STREAM_MIN_BYTES", source.stream_min_bytes.to_string()),
            ("SOURCE_URL_TTL", source.url_ttl.as_secs().to_string()),
            ("OVERVIEW_SEEK_CONCURRENCY", source.overview_seek_concurrency.to_string()),
            ("UPLOAD_CONCURRENCY", source.upload_concurrency.to_string()),
            ("TILE_SECONDS", tiles.length.as_secs().to_string()),
            ("TILE_FPS", tiles.fps.to_string()),
            ("TILE_MAX_DIM", tiles.max_dimension.to_string()),
            ("TILE_WORKERS", tiles.workers.to_string()),
            ("YOUTUBE_MAX_HEIGHT", youtube.max_height.unwrap_or(0).to_string()),
            ("YOUTUBE_MAX_DURATION_SECONDS", youtube.max_duration.as_secs().to_string()),
            ("YOUTUBE_MAX_SIZE_BYTES", youtube.max_size_bytes.to_string()),
            ("YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS", youtube.download_timeout.as_secs().to_string()),
        ];
        let bucket = [
            ("S3_ENDPOINT", s3.endpoint.as_deref()),
            ("S3_BUCKET", s3.bucket.as_deref()),
            ("AWS_REGION", s3.bucket.is_some().then_some(s3.region.as_str())),
            ("AWS_ACCESS_KEY_ID", s3.access_key_id.as_ref().map(ExposeSecret::expose_secret)),
            ("AWS_SECRET_ACCESS_KEY", s3.secret_access_key.as_ref().map(ExposeSecret::expose_secret)),
        ];
        plain
            .into_iter()
            .map(|(name, value)| (name, SecretString::from(value)))
            .chain(bucket.into_iter().filter_map(|(name, value)| Some((name, SecretString::from(value?)))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalogue::catalogue;

    fn with_a_bucket() -> Settings {
        let environment = [
            ("HOME", "/home/ann"),
            ("SANDBOX_BACKEND", "e2b"),
            ("S3_BUCKET", "ambient-videos"),
            ("S3_ENDPOINT", "https://account.r2.cloudflarestorage.com"),
            ("AWS_ACCESS_KEY_ID", "key-id"),
            ("AWS_SECRET_ACCESS_KEY", "key-secret"),
            ("LLM_BASE_URL", "https://models.example"),
            ("LLM_API_KEY", "model-key"),
            ("API_KEY", "engine-key"),
            ("E2B_API_KEY", "e2b-key"),
            ("DATABASE_URL", "postgres://ann:database-password@db/ambient"),
            ("YOUTUBE_MAX_HEIGHT", "0"),
            ("TILE_FPS", "1.5"),
        ];
        Settings::load(environment.map(|(name, value)| (name.into(), value.into())), None).unwrap().settings
    }

    #[test]
    fn it_holds_exactly_the_settings_that_the_catalogue_passes_on() {
        let passed: BTreeSet<_> = with_a_bucket().sandbox_environment().into_iter().map(|(name, _)| name).collect();
        let marked: BTreeSet<_> = catalogue().filter(|row| row.is_passed_to_sandboxes()).map(|row| row.name).collect();
        assert_eq!(passed, marked.into_iter().chain(["VIDEO_FOLDER"]).collect());
    }

    #[test]
    fn it_holds_no_secret_but_the_buckets() {
        let all: String = with_a_bucket()
            .sandbox_environment()
            .iter()
            .map(|(_, value)| value.expose_secret().to_owned() + "\n")
            .collect();
        for secret in ["model-key", "engine-key", "e2b-key", "database-password"] {
            assert!(!all.contains(secret), "{secret}");
        }
        assert!(all.contains("key-secret"));
    }

    #[test]
    fn the_media_tool_reads_the_same_limits_back() {
        let engine = with_a_bucket();
        let environment = engine
            .sandbox_environment()
            .into_iter()
            .map(|(name, value)| (name.into(), value.expose_secret().to_owned().into()))
            .chain([("HOME".into(), "/root".into())]);
        let loaded = Settings::load(environment, None).unwrap();
        assert_eq!(format!("{:?}", loaded.settings.source), format!("{:?}", engine.source));
        assert_eq!(format!("{:?}", loaded.settings.tiles), format!("{:?}", engine.tiles));
        assert_eq!(format!("{:?}", loaded.settings.youtube), format!("{:?}", engine.youtube));
        assert_eq!(loaded.settings.s3.endpoint, engine.s3.endpoint);
        assert_eq!(loaded.settings.s3.region, engine.s3.region);
        assert_eq!(loaded.settings.media.video_folder, "/tmp/videos/");
    }

    #[test]
    fn without_a_bucket_nothing_of_one_is_passed() {
        let settings = Settings::for_tests("/tmp/home".into());
        let names: Vec<_> = settings.sandbox_environment().into_iter().map(|(name, _)| name).collect();
        assert!(
            names.iter().all(|name| !name.starts_with("AWS_") && !matches!(*name, "S3_BUCKET" | "S3_ENDPOINT")),
            "{names:?}"
        );
    }
}
