//! The handle that the rest of the product holds, and the look at a file that every operation begins with.

use std::sync::Arc;

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use crate::args::probe::{self as probe_args, Stretch};
use crate::args::{Seek, input, words};
use crate::config::MediaConfig;
use crate::error::MediaError;
use crate::exec::{Executor, Finished, Job};
use crate::facts::{CUT_OFF_NANOS, Facts, Memory, end_of};
use crate::header::{Header, Video, bad_answer};
use crate::index::{self, Index, Stamp};
use crate::limits::Limits;
use crate::probe::{Acceptance, Probe, Rate, Refusal, Size, Versions, VideoTrack};
use crate::source::{Opened, Source};
use crate::time::{MediaTime, Timeline};

/// Room for the packets of a whole day of video, at some thirty bytes each.
const LISTING_LIMIT_BYTES: usize = 256 << 20;
/// Room for the description of some thousand streams.
const DESCRIPTION_LIMIT_BYTES: usize = 8 << 20;
/// What a version banner or a single time stamp takes, and plenty more.
const WORD_LIMIT_BYTES: usize = 64 << 10;

/// How much of the end of a file is read to find its last picture.
const TAIL_NANOS: i128 = 5_000_000_000;
/// How far behind a window its listing goes, so that reordered pictures inside are not missed.
const BEHIND_NANOS: i128 = 2_000_000_000;
/// How far before a window its listing begins, attempt by attempt; after the last one it begins at the beginning.
const BEFORE_NANOS: [i128; 4] = [0, 2_000_000_000, 15_000_000_000, 120_000_000_000];

/// Media work under one configuration. Cheap to clone; all clones share the limit on children and the memory of files.
#[derive(Clone, Debug)]
pub struct Media {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: MediaConfig,
    executor: Executor,
    memory: Memory,
    cores: usize,
}

impl Media {
    /// Starts nothing; the programs are looked for when they are needed.
    pub fn new(config: MediaConfig) -> Self {
        let limits = Limits {
            cpu_seconds: config.cpu_seconds,
            memory_bytes: config.memory_bytes,
            output_bytes: config.output_limit_bytes,
        };
        let executor = Executor::new(config.concurrency, config.wall_limit, limits, config.stderr_tail_bytes);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Self { shared: Arc::new(Shared { config, executor, memory: Memory::default(), cores }) }
    }

    /// What the programs call themselves.
    ///
    /// # Errors
    ///
    /// When one of them is missing or does not answer like ffmpeg.
    pub async fn versions(&self) -> Result<Versions, MediaError> {
        let never = CancellationToken::new();
        let ask = async |program: &Utf8Path| {
            let job = Job {
                program,
                args: words(&["-version"]),
                folder: Utf8Path::new("/"),
                stdout_limit_bytes: WORD_LIMIT_BYTES,
            };
            let finished = self.shared.executor.run(job, &never).await?.succeeded(program)?;
            let banner = String::from_utf8_lossy(&finished.stdout).into_owned();
            // "ffmpeg version 5.1.9-0+deb12u1 Copyright (c) …"
            let mut banner_words = banner.split_whitespace();
            match (banner_words.next(), banner_words.next(), banner_words.next()) {
                (Some(_name), Some("version"), Some(version)) => Ok(version.to_owned()),
                _ => Err(bad_answer(program, "it names no version".to_owned())),
            }
        };
        Ok(Versions {
            ffmpeg: ask(&self.shared.config.ffmpeg).await?,
            ffprobe: ask(&self.shared.config.ffprobe).await?,
        })
    }

    /// Looks at a file and says whether we work with it. A file that we do not work with is an answer, not an error.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, a program fails for reasons of its own, or `stop` fires.
    pub async fn probe(&self, source: &Source, stop: &CancellationToken) -> Result<Probe, MediaError> {
        let Source::File(path) = source;
        let size_bytes = fs_err::tokio::metadata(path).await.map_err(MediaError::file("look at the source"))?.len();
        let facts = match self.facts(source, stop).await {
            Ok(facts) => facts,
            Err(MediaError::Refused { refusal, .. }) => return Ok(refused(size_bytes, refusal)),
            Err(error) => return Err(error),
        };
        let acceptance = match self.decode_one(&facts, stop).await? {
            None => Acceptance::Accepted,
            Some(refusal) => Acceptance::Refused(refusal),
        };
        Ok(describe(&facts, acceptance))
    }

    /// Decodes the first picture that decodes at all, and drops it.
    async fn decode_one(&self, facts: &Facts, stop: &CancellationToken) -> Result<Option<Refusal>, MediaError> {
        let mut args = input(&facts.opened, Seek::Beginning, 1, self.config().max_pixels);
        args.extend(words(&[
            "-map",
            &format!("0:{}", facts.video.index),
            "-frames:v",
            "1",
            "-fps_mode",
            "passthrough",
        ]));
        args.extend(words(&["-c:v", "wrapped_avframe", "-f", "framecrc", "pipe:1"]));
        let finished = self.ffmpeg(args, Utf8Path::new("/"), stop).await?;
        if stamps_of(&finished.stdout).is_empty() {
            let words = last_line(&finished.stderr_tail);
            return Ok(Some(Refusal::new(
                format!("none of its pictures could be decoded (codec `{}`): {words}", facts.video.codec),
                "convert it with `ffmpeg -i INPUT -c:v libx264 OUTPUT.mp4` on a machine that can play it",
            )));
        }
        Ok(None)
    }

