//! The handle that the rest of the product holds, and the verdict on a file.

use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use crate::args::{Seek, input, words};
use crate::config::MediaConfig;
use crate::error::MediaError;
use crate::exec::{Executor, Finished, Job};
use crate::facts::{Facts, Memory};
use crate::header::{Clock, Scan, bad_answer};
use crate::limits::Limits;
use crate::objects::{ObjectKey, ObjectStore};
use crate::probe::{Acceptance, Probe, Rate, Refusal, Size, Versions, VideoTrack};
use crate::remote::{BucketReading, Remote};
use crate::source::Source;
use crate::time::MediaTime;

/// Room for the packets of a whole day of video, at some thirty bytes each.
pub(crate) const LISTING_LIMIT_BYTES: usize = 256 << 20;
/// What a version banner or a single time stamp takes, and plenty more.
const WORD_LIMIT_BYTES: usize = 64 << 10;
/// A program packed into one file unpacks itself at its first start, which a slow disk makes long, and needs the room.
const BANNER_WALL_LIMIT: Duration = Duration::from_mins(1);
const UNPACKED_LIMIT_BYTES: u64 = 1 << 30;

/// Media work under one configuration. Cheap to clone; all clones share the limit on children and the memory of files.
#[derive(Clone, Debug)]
pub struct Media {
    shared: Arc<Shared>,
    /// In whose name children are started.
    caller: Arc<str>,
}

#[derive(Debug)]
struct Shared {
    config: MediaConfig,
    executor: Executor,
    memory: Memory,
    cores: usize,
    remote: Option<Remote>,
}

impl Media {
    /// Starts nothing; the programs are looked for when they are needed. Sources are files; see [`Self::with_bucket`].
    pub fn new(config: MediaConfig) -> Self {
        Self::assemble(config, None)
    }

    /// The same with a bucket, whose objects can be sources. Starts nothing and opens no connection.
    ///
    /// # Errors
    ///
    /// When the system has no usable TLS.
    pub fn with_bucket(config: MediaConfig, bucket: BucketReading) -> Result<Self, MediaError> {
        Ok(Self::assemble(config, Some(Remote::new(bucket)?)))
    }

    /// The bucket, if there is one.
    pub fn objects(&self) -> Option<&ObjectStore> {
        self.shared.remote.as_ref().map(Remote::store)
    }

    pub(crate) fn remote(&self, key: &ObjectKey) -> Result<&Remote, MediaError> {
        self.shared.remote.as_ref().ok_or_else(|| MediaError::NoBucket { key: key.clone() })
    }

    fn assemble(config: MediaConfig, remote: Option<Remote>) -> Self {
        let limits = Limits {
            cpu_seconds: config.cpu_seconds,
            memory_bytes: Some(config.memory_bytes),
            output_bytes: config.output_limit_bytes,
        };
        let executor = Executor::new(config.concurrency, config.wall_limit, limits, config.stderr_tail_bytes);
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let shared = Arc::new(Shared { config, executor, memory: Memory::default(), cores, remote });
        Self { shared, caller: Arc::from("") }
    }

