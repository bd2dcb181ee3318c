//! Judges every operation on one file by the codes of its pictures.

use ambient_media::{Clip, ClipSpec, FramesSpec, MediaTime, Pick, Probe, Rate};
use anyhow::{Context, Result, ensure};
use camino::Utf8Path;

use crate::film::{Room, Watched, watch};
use crate::pattern::{self, Reading};

/// What is true about a file, however it is stored.
#[derive(Clone, Debug)]
pub(crate) struct Truth {
    pub(crate) name: &'static str,
    pub(crate) file: u8,
    /// The code of each picture, ascending.
    pub(crate) codes: Vec<u32>,
    /// The code that a picture at time 0 would have.
    pub(crate) offset: u32,
    /// Where the pictures end, in milliseconds from time 0.
    pub(crate) end: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) has_audio: bool,
    /// How far a reported time may be from the true one; a tick of a coarse time base.
    pub(crate) tolerance_millis: f64,
}

impl Truth {
    /// The code on screen at `millis`; before the first picture that one.
    pub(crate) fn shown(&self, millis: u32) -> u32 {
        let mut begun = self.codes.iter().filter(|&&code| code <= millis + self.offset);
        begun.next_back().copied().unwrap_or(self.codes[0])
    }

    /// The codes that begin in a window.
    fn inside(&self, start: u32, end: u32) -> Vec<u32> {
        self.codes.iter().copied().filter(|&code| (start + self.offset..end + self.offset).contains(&code)).collect()
    }

    pub(crate) fn time(&self, code: u32) -> f64 {
        f64::from(code) - f64::from(self.offset)
    }
}

pub(crate) fn at(millis: u32) -> MediaTime {
    MediaTime::from_millis(u64::from(millis))
}

pub(crate) fn millis(time: MediaTime) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn read(path: &Utf8Path) -> Result<(Reading, u32, u32)> {
    let picture = image::open(path)?.into_rgb8();
    let reading =
        pattern::read(&picture).with_context(|| format!("{path} cannot be read: blended, or no picture of ours"))?;
    Ok((reading, picture.width(), picture.height()))
}

impl Room {
    /// The file is accepted, and described as it is.
    pub(crate) async fn probed(&self, truth: &Truth) -> Result<Probe> {
        let probe = self.media.probe(&self.source(truth.name), &self.stop).await?;
        ensure!(probe.is_accepted(), "refused: {:?}", probe.acceptance);
        let video = probe.video.as_ref().context("no pictures")?;
        ensure!((video.size.width, video.size.height) == (truth.width, truth.height), "size {}", video.size);
        ensure!(
            (millis(probe.duration) - f64::from(truth.end)).abs() <= 2.0 * truth.tolerance_millis + 1.0,
            "ends at {}",
            probe.duration
        );
        ensure!(probe.has_audio() == truth.has_audio, "sound: {}", probe.has_audio());
        let first = truth.time(truth.codes[0]);
        ensure!(
            (millis(video.first_picture) - first).abs() <= truth.tolerance_millis,
            "first picture at {}",
            video.first_picture
        );
        Ok(probe)
    }

    /// A frame at each moment is the one on screen then, upright, and says its true time.
    pub(crate) async fn shows(&self, truth: &Truth, moments: &[u32]) -> Result<()> {
        let spec = FramesSpec {
            pick: Pick::Times(moments.iter().copied().map(at).collect()),
            max_dim: Some(768),
            jpeg_quality: 90,
        };
        let answer = self.media.frames(&self.source(truth.name), &spec, &self.stop).await?;
        ensure!(answer.missing.is_empty(), "missing {:?}", answer.missing);
        ensure!(answer.frames.len() == moments.len(), "{} frames for {} moments", answer.frames.len(), moments.len());
        for (frame, &moment) in answer.frames.iter().zip(moments) {
            let (reading, width, height) = read(&frame.path).with_context(|| format!("at {moment}"))?;
            let wanted = truth.shown(moment);
            ensure!(reading.file == truth.file && reading.turn == 0, "at {moment}: {reading:?}");
            ensure!(reading.millis == wanted, "at {moment}: shows {}, wanted {wanted}", reading.millis);
            let told = millis(frame.timestamp);
            ensure!(
                (told - truth.time(wanted)).abs() <= truth.tolerance_millis,
                "at {moment}: shows {wanted} and says {told}"
            );
            ensure!((width, height) == (truth.width, truth.height), "at {moment}: {width}x{height}");
            let outside =
                moment > truth.end + 5 || f64::from(moment) + truth.tolerance_millis < truth.time(truth.codes[0]);
            ensure!(frame.clamped == outside, "at {moment}: clamped {}", frame.clamped);
        }
        Ok(())
    }

