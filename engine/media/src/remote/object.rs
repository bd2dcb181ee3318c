//! One video in the bucket: its size, its mark, and its bytes over links that are renewed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_RANGE, ETAG, RANGE};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode};
use tokio::time::Instant;

use super::BucketReading;
use crate::error::MediaError;
use crate::objects::{ObjectError, ObjectKey, ObjectStore, PresignedUrl, content_range};

/// How long what the bucket said about an object is believed. Another content under the same key is noticed with the first byte in any case.
const BELIEVED: Duration = Duration::from_mins(1);
/// How many objects are kept in mind; each takes some hundred bytes.
const MOST_KNOWN: usize = 256;
/// How often a range may fail in a row without a single byte.
const ATTEMPTS: u32 = 5;
/// The pause after the first of these failures; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long the way to the server may take to open, and how long it may be silent.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// A link is used for this part of its life; the rest is for what was asked last.
const USED_LIFE: f64 = 0.9;
/// Two links of one second are the same text unless their lives differ, and a used-up link must not come back.
const LIVES: u64 = 50;

/// Why bytes did not come.
#[derive(Debug)]
pub(super) enum Fetch {
    /// The server answers a range with the whole.
    NoRanges,
    Failed(ObjectError),
}

/// The objects that were looked up lately.
#[derive(Debug)]
pub(super) struct Objects {
    store: ObjectStore,
    client: Client,
    link_life: Duration,
    known: Mutex<HashMap<ObjectKey, (Instant, Arc<RemoteObject>)>>,
}

impl Objects {
    pub(super) fn new(reading: &BucketReading) -> Result<Self, MediaError> {
        let client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(SILENCE_LIMIT)
            .build()
            .map_err(|source| ObjectError::Construction {
                bucket: reading.store.bucket().to_owned(),
                source: source.into(),
            })?;
        let (store, link_life) = (reading.store.clone(), reading.link_life);
        Ok(Self { store, client, link_life, known: Mutex::default() })
    }

    /// An object that is there.
    pub(super) async fn find(&self, key: &ObjectKey) -> Result<Arc<RemoteObject>, ObjectError> {
        if let Some(known) = self.recall(key) {
            return Ok(known);
        }
        let facts = self.store.head(key).await?.ok_or_else(|| ObjectError::not_found(self.store.bucket(), key))?;
        let before = self.lock().get(key).map(|(_since, object)| Arc::clone(object));
        let same = before.filter(|object| {
            object.mark == facts.mark
                && object.size_bytes == facts.size_bytes
                && !object.is_gone.load(Ordering::Relaxed)
        });
        let object = same.unwrap_or_else(|| {
            Arc::new(RemoteObject {
                id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
                store: self.store.clone(),
                client: self.client.clone(),
                key: key.clone(),
                size_bytes: facts.size_bytes,
                mark: facts.mark,
                link_life: self.link_life,
                link: Mutex::default(),
                renewals: AtomicU64::new(0),
                lacks_ranges: AtomicBool::new(false),
                is_gone: AtomicBool::new(false),
            })
        });
        let mut known = self.lock();
        if known.len() >= MOST_KNOWN
            && let Some(oldest) = known.iter().min_by_key(|(_key, (since, _object))| *since).map(|(key, _)| key.clone())
        {
            known.remove(&oldest);
        }
        known.insert(key.clone(), (Instant::now(), Arc::clone(&object)));
        Ok(object)
    }

