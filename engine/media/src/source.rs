//! Where a video comes from, and the check of it before any program opens it.

use std::os::unix::fs::MetadataExt;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::io::AsyncReadExt;

use crate::container::{self, Container, HEAD_BYTES};
use crate::error::MediaError;
use crate::probe::Refusal;

/// A video to work on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// A file on this host. Its name means nothing: content decides.
    File(Utf8PathBuf),
}

/// A source that is a plain file of a known container.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    /// Absolute, with all links resolved.
    pub(crate) path: Utf8PathBuf,
    pub(crate) container: Container,
    pub(crate) identity: Identity,
}

/// Tells one content of a path from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    path: Utf8PathBuf,
    device: u64,
    inode: u64,
    size_bytes: u64,
    modified_nanos: i128,
}

impl Opened {
    /// Looks at the file itself; starts no program.
    pub(crate) async fn open(source: &Source) -> Result<Self, MediaError> {
        let Source::File(given) = source;
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
        let identity = Identity {
            path: path.clone(),
            device: facts.dev(),
            inode: facts.ino(),
            size_bytes: facts.len(),
            modified_nanos: i128::from(facts.mtime()) * 1_000_000_000 + i128::from(facts.mtime_nsec()),
        };
        Ok(Self { path, container, identity })
    }

    pub(crate) const fn size_bytes(&self) -> u64 {
        self.identity.size_bytes
    }

    /// How ffmpeg is told the file: with the protocol in front, a colon or a dash in the name means nothing.
    pub(crate) fn argument(&self) -> String {
        format!("file:{}", self.path)
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> MediaError {
        refused(&self.path, refusal)
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
