//! Videos that lie in the bucket and not on this host.
//!
//! ffmpeg reads such a video through a server of our own on the loopback, under a path that nobody can guess. The server fetches what is asked
//! for in blocks over a presigned link, renews the link when it ends, takes up connections that break, and keeps the last blocks in memory,
//! since each program that looks at a file begins with the same index. So ffmpeg itself only ever talks to this host.
//!
//! A whole download happens only where blocks cannot be had: when the bucket's server does not know ranges, or when the operator wants it so.
//! It happens once for all who want it, and what is kept stays within a budget.

mod blocks;
mod copies;
mod object;
mod proxy;

use std::sync::Arc;
use std::time::Duration;

use ambient_settings::Settings;
use bytes::Bytes;
use camino::Utf8PathBuf;

use crate::error::MediaError;
use crate::objects::{ObjectError, ObjectKey, ObjectStore};
use blocks::Blocks;
use copies::Copies;
pub(crate) use copies::LocalCopy;
use object::{Fetch, RemoteObject};
use proxy::Proxy;
pub(crate) use proxy::{Passage, Watch};

/// Below the video folder: videos that had to be downloaded whole.
const COPIES: &str = ".sources";

/// How videos in the bucket are read.
#[derive(Clone, Debug)]
pub struct BucketReading {
    /// The bucket.
    pub store: ObjectStore,
    /// Whether ranges are read at all; else each video is downloaded once.
    pub streams: bool,
    /// The size from which on ranges are read, in bytes; smaller videos are downloaded once.
    pub stream_min_bytes: u64,
    /// How long a link to a video lives.
    pub link_life: Duration,
    /// Where downloaded videos are kept; made when needed.
    pub copies: Utf8PathBuf,
    /// How much disk they may take, in bytes.
    pub copies_max_bytes: u64,
}

impl BucketReading {
    /// On the engine's host: ranges of any video, unless the operator turned that off. `None` without a bucket.
    pub fn on_host(settings: &Settings) -> Option<Self> {
        Some(Self { stream_min_bytes: 0, ..Self::in_sandbox(settings)? })
    }

    /// In a sandbox, which works on one video again and again: small ones are downloaded. `None` without a bucket.
    pub fn in_sandbox(settings: &Settings) -> Option<Self> {
        let source = &settings.source;
        Some(Self {
            store: ObjectStore::from_settings(settings)?,
            streams: source.stream,
            stream_min_bytes: source.stream_min_bytes,
            link_life: source.url_ttl,
            copies: settings.media.video_folder.join(COPIES),
            copies_max_bytes: settings.media.cache_max_bytes,
        })
    }
}

/// The way to videos in one bucket. Shared by all operations of one [`crate::Media`].
#[derive(Debug)]
pub(crate) struct Remote {
    reading: BucketReading,
    objects: object::Objects,
    blocks: Arc<Blocks>,
    copies: Copies,
    proxy: Proxy,
}

/// A video in the bucket, ready for a program.
#[derive(Clone, Debug)]
pub(crate) enum Reached {
    /// By ranges.
    Passage(Arc<Passage>),
    /// As a file, which stays as long as this is held.
    Copy(Arc<LocalCopy>),
}

/// What is known of a video in the bucket before any program looks at it.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) reached: Reached,
    /// Its first bytes.
    pub(crate) head: Bytes,
    pub(crate) size_bytes: u64,
    /// Tells its content from any other.
    pub(crate) identity: String,
}

impl Remote {
    pub(crate) fn new(reading: BucketReading) -> Result<Self, MediaError> {
        let blocks = Arc::new(Blocks::default());
        Ok(Self {
            objects: object::Objects::new(&reading)?,
            copies: Copies::new(reading.copies.clone(), reading.copies_max_bytes),
            proxy: Proxy::new(Arc::clone(&blocks)),
            blocks,
            reading,
        })
    }

    pub(crate) fn store(&self) -> &ObjectStore {
        &self.reading.store
    }

    /// Makes a video ready for programs, and gives its first `head_bytes`.
    pub(crate) async fn reach(&self, key: &ObjectKey, head_bytes: usize) -> Result<Arrival, MediaError> {
        let object = self.objects.find(key).await?;
        let arrival = |reached: Reached, head: Bytes| Arrival {
            reached,
            head,
            size_bytes: object.size_bytes(),
            identity: object.identity(),
        };
        if self.reads_ranges(&object) {
            match self.blocks.block(&object, 0).await {
                Ok(first) => {
                    let passage = self.proxy.open(&object).await?;
                    return Ok(arrival(Reached::Passage(passage), first.slice(..first.len().min(head_bytes))));
                }
                Err(Fetch::NoRanges) => {
                    tracing::info!(object.key = %key, "the bucket's server does not know ranges, so the video is downloaded whole");
                    object.remember_no_ranges();
                }
                Err(Fetch::Failed(error)) => return Err(error.into()),
            }
        }
        let copy = self.copy(&object).await?;
        let head = copy.head(head_bytes).await?;
        Ok(arrival(Reached::Copy(copy), head))
    }

    /// The whole video as a file on this host.
    pub(crate) async fn download(&self, key: &ObjectKey) -> Result<Arc<LocalCopy>, MediaError> {
        let object = self.objects.find(key).await?;
        self.copy(&object).await
    }

    pub(crate) async fn size_bytes(&self, key: &ObjectKey) -> Result<u64, MediaError> {
        Ok(self.objects.find(key).await?.size_bytes())
    }

    /// Whatever a program reads from here while it runs with these arguments.
    pub(crate) fn watch(&self, args: &[String]) -> Watch {
        self.proxy.watch(args)
    }

    fn reads_ranges(&self, object: &RemoteObject) -> bool {
        self.reading.streams && object.knows_ranges() && object.size_bytes() >= self.reading.stream_min_bytes.max(1)
    }

    async fn copy(&self, object: &RemoteObject) -> Result<Arc<LocalCopy>, MediaError> {
        let copied = self.copies.get(&self.reading.store, object).await;
        if let Err(MediaError::Bucket(error)) = &copied
            && matches!(**error, ObjectError::Replaced { .. } | ObjectError::NotFound { .. })
        {
            object.has_gone();
        }
        copied.map(Arc::new)
    }
}
