//! Which pictures there are in a stretch of a file, and when each is shown.
//!
//! ffmpeg's own seeking answers "some picture near here": it skips the picture on screen in a gap, lands behind the asked time in a
//! transport stream, and gives nothing inside the last picture. So the time stamps are read first (packets only, nothing decoded, unless
//! the container stores no presentation times), and then exactly the pictures with the chosen stamps are decoded.

use crate::args::{DECODE_LEAD_NANOS, Seek};
use crate::container::Container;
use crate::header::Video;
use crate::slots::Slots;

/// How far before a key frame a seek aims where it goes by position: half a second.
const POSITION_MARGIN_NANOS: i128 = 500_000_000;

/// How much further back the second attempt of such a seek begins.
const SECOND_MARGIN_NANOS: i128 = 10_000_000_000;

/// A picture of the chosen stream, or a packet of any stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) stream: u32,
    /// When it is shown, in ticks.
    pub(crate) shown: Option<i64>,
    /// When it is decoded, in ticks.
    pub(crate) decoded: Option<i64>,
    /// How long it is shown, in ticks; 0 if the file does not say.
    pub(crate) length: i64,
    pub(crate) is_key: bool,
    /// Whether an edit list hides it.
    pub(crate) is_hidden: bool,
    /// How large the packet is.
    pub(crate) size_bytes: u64,
    /// Where it lies in the file, if the container says so.
    pub(crate) position: Option<u64>,
}

/// Reads lines of [`crate::args::probe::packets`]; what is no packet (side data, blank lines) is passed over.
pub(crate) fn parse_packets(text: &[u8]) -> Vec<Stamp> {
    lines(text).filter_map(packet).collect()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|&byte| byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

fn packet(line: &str) -> Option<Stamp> {
    let mut fields = line.split(',');
    let stream = fields.next()?.parse().ok()?;
    let shown = number(fields.next()?);
    let decoded = number(fields.next()?);
    let length = fields.next().and_then(number).unwrap_or(0).max(0);
    let size_bytes = fields.next()?.parse().ok()?;
    let position = fields.next()?.parse().ok();
    let flags = fields.next()?;
    Some(Stamp {
        stream,
        shown,
        decoded,
        length,
        is_key: flags.contains('K'),
        is_hidden: flags.contains('D'),
        size_bytes,
        position,
    })
}

fn number(field: &str) -> Option<i64> {
    field.trim().parse().ok()
}

/// Whether two pictures have the same time: where times were worked out, a wrong guess has taken another picture's.
pub(crate) fn has_clashes(stamps: &[Stamp], stream: u32) -> bool {
    let own = stamps.iter().filter(|stamp| stamp.stream == stream && !stamp.is_hidden);
    let mut shown: Vec<i64> = own.filter_map(|stamp| stamp.shown).collect();
    shown.sort_unstable();
    shown.windows(2).any(|pair| pair[0] == pair[1])
}

/// The pictures of one stretch, in the order in which they are shown.
///
/// Invariant: `shown` ascends without doubles; every picture of the file between the first and the last entry is in it.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    shown: Vec<(i64, i64)>,
    /// Key frames: shown and decoded.
    keys: Vec<(i64, i64)>,
    /// Whether the stretch began at the first byte.
    from_beginning: bool,
    /// The packets of the pictures in the order of decoding, where they were kept.
    packets: Vec<Stamp>,
}

impl Index {
    /// `None` if a picture lacks its time.
    pub(crate) fn build(stamps: &[Stamp], stream: u32, from_beginning: bool) -> Option<Self> {
        let own = || stamps.iter().filter(|stamp| stamp.stream == stream);
        // What comes before the first key frame cannot be decoded when one begins here. In a program stream times may be missing up to the first one
        // that is stored.
        let begins = |stamp: &Stamp| stamp.is_key && (from_beginning || stamp.shown.is_some());
        let usable_from = own().position(begins).unwrap_or(if from_beginning { 0 } else { usize::MAX });
        let mut shown = Vec::new();
        let mut keys = Vec::new();
        let mut first_key = None;
        for stamp in own().skip(usable_from) {
            let at = stamp.shown?;
            if stamp.is_key {
                first_key.get_or_insert(at);
                keys.push((at, stamp.decoded.unwrap_or(at)));
            }
            // Pictures that lead a key frame lean on the one before it, which is not there.
            let leans_back = !from_beginning && first_key.is_some_and(|key| at < key);
            if !stamp.is_hidden && !leans_back {
                shown.push((at, stamp.length));
            }
        }
        shown.sort_unstable();
        shown.dedup_by_key(|(at, _length)| *at);
        keys.sort_unstable();
        Some(Self { shown, keys, from_beginning, packets: Vec::new() })
    }

    /// The same with the packets that it was built from.
    pub(crate) fn with_packets(self, stamps: &[Stamp], stream: u32) -> Self {
        Self { packets: stamps.iter().filter(|stamp| stamp.stream == stream).copied().collect(), ..self }
    }

    /// The packets of the pictures in the order of decoding; none where they were not kept.
    pub(crate) fn packets(&self) -> &[Stamp] {
        &self.packets
    }

    pub(crate) const fn is_from_beginning(&self) -> bool {
        self.from_beginning
    }

    /// The pictures of a whole file that were counted; each is shown until the next one.
    pub(crate) fn of_slots(slots: &Slots) -> Self {
        let ticks = slots.ticks();
        let next = ticks.iter().skip(1).copied().chain(ticks.last().map(|last| last + slots.step()));
        let shown = ticks.iter().copied().zip(next).map(|(at, next)| (at, next - at)).collect();
        Self { shown, keys: Vec::new(), from_beginning: true, packets: Vec::new() }
    }

