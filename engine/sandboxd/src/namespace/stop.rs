//! Stopping all processes of a sandbox one by one, where no control group can freeze them at once.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends the signal to every process of the process namespace that this process is in, until no new one turns up: one that was about to
/// start another has done so by then.
pub(super) fn signal_all(member: i32, signal: Signal) {
    let Some(namespace) = namespace_of(member) else { return };
    let mut met = BTreeSet::new();
    loop {
        let before = met.len();
        for process in processes().filter(|process| namespace_of(*process).as_ref() == Some(&namespace)) {
            if met.insert(process) {
                let _may_be_gone = kill(Pid::from_raw(process), signal);
            }
        }
        if met.len() == before {
            return;
        }
    }
}

fn namespace_of(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// When a process was started, in the kernel's ticks: with its number it names one process for ever.
pub(super) fn started(process: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in the second field may hold anything, spaces and brackets too.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{namespace_of, processes, started};

    #[test]
    fn this_process_is_found() {
        let me = i32::try_from(std::process::id()).unwrap();
        assert!(processes().any(|process| process == me));
        assert!(namespace_of(me).is_some());
        assert!(started(me).is_some_and(|ticks| ticks > 0));
    }
}
