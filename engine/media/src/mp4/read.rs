//! The index of an MP4 as lists of samples.

use std::io::{self, Read, Seek, SeekFrom};

use super::BadIndex;

/// The largest index that is read: hours of samples.
const LARGEST_INDEX_BYTES: u64 = 64 << 20;

/// What a track holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Video,
    Audio,
}

/// One track.
#[derive(Clone, Debug)]
pub(crate) struct Track {
    pub(crate) kind: Kind,
    /// The `stsd` box, whole: codec, size, parameters.
    pub(crate) description: Vec<u8>,
    /// In the order of decoding.
    pub(crate) samples: Vec<Sample>,
}

/// Where the bytes of one picture or one frame of sound are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) offset: u64,
    pub(crate) size: u32,
    pub(crate) is_key: bool,
}

/// Reads the index of a file.
pub(crate) fn read(file: &mut (impl Read + Seek)) -> io::Result<Vec<Track>> {
    let index = index_of(file)?;
    let tracks = boxes(&index).filter(|(kind, _body)| kind == b"trak").map(|(_kind, body)| track(body));
    tracks.filter_map(Result::transpose).collect::<Result<_, BadIndex>>().map_err(io::Error::other)
}

/// The body of the `moov` box.
pub(super) fn index_of(file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
    let mut at = file.seek(SeekFrom::Start(0))?;
    loop {
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let (size, kind) = head.split_at(4);
        let mut size = u64::from(number(size));
        let mut head_size = 8;
        if size == 1 {
            let mut large = [0; 8];
            file.read_exact(&mut large)?;
            size = u64::from_be_bytes(large);
            head_size = 16;
        }
        if size < head_size {
            return Err(io::Error::other(BadIndex("is missing")));
        }
        if kind == b"moov" {
            let length = size - head_size;
            if length > LARGEST_INDEX_BYTES {
                return Err(io::Error::other(BadIndex("is too large")));
            }
            let mut body = vec![0; usize::try_from(length).map_err(io::Error::other)?];
            file.read_exact(&mut body)?;
            return Ok(body);
        }
        at += size;
        file.seek(SeekFrom::Start(at))?;
    }
}

/// A track of pictures or sound; `None` for another kind.
fn track(body: &[u8]) -> Result<Option<Track>, BadIndex> {
    let media = child(body, *b"mdia").ok_or(BadIndex("has a track without media"))?;
    let handler =
        child(media, *b"hdlr").and_then(|hdlr| hdlr.get(8..12)).ok_or(BadIndex("has a track without a kind"))?;
    let kind = match handler {
        b"vide" => Kind::Video,
        b"soun" => Kind::Audio,
        _ => return Ok(None),
    };
    let table =
        child(media, *b"minf").and_then(|info| child(info, *b"stbl")).ok_or(BadIndex("has a track without samples"))?;
    let description = whole_child(table, *b"stsd").ok_or(BadIndex("does not describe a track"))?.to_vec();
    let sizes = sizes(child(table, *b"stsz").ok_or(BadIndex("does not tell the size of samples"))?)?;
    let keys = child(table, *b"stss").map(|list| numbers(list, 8));
    let chunk_offsets: Vec<u64> = match (child(table, *b"stco"), child(table, *b"co64")) {
        (Some(list), _) => numbers(list, 8).into_iter().map(u64::from).collect(),
        (None, Some(list)) => {
            numbers(list, 8).chunks_exact(2).map(|pair| u64::from(pair[0]) << 32 | u64::from(pair[1])).collect()
        }
        (None, None) => return Err(BadIndex("does not tell where samples are")),
    };
    let runs = numbers(child(table, *b"stsc").ok_or(BadIndex("does not tell where samples are"))?, 8);
    let runs: Vec<(u32, u32)> = runs.chunks_exact(3).map(|run| (run[0], run[1])).collect();

    let mut samples = Vec::with_capacity(sizes.len());
    let mut sizes = sizes.into_iter();
    for (number, offset) in chunk_offsets.into_iter().enumerate() {
        let chunk = u32::try_from(number + 1).unwrap_or(u32::MAX);
        let count = runs.iter().rev().find(|(first, _count)| *first <= chunk).map_or(0, |(_first, count)| *count);
        let mut at = offset;
        for size in sizes.by_ref().take(usize::try_from(count).unwrap_or(usize::MAX)) {
            let place = u32::try_from(samples.len() + 1).unwrap_or(u32::MAX);
            let is_key = keys.as_ref().is_none_or(|keys| keys.binary_search(&place).is_ok());
            samples.push(Sample { offset: at, size, is_key });
            at += u64::from(size);
        }
    }
    Ok(Some(Track { kind, description, samples }))
}

fn sizes(list: &[u8]) -> Result<Vec<u32>, BadIndex> {
    let same = list.get(4..8).map(number).ok_or(BadIndex("is cut off"))?;
    let count = list.get(8..12).map(number).ok_or(BadIndex("is cut off"))?;
    if same > 0 {
        let most = LARGEST_INDEX_BYTES / 4;
        if u64::from(count) > most {
            return Err(BadIndex("is too large"));
        }
        return Ok((0..count).map(|_sample| same).collect());
    }
    Ok(numbers(list, 12))
}

/// The big-endian numbers of a list from `from` on.
fn numbers(list: &[u8], from: usize) -> Vec<u32> {
    list.get(from..).unwrap_or_default().chunks_exact(4).map(number).collect()
}

pub(super) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// The boxes that stand side by side in `bytes`: kind and body.
pub(super) fn boxes(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    whole_boxes(bytes).map(|(kind, whole)| (kind, &whole[8..]))
}

fn whole_boxes(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let size = usize::try_from(number(bytes.get(..4)?)).ok()?;
        let whole = bytes.get(..size).filter(|whole| whole.len() >= 8)?;
        bytes = &bytes[size..];
        Some((&whole[4..8], whole))
    })
}

pub(super) fn child(bytes: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    boxes(bytes).find(|(found, _body)| *found == kind).map(|(_kind, body)| body)
}

pub(super) fn whole_child(bytes: &[u8], kind: [u8; 4]) -> Option<&[u8]> {
    whole_boxes(bytes).find(|(found, _whole)| *found == kind).map(|(_kind, whole)| whole)
}
