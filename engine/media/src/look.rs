//! The look at a file that every operation begins with: its streams, its first and last picture, and the index of a stretch.
//!
//! A small file is read once, packets and all, and never again; of a large one only the end is read, and later the stretches that are asked for.

use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use crate::args::probe::{self as probe_args, Stretch};
use crate::error::MediaError;
use crate::facts::{CUT_OFF_NANOS, Facts, end_of};
use crate::header::{Clock, Header, Video, bad_answer};
use crate::index::{self, Index, Stamp};
use crate::media::{Media, last_line, nanos_per_picture, stamps_of};
use crate::probe::Refusal;
use crate::slots::Slots;
use crate::source::{Opened, Source};
use crate::time::{MediaTime, TimeBase, Timeline};

/// Up to this size, reading all packets takes about as long as starting a program twice.
const SMALL_FILE_BYTES: u64 = 64 << 20;

/// What ffmpeg's libraries say before they would decode a picture over `-max_pixels`.
const OVER_PIXEL_LIMIT: &str = " exceeds specified max pixel count";

/// How much of the end of a file is read to find its last picture.
const TAIL_NANOS: i128 = 5_000_000_000;
/// Codecs whose parser in ffmpeg tells which pictures are decoded early, so that times can be worked out without decoding.
const PARSED_KINDS: [&str; 3] = ["mpeg1video", "mpeg2video", "mpeg4"];
/// Two pictures of MPEG-4 may be packed in one packet; then an empty packet of some bytes keeps the second one's place.
const PLACEHOLDER_BYTES: u64 = 8;
/// How many pictures fewer than packets a decoder may give, for each to keep its packet's place.
const MOST_UNTOLD: usize = 2;
/// What a decoder that reorders pictures may hold back, at most.
const DECODER_DELAY: Duration = Duration::from_millis(700);
/// How far behind a window its listing goes, so that reordered pictures inside are not missed.
pub(crate) const BEHIND_NANOS: i128 = 2_000_000_000;
/// A seek goes by decoding times, which lie a little before those of showing.
const SEEK_LEAD_NANOS: i128 = 1_000_000_000;
/// How far before a window its listing begins, attempt by attempt; after the last one it begins at the beginning.
const BEFORE_NANOS: [i128; 4] = [0, 2_000_000_000, 15_000_000_000, 120_000_000_000];

