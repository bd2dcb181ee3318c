//! The commands `ambientctl media …`: the same operations as the library, for a sandbox and for a person at a terminal.
//!
//! Standard output carries one line and nothing else: the [`Envelope`]. Logs go to standard error. The caller in `src/main.rs` prints the envelope
//! and ends with 0 or 1 by [`Envelope::is_ok`].

mod annotate_frame;
mod envelope;
mod extract_frames;
mod fetch_clip;
mod probe;
mod read_image;
mod target;

use camino::Utf8PathBuf;
use clap::Subcommand;
use tokio_util::sync::CancellationToken;

pub use self::envelope::Envelope;

use self::envelope::Failure;
use crate::config::MediaConfig;

/// The words after `ambientctl media`.
#[derive(Debug, Subcommand)]
pub enum MediaCommand {
    /// Tells what a video holds and whether it would be accepted.
    Probe(probe::Args),
    /// Writes pictures of a window as JPEG files.
    ExtractFrames(extract_frames::Args),
    /// Cuts a window as an MP4 of its own.
    FetchClip(fetch_clip::Args),
    /// Draws boxes and points with labels on one picture.
    AnnotateFrame(annotate_frame::Args),
    /// Reads a still picture and fits it.
    ReadImage(read_image::Args),
}

/// Where the commands find videos and put their outputs.
#[derive(Clone, Debug)]
pub struct Places {
    /// `VIDEO_FOLDER`: videos by their id, and below them what is made of them.
    pub video_folder: Utf8PathBuf,
    /// Where outputs go that belong to no video of that folder.
    pub temporary_folder: Utf8PathBuf,
}

impl MediaCommand {
    /// Runs one command. `config` gives programs and limits; its work folder is replaced by the place where the output belongs.
    pub async fn run(self, config: MediaConfig, places: &Places, stop: &CancellationToken) -> Envelope {
        let answer: Result<serde_json::Value, Failure> = match self {
            Self::Probe(args) => probe::run(args, config, places, stop).await,
            Self::ExtractFrames(args) => extract_frames::run(args, config, places, stop).await,
            Self::FetchClip(args) => fetch_clip::run(args, config, places, stop).await,
            Self::AnnotateFrame(args) => annotate_frame::run(args, config, places, stop).await,
            Self::ReadImage(args) => read_image::run(args, config, places, stop).await,
        };
        Envelope::of(answer)
    }
}
