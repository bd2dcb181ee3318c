//! What can be wrong with a question, and what can become of it.

use std::io;
use std::path::PathBuf;

use crate::engine_client::EngineError;
use crate::output::{Exit, Failure};

/// Why a question was not answered.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The video's file is not there, or cannot be read.
    #[error("the video `{}` cannot be read", path.display())]
    NoVideo {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The video is a folder or a device.
    #[error("`{}` is no file", .0.display())]
    NoFile(PathBuf),
    /// The question says nothing.
    #[error("the question is empty")]
    NoQuestion,
    /// A file that goes with the question cannot be read.
    #[error("the {what} `{}` cannot be read", path.display())]
    BesideFile {
        /// `subtitles` or `schema`.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The subtitles are more than a model takes.
    #[error("the subtitles `{}` have {characters} characters, and at most {limit} can be sent", path.display())]
    LongSubtitles {
        /// Which file.
        path: PathBuf,
        /// How many there are.
        characters: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The schema is no JSON.
    #[error("the schema `{}` is no JSON", path.display())]
    NoJson {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The schema is JSON, but no object.
    #[error("the schema `{}` is no JSON object", .0.display())]
    NoSchema(PathBuf),
    /// The run ended without an answer.
    #[error("there is no answer: {message}")]
    Failed {
        /// The engine's words.
        message: String,
    },
    /// The model refused.
    #[error("the model refused to answer")]
    Refused,
    /// The user stopped it.
    #[error("the answer was interrupted")]
    Interrupted,
    /// The answer was to be JSON and is not.
    #[error("the answer is no JSON although a schema was given")]
    Shapeless(#[source] serde_json::Error),
    /// The engine could not be asked.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Engine(EngineError::Refused { status: 400, message, .. }) if message.contains("YouTube") => {
                Self::new(Exit::Usage, AskError::Failed { message })
                    .hint("only videos on YouTube can be named by their address; download others, and name the file")
            }
            AskError::Engine(error) => error.into(),
            AskError::NoVideo { .. } => {
                Self::new(Exit::Usage, error).hint("name a file, or the address of a video on YouTube")
            }
            AskError::NoFile(_) => Self::new(Exit::Usage, error).hint("name a file with a video in it"),
            AskError::NoQuestion => {
                Self::new(Exit::Usage, error).hint("`ambientctl ask VIDEO \"What happens, and when?\"`")
            }
            AskError::NoSchema(_) => {
                Self::new(Exit::Usage, error).hint("such as `{\"type\": \"object\", \"properties\": {…}}`")
            }
            AskError::BesideFile { .. } | AskError::LongSubtitles { .. } | AskError::NoJson { .. } => {
                Self::new(Exit::Usage, error)
            }
            AskError::Failed { .. } | AskError::Refused | AskError::Shapeless(_) => Self::new(Exit::Unhealthy, error),
            AskError::Interrupted => Self::new(Exit::Interrupted, error),
        }
    }
}
