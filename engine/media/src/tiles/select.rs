//! The files of a clip's tiles, and which of their pictures it shows.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;

use camino::Utf8PathBuf;

use super::plan::Plan;
use crate::mp4::{self, Kind, Track};

/// A file of ours, open, with its index.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) file: File,
    pub(super) video: Track,
    pub(super) audio: Option<Track>,
}

impl Read {
    /// Blocks.
    pub(super) fn open(path: Utf8PathBuf) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut tracks = mp4::read(&mut file)?;
        let mut take = |kind| tracks.iter().position(|track| track.kind == kind).map(|place| tracks.swap_remove(place));
        let (video, audio) = (take(Kind::Video), take(Kind::Audio));
        let video = video.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "a tile without pictures"))?;
        Ok(Self { file, video, audio })
    }
}

/// The tiles of a clip, and which of their pictures it shows.
#[derive(Debug)]
pub(super) struct Selected {
    /// In the order of time. A head that was encoded anew comes last.
    pub(super) tiles: Vec<Read>,
    /// File and number of each picture, in the order of showing.
    pub(super) pictures: Vec<(usize, usize)>,
    /// How many pictures lie between the last key frame and the first picture that is shown.
    skipped: usize,
}

impl Selected {
    /// `None` if a tile holds fewer pictures than the manifest says.
    pub(super) fn of(plan: &Plan, tiles: Vec<Read>) -> Option<Self> {
        let mut pictures = Vec::new();
        for (file, (tile, read)) in plan.tiles.iter().zip(&tiles).enumerate() {
            let within = |step: u64| usize::try_from(step.saturating_sub(tile.first_step).min(tile.steps)).ok();
            let shown = within(plan.steps.start)?..within(plan.steps.end)?;
            if read.video.samples.len() < shown.end {
                return None;
            }
            pictures.extend(shown.map(|number| (file, number)));
        }
        let (first, number) = *pictures.first()?;
        let key = tiles.get(first)?.video.samples[..=number].iter().rposition(|sample| sample.is_key)?;
        Some(Self { tiles, pictures, skipped: number - key })
    }

    pub(super) const fn skipped(&self) -> usize {
        self.skipped
    }

    /// The pictures of the first tile that have to be decoded for a head, from a key frame on; `None` where the clip begins with one.
    pub(super) fn group(&self) -> Option<Range<usize>> {
        let (_file, first) = self.pictures.first().filter(|_first| self.skipped > 0)?;
        Some(first - self.skipped..first + self.headed())
    }

    /// How many pictures are shown before the first key frame.
    fn headed(&self) -> usize {
        let is_key = |&(file, number): &(usize, usize)| self.tiles[file].video.samples[number].is_key;
        self.pictures.iter().position(is_key).unwrap_or(self.pictures.len())
    }

    /// Puts pictures that were encoded anew in the place of those before the first key frame; `None` if they do not stand together with the rest.
    pub(super) fn begin_with(mut self, head: Read) -> Option<Self> {
        let headed = self.headed();
        let fits = head.video.samples.len() == headed && head.video.description == self.tiles[0].video.description;
        if !fits || !head.video.samples.first()?.is_key {
            return None;
        }
        let file = self.tiles.len();
        self.tiles.push(head);
        for (number, picture) in self.pictures.iter_mut().take(headed).enumerate() {
            *picture = (file, number);
        }
        Some(self)
    }
}
