//! Rows: ffmpeg and its limits, clip quality, descriptions, ingest, tiles and imports.

use super::{LONGEST, Preset, Section, setting};
use crate::kind::Kind;

pub(super) const MEDIA: Section = Section {
    title: "Media",
    intro: "Where videos are and which programs work on them.",
    rows: &[
        setting(
            "VIDEO_FOLDER",
            Kind::Path,
            Preset::Computed("`<AMBIENT_HOME>/videos`"),
            "The folder of uploaded videos and of what is cut from them.",
        )
        .advice("Put it on a large disk. Replicas without a bucket must share it."),
        setting(
            "EXTERNAL_VIDEO_ALLOWED_ROOTS",
            Kind::Paths,
            Preset::Is(""),
            "Further folders from which the agent's tools may read files, with commas between them.",
        )
        .advice("Everybody who may ask questions can then read what is in them."),
        setting(
            "MEDIA_CONCURRENCY",
            Kind::Whole { least: 1, most: 1024 },
            Preset::Computed("one for each processor core"),
            "How many ffmpeg processes run at once on the engine's host.",
        ),
        setting(
            "MEDIA_CACHE_MAX_BYTES",
            Kind::Bytes { least: 0, most: u64::MAX },
            Preset::Is("20GiB"),
            "How much disk clips and frames may fill before the ones that were not used for longest are removed, and likewise how much videos may fill that had to be downloaded whole from the bucket. Uploaded videos do not count.",
        ),
        setting("FFMPEG_PATH", Kind::Program, Preset::Is("ffmpeg"), "The ffmpeg program."),
        setting("FFPROBE_PATH", Kind::Program, Preset::Is("ffprobe"), "The ffprobe program."),
        setting("YTDLP_PATH", Kind::Program, Preset::Is("yt-dlp"), "The yt-dlp program, for imports."),
    ],
};

pub(super) const CLIPS: Section = Section {
    title: "Clips",
    intro: "The quality of clips that a model looks at. Gemini models take clips of their own quality: 2 frames a second, 768 pixels, 14 MB.",
    rows: &[
        setting("ANALYSIS_FPS", Kind::Decimal { least: 0.1, most: 60.0 }, Preset::Is("2"), "Frames a second.")
            .advice("Raise it for fast movement; models charge by the frame."),
        setting(
            "ANALYSIS_MAX_DIM",
            Kind::Whole { least: 64, most: 8192 },
            Preset::Is("768"),
            "The longer side of the picture in pixels, at most.",
        )
        .advice("Raise it to read small text."),
        setting(
            "ANALYSIS_MAX_SIZE_MB",
            Kind::Whole { least: 1, most: 4096 },
            Preset::Is("8"),
            "The largest clip in MiB; a larger one is cut again in lower quality.",
        ),
        setting(
            "INLINE_CLIPS",
            Kind::Switch,
            Preset::Is("false"),
            "Sends clips to the model inside the request even when there is a bucket.",
        )
        .advice("Turn it on when the model's server cannot fetch links from your bucket."),
    ],
};

pub(super) const DESCRIPTIONS: Section = Section {
    title: "Descriptions",
    intro: "Each uploaded video is described once by the video model, in the background.",
    rows: &[
        setting(
            "DESCRIPTION_MODEL",
            Kind::Word,
            Preset::Computed("`LLM_MODEL`"),
            "The model that writes descriptions.",
        ),
        setting(
            "DESCRIPTION_MAX_FRAMES",
            Kind::Whole { least: 1, most: 1000 },
            Preset::Is("50"),
            "How many frames it sees, at most.",
        ),
        setting(
            "DESCRIPTION_MAX_DIM",
            Kind::Whole { least: 64, most: 8192 },
            Preset::Is("768"),
            "The longer side of these frames in pixels, at most.",
        ),
    ],
};

