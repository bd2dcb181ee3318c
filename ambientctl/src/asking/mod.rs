//! `ambientctl ask` and `ambientctl chat`: questions about a video, from the words of the command line to the answer on
//! the screen.
//!
//! The engine that answers is somebody else's business: these commands get an [`EngineClient`] and speak HTTP with it, as
//! every client does. What can be wrong with the words (no such file, no schema) is found before there is an engine:
//! [`Question::prepare`] and [`Conversation::prepare`]. Answers go to stdout, everything on the way to stderr.
//!
//! [`EngineClient`]: crate::engine_client::EngineClient

mod args;
mod ask;
mod chat;
mod error;
mod lines;
mod markdown;
mod opening;
mod screen;
mod subtitles;
mod turn;
mod video;

pub use args::{AnswerArgs, AskArgs, ChatArgs};
pub use ask::{Question, ask};
pub use chat::{Conversation, chat};
pub use error::AskError;
pub(crate) use screen::{call_text, shortened};
pub use turn::{Outcome, ToolCall, Turn, Usage, Watch, turn};
pub use video::Video;
