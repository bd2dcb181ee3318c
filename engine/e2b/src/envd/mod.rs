//! The agent in a sandbox: commands and files.

mod agent;
mod command;
mod commands;
mod diagnosis;
mod files;
mod output;
mod process;
mod stream;
mod transfer;
mod utf8;
mod watch;

pub(crate) use agent::{Envd, Health};
pub use command::Command;
pub use commands::Commands;
pub use files::Files;
pub use output::{Capture, Captured, Exit, Output};
pub use process::{Process, ProcessOutput, Stdin};
pub use transfer::FileDownload;
pub use utf8::Utf8Decoder;
pub use watch::{Watch, WatchOptions};
