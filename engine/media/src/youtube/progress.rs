//! How far a download is, from yt-dlp's own lines.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::args::youtube::PROGRESS;

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum YoutubePhase {
    /// Bytes come.
    Downloading,
    /// Pictures and sound are put into one file.
    Merging,
}

/// How far a download is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct YoutubeProgress {
    /// What is being done.
    pub phase: YoutubePhase,
    /// Bytes that are here.
    pub done_bytes: u64,
    /// All bytes, as far as anybody knows; approximate, never less than those that are here.
    pub total_bytes: Option<u64>,
}

impl YoutubeProgress {
    /// Hundredths of the whole, from 0 to 100, where the whole is known.
    pub fn percent(&self) -> Option<u8> {
        let total = self.total_bytes.filter(|total| *total > 0)?;
        u8::try_from(u128::from(self.done_bytes) * 100 / u128::from(total)).ok().map(|percent| percent.min(100))
    }
}

/// Adds up the streams of one video, which come one after the other.
#[derive(Debug)]
pub(super) struct Counter {
    expected: Option<u64>,
    so_far: Mutex<SoFar>,
}

#[derive(Clone, Copy, Debug, Default)]
struct SoFar {
    finished_bytes: u64,
    stream_bytes: u64,
    stream_total: Option<u64>,
}

impl Counter {
    pub(super) fn new(expected: Option<u64>) -> Self {
        Self { expected, so_far: Mutex::default() }
    }

    /// Reads a line; `None` for one that tells no progress.
    pub(super) fn heard(&self, line: &str) -> Option<YoutubeProgress> {
        let mut words = line.trim().strip_prefix(PROGRESS)?.split_whitespace();
        let status = words.next()?;
        if status == "merging" {
            return Some(self.merging());
        }
        // Numbers may be estimates with a fraction, or `NA`.
        let mut bytes = || words.next()?.split('.').next()?.parse::<u64>().ok();
        let (done, total) = (bytes()?, bytes());
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.stream_total = total;
        so_far.stream_bytes = done;
        let progress = self.tell(*so_far, YoutubePhase::Downloading);
        if status == "finished" {
            *so_far = SoFar { finished_bytes: so_far.finished_bytes.saturating_add(done), ..SoFar::default() };
        }
        Some(progress)
    }

    /// All is here.
    pub(super) fn merging(&self) -> YoutubeProgress {
        self.tell(*self.so_far.lock().unwrap_or_else(PoisonError::into_inner), YoutubePhase::Merging)
    }

    fn tell(&self, so_far: SoFar, phase: YoutubePhase) -> YoutubeProgress {
        let done_bytes = so_far.finished_bytes.saturating_add(so_far.stream_bytes);
        let total = self.expected.or(so_far.stream_total.map(|total| so_far.finished_bytes.saturating_add(total)));
        YoutubeProgress { phase, done_bytes, total_bytes: total.map(|total| total.max(done_bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_streams_of_a_video_add_up() {
        let counter = Counter::new(Some(300));
        let lines = [
            "[download] Destination: source.f136.mp4",
            "ambient-progress downloading 50 200",
            "ambient-progress finished 200 200",
            "ambient-progress downloading 50 100.0",
            "ambient-progress finished 100 NA",
            "ambient-progress merging",
            "ambient-progress downloading NA NA",
        ];
        let told: Vec<_> = lines.iter().filter_map(|line| counter.heard(line)).collect();
        let percents: Vec<_> = told.iter().map(|progress| progress.percent().unwrap()).collect();
        assert_eq!(percents, [16, 66, 83, 100, 100]);
        assert_eq!(told.last().unwrap().phase, YoutubePhase::Merging);
    }

    #[test]
    fn without_any_total_bytes_are_counted_alone() {
        let counter = Counter::new(None);
        let progress = counter.heard("ambient-progress downloading 1234 NA").unwrap();
        assert_eq!((progress.done_bytes, progress.total_bytes, progress.percent()), (1234, None, None));
    }

    #[test]
    fn more_than_was_expected_is_still_no_more_than_all() {
        let counter = Counter::new(Some(10));
        assert_eq!(counter.heard("ambient-progress downloading 40 NA").unwrap().percent(), Some(100));
    }
}
