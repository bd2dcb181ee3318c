//! The crate as its callers meet it, on real files and with the real ffmpeg.
//!
//! Every picture of every test file carries its own time (see `pattern`), so that a frame or a clip is judged by what it shows and not by
//! what somebody claims about it. The files are made by each test anew, in a folder that goes with it.

mod film;
mod hostile;
mod judge;
mod kinds;
mod limits;
mod pattern;
mod stills;
