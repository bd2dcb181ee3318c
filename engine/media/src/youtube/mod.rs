//! Videos from YouTube, through yt-dlp.
//!
//! The page is looked at once. What that look says decides before a byte of the video is fetched: no live streams, no
//! playlists, nothing longer, larger or taller than allowed. The download then works from the same look, so what was
//! checked is what comes. The size is held to its limit three times over, since pages may not tell it: by yt-dlp, by the
//! limit on what a child may write, and on the file that came.
//!
//! yt-dlp runs like every other child, under limits on time and processor and in a process group of its own, with a home of
//! its own that goes with the request: no configuration, cookie or cache of the host counts. It is told `PATH`, where it
//! finds ffmpeg and deno, and how to leave the operator's network (`HTTPS_PROXY` and its like). Only its address space is
//! open: deno reserves far more than it uses.

mod address;
mod error;
mod faststart;
mod info;
mod progress;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio_util::sync::CancellationToken;

pub use self::address::{YoutubeVideo, youtube_video};
pub use self::error::YoutubeError;
pub use self::info::YoutubeInfo;
pub use self::progress::{YoutubePhase, YoutubeProgress};

use self::progress::Counter;
use crate::args::remux;
use crate::args::youtube::{self as youtube_args, Bounds, INFO, STEM};
use crate::error::MediaError;
use crate::exec::{self, Executor, Extra, Finished, Job};
use crate::limits::Limits;
use crate::media::Media;
use crate::probe::{Acceptance, Probe};
use crate::source::{Opened, Source};
use crate::workspace::Workspace;

/// The look at a page takes seconds; the rest is patience with a slow network.
const EXTRACT_LIMIT: Duration = Duration::from_mins(2);
/// All that is known of a video is some hundred kilobytes, most of it the list of its formats.
const INFO_LIMIT_BYTES: usize = 32 << 20;
/// The download's lines of progress; some come every second.
const LINES_LIMIT_BYTES: usize = 32 << 20;
/// What merging adds to the bytes of a download, and what rounding takes: a sixteenth, and a little for small ones.
const SLACK_BYTES: u64 = 16 << 20;
/// The JavaScript program that yt-dlp needs for most videos.
const DENO: &str = "deno";

/// What the operator decides about downloads.
#[derive(Clone, Debug)]
pub struct YoutubeConfig {
    /// The yt-dlp to run: a path, or a name that is looked up on `PATH`.
    pub program: Utf8PathBuf,
    /// The tallest picture, in pixels; `None` is no limit.
    pub max_height: Option<u32>,
    /// The longest video.
    pub max_duration: Duration,
    /// The largest download, in bytes.
    pub max_size_bytes: u64,
    /// How long a download may take.
    pub download_timeout: Duration,
    /// How many seconds of processor time one yt-dlp and what it starts may use each.
    pub cpu_seconds: u64,
    /// How many of them run at once.
    pub concurrency: usize,
    /// Where downloads are made; [`Downloaded::move_to`] works within its file system.
    pub work_folder: Utf8PathBuf,
}

/// Fetches videos under one configuration.
#[derive(Debug)]
pub struct Youtube {
    config: YoutubeConfig,
    executor: Executor,
    media: Media,
}

/// A video that may be fetched: its page was looked at, and it keeps to the limits.
#[derive(Debug)]
pub struct Extraction {
    workspace: Workspace,
    info: YoutubeInfo,
}

impl Extraction {
    /// What the page says.
    pub const fn info(&self) -> &YoutubeInfo {
        &self.info
    }
}

/// A video that is here, in a folder that goes with this value.
#[derive(Debug)]
pub struct Downloaded {
    workspace: Workspace,
    path: Utf8PathBuf,
    info: YoutubeInfo,
    probe: Probe,
}

impl Downloaded {
    /// What the page says.
    pub const fn info(&self) -> &YoutubeInfo {
        &self.info
    }

    /// What the file itself says; it was accepted.
    pub const fn probe(&self) -> &Probe {
        &self.probe
    }

    /// Where the file lies for now.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Gives the file its place. Whoever looks there finds the whole file or what was there before.
    ///
    /// # Errors
    ///
    /// When the place is on another file system, or cannot be written to.
    pub async fn move_to(self, place: &Utf8Path) -> Result<(), MediaError> {
        fs_err::tokio::rename(&self.path, place).await.map_err(MediaError::file("put the download in its place"))?;
        drop(self.workspace);
        Ok(())
    }
}