    pub(crate) fn config(&self) -> &MediaConfig {
        &self.shared.config
    }

    /// How many threads one of `parallel` children gets.
    pub(crate) fn threads(&self, parallel: usize) -> usize {
        (self.shared.cores / parallel.clamp(1, self.config().concurrency.max(1))).clamp(1, 8)
    }

    pub(crate) async fn ffmpeg(
        &self,
        args: Vec<String>,
        folder: &Utf8Path,
        stop: &CancellationToken,
    ) -> Result<Finished, MediaError> {
        let job = Job { program: &self.config().ffmpeg, args, folder, stdout_limit_bytes: LISTING_LIMIT_BYTES };
        self.shared.executor.run(job, stop).await
    }

    async fn ffprobe(
        &self,
        args: Vec<String>,
        limit_bytes: usize,
        stop: &CancellationToken,
    ) -> Result<Finished, MediaError> {
        let job =
            Job { program: &self.config().ffprobe, args, folder: Utf8Path::new("/"), stdout_limit_bytes: limit_bytes };
        self.shared.executor.run(job, stop).await
    }

    /// The facts of a file with pictures; anything else is [`MediaError::Refused`].
    pub(crate) async fn facts(&self, source: &Source, stop: &CancellationToken) -> Result<Arc<Facts>, MediaError> {
        let opened = Opened::open(source).await?;
        if let Some(facts) = self.shared.memory.recall(&opened.identity) {
            return Ok(facts);
        }
        let facts = Arc::new(self.find_out(opened, stop).await?);
        self.shared.memory.keep(&facts);
        Ok(facts)
    }

    async fn find_out(&self, opened: Opened, stop: &CancellationToken) -> Result<Facts, MediaError> {
        let max_pixels = self.config().max_pixels;
        let program = &self.config().ffprobe;
        let finished = self.ffprobe(probe_args::streams(&opened, max_pixels), DESCRIPTION_LIMIT_BYTES, stop).await?;
        if !finished.status.success() {
            return Err(opened.refused(unreadable(&finished.stderr_tail)));
        }
        let header = Header::parse(&finished.stdout, opened.container).map_err(|reason| bad_answer(program, reason))?;
        let video = header.usable_video(max_pixels).map_err(|refusal| opened.refused(refusal))?.clone();

        // The end of the file tells the last picture; without a promise of where the end is, or without a picture there, all is read.
        let near_end =
            header.promised_end_nanos.filter(|_end| opened.container.is_seekable()).map(|end| end - TAIL_NANOS);
        let near_end = near_end.filter(|&from| from > header.origin_nanos);
        let mut stamps = Vec::new();
        let mut index = None;
        if let Some(from) = near_end {
            stamps = self.packets(&opened, None, Stretch { from: Some(from), to: None }, stop).await?;
            index = Index::build(&stamps, video.index, false).filter(|index| index.last().is_some());
        }
        if index.is_none() {
            stamps = self.packets(&opened, None, Stretch::WHOLE, stop).await?;
            index = match Index::build(&stamps, video.index, true) {
                Some(index) => Some(index),
                None => Some(self.decoded_index(&opened, &video, Stretch::WHOLE, stop).await?),
            };
        }
        let Some((last, last_end)) = index.as_ref().and_then(Index::last) else {
            return Err(opened.refused(Refusal::new(
                "the file promises pictures and holds none",
                "upload it again; the transfer may have broken off",
            )));
        };
        let first = match index.as_ref().filter(|index| index.is_from_beginning()).and_then(Index::first) {
            Some(first) => first,
            None => self.first_picture(&opened, &video, last, stop).await?,
        };

        let timeline = video.timeline;
        let one_picture = if last_end > last { 0 } else { nanos_per_picture(video.rate) };
        let end_nanos = timeline.base().nanos(last_end.max(last)) + one_picture;
        let end = on_media(timeline, end_nanos);
        let sound_end = header.audio.as_ref().and_then(|audio| end_of(&stamps, audio.index, audio.base));
        let file_end_nanos = sound_end.unwrap_or(end_nanos).max(end_nanos);
        let promised = header.promised_end_nanos.filter(|&promised| promised - CUT_OFF_NANOS > file_end_nanos);
        Ok(Facts {
            first,
            last,
            end,
            file_end: on_media(timeline, file_end_nanos),
            sound: header.audio.clone().map(|audio| (audio, on_media(timeline, sound_end.unwrap_or(end_nanos)))),
            promised: promised.map(|nanos| on_media(timeline, nanos)),
            opened,
            video,
            header,
        })
    }

