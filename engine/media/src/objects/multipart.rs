//! A file to the bucket: in one request when it is small, else in parts of one fixed size.
//!
//! Some stores (R2 among them) take no parts of different sizes but for the last. Whatever ends the upload before its completion aborts it:
//! the parts of an upload that nobody ends are paid for and seen by nobody.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use camino::Utf8Path;
use futures::stream::{StreamExt, TryStreamExt};
use tokio::sync::oneshot;

use super::body::{Progress, length_of};
use super::config::LEAST_PART_BYTES;
use super::error::{ObjectError, Operation};
use super::key::ObjectKey;
use super::store::{About, ObjectStore};

/// The most parts that an upload may have.
const MOST_PARTS: u64 = 10_000;

/// How many parts of one file are in memory and under way at once.
const PARTS_AT_ONCE: usize = 4;

const READ: &str = "read the file to store";

/// The size of a part of a file, in bytes: a whole number of mebibytes where the file dictates it.
pub(super) fn part_bytes(wanted: u64, size_bytes: u64) -> u64 {
    const MEBIBYTE: u64 = 1 << 20;
    let needed = size_bytes.div_ceil(MOST_PARTS).div_ceil(MEBIBYTE) * MEBIBYTE;
    wanted.max(LEAST_PART_BYTES).max(needed)
}

impl ObjectStore {
    /// Stores a file, replacing what was there, and gives its size once the bucket has confirmed it.
    ///
    /// Cancel-safe: dropping the future aborts an upload in parts in the background; see [`ObjectStore::settle`].
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or the bucket refuses, cannot be reached, stops going on or then holds another size.
    pub async fn put_file(&self, key: &ObjectKey, path: &Utf8Path, about: &About) -> Result<u64, ObjectError> {
        let facts = fs_err::tokio::metadata(path).await.map_err(ObjectError::file("look at the file to store"))?;
        let size_bytes = facts.len();
        let part_bytes = part_bytes(self.config().part_bytes, size_bytes);
        if size_bytes <= part_bytes {
            let bytes = fs_err::tokio::read(path).await.map_err(ObjectError::file(READ))?;
            let size_bytes = length_of(&bytes);
            self.put_bytes(key, Bytes::from(bytes), about).await?;
            self.measure(key, size_bytes).await
        } else {
            self.put_parts(key, path, about, size_bytes, part_bytes).await?;
            self.measure(key, size_bytes).await
        }
    }

    /// Stores bytes as an upload of a single part, however few they are: whether a bucket takes uploads in parts is known without sending
    /// a large file.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on; the upload is aborted then.
    pub async fn put_as_one_part(&self, key: &ObjectKey, bytes: Bytes, about: &About) -> Result<(), ObjectError> {
        let size_bytes = length_of(&bytes);
        let upload = Upload::begin(self, key, about).await?;
        let sent = async {
            let turn = self.turn().await;
            let part = upload.send(bytes, 0).await?;
            drop(turn);
            upload.complete(vec![part], size_bytes).await
        };
        let outcome = Box::pin(sent).await;
        upload.ended(outcome).await
    }

    async fn put_parts(
        &self,
        key: &ObjectKey,
        path: &Utf8Path,
        about: &About,
        size_bytes: u64,
        part_bytes: u64,
    ) -> Result<(), ObjectError> {
        let file = fs_err::tokio::File::open(path).await.map_err(ObjectError::file(READ))?.into_parts().0;
        let file = Arc::new(file.into_std().await);
        let upload = Upload::begin(self, key, about).await?;
        let sent = async {
            let parts = size_bytes.div_ceil(part_bytes);
            let mut sent: Vec<CompletedPart> = futures::stream::iter(0..parts)
                .map(|index| {
                    let first = index * part_bytes;
                    let length = part_bytes.min(size_bytes - first);
                    upload.part(Arc::clone(&file), index, first, length)
                })
                .buffer_unordered(PARTS_AT_ONCE)
                .try_collect()
                .await?;
            sent.sort_by_key(|part| part.part_number);
            upload.complete(sent, size_bytes).await
        };
        let outcome = Box::pin(sent).await;
        upload.ended(outcome).await
    }

    /// Compares what the bucket holds with what was sent; an object that lacks something is removed again.
    async fn measure(&self, key: &ObjectKey, sent_bytes: u64) -> Result<u64, ObjectError> {
        let found = self.head(key).await?.ok_or_else(|| ObjectError::not_found(self.bucket(), key))?;
        if found.size_bytes == sent_bytes {
            return Ok(sent_bytes);
        }
        if let Err(error) = self.delete(key).await {
            tracing::warn!(object.key = %key, error = %error, "could not remove an object of the wrong size");
        }
        let (bucket, key) = (self.bucket().to_owned(), key.to_string());
        Err(ObjectError::WrongSize { bucket, key, sent_bytes, found_bytes: found.size_bytes })
    }
}

/// An upload in parts that has begun. Dropped before [`Upload::finished`], it aborts itself.
struct Upload {
    store: ObjectStore,
    key: ObjectKey,
    /// `None` once it has ended.
    id: Option<String>,
}

impl Upload {
    /// Begins an upload in a task of its own: when the caller goes away before the answer is there, the upload that it names is aborted too.
    async fn begin(store: &ObjectStore, key: &ObjectKey, about: &About) -> Result<Self, ObjectError> {
        let (to_caller, from_task) = oneshot::channel();
        let (own_store, own_key, about) = (store.clone(), key.clone(), about.clone());
        store.left_over().spawn(async move {
            let begun = Self::begin_now(own_store, own_key, &about).await;
            if let Err(Ok(unwanted)) = to_caller.send(begun) {
                unwanted.abort().await;
            }
        });
        let broke_off = |_gone| store.attempt(Operation::Put, key.as_str()).bad_answer("the request broke off");
        from_task.await.map_err(broke_off)?
    }

