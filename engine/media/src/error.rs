//! What can go wrong with media, each case with the facts that its reader needs.

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8PathBuf;

use crate::objects::{ObjectError, ObjectKey};
use crate::probe::Refusal;
use crate::tiles::TileError;
use crate::time::MediaTime;

/// Why a media operation gave nothing. A failed operation leaves no file behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The program is missing or may not be run.
    #[error("could not start `{program}`")]
    Start {
        /// What was to be started.
        program: Utf8PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The program ran and failed.
    #[error("`{program}` ended with {status}: {stderr_tail}")]
    Exit {
        /// Which program.
        program: Utf8PathBuf,
        /// Its exit code or signal.
        status: ExitStatus,
        /// The end of what it wrote to standard error.
        stderr_tail: String,
    },
    /// The program took longer than it may; its whole process group was killed.
    #[error("`{program}` took longer than {limit:?} and was ended")]
    TimedOut {
        /// Which program.
        program: Utf8PathBuf,
        /// The limit that it passed.
        limit: Duration,
    },
    /// The program printed more than its answer can be.
    #[error("`{program}` printed more than {limit_bytes} bytes")]
    TooMuchOutput {
        /// Which program.
        program: Utf8PathBuf,
        /// The limit that it passed.
        limit_bytes: usize,
    },
    /// The program printed something that cannot be read.
    #[error("could not read the answer of `{program}`: {reason}")]
    BadAnswer {
        /// Which program.
        program: Utf8PathBuf,
        /// What was wrong with the answer.
        reason: String,
    },
    /// The caller's stop token fired; whatever ran was killed.
    #[error("the media operation was cancelled")]
    Cancelled,
    /// The file is not one that we work with.
    #[error("`{path}` was refused: {refusal}")]
    Refused {
        /// The file.
        path: Utf8PathBuf,
        /// Why, and what helps.
        refusal: Refusal,
    },
    /// The asked time lies after the last picture.
    #[error("`{asked}` s is past the last picture, which ends at {end} s")]
    PastEnd {
        /// The asked time.
        asked: MediaTime,
        /// Where the pictures end.
        end: MediaTime,
    },
    /// The asked window lies before the first picture.
    #[error("there is no picture before {first} s, and the window ends at `{asked}` s")]
    BeforeFirst {
        /// The end of the asked window.
        asked: MediaTime,
        /// When the first picture comes.
        first: MediaTime,
    },
    /// The file ends early, and the asked time lies in what is missing.
    #[error(
        "the file is cut off: it promises {promised} s and its pictures end at {readable} s, before the asked `{asked}` s"
    )]
    CutOff {
        /// The asked time.
        asked: MediaTime,
        /// Where the readable pictures end.
        readable: MediaTime,
        /// The length that the file's header claims.
        promised: MediaTime,
    },
    /// The pictures at the asked time are there but cannot be decoded.
    #[error("no picture could be decoded at {at} s: {stderr_tail}")]
    Undecodable {
        /// The asked time.
        at: MediaTime,
        /// What ffmpeg said about it.
        stderr_tail: String,
    },
    /// The request makes no sense, whatever the file.
    #[error("{0}")]
    BadRequest(String),
    /// Even the smallest rendering is larger than the caller takes.
    #[error("the clip would be {size_bytes} bytes, over the limit of {limit_bytes} bytes: ask for a shorter window")]
    TooLarge {
        /// The size of the smallest rendering that was tried.
        size_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// A file could not be read or written; the source names it.
    #[error("could not {action}")]
    File {
        /// What was attempted, such as "open the source".
        action: &'static str,
        /// The system's reason, with the path.
        #[source]
        source: io::Error,
    },
    /// The bucket did not give the video, or would not take what was made.
    #[error("the bucket failed")]
    Bucket(#[source] Arc<ObjectError>),
    /// The store of tiles failed.
    #[error("the tiles could not be used")]
    Tiles(#[from] TileError),
    /// A source names an object, and there is no bucket.
    #[error("`{key}` lies in a bucket and none is set: set `S3_BUCKET`")]
    NoBucket {
        /// The object.
        key: ObjectKey,
    },
    /// A video that has to be downloaded does not fit beside those that are in use.
    #[error(
        "the video has {needed_bytes} bytes, and `MEDIA_CACHE_MAX_BYTES` leaves no room for it ({limit_bytes} bytes in all)"
    )]
    NoRoom {
        /// The size of the video.
        needed_bytes: u64,
        /// The budget.
        limit_bytes: u64,
    },
    /// A still picture could not be read or drawn on.
    #[error("could not read the picture `{path}`: {reason}")]
    BadPicture {
        /// Which file.
        path: Utf8PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The blocking work for a picture ended by a panic, which is a bug of ours.
    #[error("the work on a picture broke off")]
    BrokeOff,
}

impl MediaError {
    /// A short, stable word for the kind of failure, for envelopes and logs; part of the contract with scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "ProgramMissing",
            Self::Exit { .. } => "ProgramFailed",
            Self::TimedOut { .. } => "TimedOut",
            Self::TooMuchOutput { .. } | Self::BadAnswer { .. } => "BadAnswer",
            Self::Cancelled => "Cancelled",
            Self::Refused { .. } => "SourceRefused",
            Self::PastEnd { .. } => "PastEnd",
            Self::BeforeFirst { .. } => "BeforeFirstPicture",
            Self::CutOff { .. } => "SourceCutOff",
            Self::Undecodable { .. } => "Undecodable",
            Self::BadRequest(_) => "BadRequest",
            Self::TooLarge { .. } => "ClipTooLarge",
            Self::File { .. } => "FileError",
            Self::Bucket(error) => error.code(),
            Self::Tiles(error) => error.code(),
            Self::NoBucket { .. } => "S3NotConfigured",
            Self::NoRoom { .. } => "NoRoom",
            Self::BadPicture { .. } => "BadPicture",
            Self::BrokeOff => "Internal",
        }
    }

    pub(crate) fn file(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, source }
    }
}
