//! What this host made, in the bucket too: put there when a link to it is wanted, and found there by every replica.
//!
//! A medium keeps its path below the video folder as its key, which is the bucket's own layout (`<video_id>/clips/…`); only the video itself
//! lies under `S3_VIDEO_BASE_KEY`, and media of a session's own files under `reads/`. Names come from content, so what is there is right.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use ambient_media::objects::{About, ObjectError, ObjectKey, ObjectStore};
use bytes::Bytes;
use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use super::BackendError;
use super::outputs::SESSION_MEDIA;
use crate::store::chain;

/// The metadata `source` of what the engine stores.
const MADE_BY: &str = "engine";
/// How long an object that was seen is believed to be there. Whatever removes objects of a bucket by age takes days.
const BELIEVED: Duration = Duration::from_hours(1);
/// How many objects are kept in mind.
const MOST_KNOWN: usize = 10_000;
/// A medium that is read back for a request; larger ones go as links.
const READ_LIMIT_BYTES: u64 = 64 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Mirror {
    store: ObjectStore,
    root: Utf8PathBuf,
    seen: Mutex<HashMap<ObjectKey, Instant>>,
    /// One upload of a medium at a time.
    being_stored: Mutex<HashMap<ObjectKey, Weak<tokio::sync::Mutex<()>>>>,
}

impl Mirror {
    /// Of the media below `root`.
    pub(crate) fn new(store: ObjectStore, root: Utf8PathBuf) -> Self {
        Self { store, root, seen: Mutex::default(), being_stored: Mutex::default() }
    }

    pub(crate) const fn store(&self) -> &ObjectStore {
        &self.store
    }

    /// A link to a file below the root, which is stored first if it is not there.
    pub(crate) async fn link_local(
        &self,
        path: &Utf8Path,
        mime_type: &str,
        life: Duration,
    ) -> Result<String, BackendError> {
        let key = self.key_of(path)?;
        self.store_once(&key, path, mime_type).await.map_err(|error| told(&error))?;
        self.link(&key, life).await
    }

    /// A link to an object.
    pub(crate) async fn link(&self, key: &ObjectKey, life: Duration) -> Result<String, BackendError> {
        let link = self.store.presign_get(key, life).await.map_err(|error| told(&error))?;
        Ok(link.into_string())
    }

    /// The bytes of a file below the root that is not on this host any more, or never was.
    pub(crate) async fn read_local(&self, path: &Utf8Path) -> Result<Bytes, BackendError> {
        self.read(&self.key_of(path)?).await
    }

    /// The bytes of an object.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Bytes, BackendError> {
        let read = async { self.store.get(key).await?.into_bytes(READ_LIMIT_BYTES).await };
        read.await.map_err(|error| told(&error))
    }

    async fn store_once(&self, key: &ObjectKey, path: &Utf8Path, mime_type: &str) -> Result<(), ObjectError> {
        let turn = self.turn(key);
        let _turn = turn.lock().await;
        if self.was_seen(key) {
            return Ok(());
        }
        let path = self.root.join(path);
        let size_bytes =
            fs_err::tokio::metadata(&path).await.ok().filter(std::fs::Metadata::is_file).map(|facts| facts.len());
        let there = self.store.head(key).await?;
        match (there, size_bytes) {
            // Names come from content, so the right size is the right object; without the file the object is all there is.
            (Some(there), Some(size_bytes)) if there.size_bytes == size_bytes => {}
            (Some(_), None) => {}
            (Some(_) | None, Some(_)) => {
                self.store.put_file(key, &path, &About::new(mime_type, MADE_BY)).await?;
            }
            (None, None) => {
                return Err(ObjectError::NotFound { bucket: self.store.bucket().to_owned(), key: key.to_string() });
            }
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= MOST_KNOWN {
            seen.clear();
        }
        seen.insert(key.clone(), Instant::now());
        Ok(())
    }

    fn was_seen(&self, key: &ObjectKey) -> bool {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(key).is_some_and(|since| since.elapsed() < BELIEVED)
    }

    fn turn(&self, key: &ObjectKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut being_stored = self.being_stored.lock().unwrap_or_else(PoisonError::into_inner);
        being_stored.retain(|_key, turn| turn.strong_count() > 0);
        let there = being_stored.get(key).and_then(Weak::upgrade);
        there.unwrap_or_else(|| {
            let turn = Arc::default();
            being_stored.insert(key.clone(), Arc::downgrade(&turn));
            turn
        })
    }

    /// Where a file below the root lies in the bucket.
    fn key_of(&self, path: &Utf8Path) -> Result<ObjectKey, BackendError> {
        let refused = || BackendError::Path(format!("the media reference `{path}` leaves the video folder"));
        let names = path.components().map(|component| match component {
            Utf8Component::Normal(name) => Some(name),
            Utf8Component::Prefix(_) | Utf8Component::RootDir | Utf8Component::CurDir | Utf8Component::ParentDir => {
                None
            }
        });
        let names: Vec<&str> = names.collect::<Option<_>>().ok_or_else(refused)?;
        match names.as_slice() {
            [video] => {
                let video = Utf8Path::new(video);
                Ok(self.store.source_key(video.file_stem().unwrap_or_default(), video.extension().unwrap_or_default()))
            }
            [SESSION_MEDIA, rest @ ..] => format!("reads/{}", rest.join("/")).parse().map_err(|_bad| refused()),
            names => names.join("/").parse().map_err(|_bad| refused()),
        }
    }
}

/// The key in a stored reference.
pub(super) fn object_key(key: &str) -> Result<ObjectKey, BackendError> {
    key.parse().map_err(|error| BackendError::Media(format!("the stored reference is damaged: {error}")))
}

/// What a bucket's error means for a model and a client; the operator's part goes to the log.
pub(crate) fn told(error: &ObjectError) -> BackendError {
    tracing::warn!(error = %chain(error), "the bucket failed");
    let words = match error {
        ObjectError::NotFound { .. } => "it is not in the bucket any more",
        ObjectError::Unreachable { .. } | ObjectError::Stalled { .. } => "the bucket does not answer; try again",
        _ => "the bucket refuses; the engine's operator can find the reason with `ambientctl doctor`",
    };
    BackendError::Media(words.to_owned())
}

#[cfg(test)]
mod tests {
    use ambient_media::objects::ObjectStoreConfig;

    use super::*;

    #[test]
    fn media_keep_their_place_in_the_bucket() {
        let store = ObjectStore::new(ObjectStoreConfig {
            bucket: "films".to_owned(),
            endpoint: None,
            region: "us-east-1".to_owned(),
            credentials: None,
            video_base_key: "videos".to_owned(),
            upload_concurrency: 1,
            part_bytes: 0,
            stall_limit: Duration::from_secs(1),
        });
        let mirror = Mirror::new(store, "/srv/videos".into());
        let check = |path: &str, expected: &str| {
            assert_eq!(mirror.key_of(Utf8Path::new(path)).map(|key| key.to_string()).unwrap(), expected);
        };
        check("vid_0123456789abcdef.mp4", "videos/vid_0123456789abcdef.mp4");
        check("vid_0123456789abcdef/clips/ab-0000.mp4", "vid_0123456789abcdef/clips/ab-0000.mp4");
        check("vid_0123456789abcdef/annotated/ab-0000.jpg", "vid_0123456789abcdef/annotated/ab-0000.jpg");
        check("session-media/ses_1/images/ab.jpg", "reads/ses_1/images/ab.jpg");
        for path in ["../x", "/etc/passwd", "a/../../x", ""] {
            assert!(mirror.key_of(Utf8Path::new(path)).is_err(), "{path}");
        }
    }
}