    pub(crate) fn first(&self) -> Option<i64> {
        self.shown.first().map(|(at, _length)| *at)
    }

    /// The last picture and the tick at which it ends, as far as the file says.
    pub(crate) fn last(&self) -> Option<(i64, i64)> {
        self.shown.last().map(|(at, length)| (*at, at.saturating_add(*length)))
    }

    /// The picture on screen at `tick`.
    pub(crate) fn shown_at(&self, tick: i64) -> Option<i64> {
        let after = self.shown.partition_point(|(at, _length)| *at <= tick);
        self.shown[..after].last().map(|(at, _length)| *at)
    }

    /// The pictures that begin in `from..beyond`.
    pub(crate) fn between(&self, from: i64, beyond: i64) -> Vec<i64> {
        self.shown.iter().map(|(at, _length)| *at).filter(|at| (from..beyond).contains(at)).collect()
    }

    /// How many pictures are decoded to show those from `first` to `last`: all from the key frame before on.
    pub(crate) fn decoded_for(&self, first: i64, last: i64) -> usize {
        let from = self.keys.iter().rev().map(|(shown, _decoded)| *shown).find(|shown| *shown <= first);
        let shown = |tick: i64| self.shown.partition_point(|(at, _length)| *at < tick);
        shown(last.saturating_add(1)) - shown(from.unwrap_or(i64::MIN))
    }

    /// Where to begin decoding so that the picture at `tick` comes out whole, best attempt first; the last one always works.
    pub(crate) fn seeks(&self, tick: i64, video: &Video, container: Container) -> Vec<Seek> {
        let base = video.timeline.base();
        // Counted pictures have no key frames here: they are counted from the first one.
        let key = self.keys.iter().rev().find(|(shown, _decoded)| *shown <= tick);
        let is_first_key = self.from_beginning && self.keys.first() == key;
        let Some(&(shown, decoded)) = key.filter(|_key| container.is_seekable() && !is_first_key) else {
            return vec![Seek::Beginning];
        };
        let lead = if video.has_reordering && container.seeks_by_decoding_time() { DECODE_LEAD_NANOS } else { 0 };
        let near = if container.seeks_by_index() {
            base.nanos(shown) + lead
        } else {
            base.nanos(shown.min(decoded)) - POSITION_MARGIN_NANOS
        };
        vec![Seek::To(near), Seek::To(base.nanos(shown.min(decoded)) - SECOND_MARGIN_NANOS), Seek::Beginning]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: &[u8] = b"0,512,0,512,9,48,K_\n1,0,0,1024,9,48,K_\n0,2048,512,512,9,N/A,__\n\n0,1024,1024,512,9,N/A,__,\n0,1536,1536,512,9,48,_D\n0,4096,2048,N/A,9,48,K_\nside data\n";

    #[test]
    fn pictures_are_ordered_by_when_they_are_shown() {
        let index = Index::build(&parse_packets(PACKETS), 0, true).unwrap();
        assert_eq!(index.between(i64::MIN, i64::MAX), [512, 1024, 2048, 4096]);
        assert_eq!(index.last(), Some((4096, 4096)));
    }

    #[test]
    fn a_picture_stays_on_screen_until_the_next_one() {
        let index = Index::build(&parse_packets(PACKETS), 0, true).unwrap();
        assert_eq!(index.shown_at(511), None);
        assert_eq!(index.shown_at(512), Some(512));
        assert_eq!(index.shown_at(2047), Some(1024), "the hidden one at 1536 is never on screen");
        assert_eq!(index.shown_at(99_999), Some(4096));
    }

    #[test]
    fn decoding_begins_at_a_key_frame() {
        let index = Index::build(&parse_packets(PACKETS), 0, true).unwrap();
        assert_eq!((index.decoded_for(1024, 2048), index.decoded_for(4096, 4096)), (3, 1));
    }

    #[test]
    fn pictures_that_lean_on_what_is_not_there_are_left_out() {
        let leading = b"0,90,80,10,9,N/A,__\n0,200,100,10,9,48,K_\n0,180,110,10,9,N/A,__\n0,190,120,10,9,N/A,__\n0,210,130,10,9,N/A,__\n";
        let middle = Index::build(&parse_packets(leading), 0, false).unwrap();
        assert_eq!(middle.between(i64::MIN, i64::MAX), [200, 210]);
        let whole = Index::build(&parse_packets(leading), 0, true).unwrap();
        assert_eq!(whole.between(i64::MIN, i64::MAX), [180, 190, 200, 210]);
    }

    #[test]
    fn times_that_two_pictures_share_are_seen() {
        assert!(!has_clashes(&parse_packets(PACKETS), 0));
        // As a program stream looks where the order of its pictures was guessed wrong; the sound has times of its own.
        let guessed = b"0,14400,3600,3600,9,48,K_\n0,7200,7200,3600,9,N/A,__\n0,7200,10800,3600,9,N/A,__\n1,3600,3600,2160,9,48,K_\n";
        assert!(has_clashes(&parse_packets(guessed), 0));
        assert!(!has_clashes(&parse_packets(guessed), 1));
    }

    #[test]
    fn a_stream_without_presentation_times_has_no_index_of_packets() {
        assert!(Index::build(&parse_packets(b"0,N/A,0,1,9,48,K_\n"), 0, true).is_none());
    }
}
