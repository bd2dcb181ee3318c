//! Tiles: a video cut beforehand into short clips, from which a clip is put together without decoding the source.
//!
//! A tile holds the pictures of one stretch of the source's time, sampled on one grid for the whole video (step `n` is the moment `n / fps`, and its
//! picture is the one on screen then), and the sound of that stretch on a grid of its own. Since the grids do not begin anew with each tile, what is
//! put together from several has no step at their borders, in picture or in sound.
//!
//! What it promises:
//!
//! - **Exact time.** A clip from tiles holds the steps of its window and no other; it says when the first one is.
//! - **No decoding** where the window begins with a key frame of a tile, which is every two seconds; else the few pictures up to the next key frame are
//!   encoded anew, and nothing else.
//! - **Resumable.** Each tile is stored when it is made and the manifest last, so whoever comes after a crash makes what is missing.
//! - **Never a stranger's tiles.** The manifest says which bytes it was made from, by hash and size, and with which settings; a tile of another size
//!   than it says is not used.

mod bucket;
mod folder;
mod grid;
mod join;
mod make;
mod manifest;
mod plan;
mod select;
mod serve;
mod source_hash;
mod store;
mod tile;

pub use bucket::BucketTiles;
pub use folder::FolderTiles;
pub use make::{TilesDone, TilesSpec};
pub use manifest::{Tile, TileManifest, TileSource};
pub use store::{TileError, TileStore, WantedTile};