    /// The first picture, from the packets of the beginning.
    async fn first_picture(
        &self,
        opened: &Opened,
        video: &Video,
        last: i64,
        stop: &CancellationToken,
    ) -> Result<i64, MediaError> {
        let base = video.timeline.base();
        let until = base.nanos(last).min(video.timeline.on_clock(MediaTime::ZERO) + BEHIND_NANOS);
        let stamps = self.packets(opened, Some(video.index), Stretch { from: None, to: Some(until) }, stop).await?;
        Ok(Index::build(&stamps, video.index, true).and_then(|index| index.first()).unwrap_or(last))
    }

    async fn packets(
        &self,
        opened: &Opened,
        stream: Option<u32>,
        stretch: Stretch,
        stop: &CancellationToken,
    ) -> Result<Vec<Stamp>, MediaError> {
        // A damaged file makes ffprobe end with an error after the good part, which is what we want to know.
        let finished = self.ffprobe(probe_args::packets(opened, stream, stretch), LISTING_LIMIT_BYTES, stop).await?;
        Ok(index::parse_packets(&finished.stdout))
    }

    async fn decoded_index(
        &self,
        opened: &Opened,
        video: &Video,
        stretch: Stretch,
        stop: &CancellationToken,
    ) -> Result<Index, MediaError> {
        let finished =
            self.ffprobe(probe_args::pictures(opened, video.index, stretch), LISTING_LIMIT_BYTES, stop).await?;
        let stamps = index::parse_pictures(&finished.stdout, video.index);
        Index::build(&stamps, video.index, stretch.from.is_none())
            .ok_or_else(|| bad_answer(&self.config().ffprobe, "a picture has no time".to_owned()))
    }

    /// All pictures from the one on screen at tick `from` up to tick `to`, and at least one behind if there is one.
    pub(crate) async fn index(
        &self,
        facts: &Facts,
        from: i64,
        to: i64,
        stop: &CancellationToken,
    ) -> Result<Index, MediaError> {
        let Facts { opened, video, first, .. } = facts;
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
                return Ok(index);
            }
        }
        self.stretch(opened, video, Stretch { from: None, to: Some(to_nanos) }, stop).await
    }

    async fn stretch(
        &self,
        opened: &Opened,
        video: &Video,
        stretch: Stretch,
        stop: &CancellationToken,
    ) -> Result<Index, MediaError> {
        let stamps = self.packets(opened, Some(video.index), stretch, stop).await?;
        match Index::build(&stamps, video.index, stretch.from.is_none()) {
            Some(index) => Ok(index),
            None => self.decoded_index(opened, video, stretch, stop).await,
        }
    }
}

/// The time stamps in the lines of ffmpeg's framecrc: `stream, decoded, shown, length, size, sum`.
pub(crate) fn stamps_of(text: &[u8]) -> Vec<i64> {
    String::from_utf8_lossy(text)
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(',').nth(2)?.trim().parse().ok())
        .collect()
}

/// The last line of what a program complained, which names the reason.
pub(crate) fn last_line(stderr_tail: &str) -> &str {
    stderr_tail.lines().last().unwrap_or("ffmpeg gave no reason").trim()
}

pub(crate) fn nanos_per_picture(rate: Rate) -> i128 {
    1_000_000_000 * i128::from(rate.denominator()) / i128::from(rate.numerator())
}

fn on_media(timeline: Timeline, clock_nanos: i128) -> MediaTime {
    let nanos = (clock_nanos - timeline.on_clock(MediaTime::ZERO)).max(0);
    std::time::Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).into()
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

fn refused(size_bytes: u64, refusal: Refusal) -> Probe {
    Probe {
        acceptance: Acceptance::Refused(refusal),
        container: None,
        size_bytes,
        duration: MediaTime::ZERO,
        file_duration: MediaTime::ZERO,
        start_seconds: 0.0,
        is_cut_off: false,
        video: None,
        audio: None,
        streams: Vec::new(),
    }
}

fn describe(facts: &Facts, acceptance: Acceptance) -> Probe {
    let video = &facts.video;
    let origin = facts.header.origin_nanos;
    let start = std::time::Duration::from_nanos(u64::try_from(origin.unsigned_abs()).unwrap_or(u64::MAX)).as_secs_f64();
    Probe {
        acceptance,
        container: Some(facts.container().demuxer().to_owned()),
        size_bytes: facts.opened.size_bytes(),
        duration: facts.end,
        file_duration: facts.file_end,
        start_seconds: if origin < 0 { -start } else { start },
        is_cut_off: facts.promised.is_some(),
        video: Some(VideoTrack {
            codec: video.codec.clone(),
            size: video.size,
            coded_size: Size { ..video.coded_size },
            rate: video.rate,
            rotation: video.rotation,
            first_picture: video.timeline.time_of(facts.first),
            is_hdr: video.is_hdr,
            is_interlaced: video.is_interlaced,
        }),
        audio: facts.header.audio.as_ref().map(|audio| audio.track.clone()),
        streams: facts.header.streams.clone(),
    }
}
