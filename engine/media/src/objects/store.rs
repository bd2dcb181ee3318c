//! The handle on the bucket: single requests. Uploads in parts are in `multipart.rs`, whole downloads in `download.rs`.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ambient_settings::Settings;
use aws_sdk_s3::Client;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::{ByteStream, DateTime};
use bytes::Bytes;
use futures::stream::{Stream, StreamExt, TryStreamExt};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::task::TaskTracker;

use super::body::Progress;
use super::client;
use super::config::ObjectStoreConfig;
use super::error::{ObjectError, Operation};
use super::faults::{Attempt, endpoint};
use super::key::ObjectKey;
use super::link::PresignedUrl;

/// How many objects are removed at once when a whole prefix goes.
const REMOVALS_AT_ONCE: usize = 8;

/// The longest life that S3 gives a link.
const LONGEST_LINK: Duration = Duration::from_hours(7 * 24);

/// What a name in a header keeps as it is (RFC 5987).
const HEADER_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What is told about an object when it is stored.
#[derive(Clone, Debug)]
pub struct About {
    /// Its media type, such as `video/mp4`.
    pub content_type: String,
    /// The part of Ambient that stores it, kept as the metadata `source`.
    pub made_by: &'static str,
    /// The name under which a browser saves it; `None` lets the browser show it.
    pub download_name: Option<String>,
}

impl About {
    /// An object that is shown rather than saved.
    pub fn new(content_type: impl Into<String>, made_by: &'static str) -> Self {
        Self { content_type: content_type.into(), made_by, download_name: None }
    }

    /// The value of `Content-Disposition`: a plain name for old readers and the real one for all others.
    pub(super) fn disposition(&self) -> Option<String> {
        let name = self.download_name.as_deref()?;
        let is_plain = |sign: char| sign.is_ascii_graphic() && !matches!(sign, '"' | '\\' | '%') || sign == ' ';
        let plain: String = name.chars().map(|sign| if is_plain(sign) { sign } else { '_' }).collect();
        Some(format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(name, HEADER_NAME)))
    }

    pub(super) fn metadata(&self) -> HashMap<String, String> {
        HashMap::from([("source".to_owned(), self.made_by.to_owned())])
    }
}

/// What the bucket knows about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Its size.
    pub size_bytes: u64,
    /// The server's mark of its content; another content has another mark.
    pub mark: Option<String>,
    /// Its media type.
    pub content_type: Option<String>,
    /// When it was stored.
    pub stored_at: Option<SystemTime>,
}

/// A line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The object's key, as the server writes it.
    pub key: String,
    /// Its size.
    pub size_bytes: u64,
    /// When it was stored.
    pub stored_at: Option<SystemTime>,
}

/// An object, or a range of one, on its way.
#[derive(Debug)]
pub struct ObjectReader {
    /// The whole object.
    pub facts: ObjectFacts,
    /// Which bytes of it come.
    pub range: Range<u64>,
    body: ByteStream,
    store: ObjectStore,
    key: ObjectKey,
}

/// A bucket under one configuration. Cheap to clone; all clones share connections and the limit on uploads.
#[derive(Clone, Debug)]
pub struct ObjectStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: ObjectStoreConfig,
    client: Option<Client>,
    uploads: Semaphore,
    /// Aborts of uploads whose caller is gone.
    left_over: TaskTracker,
}

impl ObjectStore {
    /// Opens no connection: whether the bucket answers is known with the first request.
    pub fn new(config: ObjectStoreConfig) -> Self {
        let client = client::client(&config);
        let uploads = Semaphore::new(config.upload_concurrency.max(1));
        Self { shared: Arc::new(Shared { config, client, uploads, left_over: TaskTracker::new() }) }
    }

    /// The bucket of the settings; `None` when they name none.
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        ObjectStoreConfig::from_settings(settings).map(Self::new)
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &str {
        &self.shared.config.bucket
    }

    /// Where an object is, for people and envelopes: `s3://<bucket>/<key>`.
    pub fn uri(&self, key: &ObjectKey) -> String {
        format!("s3://{}/{key}", self.bucket())
    }

