//! A stretch of a video as an MP4 of its own, exact to the picture.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::Seek;
use crate::args::clip::{self as clip_args, Cut, OUTPUT, Pictures, Sound};
use crate::error::MediaError;
use crate::facts::Facts;
use crate::index::Index;
use crate::media::{Media, last_line, nanos_per_picture, stamps_of};
use crate::probe::{Rate, Size};
use crate::source::Source;
use crate::thin::{self, Thinned};
use crate::time::{MediaTime, SLACK, nanos_of};
use crate::workspace::Workspace;

/// The quality that is used unless the caller says otherwise: no visible loss for a model, at a third of the default size.
pub const DEFAULT_CRF: u8 = 26;
/// x264's range.
const WORST_CRF: u8 = 51;
/// The sound of speech; less where the size cap leaves less.
pub(crate) const AUDIO_BITS_PER_SECOND: u64 = 64_000;
const LEAST_AUDIO_BITS_PER_SECOND: u64 = 16_000;
/// What MP4 itself takes: a header, and some bytes for each picture.
const HEADER_BYTES: u64 = 4096;
const BYTES_PER_PICTURE: u64 = 24;
/// Below this many bits for each pixel x264 cannot hold a bit rate, so the picture is made smaller first.
const LEAST_MILLIBITS_PER_PIXEL: u64 = 15;
/// No smaller than this, in pixels of the longest side.
const LEAST_DIM: u32 = 96;
/// How often a clip over its cap is made smaller.
const ATTEMPTS: u32 = 3;
/// The rate of a picture that is held, if the caller names none.
const HELD_RATE: (u32, u32) = (5, 1);

/// What to cut and how to encode it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipSpec {
    /// The clip begins with the first picture at or after this moment.
    pub start: MediaTime,
    /// The clip holds the pictures before this moment.
    pub end: MediaTime,
    /// Pictures a second, each the one on screen at its step; `None` keeps all pictures at their own times.
    pub fps: Option<Rate>,
    /// The longest side, in pixels; smaller pictures stay as they are. `None` keeps the size on screen.
    pub max_dim: Option<u32>,
    /// The largest file that the caller takes, in bytes.
    pub max_size_bytes: Option<u64>,
    /// x264's quality from 0 (best) to 51; [`DEFAULT_CRF`] where `None`.
    pub crf: Option<u8>,
}

/// A clip: H.264 in 8-bit 4:2:0 with bt709 colours, AAC if there is sound, even sides, index in front.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clip {
    /// The MP4 file; the caller moves or deletes it.
    pub path: Utf8PathBuf,
    /// When the first picture really begins; time 0 of the clip is this moment of the source.
    pub start: MediaTime,
    /// Where the clip really ends.
    pub end: MediaTime,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// Whether the clip carries sound.
    pub has_audio: bool,
    /// Whether the window reached past the pictures and was cut at their beginning or end.
    pub clamped: bool,
    /// Whether no picture begins inside the window, so that the one on screen is held for its length.
    pub held: bool,
    /// How many source pictures fell into the window and could be decoded.
    pub source_pictures: usize,
}

/// What a window comes to on a particular file.
#[derive(Debug)]
struct Plan {
    first: i64,
    beyond: i64,
    start: MediaTime,
    end: MediaTime,
    pictures: Pictures,
    /// How many pictures the clip will hold, for the size of its index.
    count: u64,
    seeks: Vec<Seek>,
    expected: usize,
    clamped: bool,
    index: Arc<Index>,
}