pub(super) const INGEST: Section = Section {
    title: "Background jobs",
    intro: "Descriptions, tiles and imports run as jobs from a queue. These settings rarely need a change.",
    rows: &[
        setting(
            "INGEST_CONCURRENCY",
            Kind::Whole { least: 1, most: 256 },
            Preset::Is("2"),
            "How many jobs an engine runs at once; on `e2b` each has a sandbox.",
        )
        .advice("Raise it when many videos arrive together; it multiplies sandboxes and model calls."),
        setting(
            "INGEST_MAX_ATTEMPTS",
            Kind::Whole { least: 1, most: 100 },
            Preset::Is("3"),
            "How often a job is tried before it counts as failed.",
        ),
        setting(
            "INGEST_STALE_SECONDS",
            Kind::Seconds { least: 5, most: LONGEST },
            Preset::Is("300"),
            "After how long without a sign of life a job is taken over by another engine.",
        ),
        setting(
            "INGEST_SWEEP_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST },
            Preset::Is("300"),
            "How often the engine looks for work that got lost, and queues it again.",
        ),
        setting(
            "INGEST_WAIT_TIMEOUT_SECONDS",
            Kind::Seconds { least: 0, most: LONGEST },
            Preset::Is("60"),
            "How long a tool waits for a description that is still being written, before it goes on without.",
        ),
        setting(
            "INGEST_WAIT_POLL_SECONDS",
            Kind::PartSeconds { least: 0.05, most: 3600.0 },
            Preset::Is("1.5"),
            "How often it looks while it waits.",
        ),
        setting(
            "INGEST_BLOCK_MS",
            Kind::Whole { least: 10, most: 600_000 },
            Preset::Is("5000"),
            "How long one read from the Redis queue waits for a job, in milliseconds.",
        ),
        setting("INGEST_STREAM", Kind::Word, Preset::Is("ingest:video"), "The Redis stream of the queue.")
            .advice("Change it to run two installations on one Redis."),
        setting("INGEST_GROUP", Kind::Word, Preset::Is("ingest-workers"), "The consumer group on that stream."),
    ],
};

pub(super) const TILES: Section = Section {
    title: "Clip tiles",
    intro: "With a bucket each video is cut once into tiles, so that a clip is put together instead of transcoded.",
    rows: &[
        setting("TILING_ENABLED", Kind::Switch, Preset::Is("true"), "Cuts tiles at upload and uses them.")
            .advice("Turn it off when few questions are asked about each video: tiling costs as much time as cutting one clip of the whole video."),
        setting(
            "TILING_LOCAL",
            Kind::Switch,
            Preset::Is("false"),
            "Cuts tiles without a bucket too; they lie in `VIDEO_FOLDER/<id>/tiles`.",
        )
        .advice("They take some 1 to 3 MB a minute of video, on top of the video."),
        setting("TILE_SECONDS", Kind::Seconds { least: 5, most: 3600 }, Preset::Is("45"), "The length of a tile.")
            .sandbox_too(),
        setting("TILE_FPS", Kind::Decimal { least: 0.1, most: 60.0 }, Preset::Is("2"), "Frames a second in a tile.")
            .sandbox_too()
            .advice("Keep it equal to `ANALYSIS_FPS`, or tiles cannot be used."),
        setting(
            "TILE_MAX_DIM",
            Kind::Whole { least: 64, most: 8192 },
            Preset::Is("768"),
            "The longer side of a tile's picture in pixels, at most.",
        )
        .sandbox_too()
        .advice("Keep it equal to `ANALYSIS_MAX_DIM`, or tiles cannot be used."),
        setting(
            "TILE_WORKERS",
            Kind::Whole { least: 1, most: 64 },
            Preset::Is("8"),
            "How many tiles are cut at once, at most as many as `MEDIA_CONCURRENCY`; 8 suits the 8 cores of a sandbox.",
        )
        .sandbox_too(),
    ],
};

pub(super) const YOUTUBE: Section = Section {
    title: "Imports",
    intro: "Videos that are imported from YouTube with `POST /v1/files/import`.",
    rows: &[
        setting("YOUTUBE_IMPORT_ENABLED", Kind::Switch, Preset::Is("true"), "Allows imports."),
        setting(
            "YOUTUBE_MAX_HEIGHT",
            Kind::Whole { least: 0, most: 8192 },
            Preset::Is("720"),
            "The tallest picture that is downloaded, in pixels; `0` sets no limit.",
        )
        .sandbox_too(),
        setting(
            "YOUTUBE_MAX_DURATION_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST },
            Preset::Is("10800"),
            "The longest video that is imported.",
        )
        .sandbox_too(),
        setting(
            "YOUTUBE_MAX_SIZE_BYTES",
            Kind::Bytes { least: 1, most: u64::MAX },
            Preset::Is("5GiB"),
            "The largest video that is imported.",
        )
        .sandbox_too(),
        setting(
            "YOUTUBE_DOWNLOAD_TIMEOUT_SECONDS",
            Kind::Seconds { least: 1, most: LONGEST },
            Preset::Is("900"),
            "How long a download may take. A media command in a sandbox may run this long, or 1800 seconds when that is longer.",
        )
        .sandbox_too(),
    ],
};
