//! The copy of an upload in the bucket, and its removal.
//!
//! The copy is made on the engine that took the video in, since only that one is sure to have it. An upload's answer waits for it as long as a
//! small video takes, so that another replica can work on the video at once; a large one goes on behind the answer. A copy that fails costs
//! nothing but the copy: sending the same bytes again makes it, and so does the next sweep of an engine that has the video.

use std::time::Duration;

use ambient_media::objects::{About, ObjectError, ObjectKey, ObjectStore};

use super::upload::{Turns, Uploads, after};
use crate::lifecycle::Lifecycle;
use crate::store::records::{FileRecord, WorkStatus};
use crate::store::{StoreError, chain};

/// How long an answer waits for the bucket.
const PATIENCE: Duration = Duration::from_secs(10);
/// The metadata `source` of an upload's copy.
const MADE_BY: &str = "engine";
/// How often a record is read and written again when others get in between.
const RECORD_TRIES: u32 = 8;

/// The bucket that uploads are copied to.
#[derive(Debug)]
pub struct BucketCopies {
    store: ObjectStore,
    lifecycle: Lifecycle,
    /// Whether nobody can work on a video without its copy, as in sandboxes.
    is_needed: bool,
    turns: Turns,
}

impl BucketCopies {
    /// Copies to this bucket. `is_needed` says that background work without a copy is in vain.
    pub fn new(store: ObjectStore, lifecycle: Lifecycle, is_needed: bool) -> Self {
        Self { store, lifecycle, is_needed, turns: Turns::default() }
    }

    /// The bucket itself.
    pub const fn store(&self) -> &ObjectStore {
        &self.store
    }
}

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error(transparent)]
    Object(#[from] ObjectError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the engine is shutting down")]
    Stopped,
}

impl Uploads {
    /// Sees to the copy of a video that is here, and then to its background work. Gives the record as it is when the answer has to go.
    pub(super) async fn copy_and_enqueue(&self, record: FileRecord) -> FileRecord {
        let Some(copies) = self.copies() else {
            if self.has_work(&record) {
                // The first job may have been lost; a second one finds nothing left to do.
                self.enqueue(&record.id).await;
            }
            return record;
        };
        let (done, copied) = tokio::sync::oneshot::channel();
        let (uploads, of) = (self.clone(), record.clone());
        copies.lifecycle.spawn_job("copy to the bucket", |aborting| async move {
            let record = tokio::select! {
                () = aborting.cancelled() => { log_failed(&of, &CopyError::Stopped); of }
                outcome = uploads.copy(&of) => uploads.go_on(of, outcome).await,
            };
            // The answer may have gone already.
            let _answered = done.send(record);
        });
        match tokio::time::timeout(PATIENCE, copied).await {
            Ok(Ok(record)) => record,
            Ok(Err(_)) | Err(_) => record,
        }
    }

    /// Makes the copies that are missing of videos that are here. Stops at the first failure: the others would fail too.
    pub(super) async fn copy_missing(&self, record: &FileRecord) -> bool {
        let is_missing = record.bucket_key.is_none() && record.source_status == WorkStatus::Ready;
        if !is_missing || !self.local_path(&record.id, &record.extension).exists() {
            return true;
        }
        let outcome = self.copy(record).await;
        let is_copied = outcome.is_ok();
        self.go_on(record.clone(), outcome).await;
        is_copied
    }

    /// Puts the video into the bucket unless it is there, and its key into the record.
    async fn copy(&self, record: &FileRecord) -> Result<FileRecord, CopyError> {
        let copies = self.copies().ok_or(CopyError::Stopped)?;
        let _turn = copies.turns.take(&record.id).await;
        let key = copies.store.source_key(record.id.as_str(), &record.extension);
        let there = copies.store.head(&key).await?;
        if there.is_none_or(|there| there.size_bytes != record.size_bytes) {
            let path = self.local_path(&record.id, &record.extension);
            copies.store.put_file(&key, &path, &About::new(&record.mime_type, MADE_BY)).await?;
            tracing::info!(file.id = %record.id, "a video was copied to the bucket");
        }
        let written = self.change(record, |next| next.bucket_key = Some(key.to_string())).await?;
        if written.is_none() {
            // Deleted meanwhile, and whoever deleted it may have been there before the copy.
            copies.store.delete(&key).await?;
        }
        Ok(written.unwrap_or_else(|| record.clone()))
    }