    /// The same, in the name of a session or of another caller. When all children that may run are running, turns go to the callers in rotation, so that
    /// one with many requests does not keep the others waiting.
    #[must_use]
    pub fn for_caller(&self, caller: &str) -> Self {
        Self { shared: Arc::clone(&self.shared), caller: Arc::from(caller) }
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
            let finished = self.shared.executor.run(job, &self.caller, &never).await?.succeeded(program)?;
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

    /// The first line that a program prints for `word`, such as `-version`: for whoever looks at a machine from outside, one program at a
    /// time. Not only ffmpeg: the programs of downloads are asked in the same way.
    ///
    /// # Errors
    ///
    /// When there is no such program, it fails, or it prints nothing.
    pub async fn first_line(program: &Utf8Path, word: &str) -> Result<String, MediaError> {
        // deno reserves far more address space than it uses, so memory stays open.
        let limits =
            Limits { cpu_seconds: BANNER_WALL_LIMIT.as_secs(), memory_bytes: None, output_bytes: UNPACKED_LIMIT_BYTES };
        let executor = Executor::new(1, BANNER_WALL_LIMIT, limits, WORD_LIMIT_BYTES);
        let job =
            Job { program, args: words(&[word]), folder: Utf8Path::new("/"), stdout_limit_bytes: WORD_LIMIT_BYTES };
        let never = CancellationToken::new();
        let finished = executor.run(job, &Arc::from(""), &never).await?.succeeded(program)?;
        let text = String::from_utf8_lossy(&finished.stdout).into_owned();
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        line.map(str::to_owned).ok_or_else(|| bad_answer(program, format!("it prints nothing for `{word}`")))
    }

    /// Looks at a file and says whether we work with it. A file that we do not work with is an answer, not an error.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, a program fails for reasons of its own, or `stop` fires.
    pub async fn probe(&self, source: &Source, stop: &CancellationToken) -> Result<Probe, MediaError> {
        let size_bytes = self.size_bytes(source).await?;
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
        let mut args = input(&facts.opened, &Clock::Stored, Seek::Beginning, 1, self.config().max_pixels);
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

    pub(crate) fn memory(&self) -> &Memory {
        &self.shared.memory
    }

    pub(crate) fn config(&self) -> &MediaConfig {
        &self.shared.config
    }

    /// How many threads one of `parallel` children gets.
    pub(crate) fn threads(&self, parallel: usize) -> usize {
        (self.shared.cores / parallel.clamp(1, self.config().concurrency.max(1))).clamp(1, 8)
    }

    /// How many threads decode for one child that has so many for everything else. A decoder waits for the rest of the program now and then, and
    /// twice as many keep the processors busy meanwhile.
    pub(crate) fn decoder_threads(threads: usize) -> usize {
        (2 * threads).min(16)
    }

    pub(crate) async fn ffmpeg(
        &self,
        args: Vec<String>,
        folder: &Utf8Path,
        stop: &CancellationToken,
    ) -> Result<Finished, MediaError> {
        let job = Job { program: &self.config().ffmpeg, args, folder, stdout_limit_bytes: LISTING_LIMIT_BYTES };
        self.run(job, stop).await
    }

    pub(crate) async fn ffprobe(&self, args: Vec<String>, stop: &CancellationToken) -> Result<Finished, MediaError> {
        let job = Job {
            program: &self.config().ffprobe,
            args,
            folder: Utf8Path::new("/"),
            stdout_limit_bytes: LISTING_LIMIT_BYTES,
        };
        self.run(job, stop).await
    }

    /// A program takes a source that breaks off on its way from the bucket for a short one; here it is the error that it is.
    async fn run(&self, job: Job<'_>, stop: &CancellationToken) -> Result<Finished, MediaError> {
        let executor = &self.shared.executor;
        let Some(remote) = &self.shared.remote else { return executor.run(job, &self.caller, stop).await };
        let watch = remote.watch(&job.args);
        match executor.run(job, &self.caller, stop).await {
            Err(MediaError::Cancelled) => Err(MediaError::Cancelled),
            finished => watch.verdict().and(finished),
        }
    }
}

/// A line of ffmpeg's framecrc: `stream, decoded, shown, length, size, sum`.
pub(crate) fn stamps_of(text: &[u8]) -> Vec<i64> {
    lengths_of(text).into_iter().map(|(shown, _length)| shown).collect()
}

/// The same lines as when each picture is shown and for how long.
pub(crate) fn lengths_of(text: &[u8]) -> Vec<(i64, i64)> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pictures = lines.filter_map(|line| {
        let mut fields = line.split(',').skip(2).map(|field| field.trim().parse().ok());
        Some((fields.next()??, fields.next()??))
    });
    pictures.collect()
}

/// The last line of what a program complained, which names the reason.
pub(crate) fn last_line(stderr_tail: &str) -> &str {
    stderr_tail.lines().last().unwrap_or("ffmpeg gave no reason").trim()
}

pub(crate) fn nanos_per_picture(rate: Rate) -> i128 {
    1_000_000_000 * i128::from(rate.denominator()) / i128::from(rate.numerator())
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
    let start = Duration::from_nanos(u64::try_from(origin.unsigned_abs()).unwrap_or(u64::MAX)).as_secs_f64();
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
            is_interlaced: video.scan == Scan::Interlaced,
        }),
        audio: facts.header.audio.as_ref().map(|audio| audio.track.clone()),
        streams: facts.header.streams.clone(),
    }
}
