//! What a sandbox uses, sampled while it runs.

use std::collections::VecDeque;
use std::time::Duration;

use ambient_e2b::protocol::SandboxMetric;
use camino::Utf8Path;
use jiff::Timestamp;

use crate::clock::now;
use crate::driver::{Limits, Usage};

/// How often.
pub(super) const EVERY: Duration = Duration::from_secs(5);

/// Samples that are kept: an hour of them.
const KEPT: usize = 720;

/// One look.
pub(crate) type Sample = SandboxMetric;

/// The samples of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    last: Option<(Timestamp, Usage)>,
    samples: VecDeque<Sample>,
}

impl Meter {
    /// Adds what is used now.
    pub(super) fn add(&mut self, usage: Usage, limits: Limits, disk: &Utf8Path) {
        let timestamp = now();
        let cpu_used_pct = match self.last {
            Some((before, earlier)) => percent(timestamp.duration_since(before).as_secs_f64(), usage, earlier),
            None => 0.0,
        };
        self.last = Some((timestamp, usage));
        let (disk_used, disk_total) = space(disk);
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(SandboxMetric {
            timestamp,
            timestamp_unix: timestamp.as_second(),
            cpu_count: limits.cpu_count,
            cpu_used_pct,
            mem_used: usage.memory_bytes.saturating_sub(usage.cache_bytes),
            mem_total: limits.memory_bytes(),
            mem_cache: usage.cache_bytes,
            disk_used,
            disk_total,
        });
    }

    pub(super) fn samples(&self) -> Vec<Sample> {
        self.samples.iter().cloned().collect()
    }
}

/// Of one processor, so that two busy ones are 200.
fn percent(seconds: f64, usage: Usage, earlier: Usage) -> f64 {
    let used = usage.cpu.saturating_sub(earlier.cpu).as_secs_f64();
    if seconds > 0.0 { (used / seconds * 10_000.0).round() / 100.0 } else { 0.0 }
}

/// Of the disk that sandboxes share: used and all, in bytes.
fn space(folder: &Utf8Path) -> (u64, u64) {
    match rustix::fs::statvfs(folder.as_std_path()) {
        Ok(disk) => {
            let total = disk.f_blocks * disk.f_frsize;
            (total - disk.f_bfree * disk.f_frsize, total)
        }
        Err(_unknown) => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Usage, percent};

    #[test]
    fn two_busy_processors_are_two_hundred_percent() {
        let usage = |cpu| Usage { cpu: Duration::from_secs(cpu), ..Usage::default() };
        assert!((percent(5.0, usage(11), usage(1)) - 200.0).abs() < 1e-9);
        assert!(percent(0.0, usage(11), usage(1)).abs() < 1e-9);
        assert!(percent(1.0, usage(0), usage(1)).abs() < 1e-9);
    }
}
