//! What a sandbox uses.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One sample of `GET /sandboxes/{id}/metrics`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxMetric {
    /// When it was taken.
    pub timestamp: Timestamp,
    /// The same in whole seconds since 1970.
    #[serde(default)]
    pub timestamp_unix: i64,
    /// Processors.
    pub cpu_count: u32,
    /// Use of the processors in percent.
    pub cpu_used_pct: f64,
    /// Memory in use, in bytes.
    pub mem_used: u64,
    /// Memory in all, in bytes.
    pub mem_total: u64,
    /// Memory that caches hold, in bytes.
    #[serde(default)]
    pub mem_cache: u64,
    /// Disk in use, in bytes.
    #[serde(default)]
    pub disk_used: u64,
    /// Disk in all, in bytes.
    #[serde(default)]
    pub disk_total: u64,
}

/// `GET /sandboxes/metrics?sandbox_ids=a,b`: the last sample of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ManySandboxMetrics {
    /// By sandbox id.
    #[serde(default)]
    pub sandboxes: BTreeMap<String, SandboxMetric>,
}
