//! A source without the packets that a clip or a frame does not need.
//!
//! A clip of two pictures a second shows one source picture in fifteen, yet a decoder is given all of them. In H.264 a picture whose slices say
//! `nal_ref_idc` 0 is one that no other leans on, and nothing behind a picture in the order of decoding has an influence on it. So of each run of
//! pictures between two IDR pictures only those up to the last wanted one are kept, and among them those that are wanted or leaned on: what is delivered
//! is bit for bit what it would be. The packets that stay are copied into an MP4 of their own, with their own times.
//!
//! That is done for files in this host's MP4 and MOV containers alone, and only where it pays; everything else is decoded as it is. Whoever uses a thinned
//! source checks that all wanted pictures came out of it.

mod nal;
mod select;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use tokio_util::sync::CancellationToken;

use self::nal::{LengthSize, Role, role};
use self::select::{Packet, kept};
use crate::args::Seek;
use crate::container::Container;
use crate::error::MediaError;
use crate::facts::Facts;
use crate::header::{Clock, Scan};
use crate::index::{Index, Stamp};
use crate::media::Media;
use crate::mp4::{self, Kind, Look, Piece, Sample, Written};
use crate::probe::Rate;

/// The file with what is left, in the folder that ffmpeg runs in.
pub(crate) const THINNED: &str = "thinned.mp4";

/// Fewer source pictures than this are decoded as fast as they are sorted out.
const LEAST_PICTURES: usize = 24;
/// It pays where at most one picture in so many is wanted.
const LEAST_DISTANCE: usize = 3;
/// So much is copied at most; beyond it the disk would be the slower way.
const MOST_BYTES: u64 = 512 << 20;
/// Moments are compared in whole ticks here and in microseconds by filters; both candidates are kept.
const ROUNDING_NANOS: i128 = 2_000;

/// A thinned source, in the folder of the operation.
#[derive(Clone, Debug)]
pub(crate) struct Thinned {
    /// What has to be added to its times for those of the source, in ticks.
    pub(crate) later_by: i64,
    /// The pictures that are shown, in ticks of the source.
    pub(crate) wanted: BTreeSet<i64>,
}

impl Thinned {
    /// Whether all pictures that are shown are among those that came out.
    pub(crate) fn is_whole(&self, came: &BTreeSet<i64>) -> bool {
        self.wanted.is_subset(came)
    }
}

/// In which order ways to read a source are tried: what was thinned out first, then all of it from each of the `seeks`.
pub(crate) fn ways<'a>(
    thinned: Option<&'a Thinned>,
    seeks: &[Seek],
) -> impl Iterator<Item = (Seek, Option<&'a Thinned>)> {
    let first = thinned.and_then(|thinned| Some((*seeks.first()?, Some(thinned))));
    first.into_iter().chain(seeks.iter().map(|&seek| (seek, None)))
}

/// The pictures on screen at `count` steps of a rate from a moment of the stream's clock on.
pub(crate) fn shown_at_steps(index: &Index, facts: &Facts, from_nanos: i128, rate: Rate, count: u64) -> BTreeSet<i64> {
    let base = facts.video.timeline.base();
    let moment = |step: u64| {
        from_nanos + i128::from(step) * 1_000_000_000 * i128::from(rate.denominator()) / i128::from(rate.numerator())
    };
    let around = |nanos: i128| [nanos - ROUNDING_NANOS, nanos, nanos + ROUNDING_NANOS];
    (0..count).flat_map(|step| around(moment(step))).filter_map(|nanos| index.shown_at(base.floor(nanos))).collect()
}

impl Media {
    /// Writes what is needed to show `wanted` of the `pictures` of a stretch into `folder`; `None` where that is not possible or does not pay.
    pub(crate) async fn thinned(
        &self,
        facts: &Facts,
        index: &Index,
        wanted: BTreeSet<i64>,
        pictures: usize,
        folder: &Utf8Path,
        stop: &CancellationToken,
    ) -> Result<Option<Thinned>, MediaError> {
        let (Some(&first), Some(&last)) = (wanted.first(), wanted.last()) else { return Ok(None) };
        let Some(path) = is_suitable(facts) else { return Ok(None) };
        if pictures < LEAST_PICTURES || wanted.len() * LEAST_DISTANCE > pictures {
            return Ok(None);
        }
        let listed = match index.packets() {
            [] => self.packets_around(facts, first, last, stop).await?,
            packets => packets.to_vec(),
        };
        let job = Job {
            path: path.to_owned(),
            out: folder.join(THINNED),
            stream: facts.video.index,
            scale: facts.video.timeline.base().denominator(),
            listed,
            first,
            wanted,
        };
        let made = tokio::task::spawn_blocking(move || job.run()).await;
        match made.map_err(io::Error::other).and_then(|made| made) {
            Ok(Some(thinned)) => Ok(Some(thinned)),
            Ok(None) => Ok(None),
            Err(error) => {
                tracing::debug!(media.path = %facts.opened.path, %error, "a source could not be thinned, and is decoded whole");
                Ok(None)
            }
        }
    }
}