impl Media {
    /// Cuts a clip.
    ///
    /// # Errors
    ///
    /// When the source is refused, the window holds no picture, its pictures are damaged, the size cap cannot be met, a program fails, or `stop` fires.
    pub async fn clip(&self, source: &Source, spec: &ClipSpec, stop: &CancellationToken) -> Result<Clip, MediaError> {
        if spec.end <= spec.start {
            return Err(MediaError::BadRequest(format!(
                "the clip ends at `{}` s, not after its start at `{}` s",
                spec.end, spec.start
            )));
        }
        let facts = self.facts(source, stop).await?;
        let plan = self.plan(&facts, spec, stop).await?;
        let shown = facts.video.size.fit(spec.max_dim);
        let mut longest = shown.width.max(shown.height);
        let mut budget = Budget::of(spec, &plan, &facts);
        let mut smallest = u64::MAX;
        for _attempt in 0..ATTEMPTS {
            longest = budget.as_ref().map_or(longest, |budget| budget.affordable(shown, longest));
            let size = shown.fit(Some(longest)).even();
            let workspace = Workspace::new(&self.config().work_folder).await?;
            let made = self.encode(&facts, spec, &plan, size, budget.as_ref(), &workspace, stop).await?;
            match spec.max_size_bytes {
                Some(limit) if made.size_bytes > limit => {
                    smallest = smallest.min(made.size_bytes);
                    budget = budget.map(|budget| budget.tightened(made.size_bytes, limit));
                    longest = (longest * 2 / 3).max(LEAST_DIM.min(longest));
                }
                _ => return self.finish(&facts, &plan, size, made, workspace).await,
            }
        }
        Err(MediaError::TooLarge { size_bytes: smallest, limit_bytes: spec.max_size_bytes.unwrap_or(u64::MAX) })
    }