    /// What follows a copy that was made or not.
    async fn go_on(&self, record: FileRecord, outcome: Result<FileRecord, CopyError>) -> FileRecord {
        let record = match outcome {
            Ok(record) => record,
            Err(error) => {
                log_failed(&record, &error);
                self.without_copy(record).await
            }
        };
        if self.has_work(&record) {
            self.enqueue(&record.id).await;
        }
        record
    }

    /// Where the copy is needed, a description cannot be made without it; null says so.
    async fn without_copy(&self, record: FileRecord) -> FileRecord {
        if !self.copies().is_some_and(|copies| copies.is_needed) {
            return record;
        }
        let changed = self.change(&record, |next| {
            if next.description_status != Some(WorkStatus::Ready) {
                next.description_status = None;
            }
        });
        match changed.await {
            Ok(Some(changed)) => changed,
            Ok(None) => record,
            Err(error) => {
                tracing::warn!(file.id = %record.id, error = %chain(&error), "a file's record could not be written");
                record
            }
        }
    }

    /// Changes a record; `None` when it is gone.
    async fn change(
        &self,
        record: &FileRecord,
        alter: impl Fn(&mut FileRecord) + Send,
    ) -> Result<Option<FileRecord>, StoreError> {
        let mut tries = 0;
        while let Some(current) = self.store().file(&record.id).await? {
            let mut next = current.clone();
            alter(&mut next);
            if next == current {
                return Ok(Some(current));
            }
            next.updated_at = after(current.updated_at, self.now());
            if self.store().update_file(&next, current.updated_at).await? {
                return Ok(Some(next));
            }
            tries += 1;
            if tries == RECORD_TRIES {
                return Ok(Some(current));
            }
        }
        Ok(None)
    }

    /// Removes what the bucket has of a deleted file: the video, what was made of it and what was exported. The answer waits for it as long as
    /// that is quick.
    pub(super) async fn remove_objects(&self, record: &FileRecord) {
        let Some(copies) = self.copies() else { return };
        let (done, removed) = tokio::sync::oneshot::channel();
        let (store, record) = (copies.store.clone(), record.clone());
        copies.lifecycle.spawn_job("objects of a deleted file", |aborting| async move {
            tokio::select! {
                () = aborting.cancelled() => {}
                outcome = remove(&store, &record) => if let Err(error) = outcome {
                    tracing::warn!(file.id = %record.id, error = %chain(&error), "objects of a deleted file stay in the bucket");
                }
            }
            let _answered = done.send(());
        });
        let _removed_or_late = tokio::time::timeout(PATIENCE, removed).await;
    }
}

/// The line that operators look for; its words are fixed.
fn log_failed(record: &FileRecord, error: &CopyError) {
    tracing::warn!("R2 upload failed for {}: {}", record.id, chain(error));
}

async fn remove(store: &ObjectStore, record: &FileRecord) -> Result<(), ObjectError> {
    let id = record.id.as_str();
    store.delete(&store.source_key(id, &record.extension)).await?;
    if let Some(key) = record.bucket_key.as_deref().and_then(|key| key.parse::<ObjectKey>().ok()) {
        // Under the prefix of an earlier setting.
        store.delete(&key).await?;
    }
    store.delete_under(&ObjectKey::derived_prefix(id)).await?;
    store.delete_under(&ObjectKey::artifact_prefix(id)).await?;
    Ok(())
}
