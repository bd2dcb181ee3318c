//! Media commands in a sandbox, from words to typed data.

use std::sync::Arc;

use ambient_media::objects::ObjectKey;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::envelope::{self, NoData};
use super::handle::{BoxCommand, Ended, Handle, MediaOutput, MediaTool, RunError};
use super::scripts;
use super::told::{command_failure, no_sandbox};
use super::words::{ClipAnswer, Words, key_of};
use crate::backend::{BackendError, ClipMade, Target};
use crate::ids::{SessionId, VideoId};
use crate::store::chain;
use crate::store::records::MediaRef;

/// The exit code of what a signal ended.
const KILLED: i32 = 137;

/// Who is told what a command says of its progress, in JSON.
pub(crate) type Progress<'a> = Option<&'a (dyn Fn(&str) + Send + Sync)>;

/// Why a media command gave no data.
#[derive(Debug)]
pub(crate) enum MediaFailure {
    /// The command said so, or said nothing.
    Tool(NoData),
    /// It did not come to that.
    Other(BackendError),
}

impl From<BackendError> for MediaFailure {
    fn from(error: BackendError) -> Self {
        Self::Other(error)
    }
}

impl Inner {
    /// Runs a media command for a session or job. It is the same done twice, so one that a lost sandbox took with it is done in
    /// the next, if there is one to be had.
    pub(crate) async fn media<T: DeserializeOwned>(
        self: &Arc<Self>,
        session: &SessionId,
        words: impl Fn(&MediaTool) -> Words + Send + Sync,
        progress: Progress<'_>,
        stop: &CancellationToken,
    ) -> Result<T, MediaFailure> {
        let handle = self.handle(session, stop).await?;
        match self.media_in(&handle, &words, progress, stop).await {
            Ok(outcome) => outcome,
            Err(error) if error.error().is_sandbox_lost() => {
                self.gave_up(session, handle.id()).await;
                let next = self.handle(session, stop).await?;
                match self.media_in(&next, &words, progress, stop).await {
                    Ok(outcome) => outcome,
                    Err(error) => {
                        if error.error().is_sandbox_lost() {
                            self.gave_up(session, next.id()).await;
                        }
                        Err(command_failure(error.error(), next.id()).into())
                    }
                }
            }
            Err(error) => Err(command_failure(error.error(), handle.id()).into()),
        }
    }

    async fn media_in<T: DeserializeOwned>(
        &self,
        handle: &Handle,
        words: &(impl Fn(&MediaTool) -> Words + Send + Sync),
        progress: Progress<'_>,
        stop: &CancellationToken,
    ) -> Result<Result<T, MediaFailure>, RunError> {
        let tool = tokio::select! {
            () = stop.cancelled() => return Ok(Err(BackendError::Cancelled.into())),
            tool = handle.tool() => tool.map_err(RunError::NotBegun)?,
        };
        let (program, folder) = match tool {
            MediaTool::Ours { .. } => (vec!["/app/ambientctl", "media"], None),
            MediaTool::Python => (vec!["python", "/app/main.py"], Some("/app")),
            MediaTool::None => {
                let reason = format!(
                    "the template `{}` has no media tool in `/app`; build it with `ambientctl template build`, or name the right one in \
                     `E2B_TEMPLATE`",
                    self.config.template
                );
                return Ok(Err(no_sandbox(&reason).into()));
            }
        };
        let tag = scripts::new_tag();
        let mut arguments = vec!["-c".to_owned(), scripts::PLAIN.to_owned(), tag.clone()];
        arguments.extend(program.into_iter().map(str::to_owned));
        arguments.extend(words(tool).into_vec());
        let command = BoxCommand {
            arguments,
            folder,
            environment: self.config.environment.iter().chain(&self.config.credentials).cloned().collect(),
            tag,
            timeout: self.config.media_timeout,
            ends_gently: matches!(tool, MediaTool::Ours { .. }),
        };
        let mut output = MediaOutput::new(handle, progress);
        let ended = handle.run(&command, &mut output, stop).await?;
        output.finish();
        let exit = match ended {
            Ended::By(exit) => exit,
            Ended::Cancelled => return Ok(Err(BackendError::Cancelled.into())),
            Ended::TimedOut => {
                let limit = self.config.media_timeout;
                let words =
                    format!("the media work took longer than {limit:?} and was ended; ask for a shorter window");
                return Ok(Err(BackendError::Media(words).into()));
            }
        };
        let (stdout, _cut) = output.stdout.finish();
        let (stderr, _cut) = output.stderr.finish();
        let code = if exit.exited { exit.code } else { KILLED };
        Ok(envelope::data(&stdout, &stderr, code).map_err(MediaFailure::Tool))
    }

