//! Every ffmpeg, ffprobe and yt-dlp call of Ambient, with exact time.
//!
//! This crate knows files, objects, pictures and time. It knows no session and no model.
//!
//! What it promises:
//!
//! - **Time is exact.** A frame at `t` is the picture on screen at `t`; a clip begins with the first picture at or after its start and holds the
//!   pictures before its end; every answer says what was really delivered. See [`MediaTime`].
//! - **Files are judged by content.** A container is recognised by its first bytes and opened with that one demuxer, under a list of
//!   protocols that reaches plain files only, so no playlist can name another file or host.
//! - **Children are bounded** in time, processor, memory, output and number, and their whole process group ends with the request.
//! - **A failed call leaves nothing.** A successful one hands over files of unique names in the work folder.
//! - **Tiles do no harm.** A clip is put together from tiles where they are of the same bytes and fit the request; else it is cut from the source.
//!
//! The flow of a call: [`Source`] → content check → facts of the file (remembered) → index of time stamps → arguments (pure) → one child →
//! check that the asked pictures came → answer.

mod annotate;
mod args;
mod clip;
mod config;
mod container;
mod error;
mod exec;
mod facts;
mod frames;
mod header;
mod image_file;
mod index;
mod limits;
mod look;
mod media;
mod mp4;
pub mod objects;
mod probe;
mod queue;
mod remote;
mod slots;
mod source;
mod spans;
pub mod sub;
mod thin;
mod tiles;
mod time;
mod workspace;
mod youtube;

pub use annotate::{AnnotateSpec, Annotated, DrawnJpeg, DrawnMark, Grid, Mark, PixelBox, Shape, draw_on_jpeg};
pub use clip::{Clip, ClipSpec, DEFAULT_CRF};
pub use config::MediaConfig;
pub use error::MediaError;
pub use frames::{Frame, Frames, FramesSpec, MOST_FRAMES, Pick};
pub use image_file::{ImageSpec, Picture};
pub use media::Media;
pub use probe::{Acceptance, AudioTrack, Probe, Rate, Refusal, Size, StreamInfo, Versions, VideoTrack};
pub use remote::BucketReading;
pub use source::{LocalVideo, Source};
pub use tiles::{
    BucketTiles, FolderTiles, Tile, TileError, TileManifest, TileSource, TileStore, TilesDone, TilesSpec, WantedTile,
};
pub use time::{BadTime, MediaTime};
pub use youtube::{
    Downloaded, Extraction, Youtube, YoutubeConfig, YoutubeError, YoutubeInfo, YoutubePhase, YoutubeProgress,
    YoutubeVideo, youtube_video,
};
