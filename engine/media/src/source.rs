//! Where a video comes from, and the check of it before any program opens it.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use crate::container::{self, Container, HEAD_BYTES};
use crate::error::MediaError;
use crate::media::Media;
use crate::objects::ObjectKey;
use crate::probe::Refusal;
use crate::remote::{Arrival, LocalCopy, Reached, Remote};

/// A video to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A file on this host. Its name means nothing: content decides.
    File(Utf8PathBuf),
    /// An object of the bucket, see [`Media::with_bucket`]. It is read by ranges where that is possible.
    Object(ObjectKey),
}

/// A video on this host that stays at least as long as this is held.
#[derive(Clone, Debug)]
pub struct LocalVideo {
    path: Utf8PathBuf,
    _copy: Option<Arc<LocalCopy>>,
}

impl LocalVideo {
    /// Where it is.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }
}

/// A source of a known container, ready for programs.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// For words: the absolute path with all links resolved, or the object's address.
    pub(crate) path: Utf8PathBuf,
    pub(crate) container: Container,
    pub(crate) identity: Identity,
    size_bytes: u64,
    place: Place,
}

/// Where programs find it.
#[derive(Clone, Debug)]
enum Place {
    File(Utf8PathBuf),
    /// In the bucket, and what keeps it within reach.
    Bucket(Reached),
}

/// Tells one content of a source from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    File { path: Utf8PathBuf, device: u64, inode: u64, size_bytes: u64, modified_nanos: i128 },
    Object(String),
}

impl Opened {
    pub(crate) async fn file(given: &Utf8Path) -> Result<Self, MediaError> {
        let path = resolve(given).await?;
        let mut file = fs_err::tokio::File::open(&path).await.map_err(MediaError::file("open the source"))?;
        let facts = file.metadata().await.map_err(MediaError::file("look at the source"))?;
        if !facts.is_file() {
            return Err(refused(given, Refusal::new("it is not a plain file", "give the path of a video file")));
        }
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let limit = u64::try_from(HEAD_BYTES).expect("a few kilobytes");
        (&mut file).take(limit).read_to_end(&mut head).await.map_err(MediaError::file("read the source"))?;
        let container = container::recognise(&head).map_err(|refusal| refused(given, refusal))?;
        let identity = Identity::File {
            path: path.clone(),
            device: facts.dev(),
            inode: facts.ino(),
            size_bytes: facts.len(),
            modified_nanos: i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec()),
        };
        Ok(Self { place: Place::File(path.clone()), path, container, identity, size_bytes: facts.len() })
    }

    async fn object(remote: &Remote, key: &ObjectKey) -> Result<Self, MediaError> {
        let path = Utf8PathBuf::from(remote.store().uri(key));
        let Arrival { reached, head, size_bytes, identity } = remote.reach(key, HEAD_BYTES).await?;
        let container = container::recognise(&head).map_err(|refusal| refused(&path, refusal))?;
        let identity = Identity::Object(identity);
        Ok(Self { path, container, identity, size_bytes, place: Place::Bucket(reached) })
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Where it lies on this host, if it does.
    pub(crate) fn local_path(&self) -> Option<&Utf8Path> {
        match &self.place {
            Place::File(path) => Some(path),
            Place::Bucket(Reached::Copy(copy)) => Some(copy.path()),
            Place::Bucket(Reached::Passage(_)) => None,
        }
    }

    /// How ffmpeg is told the source: with the protocol in front, a colon or a dash in the name means nothing.
    pub(crate) fn argument(&self) -> String {
        match &self.place {
            Place::File(path) => format!("file:{path}"),
            Place::Bucket(Reached::Copy(copy)) => format!("file:{}", copy.path()),
            Place::Bucket(Reached::Passage(passage)) => passage.url().to_owned(),
        }
    }

    /// The protocols without which the source cannot be read. Nothing else is opened.
    pub(crate) const fn protocols(&self) -> &'static str {
        match &self.place {
            Place::File(_) | Place::Bucket(Reached::Copy(_)) => "file,pipe",
            Place::Bucket(Reached::Passage(_)) => "http,tcp",
        }
    }

    /// The same without a hold on a copy; `None` if it holds none.
    pub(crate) fn released(&self) -> Option<Self> {
        match &self.place {
            Place::Bucket(Reached::Copy(copy)) => {
                Some(Self { place: Place::File(copy.path().to_owned()), ..self.clone() })
            }
            Place::File(_) | Place::Bucket(Reached::Passage(_)) => None,
        }
    }

    /// Whether it holds a copy, which takes room that others may need.
    pub(crate) const fn is_copy(&self) -> bool {
        matches!(&self.place, Place::Bucket(Reached::Copy(_)))
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> MediaError {
        refused(&self.path, refusal)
    }
}

