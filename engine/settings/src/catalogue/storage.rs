//! Rows: database, broker, bucket, and how sources and exported files travel.

use super::{LONGEST_LINK, Preset, Section, setting};
use crate::kind::Kind;

pub(super) const STORE: Section = Section {
    title: "Database and broker",
    intro: "One engine needs neither of these. Several engines that serve the same sessions share a Postgres and a Redis.",
    rows: &[
        setting(
            "DATABASE_URL",
            Kind::Url { schemes: &["sqlite", "postgres", "postgresql"] },
            Preset::Computed("`sqlite://<AMBIENT_HOME>/ambient.db`"),
            "Where sessions, events and file records are stored: a SQLite file, or Postgres 14 or newer (`?sslmode=require` for TLS).",
        )
        .secret()
        .advice("Set a Postgres URL to run more than one engine."),
        setting(
            "REDIS_URL",
            Kind::Url { schemes: &["redis", "rediss"] },
            Preset::Unset,
            "The Redis 6.2 or newer over which engines share leases, live events and the job queue; `rediss://` for TLS. Without it all of this happens inside the process.",
        )
        .secret()
        .advice("Set it to run more than one engine."),
    ],
};

pub(super) const BUCKET: Section = Section {
    title: "Bucket",
    intro: "An S3-compatible bucket is required for `SANDBOX_BACKEND=e2b`. In-process it is optional: it backs up sources and lets the agent export files. \
            The key needs `s3:GetObject`, `s3:PutObject` and `s3:ListBucket`.",
    rows: &[
        setting(
            "S3_ENDPOINT",
            Kind::ServerUrl,
            Preset::Unset,
            "The address of the S3 service, without the bucket, such as `https://<account>.r2.cloudflarestorage.com`. Not set means AWS itself.",
        )
        .sandbox_too(),
        setting("S3_BUCKET", Kind::Word, Preset::Unset, "The bucket's name. Not set means no bucket, and no `upload_artifact` tool.")
            .sandbox_too(),
        setting("S3_VIDEO_BASE_KEY", Kind::Word, Preset::Is("videos"), "The prefix of uploaded videos in the bucket.")
            .sandbox_too()
            .advice("Set it before the first upload, since videos that are there already stay under the old prefix."),
        setting("AWS_ACCESS_KEY_ID", Kind::Word, Preset::Unset, "The access key of the bucket.").secret().sandbox_too(),
        setting("AWS_SECRET_ACCESS_KEY", Kind::Word, Preset::Unset, "The secret that belongs to the access key.")
            .secret()
            .sandbox_too(),
        setting(
            "AWS_REGION",
            Kind::Word,
            Preset::Computed("the region in the endpoint's host name, else `us-east-1`"),
            "The region for which requests to the bucket are signed.",
        )
        .sandbox_too()
        .advice("Set it on AWS outside us-east-1, and where a service asks for a region of its own. R2 takes the default."),
        setting(
            "AWS_DEFAULT_REGION",
            Kind::Word,
            Preset::Unset,
            "The region when `AWS_REGION` is not set; the name that AWS's Python tools read.",
        ),
    ],
};

pub(super) const SOURCES: Section = Section {
    title: "Reading sources from the bucket",
    intro: "How a video that is not on the local disk is read: ranges through a short presigned link, or a whole download.",
    rows: &[
        setting(
            "STREAM_SOURCE_VIDEO",
            Kind::Switch,
            Preset::Is("true"),
            "Reads ranges of large videos instead of downloading them.",
        )
        .sandbox_too()
        .advice("Turn it off when the bucket answers range requests badly."),
        setting(
            "STREAM_MIN_BYTES",
            Kind::Bytes { least: 0, most: u64::MAX },
            Preset::Is("100MiB"),
            "Inside a sandbox, videos from this size on are read by ranges and smaller ones are downloaded once. The engine itself reads ranges of every video.",
        )
        .sandbox_too(),
        setting(
            "SOURCE_URL_TTL",
            Kind::Seconds { least: 60, most: LONGEST_LINK },
            Preset::Is("7200"),
            "How long a presigned link to a source lives.",
        )
        .sandbox_too()
        .advice("Raise it when one media command over a very long video takes more than two hours."),
        setting(
            "OVERVIEW_SEEK_CONCURRENCY",
            Kind::Whole { least: 1, most: 256 },
            Preset::Is("16"),
            "How many places of a video are read at once when frames are sampled over its whole length.",
        )
        .sandbox_too(),
        setting(
            "UPLOAD_CONCURRENCY",
            Kind::Whole { least: 1, most: 256 },
            Preset::Is("8"),
            "How many clips and frames are uploaded to the bucket at once.",
        )
        .sandbox_too()
        .advice("Lower it when uploads from a sandbox fail with broken connections; no new template is needed."),
    ],
};

pub(super) const ARTIFACTS: Section = Section {
    title: "Exported files",
    intro: "Files that the agent exports with `upload_artifact`; they go to `artifacts/<video_id>/` in the bucket.",
    rows: &[
        setting(
            "ARTIFACT_URL_TTL_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST_LINK },
            Preset::Is("604800"),
            "How long the link to an exported file works. Seven days, the default, is the most that S3 allows.",
        ),
        setting(
            "ARTIFACT_MAX_SIZE_MB",
            Kind::Whole { least: 1, most: 5_242_880 },
            Preset::Is("1024"),
            "The largest file that may be exported, in MiB.",
        ),
    ],
};
