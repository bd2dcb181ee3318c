//! The crate as its callers meet it, on real files and with the real ffmpeg.
//!
//! Every picture of every test file carries its own time (see `pattern`), so that a frame or a clip is judged by what it shows and not by
//! what somebody claims about it. The files are made by each test anew, in a folder that goes with it.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "times, sizes and samples of a test film are small"
)]

mod film;
mod hostile;
mod judge;
mod kinds;
mod large;
mod limits;
mod objects;
mod pattern;
mod sources;
mod stills;
mod sub;
mod thinned;
mod tiles;
mod tiles_bucket;
mod turns;
mod youtube;