    /// The key of an uploaded video: `<S3_VIDEO_BASE_KEY>/<video_id>.<extension>`.
    pub fn source_key(&self, video_id: &str, extension: &str) -> ObjectKey {
        ObjectKey::source(&self.shared.config.video_base_key, video_id, extension)
    }

    /// Stores bytes, replacing what was there.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on.
    pub async fn put_bytes(&self, key: &ObjectKey, bytes: Bytes, about: &About) -> Result<(), ObjectError> {
        let attempt = self.attempt(Operation::Put, key.as_str());
        let progress = Progress::new();
        let request = self
            .client()?
            .put_object()
            .bucket(self.bucket())
            .key(key.as_str())
            .content_type(&about.content_type)
            .set_content_disposition(about.disposition())
            .set_metadata(Some(about.metadata()))
            .body(progress.watch(bytes));
        let _turn = self.turn().await;
        let request = request.customize();
        let request = if self.is_encrypted() { request.disable_payload_signing() } else { request };
        self.guarded(attempt, &progress, request.send()).await?;
        Ok(())
    }

    /// What is stored under a key; `None` when nothing is.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on. Without the right to list, a missing object looks like a refusal.
    pub async fn head(&self, key: &ObjectKey) -> Result<Option<ObjectFacts>, ObjectError> {
        let attempt = self.attempt(Operation::Head, key.as_str());
        let request = self.client()?.head_object().bucket(self.bucket()).key(key.as_str());
        match self.guarded(attempt, &Progress::new(), request.send()).await {
            Ok(found) => Ok(Some(ObjectFacts {
                size_bytes: size(found.content_length, attempt)?,
                mark: found.e_tag,
                content_type: found.content_type,
                stored_at: found.last_modified.and_then(system_time),
            })),
            Err(ObjectError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks whether the bucket answers and takes the key, with the request that everything else begins with.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on.
    pub async fn ping(&self) -> Result<(), ObjectError> {
        self.head(&ObjectKey::nobodys()).await.map(drop)
    }

    /// Reads an object from its beginning.
    ///
    /// # Errors
    ///
    /// When there is no such object, or the bucket refuses, cannot be reached or stops going on.
    pub async fn get(&self, key: &ObjectKey) -> Result<ObjectReader, ObjectError> {
        self.read(key, None).await
    }

    /// Reads the bytes `range` of an object. [`ObjectReader::range`] says which bytes really come: fewer at the object's end, and all of
    /// them from a server that does not know ranges.
    ///
    /// # Errors
    ///
    /// When there is no such object, the range begins past its end, or the bucket refuses, cannot be reached or stops going on.
    pub async fn get_range(&self, key: &ObjectKey, range: Range<u64>) -> Result<ObjectReader, ObjectError> {
        self.read(key, Some(range)).await
    }

    async fn read(&self, key: &ObjectKey, range: Option<Range<u64>>) -> Result<ObjectReader, ObjectError> {
        let attempt = self.attempt(Operation::Get, key.as_str());
        let header = range.map(|range| format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
        let request = self.client()?.get_object().bucket(self.bucket()).key(key.as_str()).set_range(header);
        let found = self.guarded(attempt, &Progress::new(), request.send()).await?;
        let length = size(found.content_length, attempt)?;
        let (range, size_bytes) = match found.content_range.as_deref() {
            Some(text) => content_range(text).ok_or_else(|| attempt.bad_answer(format!("`Content-Range: {text}`")))?,
            None => (0..length, length),
        };
        if range.end - range.start != length {
            return Err(attempt.bad_answer(format!("{length} bytes for the range {range:?}")));
        }
        let facts = ObjectFacts {
            size_bytes,
            mark: found.e_tag,
            content_type: found.content_type,
            stored_at: found.last_modified.and_then(system_time),
        };
        Ok(ObjectReader { facts, range, body: found.body, store: self.clone(), key: key.clone() })
    }

    /// All keys that begin with `prefix`, in the order of the server.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on.
    pub async fn list(&self, prefix: &str) -> Result<Vec<Listed>, ObjectError> {
        let attempt = self.attempt(Operation::List, prefix);
        let mut found = Vec::new();
        let mut next = None;
        loop {
            let request = self.client()?.list_objects_v2().bucket(self.bucket()).prefix(prefix);
            let page = request.set_continuation_token(next).send();
            let page = self.guarded(attempt, &Progress::new(), page).await?;
            for object in page.contents.unwrap_or_default() {
                let Some(key) = object.key else { continue };
                let stored_at = object.last_modified.and_then(system_time);
                found.push(Listed { key, size_bytes: size(object.size, attempt)?, stored_at });
            }
            next = page.next_continuation_token;
            if next.is_none() {
                return Ok(found);
            }
        }
    }

    /// Removes an object. One that is not there is no error.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on.
    pub async fn delete(&self, key: &ObjectKey) -> Result<(), ObjectError> {
        self.delete_named(key.as_str()).await
    }

    async fn delete_named(&self, key: &str) -> Result<(), ObjectError> {
        let request = self.client()?.delete_object().bucket(self.bucket()).key(key);
        match self.guarded(self.attempt(Operation::Delete, key), &Progress::new(), request.send()).await {
            Ok(_) | Err(ObjectError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Removes all objects whose keys begin with `prefix`, and says how many there were. One request an object: the request for many at once
    /// needs a checksum that not every store takes.
    ///
    /// # Errors
    ///
    /// When the bucket refuses, cannot be reached or stops going on; some objects may be gone by then.
    pub async fn delete_under(&self, prefix: &str) -> Result<usize, ObjectError> {
        let found = self.list(prefix).await?;
        let count = found.len();
        futures::stream::iter(found)
            .map(|object| async move { self.delete_named(&object.key).await })
            .buffer_unordered(REMOVALS_AT_ONCE)
            .try_collect::<()>()
            .await?;
        Ok(count)
    }

    /// A link that anybody can follow for `life`, seven days at most. Its signature covers the `host` header alone.
    ///
    /// # Errors
    ///
    /// Without credentials.
    pub async fn presign_get(&self, key: &ObjectKey, life: Duration) -> Result<PresignedUrl, ObjectError> {
        let attempt = self.attempt(Operation::Get, key.as_str());
        let ends = ends_after(life);
        let request = self.client()?.get_object().bucket(self.bucket()).key(key.as_str());
        let signed = request.presigned(ends).await.map_err(|error| attempt.failed(error))?;
        Ok(PresignedUrl::new(signed.uri().to_owned()))
    }

    /// Waits until uploads whose callers went away are aborted, so that no parts are left in the bucket. To be called before the runtime ends.
    pub async fn settle(&self) {
        self.shared.left_over.close();
        self.shared.left_over.wait().await;
        self.shared.left_over.reopen();
    }

    pub(super) fn left_over(&self) -> &TaskTracker {
        &self.shared.left_over
    }

    pub(super) fn config(&self) -> &ObjectStoreConfig {
        &self.shared.config
    }

    pub(super) fn client(&self) -> Result<&Client, ObjectError> {
        self.shared.client.as_ref().ok_or_else(|| ObjectError::NoCredentials { bucket: self.bucket().to_owned() })
    }

    pub(super) fn attempt<'a>(&'a self, operation: Operation, key: &'a str) -> Attempt<'a> {
        Attempt { config: &self.shared.config, operation, key }
    }

    /// Whether TLS guards what is sent; then hashing each body once more for the signature would only cost time.
    pub(super) fn is_encrypted(&self) -> bool {
        self.shared.config.endpoint.as_ref().is_none_or(|url| url.starts_with("https:"))
    }

    /// The right to send one body.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.shared.uploads.acquire().await.expect("nobody closes the semaphore")
    }

    /// Sends a request and gives it up when it stops moving.
    pub(super) async fn guarded<T, E>(
        &self,
        attempt: Attempt<'_>,
        progress: &Progress,
        request: impl Future<Output = Result<T, aws_sdk_s3::error::SdkError<E>>> + Send,
    ) -> Result<T, ObjectError>
    where
        E: aws_sdk_s3::error::ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let limit = self.shared.config.stall_limit;
        tokio::select! {
            answer = Box::pin(request) => answer.map_err(|error| attempt.failed(error)),
            () = progress.stalled(limit) => Err(attempt.stalled(limit)),
        }
    }

    /// The server's name for people.
    pub fn endpoint(&self) -> String {
        endpoint(&self.shared.config)
    }
}

impl ObjectReader {
    /// The bytes as they come. A connection that breaks is an error; a server that sends nothing for too long too.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, ObjectError>> + Send {
        futures::stream::try_unfold(self, async |mut reader| {
            let attempt = reader.store.attempt(Operation::Get, reader.key.as_str());
            let limit = reader.store.config().stall_limit;
            let piece = match tokio::time::timeout(limit, reader.body.try_next()).await {
                Ok(Ok(piece)) => piece,
                Ok(Err(error)) => return Err(attempt.unreachable(error.into())),
                Err(_elapsed) => return Err(attempt.stalled(limit)),
            };
            Ok(piece.map(|piece| (piece, reader)))
        })
    }

    /// All bytes at once; for small objects such as a manifest.
    ///
    /// # Errors
    ///
    /// When the object is larger than `limit_bytes`, or the connection breaks.
    pub async fn into_bytes(self, limit_bytes: u64) -> Result<Bytes, ObjectError> {
        let length = self.range.end - self.range.start;
        if length > limit_bytes {
            let attempt = self.store.attempt(Operation::Get, self.key.as_str());
            return Err(attempt.bad_answer(format!("`{}` is {length} bytes, over {limit_bytes}", self.key)));
        }
        let all = self.into_stream().try_fold(Vec::new(), async |mut all, piece| {
            all.extend_from_slice(&piece);
            Ok(all)
        });
        all.await.map(Bytes::from)
    }
}

fn ends_after(life: Duration) -> PresigningConfig {
    let life = life.clamp(Duration::from_secs(1), LONGEST_LINK);
    PresigningConfig::expires_in(life).expect("between a second and seven days")
}

fn size(length: Option<i64>, attempt: Attempt<'_>) -> Result<u64, ObjectError> {
    length.and_then(|length| u64::try_from(length).ok()).ok_or_else(|| attempt.bad_answer("it names no size"))
}

fn system_time(time: DateTime) -> Option<SystemTime> {
    SystemTime::try_from(time).ok()
}

/// `bytes 0-99/1000` as the range and the size of the whole.
pub(crate) fn content_range(text: &str) -> Option<(Range<u64>, u64)> {
    let (range, whole) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    let whole = whole.parse().ok()?;
    (first <= last && last < whole).then_some((first..last + 1, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_file_keeps_its_name() {
        let check = |name: &str, expected: &str| {
            let about = About { download_name: Some(name.to_owned()), ..About::new("video/mp4", "test") };
            assert_eq!(about.disposition().as_deref(), Some(expected));
        };
        check("a b+c.mp4", "attachment; filename=\"a b+c.mp4\"; filename*=UTF-8''a%20b%2Bc.mp4");
        check("ü 视频.mp4", "attachment; filename=\"_ __.mp4\"; filename*=UTF-8''%C3%BC%20%E8%A7%86%E9%A2%91.mp4");
        check("50%.mp4", "attachment; filename=\"50_.mp4\"; filename*=UTF-8''50%25.mp4");
        check("a\"\r\nx: y", "attachment; filename=\"a___x: y\"; filename*=UTF-8''a%22%0D%0Ax%3A%20y");
        assert_eq!(About::new("video/mp4", "test").disposition(), None);
    }

    #[test]
    fn a_range_is_taken_only_when_it_makes_sense() {
        assert_eq!(content_range("bytes 0-99/1000"), Some((0..100, 1000)));
        assert_eq!(content_range("bytes 999-999/1000"), Some((999..1000, 1000)));
        for text in ["bytes 0-99/*", "bytes */1000", "bytes 9-3/10", "bytes 0-10/10", "items 0-1/2", ""] {
            assert_eq!(content_range(text), None, "{text}");
        }
    }
}