impl Youtube {
    /// Starts nothing; yt-dlp is looked for when it is needed. `media` looks at what was fetched.
    pub fn new(config: YoutubeConfig, media: Media) -> Self {
        let limits = Limits {
            cpu_seconds: config.cpu_seconds,
            memory_bytes: None,
            output_bytes: config.max_size_bytes.saturating_add(config.max_size_bytes / 16).saturating_add(SLACK_BYTES),
        };
        let tail = media.config().stderr_tail_bytes;
        let executor = Executor::new(config.concurrency, config.download_timeout, limits, tail);
        Self { config, executor, media }
    }

    /// What yt-dlp calls itself, such as `2026.10.26`.
    ///
    /// # Errors
    ///
    /// When it is missing or does not answer.
    pub async fn version(&self) -> Result<String, MediaError> {
        let stop = CancellationToken::new();
        let finished = self.run(vec!["--version".to_owned()], Utf8Path::new("/"), None, &stop).await?;
        let finished = finished.succeeded(&self.config.program)?;
        Ok(String::from_utf8_lossy(&finished.stdout).trim().to_owned())
    }

    /// Whether deno is there, without which most videos of YouTube cannot be had.
    pub fn has_deno(&self) -> bool {
        exec::find(Utf8Path::new(DENO)).is_ok()
    }

    /// Looks at a video's page, and refuses what is not to be fetched.
    ///
    /// # Errors
    ///
    /// When the address is not one of YouTube's, there is no such video, it is live, a playlist or over a limit, yt-dlp fails,
    /// or `stop` fires.
    pub async fn extract(&self, url: &str, stop: &CancellationToken) -> Result<Extraction, YoutubeError> {
        let video = youtube_video(url).ok_or(YoutubeError::NotYoutube)?;
        if !self.has_deno() {
            tracing::warn!("`deno` is not on `PATH`: yt-dlp needs it for most videos of YouTube");
        }
        let workspace = Workspace::new(&self.config.work_folder).await?;
        let look = self.run(youtube_args::extract(&video.url, self.bounds()), workspace.path(), None, stop);
        let Ok(finished) = tokio::time::timeout(EXTRACT_LIMIT, look).await else {
            return Err(YoutubeError::TimedOut { limit: EXTRACT_LIMIT });
        };
        let finished = self.succeeded(finished.map_err(out_of_time)?)?;
        let info = YoutubeInfo::parse(&finished.stdout)?;
        self.check(&info)?;
        fs_err::tokio::write(workspace.file(INFO), &finished.stdout)
            .await
            .map_err(MediaError::file("keep what is known of the video"))?;
        Ok(Extraction { workspace, info })
    }

    /// Fetches a video. `progress` is told how far it is, some times a second.
    ///
    /// # Errors
    ///
    /// When yt-dlp fails, the video turns out larger than allowed or is none that we work with, or `stop` fires. Nothing
    /// is left then.
    pub async fn download(
        &self,
        extraction: Extraction,
        progress: &(dyn Fn(YoutubeProgress) + Send + Sync),
        stop: &CancellationToken,
    ) -> Result<Downloaded, YoutubeError> {
        let Extraction { workspace, info } = extraction;
        let counter = Counter::new(info.size_bytes);
        let on_line = |line: &str| {
            if let Some(so_far) = counter.heard(line) {
                progress(so_far);
            }
        };
        let args = youtube_args::download(self.bounds(), &self.media.config().ffmpeg);
        let finished = self.run(args, workspace.path(), Some(&on_line), stop).await.map_err(out_of_time)?;
        let finished = self.succeeded(finished)?;
        let limit_bytes = self.config.max_size_bytes;
        let Some(path) = fetched(workspace.path()).await? else {
            // yt-dlp says so in passing and ends as if all were well.
            return Err(if String::from_utf8_lossy(&finished.stdout).contains("larger than max-filesize") {
                YoutubeError::TooLarge { size_bytes: info.size_bytes, limit_bytes }
            } else {
                let said = "yt-dlp ended well and left no video".to_owned();
                YoutubeError::Failed { reason: said, is_final: false, remedy: None }
            });
        };
        let size_bytes = size_of(&path).await?;
        if size_bytes > limit_bytes {
            return Err(YoutubeError::TooLarge { size_bytes: Some(size_bytes), limit_bytes });
        }
        progress(counter.merging());
        let (path, probe) = self.ready_to_play(path, &workspace, stop).await?;
        Ok(Downloaded { workspace, path, info, probe })
    }