impl Media {
    /// Looks at the beginning of a source; starts no program.
    pub(crate) async fn open(&self, source: &Source) -> Result<Opened, MediaError> {
        match source {
            Source::File(path) => Opened::file(path).await,
            Source::Object(key) => Opened::object(self.remote(key)?, key).await,
        }
    }

    /// How large a source is, whether or not it is a video.
    pub(crate) async fn size_bytes(&self, source: &Source) -> Result<u64, MediaError> {
        match source {
            Source::File(path) => {
                Ok(fs_err::tokio::metadata(path).await.map_err(MediaError::file("look at the source"))?.len())
            }
            Source::Object(key) => self.remote(key)?.size_bytes(key).await,
        }
    }

    /// The whole source as a file on this host, for programs that are not ours. An object is downloaded once for all who ask, within
    /// `MEDIA_CACHE_MAX_BYTES`; the file may go when nobody holds the answer.
    ///
    /// # Errors
    ///
    /// When it is not there, the bucket fails, there is no room, or `stop` fires.
    pub async fn on_disk(&self, source: &Source, stop: &CancellationToken) -> Result<LocalVideo, MediaError> {
        match source {
            Source::File(path) => Ok(LocalVideo { path: resolve(path).await?, _copy: None }),
            Source::Object(key) => {
                let downloading = self.remote(key)?.download(key);
                let copy = tokio::select! {
                    () = stop.cancelled() => return Err(MediaError::Cancelled),
                    copy = downloading => copy?,
                };
                Ok(LocalVideo { path: copy.path().to_owned(), _copy: Some(copy) })
            }
        }
    }
}

fn refused(path: &Utf8Path, refusal: Refusal) -> MediaError {
    MediaError::Refused { path: path.to_owned(), refusal }
}

/// The absolute path, unless the file is a link that leads out of its own folder: a video folder must not become a window to the host.
pub(crate) async fn resolve(given: &Utf8Path) -> Result<Utf8PathBuf, MediaError> {
    let name = given.file_name().ok_or_else(|| MediaError::BadRequest(format!("`{given}` names no file")))?;
    let folder = match given.parent() {
        Some(parent) if parent.as_str().is_empty() => Utf8Path::new("."),
        Some(parent) => parent,
        None => Utf8Path::new("/"),
    };
    let folder = canonical(folder).await?;
    let path = canonical(given).await?;
    if path == folder.join(name) || path.starts_with(&folder) {
        Ok(path)
    } else {
        Err(refused(
            given,
            Refusal::new("it is a link that leads out of its folder", "give the file that it points to"),
        ))
    }
}

async fn canonical(path: &Utf8Path) -> Result<Utf8PathBuf, MediaError> {
    let found = fs_err::tokio::canonicalize(path).await.map_err(MediaError::file("find the source"))?;
    Utf8PathBuf::from_path_buf(found)
        .map_err(|path| MediaError::BadRequest(format!("the path `{}` is not UTF-8: rename the file", path.display())))
}
