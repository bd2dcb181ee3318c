//! An MP4 out of pieces of other files: index in front, pictures and sound interleaved.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use super::read::{Kind, Sample};

/// The clock of the whole file and of edit lists: ticks a second.
pub(crate) const MOVIE_SCALE: u32 = 48_000;
/// How much of one track stands together, in seconds.
const CHUNK_SECONDS: u64 = 1;
const COPY_BYTES: usize = 256 << 10;

/// A sample of a file that is read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Which of the files.
    pub(crate) file: usize,
    pub(crate) sample: Sample,
    /// How long it is shown or heard, in ticks of its track.
    pub(crate) length: u32,
    /// How much later than decoded it is shown, in ticks of its track.
    pub(crate) later: u32,
}

/// Which part of a track is presented.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit {
    /// How much at the beginning is not presented, in ticks of the track.
    pub(crate) skipped: u32,
    /// How much is presented, in [`MOVIE_SCALE`].
    pub(crate) presented: u32,
}

/// A track to write, in the order of decoding.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) kind: Kind,
    /// The `stsd` box.
    pub(crate) description: Vec<u8>,
    /// Ticks a second.
    pub(crate) scale: u32,
    /// Zero for sound.
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) pieces: Vec<Piece>,
    /// All of it is presented, at its own times, where there is none.
    pub(crate) edit: Option<Edit>,
}

impl Written {
    fn ticks(&self) -> u64 {
        self.pieces.iter().map(|piece| u64::from(piece.length)).sum()
    }

    /// How much is presented, in [`MOVIE_SCALE`].
    fn presented(&self) -> u32 {
        let whole = || self.ticks() * u64::from(MOVIE_SCALE) / u64::from(self.scale.max(1));
        self.edit.map_or_else(|| u32::try_from(whole()).unwrap_or(u32::MAX), |edit| edit.presented)
    }
}

/// Pieces of one track that stand together: the track, and the numbers of its pieces.
struct Chunk {
    track: usize,
    first: usize,
    count: usize,
    /// The time of its first piece, in nanoseconds.
    at: u64,
}

/// Writes a file and says how large it is.
pub(crate) fn write(out: File, files: &mut [File], tracks: &[Written]) -> io::Result<u64> {
    let mut chunks: Vec<Chunk> =
        tracks.iter().enumerate().flat_map(|(number, track)| chunks_of(number, track)).collect();
    chunks.sort_by_key(|chunk| (chunk.at, chunk.track));

    let kind = boxed(*b"ftyp", |out| {
        out.extend(b"isom");
        out.extend(512_u32.to_be_bytes());
        out.extend(b"isomiso2avc1mp41");
    });
    // The index is as long with its real offsets as without them.
    let length = kind.len() + index(tracks, &chunks, 0).len();
    let data_from = u64::try_from(length).map_err(io::Error::other)? + 16;
    let index = index(tracks, &chunks, data_from);

    let mut out = BufWriter::with_capacity(COPY_BYTES, out);
    out.write_all(&kind)?;
    out.write_all(&index)?;
    let data: u64 = chunks.iter().map(|chunk| chunk.size(tracks)).sum();
    out.write_all(&1_u32.to_be_bytes())?;
    out.write_all(b"mdat")?;
    out.write_all(&(data + 16).to_be_bytes())?;
    for chunk in &chunks {
        for piece in chunk.pieces(tracks) {
            let file =
                files.get_mut(piece.file).ok_or_else(|| io::Error::other("a piece of a file that is not there"))?;
            file.seek(SeekFrom::Start(piece.sample.offset))?;
            let copied = io::copy(&mut Read::by_ref(file).take(u64::from(piece.sample.size)), &mut out)?;
            if copied != u64::from(piece.sample.size) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(data_from + data)
}

fn chunks_of(number: usize, track: &Written) -> Vec<Chunk> {
    let scale = u64::from(track.scale.max(1));
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut ticks = 0_u64;
    for (place, piece) in track.pieces.iter().enumerate() {
        let at = ticks * 1_000_000_000 / scale;
        match chunks.last_mut() {
            Some(chunk) if at < chunk.at + CHUNK_SECONDS * 1_000_000_000 => chunk.count += 1,
            _ => chunks.push(Chunk { track: number, first: place, count: 1, at }),
        }
        ticks += u64::from(piece.length);
    }
    chunks
}

impl Chunk {
    fn pieces<'a>(&self, tracks: &'a [Written]) -> &'a [Piece] {
        &tracks[self.track].pieces[self.first..self.first + self.count]
    }

    fn size(&self, tracks: &[Written]) -> u64 {
        self.pieces(tracks).iter().map(|piece| u64::from(piece.sample.size)).sum()
    }
}

/// A box of this kind with what `fill` puts into it.
fn boxed(kind: [u8; 4], fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut whole = vec![0; 4];
    whole.extend(kind);
    fill(&mut whole);
    let size = u32::try_from(whole.len()).expect("an index is far below 4 GiB");
    whole[..4].copy_from_slice(&size.to_be_bytes());
    whole
}

/// A box with a version and flags.
fn full(kind: [u8; 4], flags: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    boxed(kind, |out| {
        put(out, &[flags]);
        fill(out);
    })
}

fn put(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
}

