//! Log lines of sandboxes and builds.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::null_as_default;

/// How grave a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// The course of things.
    Info,
    /// Something that may be wrong.
    Warn,
    /// Something that is.
    Error,
}

impl LogLevel {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// Which way pages of logs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogDirection {
    /// From old to new.
    Forward,
    /// From new to old.
    Backward,
}

impl LogDirection {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
        }
    }
}

/// One line without structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When it was written.
    pub timestamp: Timestamp,
    /// The text.
    pub line: String,
}

/// One line with structure, of a sandbox or of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When it was written.
    pub timestamp: Timestamp,
    /// The text.
    pub message: String,
    /// How grave it is.
    pub level: LogLevel,
    /// What else is known, of sandboxes. Written even when empty: E2B's SDK requires it.
    #[serde(default, deserialize_with = "null_as_default")]
    pub fields: BTreeMap<String, String>,
    /// The step, of builds: `base`, `finalize`, or the number from 1 as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

/// `GET /sandboxes/{id}/logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxLogs {
    /// Lines of old.
    #[serde(default, deserialize_with = "null_as_default")]
    pub logs: Vec<LogLine>,
    /// The same with structure.
    #[serde(default, deserialize_with = "null_as_default")]
    pub log_entries: Vec<LogEntry>,
}

/// `GET /v2/sandboxes/{id}/logs`, and `GET /templates/{id}/builds/{build}/logs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxLogsPage {
    /// The entries of this page.
    #[serde(default, deserialize_with = "null_as_default")]
    pub logs: Vec<LogEntry>,
}
