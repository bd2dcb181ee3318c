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
use crate::header::{Header, Video, bad_answer};
use crate::index::{self, Index, Stamp};
use crate::media::{Media, last_line, lengths_of, nanos_per_picture};
use crate::probe::Refusal;
use crate::source::{Opened, Source};
use crate::time::{MediaTime, Timeline};

/// Up to this size, reading all packets takes about as long as starting a program twice.
const SMALL_FILE_BYTES: u64 = 64 << 20;

/// What ffmpeg's libraries say before they would decode a picture over `-max_pixels`.
const OVER_PIXEL_LIMIT: &str = " exceeds specified max pixel count";

/// How much of the end of a file is read to find its last picture.
const TAIL_NANOS: i128 = 5_000_000_000;
/// What a decoder that reorders pictures may hold back, at most.
const DECODER_DELAY: Duration = Duration::from_millis(700);
/// How far behind a window its listing goes, so that reordered pictures inside are not missed.
const BEHIND_NANOS: i128 = 2_000_000_000;
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
        let mut header = Header::parse(&finished.stdout, opened.container)
            .map_err(|reason| bad_answer(&self.config().ffprobe, reason))?;
        let mut video = header.usable_video(max_pixels).map_err(|refusal| opened.refused(refusal))?.clone();

        let packets = all_at_once.then(|| std::mem::take(&mut header.packets));
        let Ends { first, last, last_end, stamps, whole, told_by_decoder } =
            self.ends(&opened, &header, &video, packets, stop).await?;
        // Without presentation times the decoder's delay is counted as time. The first picture belongs to the first sound.
        if told_by_decoder && video.timeline.time_of(first).since_start() <= DECODER_DELAY {
            video.timeline = video.timeline.starting_at(first);
        }

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
            && let Some(index) = Index::build(&stamps, video.index, true)
            && let (Some(first), Some((last, last_end))) = (index.first(), index.last())
        {
            let whole = Some(Arc::new(index));
            return Ok(Ends { first, last, last_end, stamps, whole, told_by_decoder: false });
        }
        // The end of the file tells the last picture; without a promise of where the end is, or without a picture there, all is read.
        let near_end = header.promised_end_nanos.filter(|_end| opened.container.is_seekable());
        let near_end = near_end.map(|end| end - TAIL_NANOS).filter(|&from| from > header.origin_nanos);
        let tail = Stretch { from: near_end, to: None };
        let mut stamps = self.packets(opened, None, tail, stop).await?;
        let mut index = self.index_of(&stamps, opened, video, tail, stop).await?;
        if index.last().is_none() && tail != Stretch::WHOLE {
            stamps = self.packets(opened, None, Stretch::WHOLE, stop).await?;
            index = self.index_of(&stamps, opened, video, Stretch::WHOLE, stop).await?;
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
        Ok(Ends { first, last, last_end, stamps, whole: None, told_by_decoder: index.is_told_by_decoder() })
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

    async fn packets(
        &self,
        opened: &Opened,
        stream: Option<u32>,
        stretch: Stretch,
        stop: &CancellationToken,
    ) -> Result<Vec<Stamp>, MediaError> {
        // A damaged file makes ffprobe end with an error after the good part, which is what we want to know.
        let finished = self.ffprobe(probe_args::packets(opened, stream, stretch), stop).await?;
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
        let stamps = self.packets(opened, Some(video.index), stretch, stop).await?;
        self.index_of(&stamps, opened, video, stretch, stop).await
    }

    /// The index of packets that were read; where they carry no presentation times, what a decoder says about the same stretch.
    async fn index_of(
        &self,
        stamps: &[Stamp],
        opened: &Opened,
        video: &Video,
        stretch: Stretch,
        stop: &CancellationToken,
    ) -> Result<Index, MediaError> {
        if let Some(index) = Index::build(stamps, video.index, stretch.from.is_none()) {
            return Ok(index);
        }
        let args = probe_args::decoded(opened, video, stretch, self.threads(1), self.config().max_pixels);
        let finished = self.ffmpeg(args, Utf8Path::new("/"), stop).await?;
        Ok(Index::of_decoded(lengths_of(&finished.stdout), stretch.from.is_none()))
    }
}

/// Where the pictures of a file begin and end.
struct Ends {
    first: i64,
    last: i64,
    last_end: i64,
    /// The packets of all streams that were read for it; they tell where the sound ends.
    stamps: Vec<Stamp>,
    whole: Option<Arc<Index>>,
    told_by_decoder: bool,
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
