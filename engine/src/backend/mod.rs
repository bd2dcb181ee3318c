//! Where media work and the shell run: on this host, or in a sandbox. Tools know only this.
//!
//! Every operation is about one session's video and answers with references ([`MediaRef`]), never with links that expire
//! or with bytes.

mod artifact;
pub mod e2b;
pub mod inprocess;
mod mirror;
mod outputs;
mod room;
pub mod shell;
mod tiles;
mod workspace;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use camino::Utf8PathBuf;
use tokio_util::sync::CancellationToken;

use crate::ids::{SessionId, VideoId};
use crate::store::records::{MediaFacts, MediaRef, Mode, SessionRecord};

/// What a backend can fail with. The message is for the model and the client, and names no path outside the session.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The video cannot be read here.
    #[error("the video `{video}` is not available on this engine: {reason}")]
    NoSource {
        /// Which.
        video: VideoId,
        /// Why.
        reason: String,
    },
    /// A path leaves the session's own folder, or is none.
    #[error("{0}")]
    Path(String),
    /// The media work failed.
    #[error("{0}")]
    Media(String),
    /// It was stopped.
    #[error("the work was interrupted")]
    Cancelled,
    /// `sandbox_backend='e2b' but no media sandbox is active …` and its like.
    #[error("{0}")]
    NoSandbox(String),
}

/// Whose media and which workspace an operation is about.
#[derive(Clone, Debug)]
pub struct Target {
    /// Whose workspace.
    pub session: SessionId,
    /// The session's video, whatever the model said.
    pub video: VideoId,
    /// Another file instead of the video: a path in the session's workspace.
    pub path: Option<String>,
}

/// A wanted clip. Times in seconds of the source.
#[derive(Clone, Debug)]
pub struct ClipWish {
    pub start: f64,
    pub end: f64,
    /// `None` keeps the source's own rate.
    pub frames_per_second: Option<f64>,
    pub max_dimension: u32,
    pub max_size_bytes: u64,
    pub crf: Option<u8>,
}

/// A clip, and what it really holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipMade {
    pub media: MediaRef,
    pub start: f64,
    pub end: f64,
    pub size_bytes: u64,
    pub has_audio: bool,
}

/// Wanted frames, evenly over a window. Times in seconds of the source.
#[derive(Clone, Debug)]
pub struct FramesWish {
    pub start: f64,
    /// `None` is the end of the video.
    pub end: Option<f64>,
    pub frames_per_second: f64,
    pub max_frames: usize,
    pub max_dimension: u32,
}

/// A frame and the time at which it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct FrameMade {
    pub media: MediaRef,
    pub time: f64,
    pub width: u32,
    pub height: u32,
}

/// A box to draw, on a grid of 0 to 1000: `[y_min, x_min, y_max, x_max]`.
#[derive(Clone, Debug, PartialEq)]
pub struct BoxWish {
    pub corners: [f64; 4],
    pub label: String,
}

/// A frame with boxes on it.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotatedMade {
    pub frame: FrameMade,
    /// For each box, in the order given: `[x_min, y_min, x_max, y_max]` in pixels of the frame.
    pub pixel_boxes: Vec<[u32; 4]>,
}

/// A shell command.
#[derive(Clone, Debug)]
pub struct ShellWish {
    pub command: String,
    pub timeout: Duration,
    /// Of each stream; more is cut while it is read.
    pub max_output_bytes: usize,
}

/// What a shell command gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellDone {
    /// 124 after a timeout, 127 when it could not be started.
    pub exit_code: i32,
    pub stdout: String,
    pub stderr: String,
    /// Bytes left out of each stream.
    pub stdout_cut: u64,
    pub stderr_cut: u64,
    pub timed_out: bool,
}

/// A file that was put where the client can fetch it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactMade {
    pub key: String,
    pub uri: String,
    pub url: String,
    pub size_bytes: u64,
}

/// News of an import that goes on.
#[derive(Clone, Debug, PartialEq)]
pub enum ImportNews {
    /// What the video's page says.
    Page(ImportPage),
    /// Hundredths of the download that are done.
    Percent(u8),
}

/// What the page of a video says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportPage {
    pub title: Option<String>,
    pub extractor: Option<String>,
    pub duration_seconds: Option<f64>,
    pub width: Option<u32>,
    pub height: Option<u32>,
    pub format_id: Option<String>,
}

/// A video that was fetched into the bucket.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportMade {
    pub bucket_key: String,
    pub size_bytes: u64,
    /// All 64 hex digits.
    pub sha256: String,
    pub facts: MediaFacts,
    pub extension: &'static str,
    pub mime_type: &'static str,
}