    /// What a failure means for the tool that asked.
    pub(crate) fn told(failure: MediaFailure, target: &Target) -> BackendError {
        let failure = match failure {
            MediaFailure::Other(error) => return error,
            MediaFailure::Tool(failure) => failure,
        };
        let NoData::Failed { code, message } = &failure else {
            tracing::warn!(session.id = %target.session, error = %chain(&failure), "a media command failed");
            return BackendError::Media(failure.to_string());
        };
        match (code.as_str(), &target.path) {
            ("Cancelled", _) => BackendError::Cancelled,
            ("SourceNotFound" | "FileNotFoundError", None) => BackendError::NoSource {
                video: target.video.clone(),
                reason: format!("{message}; its copy in the bucket may be missing, upload the video again"),
            },
            ("SourceNotFound" | "FileNotFoundError" | "ImageNotFound" | "ArtifactNotFound", _) => {
                BackendError::Path(format!("cannot be read in the sandbox: {message}"))
            }
            ("S3NotConfigured", _) => {
                BackendError::Media("S3 is not configured, so upload_artifact is unavailable.".to_owned())
            }
            _ => BackendError::Media(failure.to_string()),
        }
    }

    /// A medium in the bucket, by the link that a command gave.
    pub(crate) fn object(&self, link: Option<&str>) -> Result<(ObjectKey, MediaRef), BackendError> {
        let key = link.and_then(|link| key_of(link, self.objects.bucket()));
        let key = key.ok_or_else(|| {
            BackendError::Media(format!(
                "the sandbox put its result into another bucket than `{}`, or nowhere",
                self.objects.bucket()
            ))
        })?;
        let mime_type = match key.as_str().rsplit_once('.').map(|(_stem, extension)| extension) {
            Some("png") => "image/png",
            Some("mp4") => "video/mp4",
            _ => "image/jpeg",
        };
        let media = MediaRef::Object { key: key.to_string(), mime_type: mime_type.to_owned() };
        Ok((key, media))
    }

    /// A clip that a command put into the bucket.
    pub(crate) async fn clip_made(&self, made: ClipAnswer) -> Result<ClipMade, BackendError> {
        let clip = made.clip;
        let (key, media) = self.object(clip.clip_url.as_deref())?;
        let size_bytes = match clip.size_bytes {
            Some(size_bytes) => size_bytes,
            None => self.objects.head(&key).await.ok().flatten().map_or(0, |facts| facts.size_bytes),
        };
        let has_audio = clip.has_audio.unwrap_or(true);
        Ok(ClipMade { media, start: clip.start_time, end: clip.end_time, size_bytes, has_audio })
    }

    /// Where a video lies in the bucket.
    pub(crate) async fn source_key(&self, video: &VideoId) -> Result<(ObjectKey, String, u64), BackendError> {
        let missing = |reason: &str| BackendError::NoSource { video: video.clone(), reason: reason.to_owned() };
        let record = match self.store.file(video).await {
            Ok(Some(record)) => record,
            Ok(None) => return Err(missing("there is no such file; it may have been deleted")),
            Err(error) => {
                tracing::warn!(video.id = %video, error = %chain(&error), "a file's record could not be read");
                return Err(missing("the database does not answer; try again"));
            }
        };
        let key = record.bucket_key.as_deref().and_then(|key| key.parse().ok());
        let key = key.ok_or_else(|| missing("its copy in the bucket is missing; upload the video again"))?;
        Ok((key, record.mime_type, record.size_bytes))
    }
}
