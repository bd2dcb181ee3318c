//! A client for E2B: sandboxes, the commands and files in them, and the templates they are made of.
//!
//! E2B serves sandboxes over two planes: a REST *control plane* that makes, lists and ends them, and a *data plane* for each sandbox, spoken by an
//! agent inside it (*envd*): Connect RPC with JSON messages for commands and files, plain HTTP for file contents.
//!
//! ```no_run
//! # async fn example() -> Result<(), ambient_e2b::Error> {
//! use ambient_e2b::{Client, Command, Config, NewSandbox};
//!
//! let settings = [("E2B_API_KEY", "e2b_0000")];
//! let config = Config::from_lookup(|name| settings.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))?;
//! let client = Client::new(config)?;
//! let sandbox = client.create(&NewSandbox::new("base")).await?;
//! let output = sandbox.commands().run(&Command::shell("uname -a")).await?;
//! assert!(output.is_success());
//! sandbox.kill().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What it promises:
//!
//! - **Nothing behind one's back.** The crate reads no environment and starts no task that outlives a call. Settings come through [`Config::from_lookup`].
//! - **Nothing waits for ever.** Every call has a limit; every command and watch has a deadline that is sent along; a stream that falls silent is probed.
//! - **Nothing is done twice.** A call is repeated only if doing it twice is the same as doing it once, or if the server said that it did not do it. A create
//!   whose answer got lost is looked for, never repeated.
//! - **Dropping is leaving.** A dropped future or stream closes its connection; commands and sandboxes end when they are told to, or at their time.
//! - **Errors say what to do.** See [`Error::kind`].
//!
//! [`protocol`] holds what travels, for servers too.

mod api_error;
mod client;
mod config;
mod create;
mod envd;
mod error;
mod list;
mod new_sandbox;
mod observe;
pub mod protocol;
mod retry;
mod sandbox;
mod template;
mod templates;
mod transport;
mod version;

pub use client::Client;
pub use config::{BadConfig, Config};
pub use envd::{
    Capture, Captured, Command, Commands, Exit, FileDownload, Files, Output, Process, ProcessOutput, Stdin,
    Utf8Decoder, Watch, WatchOptions,
};
pub use error::{Error, ErrorKind};
pub use list::{ListFilter, SandboxPages};
pub use new_sandbox::NewSandbox;
pub use observe::LogQuery;
pub use retry::RetryPolicy;
pub use sandbox::Sandbox;
pub use template::{BuildOptions, BuiltTemplate, StartedBuild, Template};
pub use templates::Templates;
