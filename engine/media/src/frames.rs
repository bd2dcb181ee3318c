//! Single pictures of a video: the one on screen at each asked moment, with its true time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;
use futures::stream::{StreamExt, TryStreamExt};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::args::frames::{self as frame_args, Format, Shots};
use crate::error::MediaError;
use crate::facts::Facts;
use crate::index::Index;
use crate::media::{Media, last_line};
use crate::probe::{Rate, Size};
use crate::source::Source;
use crate::thin;
use crate::time::MediaTime;
use crate::workspace::Workspace;

/// Moments further apart than this are sought one by one, side by side; closer ones share one decoder. Decoding two seconds takes about as
/// long as starting a program.
const SPARSE: Duration = Duration::from_secs(2);

/// The most pictures of one request; a larger one is a mistake.
pub const MOST_FRAMES: usize = 4096;

/// Which pictures are wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// The picture on screen at each of these moments, in this order; one answer for each.
    Times(Vec<MediaTime>),
    /// Evenly spread from `start` on: every `1 / fps` seconds, or further apart where that would be more than `max_frames`.
    ///
    /// A picture that stays on screen over several steps is given once. `start` equal to `end` gives the one picture there.
    Window {
        /// The first moment.
        start: MediaTime,
        /// The moment before which the last one lies.
        end: MediaTime,
        /// Pictures a second.
        fps: Rate,
        /// The most pictures.
        max_frames: usize,
    },
}

/// What to take and how to write it.
#[derive(Clone, Debug, PartialEq)]
pub struct FramesSpec {
    /// Which pictures.
    pub pick: Pick,
    /// The longest side, in pixels; smaller pictures stay as they are. `None` keeps the size on screen.
    pub max_dim: Option<u32>,
    /// The JPEG quality from 1 to 100.
    pub jpeg_quality: u8,
}

/// One picture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frame {
    /// The JPEG file; the caller moves or deletes it. Two moments that share a picture share the file.
    pub path: Utf8PathBuf,
    /// When the picture really begins.
    pub timestamp: MediaTime,
    /// The moment that was asked for.
    pub asked: MediaTime,
    /// Whether there is no picture at the asked moment, so that the first or last one stands in.
    pub clamped: bool,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
}

/// The pictures of one request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Frames {
    /// In the order of the asked moments.
    pub frames: Vec<Frame>,
    /// The size of each, in pixels.
    pub size: Size,
    /// Moments whose picture is damaged and could not be decoded.
    pub missing: Vec<MediaTime>,
    /// Where the pictures of the video end.
    pub duration: MediaTime,
}

/// An asked moment and the picture found for it.
#[derive(Clone, Copy, Debug)]
struct Wish {
    asked: MediaTime,
    tick: i64,
    clamped: bool,
}

impl Media {
    /// Takes pictures out of a video and writes them as JPEG.
    ///
    /// # Errors
    ///
    /// When the source is refused, the file is cut off before an asked moment, no picture can be decoded, a program fails, or `stop` fires.
    pub async fn frames(
        &self,
        source: &Source,
        spec: &FramesSpec,
        stop: &CancellationToken,
    ) -> Result<Frames, MediaError> {
        let format = Format::Jpeg { scale: jpeg_scale(spec.jpeg_quality) };
        let facts = self.facts(source, stop).await?;
        let workspace = Workspace::new(&self.config().work_folder).await?;
        let taken = self.take(&facts, &spec.pick, spec.max_dim, format, &workspace, stop).await?;

        let names: Vec<String> = taken.files.values().cloned().collect();
        let ticks: Vec<i64> = taken.files.keys().copied().collect();
        let mut sizes = BTreeMap::new();
        for (tick, name) in &taken.files {
            let file =
                fs_err::tokio::metadata(workspace.file(name)).await.map_err(MediaError::file("look at a picture"))?;
            sizes.insert(*tick, file.len());
        }
        let paths: BTreeMap<i64, Utf8PathBuf> = ticks.into_iter().zip(workspace.hand_over(&names).await?).collect();
        let frames = taken.wishes.iter().filter_map(|wish| {
            Some(Frame {
                path: paths.get(&wish.tick)?.clone(),
                timestamp: facts.video.timeline.time_of(wish.tick),
                asked: wish.asked,
                clamped: wish.clamped,
                size_bytes: *sizes.get(&wish.tick)?,
            })
        });
        Ok(Frames { frames: frames.collect(), size: taken.size, missing: taken.missing, duration: facts.end })
    }