/// No turning, no scaling.
const UPRIGHT: [u32; 9] = [0x1_0000, 0, 0, 0, 0x1_0000, 0, 0, 0, 0x4000_0000];

fn index(tracks: &[Written], chunks: &[Chunk], data_from: u64) -> Vec<u8> {
    let length = tracks.iter().map(Written::presented).max().unwrap_or(0);
    let next = u32::try_from(tracks.len() + 1).unwrap_or(u32::MAX);
    boxed(*b"moov", |out| {
        out.extend(full(*b"mvhd", 0, |out| {
            put(out, &[0, 0, MOVIE_SCALE, length, 0x1_0000, 0x0100_0000, 0, 0]);
            put(out, &UPRIGHT);
            put(out, &[0; 6]);
            put(out, &[next]);
        }));
        for (number, track) in tracks.iter().enumerate() {
            out.extend(track_box(number, track, tracks, chunks, data_from));
        }
    })
}

fn track_box(number: usize, track: &Written, tracks: &[Written], chunks: &[Chunk], data_from: u64) -> Vec<u8> {
    let id = u32::try_from(number + 1).unwrap_or(u32::MAX);
    let is_sound = track.kind == Kind::Audio;
    let ticks = track.ticks();
    boxed(*b"trak", |out| {
        out.extend(full(*b"tkhd", 3, |out| {
            put(out, &[0, 0, id, 0, track.presented(), 0, 0, 0, if is_sound { 0x0100_0000 } else { 0 }]);
            put(out, &UPRIGHT);
            put(out, &[u32::from(track.width) << 16, u32::from(track.height) << 16]);
        }));
        if let Some(edit) = track.edit {
            out.extend(boxed(*b"edts", |out| {
                out.extend(full(*b"elst", 0, |out| put(out, &[1, edit.presented, edit.skipped, 0x1_0000])));
            }));
        }
        out.extend(boxed(*b"mdia", |out| {
            out.extend(full(*b"mdhd", 0, |out| {
                put(out, &[0, 0, track.scale, u32::try_from(ticks).unwrap_or(u32::MAX), 0x55c4_0000]);
            }));
            out.extend(full(*b"hdlr", 0, |out| {
                put(out, &[0]);
                out.extend(if is_sound { b"soun" } else { b"vide" });
                put(out, &[0; 3]);
                out.push(0);
            }));
            out.extend(boxed(*b"minf", |out| {
                if is_sound {
                    out.extend(full(*b"smhd", 0, |out| put(out, &[0])));
                } else {
                    out.extend(full(*b"vmhd", 1, |out| put(out, &[0, 0])));
                }
                out.extend(boxed(*b"dinf", |out| {
                    out.extend(full(*b"dref", 0, |out| {
                        put(out, &[1]);
                        out.extend(full(*b"url ", 1, |_out| {}));
                    }));
                }));
                out.extend(samples_box(number, track, tracks, chunks, data_from));
            }));
        }));
    })
}

fn samples_box(number: usize, track: &Written, tracks: &[Written], chunks: &[Chunk], data_from: u64) -> Vec<u8> {
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
    let lengths: Vec<[u32; 2]> = track
        .pieces
        .chunk_by(|one, next| one.length == next.length)
        .map(|same| [count(same.len()), same[0].length])
        .collect();
    let keys: Vec<u32> =
        (1..).zip(&track.pieces).filter(|(_place, piece)| piece.sample.is_key).map(|(place, _piece)| place).collect();
    let mut runs: Vec<[u32; 3]> = Vec::new();
    let mut offsets: Vec<u64> = Vec::new();
    let mut at = data_from;
    for chunk in chunks {
        if chunk.track == number {
            offsets.push(at);
            if runs.last().is_none_or(|last| last[1] != count(chunk.count)) {
                runs.push([count(offsets.len()), count(chunk.count), 1]);
            }
        }
        at += chunk.size(tracks);
    }
    boxed(*b"stbl", |out| {
        out.extend(&track.description);
        out.extend(full(*b"stts", 0, |out| {
            put(out, &[count(lengths.len())]);
            put(out, lengths.as_flattened());
        }));
        if track.pieces.iter().any(|piece| piece.later > 0) {
            let later: Vec<[u32; 2]> = track
                .pieces
                .chunk_by(|one, next| one.later == next.later)
                .map(|same| [count(same.len()), same[0].later])
                .collect();
            out.extend(full(*b"ctts", 0, |out| {
                put(out, &[count(later.len())]);
                put(out, later.as_flattened());
            }));
        }
        if keys.len() < track.pieces.len() {
            out.extend(full(*b"stss", 0, |out| {
                put(out, &[count(keys.len())]);
                put(out, &keys);
            }));
        }
        out.extend(full(*b"stsc", 0, |out| {
            put(out, &[count(runs.len())]);
            put(out, runs.as_flattened());
        }));
        out.extend(full(*b"stsz", 0, |out| {
            put(out, &[0, count(track.pieces.len())]);
            put(out, &track.pieces.iter().map(|piece| piece.sample.size).collect::<Vec<_>>());
        }));
        out.extend(full(*b"co64", 0, |out| {
            put(out, &[count(offsets.len())]);
            out.extend(offsets.iter().flat_map(|offset| offset.to_be_bytes()));
        }));
    })
}