/// Why an import did not come about.
#[derive(Debug)]
pub struct ImportFailed {
    /// For the client.
    pub reason: String,
    /// Whether another attempt would fail alike.
    pub is_final: bool,
    /// Whether it was stopped.
    pub is_cancelled: bool,
}

/// Where media work and the shell run.
#[async_trait]
pub trait MediaBackend: Send + Sync + fmt::Debug {
    /// `inprocess` or `e2b`, as the session's `sandbox` object says.
    fn name(&self) -> &'static str;

    /// Whether something has to boot before a new session of this mode is idle.
    fn boots(&self, _mode: Mode) -> bool {
        false
    }
    /// Boots what a pending session needs, and makes it idle, or leaves it with the run that began meanwhile. Nothing happens if
    /// that is being done elsewhere, or if the session is not there any more.
    async fn boot(&self, _session: &SessionId, _stop: &CancellationToken) -> Result<(), BackendError> {
        Ok(())
    }
    /// Whether a pending session's boot is under way, on whichever engine.
    async fn is_booting(&self, _session: &SessionId) -> Result<bool, BackendError> {
        Ok(true)
    }
    /// Looks whether what a session had is still there, and replaces it if not. For the beginning of a run, beside its first request.
    async fn freshen(&self, _session: &SessionRecord, _stop: &CancellationToken) {}
    /// Says that work on a video begins which belongs to no session; [`Self::end_session`] with the same id ends it.
    async fn begin_job(&self, _job: &SessionId, _video: &VideoId) {}
    /// Whether imports are fetched by [`Self::import`] rather than on this host.
    fn imports(&self) -> bool {
        false
    }
    /// Fetches a video from its page into the bucket, as part of a job.
    async fn import(
        &self,
        _job: &SessionId,
        _video: &VideoId,
        _url: &str,
        _news: &(dyn Fn(ImportNews) + Send + Sync),
        _stop: &CancellationToken,
    ) -> Result<ImportMade, ImportFailed> {
        Err(ImportFailed { reason: "imports are fetched elsewhere".to_owned(), is_final: true, is_cancelled: false })
    }
    /// Makes, as part of a job, what is missing of the tiles from which clips of this video are put together, where the settings want tiles.
    async fn make_tiles(
        &self,
        _job: &SessionId,
        _video: &VideoId,
        _stop: &CancellationToken,
    ) -> Result<(), BackendError> {
        Ok(())
    }
    /// Answers when whatever provides sandboxes does.
    async fn ping(&self) -> Result<(), BackendError> {
        Ok(())
    }
    /// Ends everything that it left running, and waits for it. To be called when no run is left.
    async fn shut_down(&self) {}

    async fn clip(&self, target: &Target, wish: &ClipWish, stop: &CancellationToken) -> Result<ClipMade, BackendError>;
    async fn frames(
        &self,
        target: &Target,
        wish: &FramesWish,
        stop: &CancellationToken,
    ) -> Result<Vec<FrameMade>, BackendError>;
    async fn annotate(
        &self,
        target: &Target,
        time: f64,
        boxes: &[BoxWish],
        max_dimension: u32,
        stop: &CancellationToken,
    ) -> Result<AnnotatedMade, BackendError>;
    /// Reads a picture from the session's workspace, made small.
    async fn read_image(
        &self,
        target: &Target,
        path: &str,
        max_dimension: u32,
        stop: &CancellationToken,
    ) -> Result<FrameMade, BackendError>;
    async fn shell(
        &self,
        target: &Target,
        wish: &ShellWish,
        stop: &CancellationToken,
    ) -> Result<ShellDone, BackendError>;
    /// Puts a file of the workspace into the bucket under `artifacts/`.
    async fn upload_artifact(
        &self,
        target: &Target,
        path: &str,
        name: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<ArtifactMade, BackendError>;
    /// Where a shell command finds the source video, for the prompt; `None` when there is no shell.
    async fn source_hint(&self, target: &Target) -> Option<String>;
    /// Removes the session's workspace and whatever runs in it.
    async fn end_session(&self, session: &SessionId) -> Result<(), BackendError>;
    /// Bytes of a medium on this host, for a data URL.
    async fn read(&self, media: &MediaRef) -> Result<bytes::Bytes, BackendError>;
    /// A link to a medium that the model's server can fetch, if the backend has a bucket; `ttl` long.
    async fn link(&self, media: &MediaRef, ttl: Duration) -> Result<Option<String>, BackendError>;
    /// A reference to the whole source video, and its size in bytes.
    async fn source(&self, video: &VideoId) -> Result<(MediaRef, u64), BackendError>;
    /// Where the workspace of a session is on this host, if it is on this host.
    fn workspace(&self, session: &SessionId) -> Option<Utf8PathBuf>;
}
