//! Control groups of sandboxes: what they may take, what they took, and their freezing.
//!
//! A group in the unified hierarchy freezes even where the controllers are in old hierarchies of their own, which then get a group each.
//! Where none can be had, the agent limits each process, and pausing stops processes one by one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use camino::Utf8Path;
use sha2::{Digest as _, Sha256};

use crate::driver::{Limits, PROCESSES, Usage};

/// The scheduler's period in microseconds, of which a group gets its share.
const PERIOD: u64 = 100_000;

/// How often a group that is to go or to freeze is looked at.
const PATIENCE: Duration = Duration::from_millis(2);

/// How long freezing and thawing may take. A process that waits for a disk stops no sooner than the disk answers.
const FREEZE: Duration = Duration::from_secs(10);

/// The folders that groups are made in.
#[derive(Debug, Default)]
pub(crate) struct ControlGroups {
    unified: Option<PathBuf>,
    /// Controllers that groups in `unified` have.
    unified_controllers: String,
    memory: Option<PathBuf>,
    pids: Option<PathBuf>,
    cpu: Option<PathBuf>,
    cpuacct: Option<PathBuf>,
}

impl ControlGroups {
    /// Finds what this machine has and makes this host's folder in each, named after its data folder.
    pub(crate) fn find(data: &Utf8Path) -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let digest = Sha256::digest(data.as_str());
        let name = format!("ambient-sandboxd-{:02x}{:02x}{:02x}{:02x}", digest[0], digest[1], digest[2], digest[3]);
        let mut found = Self::default();
        for mount in mounts.lines().filter_map(Mount::parse) {
            let folder = mount.folder.join(&name);
            match mount.kind {
                "cgroup2" if found.unified.is_none() => {
                    // Each by itself: one that is taken by an old hierarchy must not keep the others away.
                    let switch_on = |parent: &Path| {
                        for controller in ["+cpu", "+memory", "+pids"] {
                            let _not_there = fs::write(parent.join("cgroup.subtree_control"), controller);
                        }
                    };
                    switch_on(&mount.folder);
                    if make(&folder).is_ok() {
                        switch_on(&folder);
                        let on = fs::read_to_string(folder.join("cgroup.subtree_control"));
                        found.unified_controllers = on.unwrap_or_default();
                        found.unified = Some(folder);
                    }
                }
                "cgroup" => {
                    for (controller, place) in [
                        ("memory", &mut found.memory),
                        ("pids", &mut found.pids),
                        ("cpu", &mut found.cpu),
                        ("cpuacct", &mut found.cpuacct),
                    ] {
                        if mount.options.split(',').any(|option| option == controller) && make(&folder).is_ok() {
                            *place = Some(folder.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn has(&self, controller: &str) -> bool {
        self.unified_controllers.split_whitespace().any(|name| name == controller)
    }

    /// Whether a whole sandbox's memory can be limited.
    pub(crate) fn limits_memory(&self) -> bool {
        self.has("memory") || self.memory.is_some()
    }

    /// Whether a sandbox can be frozen at once.
    pub(crate) fn freezes(&self) -> bool {
        self.unified.is_some()
    }

    /// Makes the groups of a sandbox. One that a host left behind is taken over.
    pub(crate) fn make(&self, id: &str, limits: Limits) -> io::Result<Group> {
        let mut group = Group::default();
        let quota = PERIOD * u64::from(limits.cpu_count.max(1));
        if let Some(parent) = &self.unified {
            let folder = parent.join(id);
            make(&folder)?;
            if self.has("memory") {
                fs::write(folder.join("memory.max"), limits.memory_bytes().to_string())?;
            }
            if self.has("pids") {
                fs::write(folder.join("pids.max"), PROCESSES.to_string())?;
            }
            if self.has("cpu") {
                fs::write(folder.join("cpu.max"), format!("{quota} {PERIOD}"))?;
            }
            group.unified = Some(folder.clone());
            group.folders.push(folder);
        }
        if let Some(parent) = &self.memory {
            let folder = group.add(parent, id)?;
            fs::write(folder.join("memory.limit_in_bytes"), limits.memory_bytes().to_string())?;
            group.memory = Some(folder);
        }
        if let Some(parent) = &self.pids {
            let folder = group.add(parent, id)?;
            fs::write(folder.join("pids.max"), PROCESSES.to_string())?;
        }
        if let Some(parent) = &self.cpu {
            let folder = group.add(parent, id)?;
            fs::write(folder.join("cpu.cfs_period_us"), PERIOD.to_string())?;
            fs::write(folder.join("cpu.cfs_quota_us"), quota.to_string())?;
        }
        Ok(group)
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.unified, &self.memory, &self.pids, &self.cpu, &self.cpuacct].into_iter().flatten()
    }

    /// Removes the groups of sandboxes that are no more.
    pub(crate) fn clear(&self) {
        for folder in self.folders() {
            if let Ok(groups) = fs::read_dir(folder) {
                for group in groups.flatten() {
                    let _is_a_file_or_in_use = fs::remove_dir(group.path());
                }
            }
        }
    }

    /// Removes everything that this host made.
    pub(crate) fn remove(&self) {
        self.clear();
        for folder in self.folders() {
            let _in_use = fs::remove_dir(folder);
        }
    }
}

fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// A line of `mountinfo`, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
struct Mount<'a> {
    folder: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let folder = before.split(' ').nth(4)?;
        let mut after = after.split(' ');
        let kind = after.next()?;
        let options = after.nth(1)?;
        Some(Self { folder: PathBuf::from(folder.replace("\\040", " ")), kind, options })
    }
}

/// The groups of one sandbox, one in each hierarchy.
#[derive(Debug, Default)]
pub(crate) struct Group {
    folders: Vec<PathBuf>,
    unified: Option<PathBuf>,
    memory: Option<PathBuf>,
}

impl Group {
    fn add(&mut self, parent: &Path, id: &str) -> io::Result<PathBuf> {
        let folder = parent.join(id);
        make(&folder)?;
        if !self.folders.contains(&folder) {
            self.folders.push(folder.clone());
        }
        Ok(folder)
    }

    /// The files that move a process into the groups.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// Freezes or thaws, and waits until that is so, but not for ever: nobody else changes the sandbox meanwhile, not even to end it.
    /// `false`: there is no group that could.
    pub(crate) async fn freeze(&self, frozen: bool) -> io::Result<bool> {
        let Some(folder) = &self.unified else { return Ok(false) };
        let wanted = if frozen { "1" } else { "0" };
        fs::write(folder.join("cgroup.freeze"), wanted)?;
        settle(&folder.join("cgroup.events"), &format!("frozen {wanted}"), FREEZE).await?;
        Ok(true)
    }

    pub(crate) fn usage(&self) -> Usage {
        let number = |path: PathBuf| fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let line = |path: PathBuf, name: &str| -> Option<u64> {
            let text = fs::read_to_string(path).ok()?;
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        let mut usage = Usage::default();
        if let Some(folder) = &self.unified {
            usage.cpu = Duration::from_micros(line(folder.join("cpu.stat"), "usage_usec ").unwrap_or_default());
            usage.memory_bytes = number(folder.join("memory.current")).unwrap_or_default();
            usage.cache_bytes = line(folder.join("memory.stat"), "file ").unwrap_or_default();
        }
        if let Some(folder) = &self.memory {
            usage.memory_bytes = number(folder.join("memory.usage_in_bytes")).unwrap_or_default();
            usage.cache_bytes = line(folder.join("memory.stat"), "cache ").unwrap_or_default();
        }
        usage
    }

    /// Removes the groups once the last process is gone.
    pub(crate) async fn remove(&self) {
        for folder in &self.folders {
            for _attempt in 0..500 {
                match fs::remove_dir(folder) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => tokio::time::sleep(PATIENCE).await,
                    Ok(()) => break,
                    Err(error) => {
                        tracing::debug!(%error, folder = %folder.display(), "a control group stays");
                        break;
                    }
                }
            }
        }
    }
}

/// Waits until this is a line of a file of the kernel's.
async fn settle(file: &Path, wanted: &str, patience: Duration) -> io::Result<()> {
    let settled = async {
        while !fs::read_to_string(file)?.lines().any(|line| line == wanted) {
            tokio::time::sleep(PATIENCE).await;
        }
        Ok(())
    };
    tokio::time::timeout(patience, settled).await.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::time::Duration;

    use super::{Mount, settle};

    #[tokio::test]
    async fn a_group_that_does_not_freeze_is_not_waited_for_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("cgroup.events");
        fs::write(&events, "populated 1\nfrozen 0\n").unwrap();
        let waited = settle(&events, "frozen 1", Duration::from_millis(50)).await;
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::TimedOut);
        settle(&events, "frozen 0", Duration::from_millis(50)).await.unwrap();
    }

    #[test]
    fn lines_of_mountinfo_are_read() {
        let line = "42 30 0:37 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory";
        let mount = Mount::parse(line).unwrap();
        assert_eq!((mount.kind, mount.options), ("cgroup", "rw,memory"));
        assert_eq!(mount.folder.to_str(), Some("/sys/fs/cgroup/memory"));
        assert_eq!(Mount::parse("broken"), None);
    }
}
