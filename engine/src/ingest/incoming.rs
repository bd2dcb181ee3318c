//! A form's file on its way to the disk: hashed while it is written, under a name that goes away by itself until it gets its own.

use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use camino::{Utf8Path, Utf8PathBuf};
use tempfile::{NamedTempFile, TempPath};
use tokio::sync::mpsc;

use super::form::{Form, FormError};
use super::hash::hex;
use super::upload::UploadError;
use crate::store::chain;

/// Uploads that are not accepted yet, inside `VIDEO_FOLDER` so that giving the name is a rename.
pub(super) const INCOMING: &str = ".incoming";
/// Pieces on their way to the disk. A piece is what one read from the socket gave, up to some hundred kilobytes.
const PIECES_ON_THE_WAY: usize = 8;
/// What is read of a file to name its kind.
pub(crate) const HEAD_BYTES: usize = 4096;
/// A temporary file that nobody wrote to for so long belongs to an engine that died.
const LEFT_OVER_AFTER: Duration = Duration::from_hours(1);

/// A form's file, on disk under a name that goes away by itself.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) path: TempPath,
    pub(super) head: Vec<u8>,
    pub(super) sha256: String,
    pub(super) size_bytes: u64,
}

/// Writes the data of the form's current part, below `folder`. When this future is dropped, the writer sees it and removes the file.
pub(super) async fn receive(form: &mut Form, folder: &Utf8Path, limit_bytes: u64) -> Result<Received, UploadError> {
    let incoming = folder.join(INCOMING);
    let (pieces, from_socket) = mpsc::channel(PIECES_ON_THE_WAY);
    let writer = tokio::task::spawn_blocking(move || write_file(incoming.as_std_path(), from_socket));
    let mut size_bytes = 0_u64;
    let mut failure = None;
    while let Some(piece) = form.data().await? {
        size_bytes += piece.len() as u64;
        if size_bytes > limit_bytes {
            failure = Some(UploadError::TooLarge { limit_bytes });
            break;
        }
        if pieces.send(Piece::Data(piece)).await.is_err() {
            // The writer ended before its time, and says why below.
            break;
        }
    }
    if failure.is_none() {
        // As above.
        let _writer_ended = pieces.send(Piece::End).await;
    }
    drop(pieces);
    let failed = disk("write the upload");
    match (failure, writer.await) {
        (_, Err(panic)) => Err(failed(io::Error::other(panic.to_string()))),
        (Some(failure), Ok(_written)) => Err(failure),
        (None, Ok(Ok(Some(received)))) => Ok(received),
        (None, Ok(Ok(None))) => Err(UploadError::Form(FormError::CutOff)),
        (None, Ok(Err(source))) => Err(failed(source)),
    }
}

/// Removes what engines that died have left below `folder`.
pub(super) async fn remove_left_overs(folder: &Utf8Path) {
    let Ok(mut entries) = fs_err::tokio::read_dir(folder.join(INCOMING)).await else { return };
    while let Ok(Some(entry)) = entries.next_entry().await {
        let age = entry.metadata().await.and_then(|facts| facts.modified()).map(|at| at.elapsed().unwrap_or_default());
        if age.is_ok_and(|age| age > LEFT_OVER_AFTER)
            && let Ok(path) = Utf8PathBuf::from_path_buf(entry.path())
        {
            remove_file(&path).await;
        }
    }
}

/// What a failure of the disk means for the upload.
pub(super) fn disk(doing: &'static str) -> impl FnOnce(io::Error) -> UploadError {
    move |source| match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => UploadError::DiskFull,
        _ => UploadError::Disk { doing, source },
    }
}

/// Gives an upload its name. Whoever looks finds either the whole file or none.
///
/// The disk is told to keep it right after, and the answer does not wait for that: gigabytes on a slow disk would keep
/// the client waiting for minutes. Power that fails in between costs an upload, which sending the bytes again puts right.
pub(super) async fn place(upload: TempPath, path: &Utf8Path) -> Result<(), UploadError> {
    let path = path.to_owned();
    let renamed = tokio::task::spawn_blocking(move || {
        upload.persist(&path).map_err(|error| error.error)?;
        Ok(path)
    });
    let path = match renamed.await {
        Ok(renamed) => renamed.map_err(disk("store the upload"))?,
        Err(panic) => return Err(disk("store the upload")(io::Error::other(panic.to_string()))),
    };
    drop(tokio::task::spawn_blocking(move || {
        match sync(&path) {
            Ok(()) => {}
            // Deleted in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(error = %chain(&error), "the disk did not confirm an upload"),
        }
    }));
    Ok(())
}

fn sync(path: &Utf8Path) -> io::Result<()> {
    fs_err::File::open(path)?.sync_data()?;
    fs_err::File::open(path.parent().unwrap_or(Utf8Path::new(".")))?.sync_all()
}

/// Removes a file that may be gone already.
pub(super) async fn remove_file(path: &Utf8Path) {
    match fs_err::tokio::remove_file(path).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(error = %chain(&error), "a file was not removed"),
    }
}

/// What goes to the writer.
enum Piece {
    Data(Bytes),
    /// The part is whole. A channel that closes without this means that the upload broke off.
    End,
}

/// Hashes and writes what comes, on a thread of its own. `None` when the upload broke off.
fn write_file(folder: &Path, mut pieces: mpsc::Receiver<Piece>) -> io::Result<Option<Received>> {
    let mut file = NamedTempFile::with_prefix_in("upload-", folder)?;
    let mut hash = Context::new(&SHA256);
    let mut size_bytes = 0;
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Data(bytes)) => {
                hash.update(&bytes);
                file.write_all(&bytes)?;
                size_bytes += bytes.len() as u64;
            }
            Some(Piece::End) => break,
            // The temporary file goes with its handle.
            None => return Ok(None),
        }
    }
    let mut head = Vec::new();
    file.rewind()?;
    file.as_file_mut().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    let sha256 = hex(&hash.finish());
    Ok(Some(Received { path: file.into_temp_path(), head, sha256, size_bytes }))
}