    /// A clip with all its pictures holds exactly those of the window, at their distances, with their sound.
    pub(crate) async fn cuts(&self, truth: &Truth, start: u32, end: u32) -> Result<Clip> {
        let (clip, watched) = self.cut(truth, start, end, None).await?;
        let inside = truth.inside(start, end);
        let codes = watched.codes();
        ensure!(codes == inside, "{start}-{end}: shows {codes:?}, wanted {inside:?}");
        for picture in &watched.pictures {
            let reading = picture.reading.context("a picture cannot be read")?;
            ensure!(reading.file == truth.file && reading.turn == 0, "{start}-{end}: turned or strange: {reading:?}");
            let drift = picture.shown_millis - (f64::from(reading.millis) - f64::from(inside[0]));
            ensure!(drift.abs() <= 2.0 * truth.tolerance_millis, "{start}-{end}: {reading:?} is shown {drift} ms off");
        }
        let (told_start, told_end) = (millis(clip.start), millis(clip.end));
        ensure!(
            (told_start - truth.time(inside[0])).abs() <= truth.tolerance_millis,
            "{start}-{end}: says {told_start}"
        );
        let true_end = f64::from(end.min(truth.end));
        ensure!((told_end - true_end).abs() <= 2.0 * truth.tolerance_millis + 1.0, "{start}-{end}: says {told_end}");
        ensure!(clip.source_pictures == inside.len(), "{start}-{end}: says {} pictures", clip.source_pictures);

        ensure!(watched.audio == if truth.has_audio { "aac" } else { "" }, "sound: {:?}", watched.audio);
        let offset = f64::from(truth.offset) / 1000.0;
        for second in 0..60_u32 {
            let middle = f64::from(second) + 0.5 - offset;
            if truth.has_audio && middle * 1000.0 > told_start + 300.0 && middle * 1000.0 < told_end - 300.0 {
                let heard = watched.heard(middle - told_start / 1000.0);
                ensure!(heard == Some(second), "{start}-{end}: second {second} sounds like {heard:?}");
            }
        }
        Ok(clip)
    }

    /// A clip at a rate shows at each step what is on screen then.
    pub(crate) async fn samples(&self, truth: &Truth, start: u32, end: u32, rate: u32) -> Result<()> {
        let (_clip, watched) = self.cut(truth, start, end, Rate::new(rate, 1)).await?;
        let from = truth.time(truth.inside(start, end)[0]) as u32;
        let moments = (0..).map(|step| from + step * 1000 / rate).take_while(|&moment| moment < end.min(truth.end));
        let wanted: Vec<u32> = moments.map(|moment| truth.shown(moment)).collect();
        let codes = watched.codes();
        ensure!(codes == wanted, "{start}-{end} at {rate}: shows {codes:?}, wanted {wanted:?}");
        for (number, picture) in watched.pictures.iter().enumerate() {
            let step = number as f64 * 1000.0 / f64::from(rate);
            ensure!((picture.shown_millis - step).abs() < 1.0, "step {number} comes at {}", picture.shown_millis);
        }
        Ok(())
    }

    /// A clip, and what can be said about every clip.
    pub(crate) async fn cut(&self, truth: &Truth, start: u32, end: u32, fps: Option<Rate>) -> Result<(Clip, Watched)> {
        let spec =
            ClipSpec { start: at(start), end: at(end), fps, max_dim: Some(768), max_size_bytes: None, crf: Some(20) };
        let clip = self.media.clip(&self.source(truth.name), &spec, &self.stop).await?;
        ensure!(
            clip.width.is_multiple_of(2) && clip.height.is_multiple_of(2),
            "odd size {}x{}",
            clip.width,
            clip.height
        );
        let before = f64::from(start) + truth.tolerance_millis < truth.time(truth.codes[0]);
        ensure!(clip.clamped == (end > truth.end + 5 || before), "{start}-{end}: clamped {}", clip.clamped);
        let watched = watch(&clip)?;
        ensure!(watched.video == ["yuv420p", "tv", "bt709", "bt709", "bt709"], "{:?}", watched.video);
        Ok((clip, watched))
    }
}
