//! Which processes belong to which shell command, and their end.
//!
//! A process group is easily left (`setsid`), a parent is lost when it ends, and an environment can be emptied. What every
//! descendant keeps is its resource limits, so each command gets a number of its own as `RLIMIT_LOCKS`: a limit that the
//! kernel has not enforced since Linux 2.4, that is inherited through fork and exec, and that `/proc/PID/limits` shows for
//! running processes and zombies alike. Only a process that sets out to hide can lose it. Where there is no `/proc`, the
//! process group is all there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};

use crate::ids::SessionId;

/// Bits of a tag that tell the commands of one session apart.
const COMMAND_BITS: u32 = 20;
/// Bits of a tag that come from the session's id.
const SESSION_BITS: u32 = 42;
/// The two upper bits of every tag. No limit that anybody else sets has them: it is small, or one of the two numbers that
/// stand for "none" (all bits, or all but the first).
const MARK: u64 = 0b10 << (COMMAND_BITS + SESSION_BITS);

/// How often newly forked processes are looked for before what is found is killed. Each pass stops all it finds, so only
/// a process that forks between two reads of a folder survives a pass.
const STOP_PASSES: usize = 50;
/// How long a stranger's zombie may lie with us before we bury it: its parent's own wait comes within milliseconds.
const STRANGER_PATIENCE: Duration = Duration::from_secs(10);

/// The number that marks all processes of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    /// A new number for a command of this session.
    pub(crate) fn of_command(session: &SessionId) -> Self {
        let command = rand::random::<u64>() & ((1 << COMMAND_BITS) - 1);
        Self(MARK | (session_bits(session) << COMMAND_BITS) | command)
    }

    /// As a resource limit.
    pub(crate) fn as_limit(self) -> u64 {
        self.0
    }
}

/// The part of a session's id that its commands' tags carry. An id is 64 random bits, so two sessions share it never.
fn session_bits(session: &SessionId) -> u64 {
    let hex = session.as_str().trim_start_matches(SessionId::PREFIX);
    u64::from_str_radix(hex, 16).unwrap_or_default() >> (u64::BITS - SESSION_BITS)
}

/// Whose processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those that one command started.
    Command(Tag),
    /// Those that any command of a session started.
    Session(u64),
}

impl Whose {
    /// All processes of a session.
    pub(crate) fn session(session: &SessionId) -> Self {
        Self::Session(session_bits(session))
    }

    fn includes(self, limit: u64) -> bool {
        match self {
            Self::Command(tag) => limit == tag.0,
            Self::Session(bits) => is_tag(limit) && (limit & !MARK) >> COMMAND_BITS == bits,
        }
    }
}

fn is_tag(limit: u64) -> bool {
    limit >> (COMMAND_BITS + SESSION_BITS) == MARK >> (COMMAND_BITS + SESSION_BITS)
}

/// Kills every process meant, those included that left the group, the session or their parent. Blocks for some
/// milliseconds.
pub(crate) fn end(whose: Whose) {
    let mut stopped = BTreeSet::new();
    for _pass in 0..STOP_PASSES {
        let mut fresh = living(whose);
        fresh.retain(|process| stopped.insert(*process));
        if fresh.is_empty() {
            break;
        }
        for process in fresh {
            // What stands still forks no more. A process that ended meanwhile is no fault.
            let _gone = kill(process, Signal::SIGSTOP);
        }
    }
    for process in stopped {
        if let Err(error) = kill(process, Signal::SIGKILL)
            && error != Errno::ESRCH
        {
            tracing::warn!(process.id = process.as_raw(), %error, "a process of a shell command could not be ended");
        }
    }
}

/// The processes meant that have not ended.
pub(crate) fn living(whose: Whose) -> Vec<Pid> {
    all()
        .filter(|process| lock_limit(*process).is_some_and(|limit| whose.includes(limit)))
        .filter(|process| standing(*process).is_some_and(|standing| !standing.is_zombie))
        .collect()
}

/// Leaders of running commands: their ends belong to whoever waits for them.
static LEADERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// Starts a leader so that [`Reaper::pass`] never takes its end away, not even when it ends at once.
pub(crate) fn start_leader<T, E>(
    start: impl FnOnce() -> Result<T, E>,
    id: impl FnOnce(&T) -> Option<u32>,
) -> Result<T, E> {
    let mut leaders = LEADERS.lock().unwrap_or_else(PoisonError::into_inner);
    let child = start()?;
    leaders.extend(id(&child).and_then(|id| i32::try_from(id).ok()));
    Ok(child)
}

/// Says that a leader's end was taken.
pub(crate) fn forget_leader(id: Option<u32>) {
    if let Some(id) = id.and_then(|id| i32::try_from(id).ok()) {
        LEADERS.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Makes this process the parent of all orphans below it, so that it can bury them, whatever process 1 does.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
        tracing::warn!(%error, "orphans of shell commands go to process 1");
    }
}

/// Buries orphans that ended.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    strangers: BTreeMap<Pid, Instant>,
}

impl Reaper {
    /// Buries every orphan of a shell command at once, and other orphans (a media program's helper whose parent was
    /// killed) once it is clear that nobody waits for them. `true` when some are left for later.
    pub(crate) fn pass(&mut self) -> bool {
        let me = getpid();
        // Held over the whole pass: a leader that starts now is not in the list that was read.
        let leaders = LEADERS.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut strangers = BTreeMap::new();
        for process in all() {
            let is_ours = standing(process).is_some_and(|standing| standing.is_zombie && standing.parent == me);
            if !is_ours || leaders.contains(&process.as_raw()) {
                continue;
            }
            let since = self.strangers.get(&process).copied().unwrap_or(now);
            if lock_limit(process).is_some_and(is_tag) || now.duration_since(since) >= STRANGER_PATIENCE {
                let _already_buried = waitpid(process, Some(WaitPidFlag::WNOHANG));
            } else {
                strangers.insert(process, since);
            }
        }
        self.strangers = strangers;
        !self.strangers.is_empty()
    }
}

/// What `/proc/PID/stat` says of a process.
struct Standing {
    is_zombie: bool,
    parent: Pid,
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs_err::read_dir("/proc").ok();
    entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .map(Pid::from_raw)
}

fn lock_limit(process: Pid) -> Option<u64> {
    let text = fs_err::read_to_string(format!("/proc/{process}/limits")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Max file locks"))?.split_whitespace().next()?.parse().ok()
}

fn standing(process: Pid) -> Option<Standing> {
    let text = fs_err::read(format!("/proc/{process}/stat")).ok()?;
    // The name stands in parentheses and may hold any byte, parentheses too.
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&text[after_name..]).ok()?.split_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    Some(Standing { is_zombie, parent: Pid::from_raw(fields.next()?.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_a_session_are_known_by_it_and_by_no_other() {
        let (one, other) = (SessionId::generate(), SessionId::generate());
        let tag = Tag::of_command(&one);
        assert!(is_tag(tag.as_limit()));
        assert!(Whose::session(&one).includes(tag.as_limit()));
        assert!(!Whose::session(&other).includes(tag.as_limit()));
        assert!(Whose::Command(tag).includes(tag.as_limit()));
        assert!(!Whose::Command(Tag::of_command(&other)).includes(tag.as_limit()));
    }

    #[test]
    fn no_limit_of_somebody_else_is_a_tag() {
        for limit in [0, 1, 1024, u64::from(u32::MAX), u64::MAX, i64::MAX.unsigned_abs()] {
            assert!(!is_tag(limit), "{limit}");
        }
    }
}
