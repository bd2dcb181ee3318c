//! The files that tools mean: a session's video on this host or in the bucket, and files of its workspace.

use std::os::unix::fs::MetadataExt as _;

use ambient_media::Source;
use camino::{Utf8Path, Utf8PathBuf};
use serde::Serialize;

use super::InProcess;
use crate::backend::outputs::SESSION_MEDIA;
use crate::backend::{BackendError, Target};
use crate::ids::{SessionId, VideoId};
use crate::store::chain;
use crate::store::records::{FileRecord, WorkStatus};

/// A file to work on, and where what is made of it belongs.
pub(super) struct Found {
    pub(super) source: Source,
    /// Tells its content from any other.
    pub(super) identity: Identity,
    /// Below the video folder.
    pub(super) folder: Utf8PathBuf,
    /// Length of the pictures in seconds, where it is known.
    pub(super) duration: Option<f64>,
    /// The session's video.
    pub(super) record: Option<FileRecord>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) enum Identity {
    /// The id comes from the bytes.
    Video(VideoId),
    File {
        path: Utf8PathBuf,
        inode: u64,
        size_bytes: u64,
        modified: (i64, i64),
    },
}

impl InProcess {
    async fn record(&self, video: &VideoId) -> Result<FileRecord, BackendError> {
        let missing = |reason: String| BackendError::NoSource { video: video.clone(), reason };
        let record = match self.store.file(video).await {
            Ok(Some(record)) => record,
            Ok(None) => return Err(missing("there is no such file; it may have been deleted".to_owned())),
            Err(error) => {
                tracing::warn!(video.id = %video, error = %chain(&error), "a file's record could not be read");
                return Err(missing("the database does not answer; try again".to_owned()));
            }
        };
        match record.source_status {
            WorkStatus::Ready => Ok(record),
            WorkStatus::Pending | WorkStatus::Processing => Err(missing("it is still being fetched".to_owned())),
            WorkStatus::Failed => {
                Err(missing(record.source_error.unwrap_or_else(|| "it could not be fetched".to_owned())))
            }
        }
    }

    /// The session's video on this host or else in the bucket, with its record.
    pub(super) async fn video(&self, video: &VideoId) -> Result<(Source, FileRecord), BackendError> {
        let record = self.record(video).await?;
        if let Some(path) = self.local_video(&record).await {
            return Ok((Source::File(path), record));
        }
        let key = self.mirror.as_ref().and_then(|_mirror| record.bucket_key.as_deref()?.parse().ok());
        match key {
            Some(key) => Ok((Source::Object(key), record)),
            None => Err(BackendError::NoSource {
                video: video.clone(),
                reason: "its bytes are not on this host; upload the video again".to_owned(),
            }),
        }
    }

    async fn local_video(&self, record: &FileRecord) -> Option<Utf8PathBuf> {
        let path = self.config.video_folder.join(file_name(record));
        fs_err::tokio::metadata(&path).await.ok().filter(std::fs::Metadata::is_file).map(|_facts| path)
    }

    /// The session's video in its workspace, for shell commands. One that lies in the bucket alone is not fetched whole for that.
    pub(super) async fn put_into_workspace(&self, target: &Target) -> Result<Option<Utf8PathBuf>, BackendError> {
        let Ok(record) = self.record(&target.video).await else { return Ok(None) };
        let Some(source) = self.local_video(&record).await else { return Ok(None) };
        self.workspaces.link(&target.session, &source).await.map(Some)
    }

    pub(super) async fn found(&self, target: &Target) -> Result<Found, BackendError> {
        match &target.path {
            None => {
                let (source, record) = self.video(&target.video).await?;
                Ok(Found {
                    source,
                    identity: Identity::Video(target.video.clone()),
                    folder: Utf8PathBuf::from(target.video.as_str()),
                    duration: record.media.as_ref().map(|media| media.duration_seconds),
                    record: Some(record),
                })
            }
            Some(text) => {
                let path = self.workspaces.confine(&target.session, text).await?;
                Ok(Found {
                    identity: identity_of(&path).await?,
                    source: Source::File(path),
                    folder: session_media(&target.session),
                    duration: None,
                    record: None,
                })
            }
        }
    }
}

/// What a video's file is called in the video folder.
pub(super) fn file_name(record: &FileRecord) -> String {
    format!("{}{}", record.id, record.extension)
}

/// What is made of a session's own files, below the video folder.
pub(super) fn session_media(session: &SessionId) -> Utf8PathBuf {
    Utf8Path::new(SESSION_MEDIA).join(session.as_str())
}

pub(super) async fn identity_of(path: &Utf8Path) -> Result<Identity, BackendError> {
    let facts = fs_err::tokio::metadata(path)
        .await
        .map_err(|error| BackendError::Path(format!("cannot be read: {}", error.kind())))?;
    Ok(Identity::File {
        path: path.to_owned(),
        inode: facts.ino(),
        size_bytes: facts.len(),
        modified: (facts.mtime(), facts.mtime_nsec()),
    })
}