    fn recall(&self, key: &ObjectKey) -> Option<Arc<RemoteObject>> {
        let known = self.lock();
        let (since, object) = known.get(key)?;
        (since.elapsed() < BELIEVED && !object.is_gone.load(Ordering::Relaxed)).then(|| Arc::clone(object))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectKey, (Instant, Arc<RemoteObject>)>> {
        self.known.lock().expect("nothing panics while it holds the lock")
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// One content of one object.
#[derive(Debug)]
pub(crate) struct RemoteObject {
    /// Never used again for another content.
    id: u64,
    store: ObjectStore,
    client: Client,
    key: ObjectKey,
    size_bytes: u64,
    mark: Option<String>,
    link_life: Duration,
    link: Mutex<Option<(Instant, PresignedUrl)>>,
    renewals: AtomicU64,
    lacks_ranges: AtomicBool,
    is_gone: AtomicBool,
}

impl RemoteObject {
    pub(super) const fn id(&self) -> u64 {
        self.id
    }

    pub(super) const fn key(&self) -> &ObjectKey {
        &self.key
    }

    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) fn mark(&self) -> Option<&str> {
        self.mark.as_deref()
    }

    /// Tells this content from any other.
    pub(super) fn identity(&self) -> String {
        let mark = self.mark.as_deref().unwrap_or_default();
        format!("{}#{}#{mark}", self.store.uri(&self.key), self.size_bytes)
    }

    pub(super) fn knows_ranges(&self) -> bool {
        !self.lacks_ranges.load(Ordering::Relaxed)
    }

    pub(super) fn remember_no_ranges(&self) {
        self.lacks_ranges.store(true, Ordering::Relaxed);
    }

    /// The bytes of a range that lies inside the object: all of them, over as many connections and links as it takes.
    pub(super) async fn fetch(&self, range: Range<u64>) -> Result<Bytes, Fetch> {
        let length = usize::try_from(range.end - range.start).expect("a block fits in memory");
        let mut bytes = BytesMut::with_capacity(length);
        let (mut failures, mut was_refused) = (0, false);
        while bytes.len() < length {
            let from = range.start + as_u64(bytes.len());
            let before = bytes.len();
            let failure = match self.append(from..range.end, &mut bytes).await {
                Ok(()) => continue,
                Err(failure) => failure,
            };
            if bytes.len() > before {
                (failures, was_refused) = (0, false);
            }
            failures += 1;
            match failure {
                Failure::NoRanges => return Err(Fetch::NoRanges),
                Failure::Final(error) => return Err(Fetch::Failed(error)),
                // The link may have ended. When a new one is refused too, the client that reads error bodies finds the reason.
                Failure::Refused if !was_refused => {
                    was_refused = true;
                    self.drop_link();
                }
                Failure::Refused => {
                    let reason = self.store.get_range(&self.key, from..from + 1).await.err();
                    if let Some(error) = reason.filter(|error| !error.is_passing()) {
                        return Err(Fetch::Failed(error));
                    }
                    self.drop_link();
                }
                Failure::Broken(error) => {
                    tracing::debug!(object.key = %self.key, %error, failures, "a read from the bucket broke and goes on");
                    if failures == ATTEMPTS {
                        return Err(Fetch::Failed(error));
                    }
                }
            }
            if failures >= ATTEMPTS {
                let error = std::io::Error::other("it refuses every link, and does not say why");
                return Err(Fetch::Failed(self.unreachable(error.into())));
            }
            tokio::time::sleep(FIRST_PAUSE * 2_u32.pow(failures - 1)).await;
        }
        Ok(bytes.freeze())
    }

    /// Adds what comes of a range. An error leaves what came until then.
    async fn append(&self, range: Range<u64>, bytes: &mut BytesMut) -> Result<(), Failure> {
        let link = self.link().await.map_err(Failure::Final)?;
        let asked = format!("bytes={}-{}", range.start, range.end - 1);
        let broken = |error: reqwest::Error| Failure::Broken(self.unreachable(error.without_url().into()));
        let mut answer = self.client.get(link.as_str()).header(RANGE, asked).send().await.map_err(broken)?;
        self.check(&answer, &range)?;
        let mut left = range.end - range.start;
        while let Some(piece) = answer.chunk().await.map_err(broken)? {
            // More than was asked for would end up at the wrong place.
            let piece = piece.slice(..piece.len().min(usize::try_from(left).unwrap_or(usize::MAX)));
            bytes.extend_from_slice(&piece);
            left -= as_u64(piece.len());
        }
        if left == 0 { Ok(()) } else { Err(Failure::Broken(self.unreachable("the answer ended early".into()))) }
    }

    /// Whether an answer holds the range that was asked for, of the content that was found.
    fn check(&self, answer: &Response, range: &Range<u64>) -> Result<(), Failure> {
        let header =
            |name| answer.headers().get(name).and_then(|value: &reqwest::header::HeaderValue| value.to_str().ok());
        match answer.status() {
            StatusCode::PARTIAL_CONTENT => {
                let (came, whole) = header(CONTENT_RANGE).and_then(content_range).ok_or(Failure::NoRanges)?;
                if came.start != range.start {
                    return Err(Failure::NoRanges);
                }
                self.same(header(ETAG), whole)
            }
            StatusCode::OK if range.start == 0 && range.end == self.size_bytes => {
                self.same(header(ETAG), answer.content_length().unwrap_or(self.size_bytes))
            }
            StatusCode::OK => Err(Failure::NoRanges),
            StatusCode::NOT_FOUND => {
                self.has_gone();
                Err(Failure::Final(ObjectError::not_found(self.store.bucket(), &self.key)))
            }
            StatusCode::RANGE_NOT_SATISFIABLE => Err(Failure::Final(self.replaced())),
            status if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Err(Failure::Broken(self.unreachable(format!("it answered {status}").into())))
            }
            _ => Err(Failure::Refused),
        }
    }

    fn same(&self, mark: Option<&str>, size_bytes: u64) -> Result<(), Failure> {
        let has_other_mark = mark.zip(self.mark()).is_some_and(|(came, known)| came != known);
        if has_other_mark || size_bytes != self.size_bytes { Err(Failure::Final(self.replaced())) } else { Ok(()) }
    }

    /// A link with some life left.
    async fn link(&self) -> Result<PresignedUrl, ObjectError> {
        let now = Instant::now();
        let at_hand =
            self.lock_link().as_ref().filter(|(until, _link)| *until > now).map(|(_until, link)| link.clone());
        if let Some(link) = at_hand {
            return Ok(link);
        }
        let shorter = Duration::from_secs(self.renewals.fetch_add(1, Ordering::Relaxed) % LIVES);
        let life = self.link_life.saturating_sub(shorter).max(Duration::from_secs(1));
        let link = self.store.presign_get(&self.key, life).await?;
        *self.lock_link() = Some((now + life.mul_f64(USED_LIFE), link.clone()));
        Ok(link)
    }

    fn drop_link(&self) {
        *self.lock_link() = None;
    }

    fn lock_link(&self) -> std::sync::MutexGuard<'_, Option<(Instant, PresignedUrl)>> {
        self.link.lock().expect("nothing panics while it holds the lock")
    }

    fn unreachable(&self, source: Box<dyn std::error::Error + Send + Sync>) -> ObjectError {
        ObjectError::Unreachable { endpoint: self.store.endpoint(), source }
    }

    /// This content is not there any more; whoever asks for the key next looks anew.
    pub(super) fn has_gone(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    pub(super) fn bad_answer(&self, reason: &str) -> ObjectError {
        ObjectError::BadAnswer { endpoint: self.store.endpoint(), reason: reason.to_owned() }
    }

    pub(super) fn replaced(&self) -> ObjectError {
        self.has_gone();
        ObjectError::Replaced { bucket: self.store.bucket().to_owned(), key: self.key.to_string() }
    }
}

enum Failure {
    NoRanges,
    /// The link was not taken.
    Refused,
    /// Trying again may help.
    Broken(ObjectError),
    Final(ObjectError),
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).expect("a length in memory fits")
}