impl Media {
    /// The facts of a file with pictures; anything else is [`MediaError::Refused`].
    pub(crate) async fn facts(&self, source: &Source, stop: &CancellationToken) -> Result<Arc<Facts>, MediaError> {
        let opened = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(MediaError::Cancelled),
            opened = self.open(source) => opened?,
        };
        if let Some(known) = self.memory().recall(&opened.identity) {
            return Ok(if opened.is_copy() { Arc::new(Facts { opened, ..Facts::clone(&known) }) } else { known });
        }
        let facts = Arc::new(self.find_out(opened, stop).await?);
        // What is remembered of a copy must not keep the copy from making room for another one.
        let remembered = facts.opened.released().map(|opened| Arc::new(Facts { opened, ..Facts::clone(&facts) }));
        self.memory().keep(remembered.as_ref().unwrap_or(&facts));
        Ok(facts)
    }

    async fn find_out(&self, opened: Opened, stop: &CancellationToken) -> Result<Facts, MediaError> {
        let max_pixels = self.config().max_pixels;
        let all_at_once = opened.size_bytes() <= SMALL_FILE_BYTES || !opened.container.is_seekable();
        let finished = self.ffprobe(probe_args::streams(&opened, max_pixels, all_at_once), stop).await?;
        if finished.stderr_tail.contains(OVER_PIXEL_LIMIT) {
            return Err(opened.refused(too_large(&finished.stderr_tail, max_pixels)));
        }
        if !finished.status.success() {
            return Err(opened.refused(unreadable(&finished.stderr_tail)));
        }
        let mut header =
            Header::parse(&finished.stdout).map_err(|reason| bad_answer(&self.config().ffprobe, reason))?;
        let mut video = header.usable_video(max_pixels).map_err(|refusal| opened.refused(refusal))?.clone();

        let packets = all_at_once.then(|| std::mem::take(&mut header.packets));
        let packets = match packets {
            Some(packets) => Some(packets),
            None if opened.container.may_lack_times() => {
                Some(self.packets(&opened, &video.clock, None, &[Stretch::WHOLE], stop).await?)
            }
            None => None,
        };
        let packets = match packets {
            Some(packets) => Some(self.timed(&opened, &mut video, packets, stop).await?),
            None => None,
        };
        let Ends { first, last, last_end, stamps, whole } = self.ends(&opened, &header, &video, packets, stop).await?;

        let timeline = video.timeline;
        let one_picture = if last_end > last { 0 } else { nanos_per_picture(video.rate) };
        let end_nanos = timeline.base().nanos(last_end.max(last)) + one_picture;
        let sound_end = header.audio.as_ref().and_then(|audio| end_of(&stamps, audio.index, audio.base));
        let file_end_nanos = sound_end.unwrap_or(end_nanos).max(end_nanos);
        let promised = header.promised_end_nanos.filter(|&promised| promised - CUT_OFF_NANOS > file_end_nanos);
        let sound_end = on_media(timeline, sound_end.unwrap_or(end_nanos));
        Ok(Facts {
            first,
            last,
            whole,
            end: on_media(timeline, end_nanos),
            file_end: on_media(timeline, file_end_nanos),
            sound: header.audio.clone().map(|audio| (audio, sound_end)),
            promised: promised.map(|nanos| on_media(timeline, nanos)),
            opened,
            video,
            header,
        })
    }

    /// Finds the first and the last picture; in `packets` if all of them have been read.
    async fn ends(
        &self,
        opened: &Opened,
        header: &Header,
        video: &Video,
        packets: Option<Vec<Stamp>>,
        stop: &CancellationToken,
    ) -> Result<Ends, MediaError> {
        if let Some(stamps) = packets
            && let Some(index) = match &video.clock {
                Clock::Counted(slots) => Some(Index::of_slots(slots)),
                Clock::Stored | Clock::Generated => Index::build(&stamps, video.index, true),
            }
            && let (Some(first), Some((last, last_end))) = (index.first(), index.last())
        {
            let whole = Some(Arc::new(index));
            return Ok(Ends { first, last, last_end, stamps, whole });
        }
        // The end of the file tells the last picture; without a promise of where the end is, or without a picture there, all is read.
        let near_end = header.promised_end_nanos.filter(|_end| opened.container.is_seekable());
        let near_end = near_end.map(|end| end - TAIL_NANOS).filter(|&from| from > header.origin_nanos);
        let tail = Stretch { from: near_end, to: None };
        let mut stamps = self.packets(opened, &video.clock, None, &[tail], stop).await?;
        let mut index = index_of(&stamps, opened, video, tail)?;
        if index.last().is_none() && tail != Stretch::WHOLE {
            stamps = self.packets(opened, &video.clock, None, &[Stretch::WHOLE], stop).await?;
            index = index_of(&stamps, opened, video, Stretch::WHOLE)?;
        }
        let Some((last, last_end)) = index.last() else {
            return Err(opened.refused(Refusal::new(
                "the file promises pictures and holds none",
                "upload it again; the transfer may have broken off",
            )));
        };
        let first = match index.first().filter(|_first| index.is_from_beginning()) {
            Some(first) => first,
            None => self.first_picture(opened, video, last, stop).await?,
        };
        Ok(Ends { first, last, last_end, stamps, whole: None })
    }

    /// The first picture, from the beginning of the file.
    async fn first_picture(
        &self,
        opened: &Opened,
        video: &Video,
        last: i64,
        stop: &CancellationToken,
    ) -> Result<i64, MediaError> {
        let until = video.timeline.on_clock(MediaTime::ZERO) + BEHIND_NANOS;
        let until = until.min(video.timeline.base().nanos(last));
        let index = self.stretch(opened, video, Stretch { from: None, to: Some(until) }, stop).await?;
        Ok(index.first().unwrap_or(last))
    }

    /// The packets of some stretches, or of a whole file.
    pub(crate) async fn packets(
        &self,
        opened: &Opened,
        clock: &Clock,
        stream: Option<u32>,
        stretches: &[Stretch],
        stop: &CancellationToken,
    ) -> Result<Vec<Stamp>, MediaError> {
        // A damaged file makes ffprobe end with an error after the good part, which is what we want to know.
        let finished = self.ffprobe(probe_args::packets(opened, clock, stream, stretches), stop).await?;
        Ok(index::parse_packets(&finished.stdout))
    }

    /// All pictures from the one on screen at tick `from` up to tick `to`, and at least one behind if there is one.
    pub(crate) async fn index(
        &self,
        facts: &Facts,
        from: i64,
        to: i64,
        stop: &CancellationToken,
    ) -> Result<Arc<Index>, MediaError> {
        let Facts { opened, video, first, .. } = facts;
        if let Some(whole) = &facts.whole {
            return Ok(Arc::clone(whole));
        }
        let base = video.timeline.base();
        let to_nanos = base.nanos(to).saturating_add(BEHIND_NANOS);
        for before in BEFORE_NANOS {
            let begin = base.nanos(from) - before;
            if !opened.container.is_seekable() || begin <= base.nanos(*first) {
                break;
            }
            let stretch = Stretch { from: Some(begin), to: Some(to_nanos) };
            let index = self.stretch(opened, video, stretch, stop).await?;
            if index.shown_at(from).is_some() {
                return Ok(Arc::new(index));
            }
        }
        let stretch = Stretch { from: None, to: Some(to_nanos) };
        Ok(Arc::new(self.stretch(opened, video, stretch, stop).await?))
    }

    async fn stretch(
        &self,
        opened: &Opened,
        video: &Video,
        stretch: Stretch,
        stop: &CancellationToken,
    ) -> Result<Index, MediaError> {
        let stamps = self.packets(opened, &video.clock, Some(video.index), &[stretch], stop).await?;
        Ok(index_of(&stamps, opened, video, stretch)?.with_packets(&stamps, video.index))
    }

    /// The packets of the pictures from the key frame before tick `from` up to some behind tick `to`.
    pub(crate) async fn packets_around(
        &self,
        facts: &Facts,
        from: i64,
        to: i64,
        stop: &CancellationToken,
    ) -> Result<Vec<Stamp>, MediaError> {
        let Facts { opened, video, .. } = facts;
        let base = video.timeline.base();
        let from = Some(base.nanos(from) - SEEK_LEAD_NANOS).filter(|_from| opened.container.is_seekable());
        let stretch = Stretch { from, to: Some(base.nanos(to).saturating_add(BEHIND_NANOS)) };
        self.packets(opened, &video.clock, Some(video.index), &[stretch], stop).await
    }

    /// Packets of a whole file with a time on every picture, and how `video`'s clock came by them.
    async fn timed(
        &self,
        opened: &Opened,
        video: &mut Video,
        mut packets: Vec<Stamp>,
        stop: &CancellationToken,
    ) -> Result<Vec<Stamp>, MediaError> {
        let lacks_times =
            |packets: &[Stamp]| packets.iter().any(|stamp| stamp.stream == video.index && stamp.shown.is_none());
        if !lacks_times(&packets) {
            return Ok(packets);
        }
        let mut own = packets.iter().filter(|stamp| stamp.stream == video.index);
        let tells_first = own.next().is_some_and(|stamp| stamp.shown.is_some());
        let is_packed = video.codec == "mpeg4" && own.any(|stamp| stamp.size_bytes <= PLACEHOLDER_BYTES);
        if !video.has_reordering {
            // Shown as they are decoded.
            for stamp in &mut packets {
                stamp.shown = stamp.shown.or(stamp.decoded);
            }
        } else if !is_packed && PARSED_KINDS.contains(&video.codec.as_str()) {
            packets = self.packets(opened, &Clock::Generated, None, &[Stretch::WHOLE], stop).await?;
            video.clock = Clock::Generated;
        }
        let is_wrong = video.has_reordering && (is_packed || index::has_clashes(&packets, video.index));
        if is_wrong || lacks_times(&packets) {
            video.clock = Clock::Counted(Arc::new(self.count(opened, video, &packets, stop).await?));
        }
        // Where only decoding times are stored, the decoder's delay is counted as time. The first picture belongs to the first sound.
        let first = match &video.clock {
            Clock::Counted(slots) => slots.ticks().first().copied(),
            Clock::Stored | Clock::Generated => {
                packets.iter().filter(|stamp| stamp.stream == video.index).filter_map(|stamp| stamp.shown).min()
            }
        };
        if let Some(first) = first.filter(|_first| !tells_first)
            && video.timeline.time_of(first).since_start() <= DECODER_DELAY
        {
            video.timeline = video.timeline.starting_at(first);
        }
        Ok(packets)
    }

    /// Decodes all pictures of a file, which are numbered by that, and gives them their times: those at which packets are decoded where each has
    /// one, else what the decoder says, else an even rate.
    async fn count(
        &self,
        opened: &Opened,
        video: &mut Video,
        packets: &[Stamp],
        stop: &CancellationToken,
    ) -> Result<Slots, MediaError> {
        let args = probe_args::decoded(opened, video, self.threads(1), self.config().max_pixels);
        let finished = self.ffmpeg(args, Utf8Path::new("/"), stop).await?;
        let told = stamps_of(&finished.stdout);
        let own = || packets.iter().filter(|stamp| stamp.stream == video.index && !stamp.is_hidden);
        let mut decoded: Vec<i64> = own().filter_map(|stamp| stamp.decoded).collect();
        decoded.sort_unstable();
        let is_one_each = decoded.len() == own().count() && decoded.len().abs_diff(told.len()) <= MOST_UNTOLD;
        decoded.truncate(told.len());
        let stored = if opened.container.stores_decoding_times() {
            is_one_each.then(|| Slots::new(decoded)).flatten().or_else(|| Slots::new(told.clone()))
        } else {
            None
        };
        if let Some(slots) = stored {
            return Ok(slots);
        }
        let empty = || {
            opened.refused(Refusal::new(
                format!(
                    "none of its pictures could be decoded (codec `{}`): {}",
                    video.codec,
                    last_line(&finished.stderr_tail)
                ),
                "convert it with `ffmpeg -i INPUT -c:v libx264 OUTPUT.mp4` on a machine that can play it",
            ))
        };
        let begins = own().filter_map(|stamp| stamp.shown).min().or(told.first().copied()).ok_or_else(empty)?;
        let rate = video.rate;
        let base = TimeBase::new(rate.denominator(), rate.numerator()).ok_or_else(empty)?;
        let clock_nanos = video.timeline.base().nanos(begins);
        let since_start = video.timeline.time_of(begins);
        let first = base.nearest(clock_nanos);
        video.timeline = Timeline::new(base, base.nanos(first)).starting_later(since_start);
        Slots::even(first, told.len()).ok_or_else(empty)
    }
}

