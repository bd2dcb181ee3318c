//! The bucket as commands use it: an upload with a link to it, and a video that is only there.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use nix::fcntl::{Flock, FlockArg};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::envelope::Failure;
use super::target::{SUFFIXES, in_folder};
use crate::error::MediaError;
use crate::objects::{About, ObjectError, ObjectKey, ObjectStore};
use crate::source::Source;

/// Who made an object, as its metadata says.
pub(super) const MADE_BY: &str = "e2b-sandbox";

/// Where outputs go, and for how long their links live.
#[derive(Clone, Debug)]
pub(super) struct Outbox {
    store: ObjectStore,
    life: Duration,
}

/// Something that is in the bucket.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) key: String,
    pub(super) uri: String,
    pub(super) url: String,
    pub(super) size_bytes: u64,
}

/// The bucket, or a word about what is missing.
pub(super) fn store(around: &Surroundings) -> Result<&ObjectStore, Failure> {
    around.bucket.as_ref().map(|bucket| &bucket.store).ok_or_else(|| {
        let message = "there is no bucket: set `S3_BUCKET`, `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`";
        Failure::new("S3NotConfigured", message)
    })
}

impl Outbox {
    pub(super) fn new(around: &Surroundings, life: Duration) -> Result<Self, Failure> {
        Ok(Self { store: store(around)?.clone(), life })
    }

    /// Puts a file into the bucket and makes a link to it.
    pub(super) async fn send(
        &self,
        key: &ObjectKey,
        path: &Utf8Path,
        about: &About,
        stop: &CancellationToken,
    ) -> Result<Sent, Failure> {
        let sent = async {
            let size_bytes = self.store.put_file(key, path, about).await?;
            let url = self.store.presign_get(key, self.life).await?.into_string();
            Ok::<_, ObjectError>(Sent { key: key.to_string(), uri: self.store.uri(key), url, size_bytes })
        };
        tokio::select! {
            () = stop.cancelled() => Err(MediaError::Cancelled.into()),
            sent = sent => Ok(sent?),
        }
    }
}

/// A video of the folder, else the object in the bucket, which is read from there.
pub(super) async fn locate(around: &Surroundings, id: &str, stop: &CancellationToken) -> Result<Source, Failure> {
    let missing = match in_folder(around, id).await {
        Ok(path) => return Ok(Source::File(path)),
        Err(missing) => missing,
    };
    let Some(bucket) = &around.bucket else { return Err(missing) };
    let found = tokio::select! {
        () = stop.cancelled() => return Err(MediaError::Cancelled.into()),
        found = stored(&bucket.store, id) => found?,
    };
    match found {
        Some((key, _suffix)) => Ok(Source::Object(key)),
        None => Err(nowhere(&missing, &bucket.store)),
    }
}

fn nowhere(missing: &Failure, bucket: &ObjectStore) -> Failure {
    Failure::new(&missing.code, format!("{}, nor in bucket `{}`", missing.message, bucket.bucket()))
}

/// The path of a video on this disk, fetched from the bucket if it is only there; and whether it was.
///
/// Of several commands at once one fetches it and the others wait for that.
pub(super) async fn bring(
    around: &Surroundings,
    id: &str,
    stop: &CancellationToken,
) -> Result<(Utf8PathBuf, bool), Failure> {
    let missing = match in_folder(around, id).await {
        Ok(path) => return Ok((path, false)),
        Err(missing) => missing,
    };
    let Some(bucket) = around.bucket.as_ref().map(|bucket| &bucket.store) else { return Err(missing) };
    let folder = around.video_folder.join(id);
    fs_err::tokio::create_dir_all(&folder).await.map_err(MediaError::file("make the folder of the video"))?;
    let brought = async {
        let _turn = turn(folder.join(".fetching")).await?;
        if let Ok(path) = in_folder(around, id).await {
            return Ok((path, false));
        }
        let Some((key, suffix)) = stored(bucket, id).await? else {
            return Err(nowhere(&missing, bucket));
        };
        let part = tempfile::Builder::new()
            .prefix(".part-")
            .tempfile_in(&folder)
            .map_err(MediaError::file("make a file for the video"))?
            .into_temp_path();
        let part_path = Utf8Path::from_path(&part).ok_or_else(|| Failure::bad_request("the folder is not UTF-8"))?;
        bucket.download(&key, part_path).await?;
        let path = folder.join(format!("{id}.{suffix}"));
        part.persist(&path).map_err(|error| Failure::from(MediaError::file("keep the video")(error.error)))?;
        Ok((path, true))
    };
    tokio::select! {
        () = stop.cancelled() => Err(MediaError::Cancelled.into()),
        brought = brought => brought,
    }
}

/// Waits until no other command holds the lock; it is given back by dropping it, and by the end of the process.
async fn turn(path: Utf8PathBuf) -> Result<Flock<std::fs::File>, Failure> {
    let lock = move || {
        let file = fs_err::File::create(&path)?.into_parts().0;
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_file, errno)| std::io::Error::from(errno))
    };
    match tokio::task::spawn_blocking(lock).await {
        Ok(locked) => Ok(locked.map_err(MediaError::file("wait for another download"))?),
        Err(_panic) => Err(MediaError::BrokeOff.into()),
    }
}

/// The key and the suffix of a video in the bucket. One listing tells; where that is forbidden, each name is asked for.
async fn stored(bucket: &ObjectStore, id: &str) -> Result<Option<(ObjectKey, &'static str)>, ObjectError> {
    let key = |suffix: &str| bucket.source_key(id, suffix);
    let stem = key("");
    match bucket.list(stem.as_str()).await {
        Ok(listed) => {
            let is_there = |key: &ObjectKey| listed.iter().any(|object| object.key == key.as_str());
            Ok(SUFFIXES.iter().map(|suffix| (key(suffix), *suffix)).find(|(key, _suffix)| is_there(key)))
        }
        Err(ObjectError::Forbidden { .. }) => {
            for suffix in SUFFIXES {
                match bucket.head(&key(suffix)).await {
                    Ok(Some(_facts)) => return Ok(Some((key(suffix), suffix))),
                    // Without the right to list, what is missing looks forbidden.
                    Ok(None) | Err(ObjectError::Forbidden { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The media type of a file by its name, for whoever follows the link.
pub(super) fn content_type(path: &Utf8Path) -> &'static str {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "mp4" | "m4v" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "mkv" => "video/x-matroska",
        "avi" => "video/x-msvideo",
        "ts" => "video/mp2t",
        "mpg" | "mpeg" => "video/mpeg",
        "gif" => "image/gif",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "wav" => "audio/wav",
        "pdf" => "application/pdf",
        "json" => "application/json",
        "zip" => "application/zip",
        "csv" => "text/csv; charset=utf-8",
        "txt" | "log" | "srt" => "text/plain; charset=utf-8",
        "md" => "text/markdown; charset=utf-8",
        "vtt" => "text/vtt; charset=utf-8",
        "html" | "htm" => "text/html; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_type() {
        for (name, wanted) in [
            ("a.mp4", "video/mp4"),
            ("A.JPG", "image/jpeg"),
            ("table.csv", "text/csv; charset=utf-8"),
            ("none", "application/octet-stream"),
            ("x.unheard-of", "application/octet-stream"),
        ] {
            assert_eq!(content_type(Utf8Path::new(name)), wanted);
        }
    }
}
