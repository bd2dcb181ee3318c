//! What the control plane tells about a sandbox.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::json::null_as_default;
use super::{Network, Token};

/// Whether a sandbox runs. A killed one is not listed at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// It runs, and its end is ahead.
    Running,
    /// It is frozen or its disk is kept; connect wakes it.
    Paused,
}

impl SandboxState {
    /// The word on the wire, in bodies and in the list's query.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
        }
    }
}

/// What happens at a sandbox's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// It is gone.
    Kill,
    /// It is paused.
    Pause,
}

/// What a pause keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PauseMode {
    /// Disk, memory and processes.
    Full,
    /// The disk.
    Filesystem,
}

/// Whether traffic wakes a paused sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutoResume {
    /// Whether it does.
    pub enabled: bool,
}

/// How a sandbox ends and comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lifecycle {
    /// Whether traffic wakes it.
    pub auto_resume: bool,
    /// What its timeout does.
    pub on_timeout: OnTimeout,
}

/// A volume and where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeMount {
    /// Name of the volume.
    pub name: String,
    /// Absolute path in the sandbox.
    pub path: String,
}

/// `GET /sandboxes/{id}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxDetail {
    /// The template's real id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Of old; any text.
    #[serde(rename = "clientID", default)]
    pub client_id: String,
    /// When it was made, or last woken.
    pub started_at: Timestamp,
    /// When it will end, or when it was paused.
    pub end_at: Timestamp,
    /// Version of the agent.
    pub envd_version: String,
    /// Processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB", default)]
    pub disk_size_mb: u64,
    /// Whether it runs.
    pub state: SandboxState,
    /// Name of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Token of the data plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<Token>,
    /// Whether it may reach the internet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Domain of its data plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The caller's words about it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Its network rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// How it ends and comes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
    /// Its volumes.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// What its pause kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_mode: Option<PauseMode>,
    /// Whether the agent did not answer when it was paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_unresponsive_at_pause: Option<bool>,
}

/// One entry of `GET /v2/sandboxes`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedSandbox {
    /// The template's real id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Of old; any text.
    #[serde(rename = "clientID", default)]
    pub client_id: String,
    /// When it was made, or last woken. The pages of a list compare it to the microsecond.
    pub started_at: Timestamp,
    /// When it will end, or when it was paused.
    pub end_at: Timestamp,
    /// Version of the agent.
    pub envd_version: String,
    /// Processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u64,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB", default)]
    pub disk_size_mb: u64,
    /// Whether it runs.
    pub state: SandboxState,
    /// Name of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// The caller's words about it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Its volumes.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
}

#[cfg(test)]
mod tests {
    use super::{ListedSandbox, SandboxState};

    #[test]
    fn times_keep_their_microseconds() {
        let text = r#"{"templateID":"t","sandboxID":"i1","clientID":"c","startedAt":"2026-08-22T10:00:00.123456Z","endAt":"2026-08-22T10:05:00Z","envdVersion":"0.6.13","cpuCount":2,"memoryMB":512,"diskSizeMB":1024,"state":"paused"}"#;
        let listed: ListedSandbox = serde_json::from_str(text).unwrap();
        assert_eq!(listed.state, SandboxState::Paused);
        assert_eq!(serde_json::to_string(&listed).unwrap(), text);
    }
}
