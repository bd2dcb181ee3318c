//! What travels between an E2B client and server: bodies, messages, framing, header names.
//!
//! The types serve both sides, so all of them read and write. Reading is lenient where the protocol is: unknown fields are skipped, `null` counts as
//! absent, a field that proto3 leaves out at its default comes back as that default. Writing gives the shape that E2B's own SDKs accept, whose
//! parsers are strict: a required field is always written.
//!
//! Nothing here acts: no request is sent, no file is opened, no clock is read.

pub mod connect;
mod error_body;
pub mod filesystem;
mod frame;
pub mod header;
mod instance;
mod json;
mod list_query;
mod logs;
mod metrics;
mod name;
mod network;
pub mod process;
mod sandbox;
mod signature;
pub mod template;
mod token;

pub use error_body::ErrorBody;
pub use frame::{FRAME_HEADER_BYTES, Frame, FrameDecoder, FrameError, encode_frame};
pub use instance::{
    ConnectSandbox, CreateSandbox, PauseSandbox, RefreshSandbox, ResumeSandbox, SandboxInstance, SetTimeout,
};
pub use list_query::{BadMetadata, ListOrder, decode_metadata, encode_metadata};
pub use logs::{LogDirection, LogEntry, LogLevel, LogLine, SandboxLogs, SandboxLogsPage};
pub use metrics::{ManySandboxMetrics, SandboxMetric};
pub use name::{BadName, TemplateName};
pub use network::{EgressProxy, Network, NetworkRule, NetworkTransform};
pub use sandbox::{
    AutoResume, Lifecycle, ListedSandbox, OnTimeout, PauseMode, SandboxDetail, SandboxState, VolumeMount,
};
pub use signature::{FileOperation, file_signature};
pub use token::Token;

/// The port on which the agent of a sandbox listens.
pub const ENVD_PORT: u16 = 49983;

/// The most sandboxes that one page of a list holds.
pub const MOST_A_PAGE: u32 = 100;