    /// One picture without loss, for drawing on; its file stays in the workspace.
    pub(crate) async fn still(
        &self,
        facts: &Facts,
        at: MediaTime,
        max_dim: Option<u32>,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<(Utf8PathBuf, MediaTime, bool), MediaError> {
        let taken = self.take(facts, &Pick::Times(vec![at]), max_dim, Format::Png, workspace, stop).await?;
        let wish = taken.wishes[0];
        let file = workspace.file(&taken.files[&wish.tick]);
        Ok((file, facts.video.timeline.time_of(wish.tick), wish.clamped))
    }

    async fn take(
        &self,
        facts: &Facts,
        pick: &Pick,
        max_dim: Option<u32>,
        format: Format,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<Taken, MediaError> {
        let moments = moments(pick)?;
        let size = facts.video.size.fit(max_dim);
        let groups = group(&moments);
        let side_by_side = self.config().concurrency.max(1);
        let threads = self.threads(groups.len());
        // Children queue at the executor; asking for no more than can run at once leaves room for other callers between ours.
        let indexes =
            self.indexes(facts, &groups.iter().map(|group| span(facts, group)).collect::<Vec<_>>(), stop).await?;
        let results: Vec<GroupTaken> = futures::stream::iter(groups.into_iter().zip(indexes))
            .map(|(group, index)| self.take_group(facts, group, index, size, format, threads, workspace, stop))
            .buffered(side_by_side)
            .try_collect()
            .await?;

        let mut taken = Taken { wishes: Vec::new(), files: BTreeMap::new(), missing: Vec::new(), size };
        let mut complaint = String::new();
        for result in results {
            taken.files.extend(result.files);
            taken.wishes.extend(result.wishes);
            complaint = result.complaint.unwrap_or(complaint);
        }
        // Groups are made of sorted moments; the answer follows the order of the question.
        let order: BTreeMap<MediaTime, usize> =
            moments.iter().rev().enumerate().map(|(from_end, asked)| (*asked, moments.len() - 1 - from_end)).collect();
        if let Pick::Times(times) = pick {
            let found: BTreeMap<MediaTime, Wish> = taken.wishes.iter().map(|wish| (wish.asked, *wish)).collect();
            taken.wishes = times.iter().filter_map(|asked| found.get(asked).copied()).collect();
        } else {
            taken.wishes.sort_by_key(|wish| order.get(&wish.asked).copied());
            taken.wishes.dedup_by_key(|wish| wish.tick);
        }
        let (there, missing): (Vec<Wish>, Vec<Wish>) =
            taken.wishes.iter().partition(|wish| taken.files.contains_key(&wish.tick));
        taken.missing = missing.iter().map(|wish| wish.asked).collect();
        if there.is_empty() {
            let at = moments.first().copied().unwrap_or_default();
            return Err(MediaError::Undecodable { at, stderr_tail: last_line(&complaint).to_owned() });
        }
        taken.wishes = there;
        Ok(taken)
    }

    /// Takes the pictures of moments that lie close together, in one decoder.
    #[expect(clippy::too_many_arguments, reason = "the parts of one request, which only `take` puts together")]
    async fn take_group(
        &self,
        facts: &Facts,
        asked: Vec<MediaTime>,
        index: Option<Arc<Index>>,
        size: Size,
        format: Format,
        threads: usize,
        workspace: &Workspace,
        stop: &CancellationToken,
    ) -> Result<GroupTaken, MediaError> {
        let timeline = facts.video.timeline;
        let bounded = |asked: MediaTime| -> Result<(i64, bool), MediaError> {
            let tick = timeline.last_at(asked);
            if tick > facts.last
                && asked >= facts.end
                && let Some(promised) = facts.promised.filter(|&promised| asked < promised)
            {
                return Err(MediaError::CutOff { asked, readable: facts.end, promised });
            }
            Ok((tick.clamp(facts.first, facts.last), tick < facts.first || facts.is_past(asked)))
        };
        let moments: Vec<(MediaTime, (i64, bool))> =
            asked.into_iter().map(|asked| Ok((asked, bounded(asked)?))).collect::<Result<_, MediaError>>()?;
        let index = if let Some(index) = index {
            index
        } else {
            let asked: Vec<MediaTime> = moments.iter().map(|(asked, _found)| *asked).collect();
            let (lowest, highest) = span(facts, &asked);
            self.index(facts, lowest, highest, stop).await?
        };

        let wishes: Vec<Wish> = moments
            .into_iter()
            .filter_map(|(asked, (tick, clamped))| {
                Some(Wish { asked, tick: index.shown_at(tick).or(index.first())?, clamped })
            })
            .collect();
        let mut ticks: Vec<i64> = wishes.iter().map(|wish| wish.tick).collect();
        ticks.sort_unstable();
        ticks.dedup();
        let mut result = GroupTaken { wishes, files: BTreeMap::new(), complaint: None };
        let Some(&first) = ticks.first() else {
            return Ok(result);
        };

        // Files of two groups must not meet: each gets a folder of its own.
        let folder_name = format!("from-{first}");
        let folder = workspace.file(&folder_name);
        fs_err::tokio::create_dir_all(&folder).await.map_err(MediaError::file("make a folder for pictures"))?;
        let wanted: BTreeSet<i64> = ticks.iter().copied().collect();
        let decoded = index.decoded_for(first, ticks.last().copied().unwrap_or(first));
        let thinned = self.thinned(facts, &index, wanted, decoded, &folder, stop).await?;
        let seeks = index.seeks(first, &facts.video, facts.container());
        for (seek, thinned) in thin::ways(thinned.as_ref(), &seeks) {
            let shots = Shots {
                opened: &facts.opened,
                video: &facts.video,
                ticks: &ticks,
                seek,
                thinned,
                size,
                format,
                threads,
                max_pixels: self.config().max_pixels,
            };
            let finished = self.ffmpeg(frame_args::args(&shots), &folder, stop).await?;
            for &tick in &ticks {
                let name = frame_args::file_name(&shots, tick);
                if fs_err::tokio::try_exists(folder.join(&name))
                    .await
                    .map_err(MediaError::file("look for a picture"))?
                {
                    result.files.insert(tick, format!("{folder_name}/{name}"));
                }
            }
            result.complaint = Some(finished.stderr_tail.clone());
            if result.files.len() == ticks.len() {
                break;
            }
            tracing::debug!(media.path = %facts.opened.path, ?seek, thinned = thinned.is_some(), media.found = result.files.len(), media.wanted = ticks.len(), "a seek missed pictures");
        }
        Ok(result)
    }
}

#[derive(Debug)]
struct Taken {
    wishes: Vec<Wish>,
    /// The file of each picture, by its tick.
    files: BTreeMap<i64, String>,
    missing: Vec<MediaTime>,
    size: Size,
}

#[derive(Debug)]
struct GroupTaken {
    wishes: Vec<Wish>,
    files: BTreeMap<i64, String>,
    complaint: Option<String>,
}

/// The moments of a request, in its order.
fn moments(pick: &Pick) -> Result<Vec<MediaTime>, MediaError> {
    let moments = match pick {
        Pick::Times(times) => times.clone(),
        Pick::Window { start, end, .. } if end < start => {
            return Err(MediaError::BadRequest(format!(
                "the window ends at `{end}` s, before its start at `{start}` s"
            )));
        }
        Pick::Window { start, end, fps, max_frames } => {
            let length = end.since(*start).as_nanos();
            let step = 1_000_000_000 * u128::from(fps.denominator()) / u128::from(fps.numerator());
            let budget = length.div_ceil(step.max(1)).max(1);
            let count = budget.min(u128::try_from(*max_frames).unwrap_or(u128::MAX));
            // Steps grow only where the budget is too small; then they spread over the whole window.
            let at = |number: u128| if count < budget { length * number / count } else { number * step };
            let nanos = |number: u128| u64::try_from(at(number)).unwrap_or(u64::MAX);
            (0..count.min(u128::try_from(MOST_FRAMES + 1).unwrap_or(u128::MAX)))
                .map(|number| start.plus(Duration::from_nanos(nanos(number))))
                .collect()
        }
    };
    match moments.len() {
        0 => {
            Err(MediaError::BadRequest("no picture was asked for: name a time, or allow at least 1 picture".to_owned()))
        }
        count if count > MOST_FRAMES => {
            Err(MediaError::BadRequest(format!("more than {MOST_FRAMES} pictures were asked for: ask for fewer")))
        }
        _ => Ok(moments),
    }
}

/// The ticks between which the pictures of these moments are looked for.
fn span(facts: &Facts, asked: &[MediaTime]) -> (i64, i64) {
    let tick = |asked: &MediaTime| facts.video.timeline.last_at(*asked).clamp(facts.first, facts.last);
    let ticks = || asked.iter().map(tick);
    (ticks().min().unwrap_or(facts.first), ticks().max().unwrap_or(facts.last))
}

/// Sorted moments, cut where the distance pays for a decoder of its own.
fn group(moments: &[MediaTime]) -> Vec<Vec<MediaTime>> {
    let mut sorted = moments.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.chunk_by(|earlier, later| later.since(*earlier) <= SPARSE).map(<[MediaTime]>::to_vec).collect()
}

/// From the usual 1 to 100 to ffmpeg's 31 to 2.
fn jpeg_scale(quality: u8) -> u8 {
    let quality = u16::from(quality.clamp(1, 100));
    u8::try_from(31 - (quality - 1) * 29 / 99).unwrap_or(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: u64, end: u64, fps: u32, max_frames: usize) -> Vec<MediaTime> {
        let (start, end) = (MediaTime::from_millis(start), MediaTime::from_millis(end));
        moments(&Pick::Window { start, end, fps: Rate::new(fps, 1).unwrap(), max_frames }).unwrap()
    }

    fn millis(times: &[u64]) -> Vec<MediaTime> {
        times.iter().map(|&time| MediaTime::from_millis(time)).collect()
    }

    #[test]
    fn a_window_is_sampled_by_its_rate_and_never_beyond_its_budget() {
        assert_eq!(window(1000, 3000, 2, 100), millis(&[1000, 1500, 2000, 2500]));
        assert_eq!(window(0, 10_000, 2, 4), millis(&[0, 2500, 5000, 7500]));
        assert_eq!(window(500, 500, 1, 1), millis(&[500]));
        assert_eq!(window(0, 1400, 1, 9), millis(&[0, 1000]));
    }

    #[test]
    fn senseless_windows_are_refused() {
        let start = MediaTime::from_millis(2);
        let fps = Rate::new(1, 1).unwrap();
        assert!(moments(&Pick::Window { start, end: MediaTime::ZERO, fps, max_frames: 1 }).is_err());
        assert!(moments(&Pick::Window { start, end: start, fps, max_frames: 0 }).is_err());
        assert!(moments(&Pick::Times(Vec::new())).is_err());
        assert!(moments(&Pick::Times(vec![start; MOST_FRAMES + 1])).is_err());
    }

    #[test]
    fn close_moments_share_a_decoder() {
        let groups = group(&millis(&[9000, 0, 1000, 1000, 2500, 60_000]));
        assert_eq!(groups, [millis(&[0, 1000, 2500]), millis(&[9000]), millis(&[60_000])]);
    }

    #[test]
    fn jpeg_quality_covers_the_whole_scale() {
        assert_eq!((jpeg_scale(0), jpeg_scale(1), jpeg_scale(100), jpeg_scale(255)), (31, 31, 2, 2));
    }
}