    /// Decides which source pictures the window holds.
    async fn plan(&self, facts: &Facts, spec: &ClipSpec, stop: &CancellationToken) -> Result<Plan, MediaError> {
        let timeline = facts.video.timeline;
        let first_time = timeline.time_of(facts.first);
        if spec.start >= facts.end && timeline.first_from(spec.start) > facts.last {
            return Err(match facts.promised.filter(|&promised| spec.start < promised) {
                Some(promised) => MediaError::CutOff { asked: spec.start, readable: facts.end, promised },
                None => MediaError::PastEnd { asked: spec.start, end: facts.end },
            });
        }
        let (from, beyond) = (timeline.first_from(spec.start), timeline.first_from(spec.end));
        if beyond <= facts.first {
            return Err(MediaError::BeforeFirst { asked: spec.end, first: first_time });
        }
        let index = self.index(facts, from.min(facts.last), beyond, stop).await?;
        let inside = index.between(from, beyond);
        let end = spec.end.min(facts.end);
        let clamped = facts.is_past(spec.end) || spec.start.plus(SLACK) < first_time;

        let Some(&first) = inside.first() else {
            // Nothing begins inside, so one picture is on screen all the time.
            let held = index.shown_at(from).or(index.first()).unwrap_or(facts.last);
            let rate = spec.fps.or_else(|| Rate::new(HELD_RATE.0, HELD_RATE.1)).expect("the constant is a rate");
            let count = steps(end.since(spec.start), rate);
            return Ok(Plan {
                first: held,
                beyond: held + 1,
                start: spec.start,
                end,
                pictures: Pictures::Held { rate, count },
                count,
                seeks: index.seeks(held, &facts.video, facts.container()),
                expected: 1,
                clamped,
                index,
            });
        };
        let start = timeline.time_of(first);
        let (pictures, count) = match spec.fps {
            Some(rate) => {
                let count = steps(end.since(start), rate);
                (Pictures::Sampled { rate, count }, count)
            }
            None => (Pictures::Own, u64::try_from(inside.len()).unwrap_or(u64::MAX)),
        };
        let seeks = index.seeks(first, &facts.video, facts.container());
        Ok(Plan { first, beyond, start, end, pictures, count, seeks, expected: inside.len(), clamped, index })
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one request, which only `clip` puts together")]
    async fn encode(
        &self,
        facts: &Facts,
        spec: &ClipSpec,
        plan: &Plan,
        size: Size,
        budget: Option<&Budget>,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<Made, MediaError> {
        let length = plan.end.since(plan.start);
        let sound =
            facts.sound.as_ref().filter(|(_audio, sound_end)| *sound_end > plan.start).map(|(audio, _sound_end)| {
                Sound {
                    index: audio.index,
                    channels: audio.track.channels,
                    bit_rate: budget.map_or(AUDIO_BITS_PER_SECOND, |budget| budget.audio_bits_per_second),
                    from_nanos: facts.header.origin_nanos + nanos_of(plan.start.since_start()),
                    length,
                }
            });
        let thinned = self.sorted_out(facts, plan, workspace, stop).await?;
        let threads = self.threads(1);
        let mut best: Option<Made> = None;
        let mut complaint = String::new();
        for (seek, thinned) in thin::ways(thinned.as_ref(), &plan.seeks) {
            let cut = Cut {
                opened: &facts.opened,
                video: &facts.video,
                seek,
                first: plan.first,
                beyond: plan.beyond,
                pictures: plan.pictures,
                size,
                sound,
                crf: spec.crf.unwrap_or(DEFAULT_CRF).min(WORST_CRF),
                max_bit_rate: budget.map(|budget| budget.video_bits_per_second),
                thinned,
                decoder_threads: Self::decoder_threads(threads),
                threads,
                max_pixels: self.config().max_pixels,
            };
            let finished = self.ffmpeg(clip_args::args(&cut), workspace.path(), stop).await?;
            let stamps = stamps_of(&finished.stdout);
            let is_whole = stamps.first() == Some(&0)
                && match thinned {
                    Some(thinned) => thinned.is_whole(&stamps.iter().map(|stamp| plan.first + stamp).collect()),
                    None => stamps.len() >= plan.expected,
                };
            if !is_whole {
                tracing::debug!(media.path = %facts.opened.path, ?seek, thinned = thinned.is_some(), media.found = stamps.len(), media.wanted = plan.expected, "a seek missed pictures");
            }
            if !finished.status.success() {
                // Killed by a limit, or failed on good pictures: another place to begin would not help.
                if finished.status.code().is_none() || !stamps.is_empty() && thinned.is_none() {
                    return Err(finished.succeeded(&self.config().ffmpeg).expect_err("it did not succeed"));
                }
                complaint = finished.stderr_tail;
                best = None;
                continue;
            }
            complaint = finished.stderr_tail;
            if !is_whole && thinned.is_some() {
                continue;
            }
            let file =
                fs_err::tokio::metadata(workspace.file(OUTPUT)).await.map_err(MediaError::file("look at the clip"))?;
            best = Some(Made { size_bytes: file.len(), stamps, has_audio: sound.is_some(), is_whole });
            if is_whole {
                break;
            }
        }
        match best {
            Some(made) if !made.stamps.is_empty() => Ok(made),
            _ => Err(MediaError::Undecodable { at: plan.start, stderr_tail: last_line(&complaint).to_owned() }),
        }
    }

    /// The source without the pictures that the steps of a rate pass over, where that is possible.
    async fn sorted_out(
        &self,
        facts: &Facts,
        plan: &Plan,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<Option<Thinned>, MediaError> {
        let Pictures::Sampled { rate, count } = plan.pictures else { return Ok(None) };
        let from_nanos = facts.video.timeline.base().nanos(plan.first);
        let mut wanted: BTreeSet<i64> = thin::shown_at_steps(&plan.index, facts, from_nanos, rate, count);
        wanted.retain(|tick| (plan.first..plan.beyond).contains(tick));
        self.thinned(facts, &plan.index, wanted, plan.expected, workspace.path(), stop).await
    }

    async fn finish(
        &self,
        facts: &Facts,
        plan: &Plan,
        size: Size,
        made: Made,
        workspace: Workspace,
    ) -> Result<Clip, MediaError> {
        let timeline = facts.video.timeline;
        let first = plan.first + made.stamps.first().copied().unwrap_or(0);
        let held = matches!(plan.pictures, Pictures::Held { .. });
        let start = if held { plan.start } else { timeline.time_of(first) };
        // Damaged pictures at the end are not in the clip, so it ends with the last one that is.
        let end = if made.is_short(plan) {
            let last = timeline.time_of(plan.first + made.stamps.last().copied().unwrap_or(0));
            let one = Duration::from_nanos(u64::try_from(nanos_per_picture(facts.video.rate)).unwrap_or(0));
            last.plus(one).min(plan.end)
        } else {
            plan.end
        };
        let source_pictures = if made.is_whole { plan.expected } else { made.stamps.len() };
        let mut paths = workspace.hand_over(&[OUTPUT.to_owned()]).await?;
        Ok(Clip {
            path: paths.remove(0),
            start,
            end,
            size_bytes: made.size_bytes,
            width: size.width,
            height: size.height,
            has_audio: made.has_audio,
            clamped: plan.clamped || end < plan.end,
            held,
            source_pictures,
        })
    }
}

/// What ffmpeg made.
#[derive(Debug)]
struct Made {
    size_bytes: u64,
    /// The stamps of the source pictures inside, counted from the first planned one.
    stamps: Vec<i64>,
    has_audio: bool,
    /// Whether nothing is missing that has to be shown.
    is_whole: bool,
}

impl Made {
    /// Whether pictures at the end are missing.
    fn is_short(&self, plan: &Plan) -> bool {
        !self.is_whole && self.stamps.len() < plan.expected
    }
}

/// How the size cap is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Budget {
    video_bits_per_second: u64,
    audio_bits_per_second: u64,
    pictures_per_second_times_1000: u64,
}

impl Budget {
    fn of(spec: &ClipSpec, plan: &Plan, facts: &Facts) -> Option<Self> {
        let limit = spec.max_size_bytes?;
        let millis = u64::try_from(plan.end.since(plan.start).as_millis()).unwrap_or(u64::MAX).max(100);
        let overhead = HEADER_BYTES + plan.count.saturating_mul(BYTES_PER_PICTURE);
        let bits = limit.saturating_sub(overhead).saturating_mul(8) / 100 * 95;
        // The encoder's buffer of one second may be spent on top of the rate.
        let per_second = bits.saturating_mul(1000) / (millis + 1000);
        let audio = if facts.sound.is_some() {
            (per_second / 5).clamp(LEAST_AUDIO_BITS_PER_SECOND, AUDIO_BITS_PER_SECOND)
        } else {
            0
        };
        Some(Self {
            video_bits_per_second: per_second.saturating_sub(audio).max(1000),
            audio_bits_per_second: audio.max(LEAST_AUDIO_BITS_PER_SECOND),
            pictures_per_second_times_1000: (plan.count.saturating_mul(1_000_000) / millis).max(1),
        })
    }

    /// The longest side, at most `longest`, of a picture shaped like `shape` whose pixels the bit rate can carry.
    fn affordable(&self, shape: Size, longest: u32) -> u32 {
        let carried = self.video_bits_per_second.saturating_mul(1_000_000)
            / LEAST_MILLIBITS_PER_PIXEL
            / self.pictures_per_second_times_1000;
        let mut longest = longest;
        while longest > LEAST_DIM && shape.fit(Some(longest)).pixels() > carried {
            longest = (longest * 9 / 10).max(LEAST_DIM);
        }
        longest
    }

    /// After a clip of `size_bytes` that should have been `limit_bytes`.
    fn tightened(self, size_bytes: u64, limit_bytes: u64) -> Self {
        let video = self.video_bits_per_second.saturating_mul(limit_bytes) / size_bytes.max(1) * 8 / 10;
        Self { video_bits_per_second: video.max(1000), ..self }
    }
}

/// How many steps of `rate` begin inside `length`; at least one.
fn steps(length: Duration, rate: Rate) -> u64 {
    let steps = (nanos_of(length) * i128::from(rate.numerator()) - 1)
        .div_euclid(1_000_000_000 * i128::from(rate.denominator()))
        + 1;
    u64::try_from(steps).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_lie_before_the_end() {
        let two = Rate::new(2, 1).unwrap();
        assert_eq!(steps(Duration::from_secs(1), two), 2);
        assert_eq!(steps(Duration::from_millis(1001), two), 3);
        assert_eq!(steps(Duration::from_millis(1), two), 1);
        assert_eq!(steps(Duration::ZERO, two), 1);
    }

    #[test]
    fn a_small_budget_makes_a_small_picture_of_the_same_shape() {
        let budget = Budget {
            video_bits_per_second: 30_000,
            audio_bits_per_second: 16_000,
            pictures_per_second_times_1000: 30_000,
        };
        let shape = Size { width: 1920, height: 1080 };
        let size = shape.fit(Some(budget.affordable(shape, 1920))).even();
        assert!(size.pixels() < 80_000, "{size}");
        assert!((size.width * 9).abs_diff(size.height * 16) < 40, "{size}");
        let rich = Budget { video_bits_per_second: 9_000_000, ..budget };
        assert_eq!(rich.affordable(shape, 1920), 1920);
    }
}
