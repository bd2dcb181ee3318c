//! Background work on a video: its import and its tiles.

use std::sync::Arc;
use std::time::Duration;

use ambient_media::Source;
use ambient_media::objects::{ObjectError, ObjectKey};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::Inner;
use super::envelope::NoData;
use super::media::MediaFailure;
use super::words;
use crate::backend::{BackendError, ImportFailed, ImportMade, ImportNews, ImportPage, ShellWish, Target};
use crate::ids::{SessionId, VideoId};
use crate::ingest::incoming::HEAD_BYTES;
use crate::ingest::kind::{Kind, kind_of};
use crate::ingest::upload::facts;
use crate::store::chain;

/// How long the hash of a download may take.
const HASH_LIMIT: Duration = Duration::from_mins(20);
/// A hash in hex.
const HASH_DIGITS: usize = 64;
/// Failures of the download tool that another attempt would meet again.
const FINAL_CODES: [&str; 7] = [
    "BadRequest",
    "NotYoutube",
    "SourceRefused",
    "YoutubeLive",
    "YoutubePlaylist",
    "YoutubeTooLarge",
    "YoutubeTooLong",
];

#[derive(Debug, Deserialize)]
struct PageAnswer {
    title: Option<String>,
    extractor: Option<String>,
    duration: Option<f64>,
    width: Option<u32>,
    height: Option<u32>,
    format_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PreparedAnswer {
    source_file_path: String,
    r2_key: Option<String>,
    size_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct ProgressLine {
    done_bytes: u64,
    total_bytes: Option<u64>,
}

impl ImportFailed {
    fn of(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), is_final: false, is_cancelled: false }
    }

    fn from_media(failure: MediaFailure) -> Self {
        match failure {
            MediaFailure::Other(BackendError::Cancelled) => {
                Self { reason: BackendError::Cancelled.to_string(), is_final: false, is_cancelled: true }
            }
            MediaFailure::Other(error) => Self::of(error.to_string()),
            MediaFailure::Tool(NoData::Failed { code, message }) => Self {
                is_final: FINAL_CODES.contains(&code.as_str()),
                reason: message,
                is_cancelled: code == "Cancelled",
            },
            MediaFailure::Tool(failure) => Self::of(failure.to_string()),
        }
    }
}

impl Inner {
    pub(crate) async fn import(
        self: &Arc<Self>,
        job: &SessionId,
        video: &VideoId,
        url: &str,
        news: &(dyn Fn(ImportNews) + Send + Sync),
        stop: &CancellationToken,
    ) -> Result<ImportMade, ImportFailed> {
        let probe = |_: &_| words::video("probe-youtube", video).with("url", url);
        let page: PageAnswer = self.media(job, probe, None, stop).await.map_err(ImportFailed::from_media)?;
        news(ImportNews::Page(ImportPage {
            title: page.title,
            extractor: page.extractor,
            duration_seconds: page.duration,
            width: page.width,
            height: page.height,
            format_id: page.format_id,
        }));
        let progress = |json: &str| {
            if let Some(percent) = percent_of(json) {
                news(ImportNews::Percent(percent));
            }
        };
        let prepare = |_: &_| words::video("prepare-youtube", video).with("url", url).flag("upload-s3");
        let made: PreparedAnswer =
            self.media(job, prepare, Some(&progress), stop).await.map_err(ImportFailed::from_media)?;
        let key = match made.r2_key {
            Some(key) => key,
            // The Python tool leaves the upload to a command of its own.
            None => self.upload_source(job, video, stop).await?,
        };
        let key: ObjectKey =
            key.parse().map_err(|error| ImportFailed::of(format!("the bucket's key is no key: {error}")))?;
        let sha256 = self.hash(job, video, &made.source_file_path, stop).await?;
        let looked = tokio::select! {
            () = stop.cancelled() => return Err(ImportFailed::from_media(BackendError::Cancelled.into())),
            looked = self.look_at(&key, made.size_bytes, stop) => looked,
        };
        let (kind, facts) = looked?;
        Ok(ImportMade {
            bucket_key: key.to_string(),
            size_bytes: made.size_bytes,
            sha256,
            facts,
            extension: kind.extension,
            mime_type: kind.mime_type,
        })
    }