    /// The file as an MP4 with its index in front, if it can be one, and what it holds.
    async fn ready_to_play(
        &self,
        path: Utf8PathBuf,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<(Utf8PathBuf, Probe), YoutubeError> {
        let probe = self.accepted(&path, stop).await?;
        if faststart::is_fast(&path).await? {
            return Ok((path, probe));
        }
        let facts = self.media.facts(&Source::File(path.clone()), stop).await?;
        let opened = Opened::file(&path).await?;
        let args = remux::args(&opened, facts.video.index, self.media.config().max_pixels);
        let finished = self.media.ffmpeg(args, workspace.path(), stop).await?;
        let remuxed = workspace.file(remux::OUTPUT);
        if !finished.status.success() {
            // Some codecs have no place in MP4. What came works all the same.
            tracing::info!(media.why = finished.stderr_tail, "a download stays in the container that it came in");
            return Ok((path, probe));
        }
        Ok((remuxed.clone(), self.accepted(&remuxed, stop).await?))
    }

    async fn accepted(&self, path: &Utf8Path, stop: &CancellationToken) -> Result<Probe, YoutubeError> {
        let probe = self.media.probe(&Source::File(path.to_owned()), stop).await?;
        match &probe.acceptance {
            Acceptance::Accepted => Ok(probe),
            Acceptance::Refused(refusal) => Err(YoutubeError::Refused(refusal.clone())),
        }
    }

    fn check(&self, info: &YoutubeInfo) -> Result<(), YoutubeError> {
        let limit = self.config.max_duration;
        if info.duration_seconds > limit.as_secs_f64() {
            return Err(YoutubeError::TooLong { seconds: info.duration_seconds, limit });
        }
        match info.size_bytes {
            Some(size_bytes) if size_bytes > self.config.max_size_bytes => {
                Err(YoutubeError::TooLarge { size_bytes: Some(size_bytes), limit_bytes: self.config.max_size_bytes })
            }
            Some(_) | None => Ok(()),
        }
    }

    const fn bounds(&self) -> Bounds {
        Bounds { max_height: self.config.max_height, max_size_bytes: self.config.max_size_bytes }
    }

    /// What yt-dlp left, if it says that all went well.
    fn succeeded(&self, finished: Finished) -> Result<Finished, YoutubeError> {
        if finished.status.success() {
            return Ok(finished);
        }
        Err(error::of_complaint(&finished.stderr_tail, self.config.max_height, self.has_deno()))
    }

    async fn run(
        &self,
        args: Vec<String>,
        folder: &Utf8Path,
        on_line: Option<&(dyn Fn(&str) + Send + Sync)>,
        stop: &CancellationToken,
    ) -> Result<Finished, MediaError> {
        let mut environment = exec::network_environment();
        let own = [("HOME", folder.as_str()), ("TMPDIR", folder.as_str()), ("LANG", "C.UTF-8")];
        environment.extend(own.map(|(name, value)| (OsString::from(name), OsString::from(value))));
        let stdout_limit_bytes = if on_line.is_some() { LINES_LIMIT_BYTES } else { INFO_LIMIT_BYTES };
        let job = Job { program: &self.config.program, args, folder, stdout_limit_bytes };
        self.executor.run_with(job, Extra { environment: &environment, on_line }, &Arc::from(""), stop).await
    }
}

fn out_of_time(error: MediaError) -> YoutubeError {
    match error {
        MediaError::TimedOut { limit, .. } => YoutubeError::TimedOut { limit },
        error => error.into(),
    }
}

/// The finished file among what yt-dlp left: parts and single streams have longer names.
async fn fetched(folder: &Utf8Path) -> Result<Option<Utf8PathBuf>, MediaError> {
    const LOOK: &str = "look for the download";
    let mut entries = fs_err::tokio::read_dir(folder).await.map_err(MediaError::file(LOOK))?;
    while let Some(entry) = entries.next_entry().await.map_err(MediaError::file(LOOK))? {
        let Ok(path) = Utf8PathBuf::from_path_buf(entry.path()) else { continue };
        if path.file_stem() == Some(STEM) && !matches!(path.extension(), None | Some("part" | "ytdl" | "temp")) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

async fn size_of(path: &Utf8Path) -> Result<u64, MediaError> {
    Ok(fs_err::tokio::metadata(path).await.map_err(MediaError::file("look at the download"))?.len())
}
