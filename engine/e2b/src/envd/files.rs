//! Files in a sandbox: what they are, and moving them about.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures::Stream;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_util::io::ReaderStream;

use super::agent::Envd;
use super::transfer::{self, FileDownload};
use super::watch::{Watch, WatchOptions};
use crate::error::Error;
use crate::protocol::filesystem::{
    self, Entries, EntryAnswer, EntryInfo, ListDir, MoveEntry, PathRequest, UploadedFile,
};
use crate::protocol::header::METADATA_PREFIX;
use crate::protocol::process::Empty;

/// How much of a local file one piece of an upload holds.
const READ_PIECE: usize = 64 << 10;

/// Files of one sandbox. A relative path is taken from the user's home, `~` is that home.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    envd: &'a Envd,
    user: Option<&'a str>,
    metadata: Option<&'a BTreeMap<String, String>>,
}

impl<'a> Files<'a> {
    pub(crate) fn new(envd: &'a Envd) -> Self {
        Self { envd, user: None, metadata: None }
    }

    /// The same files seen as another user, who owns what is made.
    #[must_use]
    pub fn as_user(self, user: &'a str) -> Self {
        Self { user: Some(user), ..self }
    }

    /// The same files; whatever is written carries these words from then on, in place of those that it had. They come back with [`stat`](Self::stat),
    /// [`list`](Self::list) and the answer to the upload, with their names in lower case.
    #[must_use]
    pub fn with_metadata(self, metadata: &'a BTreeMap<String, String>) -> Self {
        Self { metadata: Some(metadata), ..self }
    }

    /// The whole content of a file, in memory.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none, [`Error::InvalidArgument`] when it is a directory.
    pub async fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let mut download = self.download(path).await?;
        let mut content = Vec::new();
        while let Some(chunk) = download.next_chunk().await? {
            content.extend_from_slice(&chunk);
        }
        Ok(content)
    }

    /// The whole content of a file as text; bytes that are no UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_text(&self, path: &str) -> Result<String, Error> {
        let content = self.read(path).await?;
        Ok(String::from_utf8(content).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The content of a file piece by piece.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn download(&self, path: &str) -> Result<FileDownload, Error> {
        transfer::download(self.envd, path, self.user).await
    }

    /// Copies a file out of the sandbox in constant memory and gives its size. What was written when this fails is a part of the file.
    ///
    /// # Errors
    /// As [`read`](Self::read), and [`Error::Io`] when `target` takes no more.
    pub async fn download_to(&self, path: &str, target: &mut (impl AsyncWrite + Unpin)) -> Result<u64, Error> {
        let io = |source| Error::Io { action: format!("write what came from `{path}`"), source };
        let mut download = self.download(path).await?;
        let mut size = 0;
        while let Some(chunk) = download.next_chunk().await? {
            target.write_all(&chunk).await.map_err(io)?;
            size += chunk.len() as u64;
        }
        target.flush().await.map_err(io)?;
        Ok(size)
    }

    /// Writes a file, in place of one that is there; missing folders are made.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when the disk is full, [`Error::InvalidArgument`] when the path is a directory or the metadata cannot travel as headers.
    pub async fn write(&self, path: &str, content: impl Into<Bytes>) -> Result<UploadedFile, Error> {
        let content: Bytes = content.into();
        transfer::upload_bytes(self.envd, path, self.user, &self.metadata_headers()?, content).await
    }

    /// Writes a file from a stream, in constant memory. When the stream fails, so does the upload.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn upload<S>(&self, path: &str, content: S) -> Result<UploadedFile, Error>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        transfer::upload_stream(self.envd, path, self.user, self.metadata_headers()?, content).await
    }

    fn metadata_headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        for (key, value) in self.metadata.into_iter().flatten() {
            let name = HeaderName::try_from(format!("{METADATA_PREFIX}{key}"));
            let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) else {
                let message = format!(
                    "the metadata `{key}`: a key is of letters, digits, `-` and `_`, a value of ASCII characters on one line"
                );
                return Err(Error::InvalidArgument { message });
            };
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// Writes a file from a reader, such as a local file, in constant memory.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn upload_from<R>(&self, path: &str, content: R) -> Result<UploadedFile, Error>
    where
        R: AsyncRead + Send + 'static,
    {
        self.upload(path, ReaderStream::with_capacity(content, READ_PIECE)).await
    }

    /// What something is.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not there.
    pub async fn stat(&self, path: &str) -> Result<EntryInfo, Error> {
        let answer: EntryAnswer = self.envd.unary(filesystem::STAT, &request(path), self.user).await?;
        Ok(answer.entry)
    }

    /// Whether something is there.
    ///
    /// # Errors
    /// When that is not known.
    pub async fn exists(&self, path: &str) -> Result<bool, Error> {
        match self.stat(path).await {
            Ok(_entry) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What is in a directory, `depth` levels down (1 is the directory alone): depth first, by name.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not there, [`Error::InvalidArgument`] when it is no directory or `depth` is 0.
    pub async fn list(&self, path: &str, depth: u32) -> Result<Vec<EntryInfo>, Error> {
        if depth == 0 {
            return Err(Error::InvalidArgument { message: "a depth of 0, which lists nothing".to_owned() });
        }
        let question = ListDir { path: path.to_owned(), depth };
        let answer: Entries = self.envd.unary(filesystem::LIST_DIR, &question, self.user).await?;
        Ok(answer.entries)
    }

    /// Makes a directory and those above it. `false` says that it is there already.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when there is a file of that name.
    pub async fn make_dir(&self, path: &str) -> Result<bool, Error> {
        match self.envd.unary::<_, EntryAnswer>(filesystem::MAKE_DIR, &request(path), self.user).await {
            Ok(_answer) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Moves or renames, and tells what is there now.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is nothing at `source`.
    pub async fn rename(&self, source: &str, destination: &str) -> Result<EntryInfo, Error> {
        let question = MoveEntry { source: source.to_owned(), destination: destination.to_owned() };
        let answer: EntryAnswer = self.envd.unary(filesystem::MOVE, &question, self.user).await?;
        Ok(answer.entry)
    }

    /// Removes a file, or a directory with all that is in it. Removing what is not there is no error.
    ///
    /// # Errors
    /// When it is not known whether it is gone.
    pub async fn remove(&self, path: &str) -> Result<(), Error> {
        let Empty {} = self.envd.unary(filesystem::REMOVE, &request(path), self.user).await?;
        Ok(())
    }

    /// Tells what happens in a directory from now on.
    ///
    /// # Errors
    /// [`Error::NotFound`] when it is not there, [`Error::InvalidArgument`] when it is no directory.
    pub async fn watch(&self, path: &str, options: &WatchOptions) -> Result<Watch, Error> {
        Watch::open(self.envd, path, self.user, options).await
    }
}

fn request(path: &str) -> PathRequest {
    PathRequest { path: path.to_owned() }
}
