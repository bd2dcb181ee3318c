//! The control plane's error body, which envd's plain HTTP routes share.

use serde::{Deserialize, Serialize};

/// Body of every error answer outside RPC. `code` repeats the status. E2B's Python SDK reads `code` and `message` without asking whether they are there,
/// so a server writes both, whatever the error was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The HTTP status once more.
    pub code: i32,
    /// What happened, in words.
    pub message: String,
    /// A finer name of some errors, such as `sandbox_capacity_unavailable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The sandbox that a data-plane error speaks of.
    #[serde(rename = "sandboxId", default, skip_serializing_if = "Option::is_none")]
    pub sandbox_id: Option<String>,
    /// The port that a data-plane error speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl ErrorBody {
    /// The body for this status and message.
    pub fn new(status: u16, message: impl Into<String>) -> Self {
        Self { code: i32::from(status), message: message.into(), error_code: None, sandbox_id: None, port: None }
    }
}
