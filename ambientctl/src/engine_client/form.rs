//! The body of an upload: one file as `multipart/form-data`, of a length that is known before it is read.

use std::io;
use std::path::Path;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::once;
use reqwest::Body;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

/// Read from disk at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A file to upload.
pub(super) struct Form {
    boundary: String,
    head: String,
    tail: String,
    file: File,
    size_bytes: u64,
}

impl Form {
    /// Opens the file, and fixes what stands around it.
    pub(super) async fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path).await?;
        let facts = file.metadata().await?;
        if facts.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // Random, so that no file can hold it by intent.
        let boundary = format!("ambient-{:032x}", rand::random::<u128>());
        let name = path.file_name().map(|name| quoted(&name.to_string_lossy())).unwrap_or_default();
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
        let tail = format!("\r\n--{boundary}--\r\n");
        Ok(Self { boundary, head, tail, file, size_bytes: facts.len() })
    }

    pub(super) fn content_type(&self) -> String {
        format!("multipart/form-data; boundary={}", self.boundary)
    }

    pub(super) fn length_bytes(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.size_bytes
    }

    /// The body. `told` hears how much of the file was read, and of how much.
    pub(super) fn into_body(self, told: impl Fn(u64, u64) + Send + Sync + 'static) -> Body {
        let size_bytes = self.size_bytes;
        let mut sent = 0;
        // What is appended to the file meanwhile would not fit the length that was said.
        let file = ReaderStream::with_capacity(self.file.take(size_bytes), CHUNK_BYTES).inspect(move |chunk| {
            if let Ok(bytes) = chunk {
                sent += bytes.len() as u64;
                told(sent, size_bytes);
            }
        });
        let (head, tail) = (Bytes::from(self.head), Bytes::from(self.tail));
        Body::wrap_stream(once(async { Ok::<_, io::Error>(head) }).chain(file).chain(once(async { Ok(tail) })))
    }
}

/// A name inside the quotes of a form's header, as browsers write it.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("a\"b\r\nX: y.mp4"), "a%22b%0D%0AX: y.mp4");
        assert_eq!(quoted("größe.mp4"), "größe.mp4");
    }
}
