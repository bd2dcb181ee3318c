//! Noting a video that is to be fetched from elsewhere. The fetching itself is a job in the background.

use ambient_media::youtube_video;
use aws_lc_rs::digest::{SHA256, digest};

use super::hash::{hex, video_id};
use super::kind::{Kind, file_name};
use super::upload::{Uploads, after, is_expired};
use crate::store::records::{FileRecord, FileSource, ImportState, Metadata, WorkStatus};
use crate::store::{Inserted, StoreError};

/// An import, as wished.
#[derive(Clone, Debug)]
pub struct ImportWish {
    /// Any address of the video.
    pub url: String,
    /// What the file is to be called.
    pub filename: Option<String>,
    /// Pairs that stay with the file.
    pub metadata: Metadata,
}

/// Why an import was not noted.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The address is not at YouTube.
    #[error("the address is not at YouTube")]
    NotYoutube,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What downloads are merged into.
const KIND: Kind = Kind { extension: ".mp4", mime_type: "video/mp4" };

impl Uploads {
    /// Notes a video to fetch, and queues the fetching. A video that is known already is given back as it stands, and
    /// tried again if it failed or its bytes are gone.
    ///
    /// # Errors
    /// When the address is not at YouTube, or the store fails.
    pub async fn import(&self, wish: ImportWish) -> Result<FileRecord, ImportError> {
        let video = youtube_video(&wish.url).ok_or(ImportError::NotYoutube)?;
        let id = video_id(&hex(&digest(&SHA256, format!("youtube:{}", video.key).as_bytes())));
        let now = self.now();
        let default_name =
            if video.url.ends_with(&video.key) { format!("{}{}", video.key, KIND.extension) } else { String::new() };
        let record = FileRecord {
            id,
            filename: file_name(Some(wish.filename.as_deref().unwrap_or(&default_name)), KIND),
            mime_type: KIND.mime_type.to_owned(),
            extension: KIND.extension.to_owned(),
            size_bytes: 0,
            sha256: String::new(),
            source: FileSource::Youtube { url: video.url, import: ImportState::default() },
            source_status: WorkStatus::Pending,
            source_error: None,
            bucket_key: None,
            media: None,
            description_status: Some(WorkStatus::Pending),
            description: None,
            description_error: None,
            description_attempts: 0,
            metadata: wish.metadata,
            expires_at: None,
            created_at: now,
            updated_at: now,
        };
        let record = match self.store().insert_file(&record).await? {
            Inserted::New => record,
            Inserted::Existing(known) => match self.tried_again(&known).await? {
                Some(record) => record,
                None => return Ok(*known),
            },
        };
        self.enqueue(&record.id).await;
        Ok(record)
    }

    /// Whether a video that was here is neither on this host's disk nor in the bucket.
    async fn is_lost(&self, known: &FileRecord) -> bool {
        let path = self.local_path(&known.id, &known.extension);
        known.bucket_key.is_none() && !fs_err::tokio::metadata(path).await.is_ok_and(|facts| facts.is_file())
    }

    /// A failed import set back to its beginning; `None` when there is nothing to try again, or somebody else did.
    async fn tried_again(&self, known: &FileRecord) -> Result<Option<FileRecord>, StoreError> {
        let now = self.now();
        let has_failed =
            known.source_status == WorkStatus::Failed || known.description_status == Some(WorkStatus::Failed);
        let is_lost = known.source_status == WorkStatus::Ready && self.is_lost(known).await;
        if !has_failed && !is_lost && !is_expired(known, now) {
            return Ok(None);
        }
        let mut next = known.clone();
        if is_lost || next.source_status == WorkStatus::Failed {
            next.source_status = WorkStatus::Pending;
            next.source_error = None;
            if let FileSource::Youtube { import, .. } = &mut next.source {
                (import.attempts, import.percent) = (0, None);
            }
        }
        if next.description_status != Some(WorkStatus::Ready) {
            next.description_status = Some(WorkStatus::Pending);
            next.description_error = None;
            next.description_attempts = 0;
        }
        next.expires_at = None;
        next.updated_at = after(known.updated_at, now);
        Ok(self.store().update_file(&next, known.updated_at).await?.then_some(next))
    }
}
