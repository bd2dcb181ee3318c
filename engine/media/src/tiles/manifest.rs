//! What is said about the tiles of a video, and which bytes they were made from.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::grid::Grid;
use super::source_hash::hex;
use super::store::WantedTile;
use crate::probe::Rate;
use crate::time::MediaTime;

/// Tiles that were made in another way have another number, and are made anew.
pub(crate) const FORMAT: u32 = 1;

/// Digits of the hash that tells one making from another.
const MAKING_BYTES: usize = 8;

/// The tiles of one video.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TileManifest {
    /// How tiles of this kind are made.
    pub format: u32,
    /// The video.
    pub video_id: String,
    /// The bytes that they were made from.
    pub source: TileSource,
    /// Pictures a second.
    pub fps: f64,
    /// The longest side was to be at most that many pixels.
    pub max_dim: u32,
    /// The quality by x264's scale.
    pub crf: u8,
    /// The length of a tile; the last one may be shorter.
    pub tile_seconds: u64,
    /// Where the pictures of the source end.
    pub duration: MediaTime,
    /// The width of each picture in pixels.
    pub width: u32,
    /// The height of each picture in pixels.
    pub height: u32,
    /// Whether the pictures are as large as those of the source.
    pub is_full_size: bool,
    /// In the order of time. A stretch of which nothing could be decoded is left out.
    pub tiles: Vec<Tile>,
}

/// Which bytes tiles were made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileSource {
    /// SHA-256 of the whole file, as 64 hex digits.
    pub sha256: String,
    /// Its size.
    pub size_bytes: u64,
}

/// One tile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tile {
    /// Its place: tile `n` covers the time from `n` times the length of a tile on.
    pub index: u64,
    /// Where it begins.
    pub start: MediaTime,
    /// Where it ends.
    pub end: MediaTime,
    /// The object or file that holds it.
    pub key: String,
    /// The size of the file.
    pub size_bytes: u64,
    /// The number of its first picture: picture `n` is the one on screen at the moment `n / fps`.
    pub first_step: u64,
    /// How many pictures it holds.
    pub steps: u64,
    /// Which frame of sound stands first in it, in frames of 1024 samples at 48 kHz from time 0 on; nothing where the video is silent.
    pub first_sound_frame: Option<i64>,
}

impl TileManifest {
    /// Whether the tiles were made from a source of that size whose SHA-256, in hex, begins with `hash_start`.
    pub fn is_of(&self, size_bytes: u64, hash_start: &str) -> bool {
        self.source.size_bytes == size_bytes && self.source.sha256.starts_with(hash_start)
    }

    /// The grid, if the manifest is one of ours.
    pub(crate) fn grid(&self) -> Option<Grid> {
        let rate = Rate::from_f64(self.fps)?;
        (self.format == FORMAT && self.tile_seconds > 0).then_some(Grid { rate, tile_seconds: self.tile_seconds })
    }

    /// Whether tiles of the other manifest can stand among those of this one. Rates are compared as fractions: a number that went through text may
    /// have lost its last digit.
    pub(crate) fn is_same_making(&self, other: &Self) -> bool {
        let plain = |manifest: &Self| Self { tiles: Vec::new(), fps: 0.0, ..manifest.clone() };
        plain(self) == plain(other) && Rate::from_f64(self.fps) == Rate::from_f64(other.fps)
    }

    /// A tile as its store is asked for it.
    pub(crate) fn wanted(&self, tile: &Tile) -> WantedTile {
        WantedTile { name: tile_name(tile.index), size_bytes: tile.size_bytes, making: self.making() }
    }

    /// Some digits that differ between sources, qualities and ways of making.
    fn making(&self) -> String {
        let Self { format, source, fps, max_dim, crf, tile_seconds, .. } = self;
        let hash = Sha256::digest(format!("{format} {} {fps:.6} {max_dim} {crf} {tile_seconds}", source.sha256));
        hex(&hash[..MAKING_BYTES])
    }
}

/// The name of a tile in its store.
pub(crate) fn tile_name(index: u64) -> String {
    format!("tile_{index:05}.mp4")
}

/// The name of the manifest in its store.
pub(crate) const MANIFEST: &str = "manifest.json";

/// The name of the manifest while tiles are being made; it tells which are there already.
pub(crate) const UNFINISHED: &str = "unfinished.json";
