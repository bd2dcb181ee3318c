//! Whether a player can begin with the first bytes of a file: an MP4 whose index comes before its pictures, in one piece.

use camino::Utf8Path;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::error::MediaError;

/// Boxes at the top of a file; what needs more is no file that we wait for.
const MOST_BOXES: usize = 64;

/// Reads the headers of the boxes at the top and nothing else.
pub(super) async fn is_fast(path: &Utf8Path) -> Result<bool, MediaError> {
    const READ: &str = "read the download";
    let mut file = fs_err::tokio::File::open(path).await.map_err(MediaError::file(READ))?;
    let mut header = [0_u8; 16];
    let mut has_index = false;
    for _box in 0..MOST_BOXES {
        // What ends before its pictures come is none that we want.
        if file.read_exact(&mut header).await.is_err() {
            return Ok(false);
        }
        let short = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
        match &header[4..8] {
            b"moov" => has_index = true,
            b"mdat" => return Ok(has_index),
            // Pieces, each with an index of its own.
            b"moof" | b"sidx" => return Ok(false),
            kind if kind.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ') => {}
            _no_box => return Ok(false),
        }
        let long = || u64::from_be_bytes(header[8..16].try_into().expect("eight bytes"));
        let size = if short == 1 { long() } else { u64::from(short) };
        // A box that says 0 goes on to the end of the file.
        let Some(rest) = i64::try_from(size).ok().filter(|size| *size >= 8).map(|size| size - 16) else {
            return Ok(false);
        };
        file.seek(std::io::SeekFrom::Current(rest)).await.map_err(MediaError::file(READ))?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxed(kind: &[u8], content: usize) -> Vec<u8> {
        let size = u32::try_from(content + 8).unwrap().to_be_bytes();
        [&size[..], kind, &vec![0; content]].concat()
    }

    async fn judged(boxes: &[Vec<u8>]) -> bool {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs_err::write(file.path(), boxes.concat()).unwrap();
        is_fast(Utf8Path::from_path(file.path()).unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn the_index_has_to_come_first_and_whole() {
        let (kind, free, index, pictures) =
            (boxed(b"ftyp", 24), boxed(b"free", 3), boxed(b"moov", 90), boxed(b"mdat", 9));
        assert!(judged(&[kind.clone(), free.clone(), index.clone(), pictures.clone()]).await);
        assert!(!judged(&[kind.clone(), free, pictures.clone(), index.clone()]).await);
        assert!(!judged(&[kind.clone(), index.clone(), boxed(b"moof", 50), pictures]).await);
        assert!(!judged(&[kind, index]).await);
        assert!(!judged(&[b"\x1a\x45\xdf\xa3 this is Matroska, not MP4 at all".to_vec()]).await);
        assert!(!judged(&[]).await);
    }
}
