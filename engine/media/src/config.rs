//! What the operator decides about media work. The caller fills it from its settings; nothing here reads the environment.

use std::time::Duration;

use camino::Utf8PathBuf;

/// Programs, places and limits of one [`crate::Media`].
#[derive(Clone, Debug)]
pub struct MediaConfig {
    /// The ffmpeg to run: a path, or a name that is looked up on `PATH`. 5.1 or newer.
    pub ffmpeg: Utf8PathBuf,
    /// The ffprobe to run, likewise.
    pub ffprobe: Utf8PathBuf,
    /// Where outputs are made; created when missing. The caller moves or deletes what an operation hands back.
    pub work_folder: Utf8PathBuf,
    /// How many children run at once; further ones wait in the order of their asking.
    pub concurrency: usize,
    /// How long one child may take.
    pub wall_limit: Duration,
    /// How many seconds of processor time one child may use.
    pub cpu_seconds: u64,
    /// How much address space one child may map, in bytes. ffmpeg alone maps some hundred megabytes of libraries.
    pub memory_bytes: u64,
    /// How large a file one child may write, in bytes.
    pub output_limit_bytes: u64,
    /// How much of a child's standard error is kept, from its end, in bytes.
    pub stderr_tail_bytes: usize,
    /// The largest picture that is decoded, in pixels (width times height).
    pub max_pixels: u64,
}

impl MediaConfig {
    /// Programs from `PATH`, outputs in `work_folder`, and limits that fit a video of some hours on an ordinary host.
    pub fn in_folder(work_folder: impl Into<Utf8PathBuf>) -> Self {
        Self {
            ffmpeg: "ffmpeg".into(),
            ffprobe: "ffprobe".into(),
            work_folder: work_folder.into(),
            concurrency: std::thread::available_parallelism().map_or(2, usize::from),
            wall_limit: Duration::from_mins(10),
            cpu_seconds: 1800,
            memory_bytes: 4 << 30,
            output_limit_bytes: 4 << 30,
            stderr_tail_bytes: 64 << 10,
            max_pixels: 8192 * 4320,
        }
    }
}