    async fn upload_source(
        self: &Arc<Self>,
        job: &SessionId,
        video: &VideoId,
        stop: &CancellationToken,
    ) -> Result<String, ImportFailed> {
        let upload = |_: &_| words::video("upload-source", video);
        let sent: Value = self.media(job, upload, None, stop).await.map_err(ImportFailed::from_media)?;
        let key = sent.get("r2_key").and_then(Value::as_str);
        key.map(str::to_owned)
            .ok_or_else(|| ImportFailed::of("the sandbox did not say where in the bucket the video is"))
    }

    async fn hash(
        self: &Arc<Self>,
        job: &SessionId,
        video: &VideoId,
        path: &str,
        stop: &CancellationToken,
    ) -> Result<String, ImportFailed> {
        let quoted = path.replace('\'', r"'\''");
        let wish =
            ShellWish { command: format!("sha256sum < '{quoted}'"), timeout: HASH_LIMIT, max_output_bytes: 1 << 10 };
        let target = Target { session: job.clone(), video: video.clone(), path: None };
        let done = self.shell(&target, &wish, stop).await.map_err(|error| ImportFailed::from_media(error.into()))?;
        let digits = done.stdout.split_whitespace().next().unwrap_or_default();
        if done.exit_code != 0 || digits.len() != HASH_DIGITS {
            return Err(ImportFailed::of(format!("the download could not be hashed: {}", done.stderr.trim())));
        }
        Ok(digits.to_owned())
    }

    /// What the video is, read from the bucket as every engine will read it.
    async fn look_at(
        &self,
        key: &ObjectKey,
        size_bytes: u64,
        stop: &CancellationToken,
    ) -> Result<(Kind, crate::store::records::MediaFacts), ImportFailed> {
        let probe = self.media.probe(&Source::Object(key.clone()), stop).await.map_err(|error| {
            tracing::warn!(key = %key, error = %chain(&error), "an import in the bucket could not be looked at");
            ImportFailed::of(format!("the fetched video could not be looked at: {error}"))
        })?;
        let length = (HEAD_BYTES as u64).min(size_bytes);
        let head = async {
            let reader = self.objects.get_range(key, 0..length).await?;
            reader.into_bytes(length).await
        };
        let head = head
            .await
            .map_err(|error: ObjectError| ImportFailed::of(format!("the fetched video could not be read: {error}")))?;
        Ok((kind_of(probe.container.as_deref().unwrap_or_default(), &head), facts(&probe)))
    }

    pub(crate) async fn make_tiles(
        self: &Arc<Self>,
        job: &SessionId,
        video: &VideoId,
        stop: &CancellationToken,
    ) -> Result<(), BackendError> {
        let target = Target { session: job.clone(), video: video.clone(), path: None };
        let unknown = |error: &dyn std::error::Error| {
            tracing::warn!(video.id = %video, error = %chain(error), "it is not known whether a video has tiles");
            BackendError::Media(error.to_string())
        };
        let Some(record) = self.store.file(video).await.map_err(|error| unknown(&error))? else { return Ok(()) };
        if self.has_all_tiles(&record).await.map_err(|error| unknown(&error))? {
            return Ok(());
        }
        let cut = |_: &_| words::video("transcode-tiles", video).flag("upload-s3");
        let _manifest: Value =
            self.media(job, cut, None, stop).await.map_err(|failure| Self::told(failure, &target))?;
        tracing::info!(video.id = %video, "a video is cut into tiles");
        Ok(())
    }
}

fn percent_of(json: &str) -> Option<u8> {
    let line: ProgressLine = serde_json::from_str(json).ok()?;
    let total = line.total_bytes.filter(|total| *total > 0)?;
    u8::try_from((line.done_bytes.min(total)) * 100 / total).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_hundredths_where_it_is_known() {
        for (line, percent) in [
            (r#"{"phase":"downloading","done_bytes":5,"total_bytes":20}"#, Some(25)),
            (r#"{"phase":"downloading","done_bytes":25,"total_bytes":20}"#, Some(100)),
            (r#"{"phase":"downloading","done_bytes":5,"total_bytes":null}"#, None),
            (r#"{"phase":"x","done_bytes":5,"total_bytes":0}"#, None),
            ("noise", None),
        ] {
            assert_eq!(percent_of(line), percent, "{line}");
        }
    }
}