/// The index of packets that were read.
fn index_of(stamps: &[Stamp], opened: &Opened, video: &Video, stretch: Stretch) -> Result<Index, MediaError> {
    Index::build(stamps, video.index, stretch.from.is_none()).ok_or_else(|| {
        opened.refused(Refusal::new(
            "it does not say when its pictures are shown",
            "convert it with `ffmpeg -i INPUT -c:v libx264 OUTPUT.mp4`",
        ))
    })
}

/// Where the pictures of a file begin and end.
struct Ends {
    first: i64,
    last: i64,
    last_end: i64,
    /// The packets of all streams that were read for it; they tell where the sound ends.
    stamps: Vec<Stamp>,
    whole: Option<Arc<Index>>,
}

fn on_media(timeline: Timeline, clock_nanos: i128) -> MediaTime {
    let nanos = (clock_nanos - timeline.on_clock(MediaTime::ZERO)).max(0);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).into()
}

/// `Picture size 8192x8192 exceeds specified max pixel count …`
fn too_large(stderr_tail: &str, max_pixels: u64) -> Refusal {
    let before = stderr_tail.split(OVER_PIXEL_LIMIT).next().unwrap_or_default();
    let size = before.split_whitespace().next_back().unwrap_or("larger than allowed");
    Refusal::new(
        format!("its pictures are {size}, over the limit of {max_pixels} pixels"),
        "scale the video down before uploading it",
    )
}

fn unreadable(stderr_tail: &str) -> Refusal {
    if stderr_tail.contains("moov atom not found") {
        return Refusal::new(
            "its index (the `moov` box) is missing, so the file was cut off or is still being written",
            "upload the whole file again",
        );
    }
    Refusal::new(
        format!("ffprobe cannot read it: {}", last_line(stderr_tail)),
        "check that it plays; if it does, convert it to MP4",
    )
}
