//! What the bytes of a source are, since tiles belong to bytes and not to names.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};

use camino::Utf8Path;
use sha2::{Digest, Sha256};

use super::manifest::TileSource;
use crate::error::MediaError;

const CHUNK_BYTES: usize = 1 << 20;

/// Reads a file whole.
pub(super) async fn of_file(path: &Utf8Path) -> Result<TileSource, MediaError> {
    let path = path.to_owned();
    let hashed = tokio::task::spawn_blocking(move || hash(File::open(path)?)).await;
    hashed.map_err(io::Error::other).and_then(|hashed| hashed).map_err(MediaError::file("read the source"))
}

fn hash(mut file: File) -> io::Result<TileSource> {
    let mut hasher = Sha256::new();
    let mut size_bytes = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        hasher.update(&chunk[..count]);
        size_bytes += u64::try_from(count).map_err(io::Error::other)?;
    }
    Ok(TileSource { sha256: hex(&hasher.finalize()), size_bytes })
}

/// Bytes as lower-case hex digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes any text");
        text
    })
}
