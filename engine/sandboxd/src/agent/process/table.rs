//! Every process that a call started, and the ends of all children of process 1.
//!
//! Process 1 inherits whoever loses a parent, so one place waits for all children. While a process is being started, it takes the ends of those
//! alone that it knows: none is taken before its process is in the table.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ambient_e2b::protocol::process::Selector;
use nix::errno::Errno;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::attend::Process;
use super::ending::Ending;

/// How long the end of a process is told to whoever connects late.
const KEEP_ENDINGS: Duration = Duration::from_secs(30);

/// The table. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub(in crate::agent) struct Processes {
    state: Arc<Mutex<State>>,
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    running: BTreeMap<u32, Arc<Process>>,
    ended: HashMap<u32, Ending>,
    waiting: HashMap<Pid, oneshot::Sender<Ending>>,
    /// Starts that are under way.
    starting: usize,
}

/// What a selector found.
pub(super) enum Found {
    Running(Arc<Process>),
    Ended(u32, Ending),
}

/// A selector that found nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotFound {
    #[error("process with pid {0} not found")]
    Pid(u32),
    #[error("process with tag {0} not found")]
    Tag(String),
}

impl Processes {
    /// An empty table, and the task that takes the ends of children.
    pub(in crate::agent) fn new(tasks: TaskTracker) -> io::Result<Self> {
        let table = Self { state: Arc::default(), tasks };
        let mut child_ended = signal(SignalKind::child())?;
        let reaper = table.clone();
        table.tasks.spawn(async move {
            loop {
                reaper.reap();
                if child_ended.recv().await.is_none() {
                    return;
                }
            }
        });
        Ok(table)
    }

    /// Starts a process, for as long as that takes. Gives what the start gave, and the end to come.
    pub(super) fn start<T>(
        &self,
        start: impl FnOnce() -> io::Result<(u32, T)>,
    ) -> io::Result<(u32, T, oneshot::Receiver<Ending>)> {
        let _under_way = UnderWay::new(self);
        let (pid, started) = start()?;
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state();
        state.waiting.insert(Pid::from_raw(pid.cast_signed()), sender);
        state.ended.remove(&pid);
        drop(state);
        Ok((pid, started, receiver))
    }

    /// Runs a program of the agent's own need, in no list, and gives how it ended.
    pub(in crate::agent) async fn run(&self, command: &mut Command) -> io::Result<Ending> {
        let (_pid, _child, ended) = self.start(|| command.spawn().map(|child| (child.id(), child)))?;
        ended.await.map_err(io::Error::other)
    }

    /// Lists a process and follows it until it has ended.
    pub(super) fn follow(&self, process: &Arc<Process>, work: impl Future<Output = Ending> + Send + 'static) {
        let pid = process.pid();
        self.state().running.insert(pid, Arc::clone(process));
        let table = self.clone();
        self.tasks.spawn(async move {
            let ending = work.await;
            {
                let mut state = table.state();
                state.running.remove(&pid);
                state.ended.insert(pid, ending);
            }
            tokio::time::sleep(KEEP_ENDINGS).await;
            // The number may be another process's by now, whose end is not this one's to forget.
            let mut state = table.state();
            if state.ended.get(&pid) == Some(&ending) {
                state.ended.remove(&pid);
            }
        });
    }

    /// Those that run, by number.
    pub(super) fn running(&self) -> Vec<Arc<Process>> {
        self.state().running.values().cloned().collect()
    }

    /// The running process that is meant.
    pub(super) fn find(&self, selector: &Selector) -> Result<Arc<Process>, NotFound> {
        let state = self.state();
        match selector {
            Selector::Pid(pid) => state.running.get(pid).cloned().ok_or(NotFound::Pid(*pid)),
            Selector::Tag(tag) => state
                .running
                .values()
                .find(|process| process.tag() == Some(tag))
                .cloned()
                .ok_or_else(|| NotFound::Tag(tag.clone())),
        }
    }

    /// The same, or one that ended a moment ago.
    pub(super) fn find_also_ended(&self, selector: &Selector) -> Result<Found, NotFound> {
        let missing = match self.find(selector) {
            Ok(process) => return Ok(Found::Running(process)),
            Err(missing) => missing,
        };
        match &missing {
            NotFound::Pid(pid) => {
                let ending = self.state().ended.get(pid).copied();
                ending.map(|ending| Found::Ended(*pid, ending)).ok_or(missing)
            }
            NotFound::Tag(_) => Err(missing),
        }
    }

    fn reap(&self) {
        let mut state = self.state();
        let any = Pid::from_raw(-1);
        let whom = if state.starting == 0 { vec![any] } else { state.waiting.keys().copied().collect() };
        for whom in whom {
            while let Some((pid, ending)) = ended(whom) {
                // An orphan has nobody who waits for its end.
                if let Some(waiting) = state.waiting.remove(&pid) {
                    let _nobody_follows_it_any_more = waiting.send(ending);
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One child of these that has ended, and is forgotten by the kernel from now on.
fn ended(whom: Pid) -> Option<(Pid, Ending)> {
    loop {
        return match waitpid(whom, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, code)) => Some((pid, Ending::Exited(code))),
            Ok(WaitStatus::Signaled(pid, signal, _core)) => Some((pid, Ending::Signalled(signal))),
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => None,
            Ok(_) | Err(Errno::EINTR) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot wait for children");
                None
            }
        };
    }
}

/// A start that is under way, until it is dropped.
struct UnderWay<'a>(&'a Processes);

impl<'a> UnderWay<'a> {
    fn new(table: &'a Processes) -> Self {
        table.state().starting += 1;
        Self(table)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.state().starting -= 1;
        // The word of an end may have come while nobody might take it.
        self.0.reap();
    }
}