/// The file, if its pictures may be sorted out.
fn is_suitable(facts: &Facts) -> Option<&Utf8Path> {
    let video = &facts.video;
    let is_plain = matches!(video.clock, Clock::Stored) && video.timeline.base().numerator() == 1;
    // What makes pictures of fields looks at their neighbours.
    let is_plain = is_plain && video.scan == Scan::Progressive;
    let fits = video.codec == "h264" && facts.container() == Container::Mp4 && is_plain;
    facts.opened.local_path().filter(|_path| fits)
}

/// What is to be sorted out.
struct Job {
    path: Utf8PathBuf,
    out: Utf8PathBuf,
    stream: u32,
    /// Ticks a second.
    scale: u32,
    listed: Vec<Stamp>,
    first: i64,
    wanted: BTreeSet<i64>,
}

impl Job {
    /// Blocks.
    fn run(self) -> io::Result<Option<Thinned>> {
        let mut file = File::open(&self.path)?;
        let look = mp4::look_of(&mut file, self.stream)?.filter(|look| look.scale == self.scale);
        let Some(look) = look else { return Ok(None) };
        let Some(length_size) = LengthSize::of(&look.description) else { return Ok(None) };
        let Some(packets) = packets(&file, length_size, &self.listed, self.first, &self.wanted)? else {
            return Ok(None);
        };
        let kept = kept(&packets);
        let bytes: u64 = kept.iter().map(|packet| u64::from(packet.size)).sum();
        let Some((pieces, later_by)) = pieces(&kept).filter(|_pieces| bytes <= MOST_BYTES) else { return Ok(None) };
        let Look { description, scale, width, height } = look;
        let track = Written { kind: Kind::Video, description, scale, width, height, pieces, edit: None };
        mp4::write(File::create(&self.out)?, std::slice::from_mut(&mut file), &[track])?;
        Ok(Some(Thinned { later_by, wanted: self.wanted }))
    }
}

/// The packets as an MP4 takes them, and by how much its times are earlier; `None` if they cannot be told so.
fn pieces(kept: &[Packet]) -> Option<(Vec<Piece>, i64)> {
    let begin = kept.first()?.decoded;
    let early = kept.iter().map(|packet| packet.shown - packet.decoded).min()?.min(0);
    let piece = |(place, packet): (usize, &Packet)| {
        let next = kept.get(place + 1).map_or(packet.decoded + packet.length.max(1), |next| next.decoded);
        let sample = Sample { offset: packet.offset, size: packet.size, is_key: packet.role == Role::Beginning };
        let length = u32::try_from(next - packet.decoded).ok()?;
        let later = u32::try_from(packet.shown - packet.decoded - early).ok()?;
        Some(Piece { file: 0, sample, length, later })
    };
    Some((kept.iter().enumerate().map(piece).collect::<Option<_>>()?, begin + early))
}

/// The packets from the key frame before `first` on, with what they are; `None` if one is not what it should be.
fn packets(
    file: &File,
    length_size: LengthSize,
    listed: &[Stamp],
    first: i64,
    wanted: &BTreeSet<i64>,
) -> io::Result<Option<Vec<Packet>>> {
    let begin = listed.iter().rposition(|stamp| stamp.is_key && stamp.shown.is_some_and(|shown| shown <= first));
    let Some(begin) = begin else { return Ok(None) };
    // The end of a stream drops its last picture from a rate's last step; so one more comes behind, as in the whole stretch.
    let last = wanted.last().copied().unwrap_or(first);
    let closing = listed[begin..]
        .iter()
        .filter(|stamp| !stamp.is_hidden)
        .filter_map(|stamp| stamp.shown)
        .filter(|&shown| shown > last)
        .min();
    let is_needed = |shown: i64| wanted.contains(&shown) || Some(shown) == closing;
    let mut packets: Vec<Packet> = Vec::with_capacity(listed.len() - begin);
    for stamp in &listed[begin..] {
        let (Some(shown), Some(decoded), Some(offset)) = (stamp.shown, stamp.decoded, stamp.position) else {
            return Ok(None);
        };
        // A hidden picture would be shown by a file that does not hide it.
        if stamp.is_hidden && shown > first {
            return Ok(None);
        }
        let Ok(size) = u32::try_from(stamp.size_bytes) else { return Ok(None) };
        let Some(role) = role(file, offset, size, length_size)? else { return Ok(None) };
        if packets.last().is_some_and(|last| last.decoded >= decoded) {
            return Ok(None);
        }
        let length = stamp.length;
        packets.push(Packet { offset, size, shown, decoded, length, role, is_needed: is_needed(shown) });
    }
    let found = packets.iter().filter(|packet| wanted.contains(&packet.shown)).count();
    let begins_well = packets.first().is_some_and(|packet| packet.role == Role::Beginning);
    Ok((begins_well && found == wanted.len()).then_some(packets))
}