    async fn begin_now(store: ObjectStore, key: ObjectKey, about: &About) -> Result<Self, ObjectError> {
        let attempt = store.attempt(Operation::Put, key.as_str());
        let request = store
            .client()?
            .create_multipart_upload()
            .bucket(store.bucket())
            .key(key.as_str())
            .content_type(&about.content_type)
            .set_content_disposition(about.disposition())
            .set_metadata(Some(about.metadata()));
        let begun = store.guarded(attempt, &Progress::new(), request.send()).await?;
        let id = begun.upload_id.ok_or_else(|| attempt.bad_answer("it began an upload without an id"))?;
        Ok(Self { store: store.clone(), key: key.clone(), id: Some(id) })
    }

    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    async fn part(
        &self,
        file: Arc<std::fs::File>,
        index: u64,
        first: u64,
        length: u64,
    ) -> Result<CompletedPart, ObjectError> {
        let turn = self.store.turn().await;
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; usize::try_from(length).expect("a part fits in memory")];
            file.read_exact_at(&mut bytes, first).map(|()| Bytes::from(bytes))
        });
        let bytes = match read.await {
            Ok(bytes) => bytes.map_err(ObjectError::file(READ))?,
            Err(gone) => return Err(ObjectError::File { action: READ, source: gone.into() }),
        };
        let sent = self.send(bytes, index).await;
        drop(turn);
        sent
    }

    /// Sends a part. The right to send is the caller's.
    async fn send(&self, bytes: Bytes, index: u64) -> Result<CompletedPart, ObjectError> {
        let store = &self.store;
        let attempt = store.attempt(Operation::Put, self.key.as_str());
        let number = i32::try_from(index + 1).expect("at most 10,000 parts");
        let progress = Progress::new();
        let request = store
            .client()?
            .upload_part()
            .bucket(store.bucket())
            .key(self.key.as_str())
            .upload_id(self.id())
            .part_number(number)
            .body(progress.watch(bytes))
            .customize();
        let request = if store.is_encrypted() { request.disable_payload_signing() } else { request };
        let stored = store.guarded(attempt, &progress, request.send()).await?;
        let mark = stored.e_tag.ok_or_else(|| attempt.bad_answer(format!("it stored part {number} without a mark")))?;
        Ok(CompletedPart::builder().part_number(number).e_tag(mark).build())
    }

    async fn complete(&self, parts: Vec<CompletedPart>, size_bytes: u64) -> Result<(), ObjectError> {
        let store = &self.store;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let request = store
            .client()?
            .complete_multipart_upload()
            .bucket(store.bucket())
            .key(self.key.as_str())
            .upload_id(self.id())
            .multipart_upload(parts);
        let attempt = store.attempt(Operation::Put, self.key.as_str());
        match store.guarded(attempt, &Progress::new().whole(), request.send()).await {
            Ok(_) => Ok(()),
            // An answer that got lost: the second attempt finds that the upload has ended, with the object in its place.
            Err(error @ ObjectError::NotFound { .. }) => match store.head(&self.key).await {
                Ok(Some(found)) if found.size_bytes == size_bytes => Ok(()),
                Ok(_) | Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// The end of it, as sending went: an upload that failed leaves no parts behind.
    async fn ended(mut self, outcome: Result<(), ObjectError>) -> Result<(), ObjectError> {
        if outcome.is_ok() {
            self.id = None;
        } else {
            self.abort().await;
        }
        outcome
    }

    async fn abort(mut self) {
        if let Some(id) = self.id.take() {
            abort(self.store.clone(), self.key.clone(), id).await;
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        // The caller went away. Without a runtime the process is ending, and the bucket's own rule for old uploads is all that is left.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let work = abort(self.store.clone(), self.key.clone(), id);
            self.store.left_over().spawn_on(work, &runtime);
        }
    }
}

async fn abort(store: ObjectStore, key: ObjectKey, id: String) {
    let Ok(client) = store.client() else { return };
    let request = client.abort_multipart_upload().bucket(store.bucket()).key(key.as_str()).upload_id(&id);
    let attempt = store.attempt(Operation::Abort, key.as_str());
    match store.guarded(attempt, &Progress::new(), request.send()).await {
        Ok(_) | Err(ObjectError::NotFound { .. }) => {
            tracing::debug!(object.key = %key, "aborted an upload in parts");
        }
        Err(error) => {
            tracing::warn!(object.key = %key, error = %error, "could not abort an upload in parts; its parts stay until the bucket drops them");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_of_one_size_and_never_too_many() {
        const MEBIBYTE: u64 = 1 << 20;
        let check = |wanted: u64, size: u64, expected: u64| {
            let part = part_bytes(wanted, size);
            assert_eq!(part, expected);
            assert!(size.div_ceil(part) <= MOST_PARTS);
        };
        check(8 * MEBIBYTE, 1, 8 * MEBIBYTE);
        check(5 * MEBIBYTE, 1 << 30, 8 * MEBIBYTE);
        check(16 * MEBIBYTE, 1 << 30, 16 * MEBIBYTE);
        check(8 * MEBIBYTE, 80_000 * MEBIBYTE, 8 * MEBIBYTE);
        check(8 * MEBIBYTE, 80_000 * MEBIBYTE + 1, 9 * MEBIBYTE);
        check(8 * MEBIBYTE, 5 << 40, 525 * MEBIBYTE);
    }
}
