//! MP4 files taken apart and put together in this process, without decoding and without a child.
//!
//! Clips out of tiles are made of packets that stand in files of ours already, so all there is to do is to copy them and to write an index in front. That
//! takes milliseconds; starting ffmpeg for it takes longer than the work.
//!
//! Only what our own files hold is read whole: one run of samples a track, an index in one piece, no fragments. Of a stranger's file no more is read than
//! how its pictures are described.

mod look;
mod read;
mod write;

pub(crate) use look::{Look, look_of};
pub(crate) use read::{Kind, Sample, Track, read};
pub(crate) use write::{Edit, MOVIE_SCALE, Piece, Written, write};

/// A file that is no MP4 of ours, in words.
#[derive(Debug, thiserror::Error)]
#[error("the MP4 index {0}")]
pub(crate) struct BadIndex(pub(crate) &'static str);
