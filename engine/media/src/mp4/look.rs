//! How the pictures of a stranger's MP4 are described, without its samples.

use std::io::{self, Read, Seek};

use super::read::{boxes, child, index_of, number, whole_child};

/// No turning, no mirroring, no scaling.
const UPRIGHT: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];
/// Where the matrix of a movie or a track lies in its head, by the head's version.
const MOVIE_MATRIX_AT: [usize; 2] = [36, 48];
const TRACK_MATRIX_AT: [usize; 2] = [40, 52];

/// How the pictures of a track are described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The `stsd` box, whole.
    pub(crate) description: Vec<u8>,
    /// Ticks a second.
    pub(crate) scale: u32,
    pub(crate) width: u16,
    pub(crate) height: u16,
}

/// The look of the track with this number from 0 on; `None` if its pictures are turned or mirrored, or it is not one of pictures.
pub(crate) fn look_of(file: &mut (impl Read + Seek), number_of_track: u32) -> io::Result<Option<Look>> {
    let index = index_of(file)?;
    let track = boxes(&index)
        .filter(|(kind, _body)| kind == b"trak")
        .nth(usize::try_from(number_of_track).unwrap_or(usize::MAX));
    let movie = child(&index, *b"mvhd").is_some_and(|head| is_upright(head, MOVIE_MATRIX_AT));
    Ok(track.filter(|_track| movie).and_then(|(_kind, body)| look(body)))
}

fn look(track: &[u8]) -> Option<Look> {
    let media = child(track, *b"mdia")?;
    let is_video = child(media, *b"hdlr")?.get(8..12)? == b"vide";
    if !is_video || !is_upright(child(track, *b"tkhd")?, TRACK_MATRIX_AT) {
        return None;
    }
    let head = child(media, *b"mdhd")?;
    let scale = number(head.get(if *head.first()? == 0 { 12..16 } else { 20..24 })?);
    let description = whole_child(child(child(media, *b"minf")?, *b"stbl")?, *b"stsd")?.to_vec();
    // Width and height stand behind 24 bytes of the first entry's body.
    let side = |at: usize| Some(u16::from_be_bytes(description.get(at..at + 2)?.try_into().ok()?));
    let (width, height) = (side(48)?, side(50)?);
    Some(Look { description, scale, width, height })
}

fn is_upright(head: &[u8], at: [usize; 2]) -> bool {
    let from = head.first().and_then(|version| at.get(usize::from(*version))).copied();
    let matrix = from.and_then(|from| head.get(from..from + 36));
    matrix.is_some_and(|matrix| matrix.chunks_exact(4).map(number).eq(UPRIGHT))
}
