//! The shell of the `bash` tool on this host.
//!
//! A command runs by `/bin/sh -c` in the session's workspace, as leader of a session of its own, with an environment of a
//! few harmless names. It is over when the shell ends; what it put into the background may go on until the session ends,
//! or the engine does. A timeout or a cancel ends everything that the command started.
//!
//! This is no isolation: commands have the engine's own rights on the host. They are told nothing of the engine (no key, no
//! address, no path beyond the workspace), and [`ShellHost::new`] shuts the engine's own `/proc` entry against other
//! processes of the same user; root can read its memory all the same.

pub(crate) mod capture;
mod processes;
mod start;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::capture::Capture;
use self::processes::{Reaper, Tag, Whose};
pub(crate) use self::start::TEMPORARY;
use super::{BackendError, ShellDone, ShellWish};
use crate::ids::SessionId;

/// What one process of a command may use.
#[derive(Clone, Copy, Debug)]
pub struct ShellLimits {
    /// Processor time.
    pub cpu: Duration,
    /// Memory that it may write to.
    pub memory_bytes: u64,
}

/// The exit code of a command that took too long, as `timeout(1)` gives it.
const TIMED_OUT: i32 = 124;
/// The exit code of a command that could not be started, as a shell gives it.
const NOT_STARTED: i32 = 127;
/// Added to the number of a signal that ended the shell, as a shell does.
const BY_SIGNAL: i32 = 128;

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// What is read more once the shell has ended: all that a pipe can hold, and then some.
const REST_BYTES: usize = 1 << 20;
/// From here on a stream is read slowly, so that endless output does not take a processor of its own.
const FULL_SPEED_BYTES: u64 = 64 << 20;
/// The pause between two reads of an endless stream.
const READ_PAUSE: Duration = Duration::from_millis(1);
/// How long the pipes of a command that was ended may take to close.
const CLOSING_PATIENCE: Duration = Duration::from_secs(2);
/// How often orphans are looked after that nobody else buries.
const REAPING_PERIOD: Duration = Duration::from_secs(5);
/// How long the reaper waits for more orphans to end before it looks through all processes.
const REAPING_PAUSE: Duration = Duration::from_millis(250);

/// Runs shell commands and owns what they leave running. Cheap to clone; the last clone takes the processes with it.
#[derive(Clone, Debug)]
pub struct ShellHost(Arc<Host>);

#[derive(Debug)]
struct Host {
    limits: ShellLimits,
    tasks: TaskTracker,
    /// Ends the tasks that outlive a call: drains of pipes, the reaper.
    ending: CancellationToken,
    /// Sessions that ran a command since they were last ended.
    sessions: Mutex<BTreeSet<SessionId>>,
    reaper: std::sync::Once,
}

impl ShellHost {
    /// A host for commands with these limits. Makes this process adopt orphans, and shuts its `/proc` entry.
    pub fn new(limits: ShellLimits) -> Self {
        processes::adopt_orphans();
        shut_own_proc_entry();
        Self(Arc::new(Host {
            limits,
            tasks: TaskTracker::new(),
            ending: CancellationToken::new(),
            sessions: Mutex::default(),
            reaper: std::sync::Once::new(),
        }))
    }

    /// Runs a command in `folder`. Dropping the future ends the command like `stop` does.
    ///
    /// # Errors
    /// [`BackendError::Cancelled`] when `stop` fired. A command that fails, takes too long or cannot be started is an
    /// answer, no error.
    pub async fn run(
        &self,
        session: &SessionId,
        folder: &Utf8Path,
        wish: &ShellWish,
        stop: &CancellationToken,
    ) -> Result<ShellDone, BackendError> {
        self.0.reaper.call_once(|| {
            self.0.tasks.spawn(reap(self.0.ending.clone()));
        });
        self.sessions().insert(session.clone());
        let stop = stop.child_token();
        let ends_with_the_caller = stop.clone().drop_guard();
        let call = Call {
            wish: wish.clone(),
            folder: folder.to_owned(),
            tag: Tag::of_command(session),
            limits: self.0.limits,
            stop,
            tasks: self.0.tasks.clone(),
            ending: self.0.ending.clone(),
        };
        // In a task of its own, so that a caller who goes away does not leave half of an ending undone.
        let outcome = self.0.tasks.spawn(call.run()).await;
        drop(ends_with_the_caller);
        outcome.unwrap_or_else(|failure| {
            tracing::error!(session.id = %session, error = %failure, "a shell command's task failed");
            Err(BackendError::Media("the shell of this engine failed; try the command again".to_owned()))
        })
    }

    /// Ends everything that commands of this session left running.
    pub async fn end_session(&self, session: &SessionId) {
        self.sessions().remove(session);
        end(Whose::session(session)).await;
    }

    /// Ends everything that any session left running, and waits for it.
    pub async fn shut_down(&self) {
        let sessions = std::mem::take(&mut *self.sessions());
        for session in sessions {
            end(Whose::session(&session)).await;
        }
        self.0.ending.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeSet<SessionId>> {
        self.0.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.ending.cancel();
        for session in self.sessions.get_mut().unwrap_or_else(PoisonError::into_inner).iter() {
            processes::end(Whose::session(session));
        }
    }
}

/// One command on its way.
struct Call {
    wish: ShellWish,
    folder: Utf8PathBuf,
    tag: Tag,
    limits: ShellLimits,
    stop: CancellationToken,
    tasks: TaskTracker,
    ending: CancellationToken,
}

/// How a command came to its end.
enum Ended {
    ByItself(io::Result<std::process::ExitStatus>),
    TimedOut,
    Cancelled,
}

impl Call {
    async fn run(self) -> Result<ShellDone, BackendError> {
        let start = || start::start(&self.wish.command, &self.folder, self.tag, self.limits);
        let mut child = match processes::start_leader(start, Child::id) {
            Ok(child) => child,
            Err(error) => return Ok(not_started(&error)),
        };
        let id = child.id();
        let done = self.attend(&mut child).await;
        processes::forget_leader(id);
        done
    }

    async fn attend(&self, child: &mut Child) -> Result<ShellDone, BackendError> {
        let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
            unreachable!("both streams were asked for as pipes");
        };
        let limit = self.wish.max_output_bytes;
        let mut streams = Streams { stdout: Stream::new(limit), stderr: Stream::new(limit) };
        let ended = self.follow(child, &mut stdout, &mut stderr, &mut streams).await;
        let (exit_code, timed_out) = match ended {
            Ended::ByItself(status) => {
                streams.stdout.take_what_is_there(&stdout);
                streams.stderr.take_what_is_there(&stderr);
                (exit_code(status), false)
            }
            Ended::TimedOut | Ended::Cancelled => {
                end(Whose::Command(self.tag)).await;
                streams.read_to_the_end(&mut stdout, &mut stderr).await;
                let _ended_by_us = child.wait().await;
                if matches!(ended, Ended::Cancelled) {
                    return Err(BackendError::Cancelled);
                }
                (TIMED_OUT, true)
            }
        };
        // Whoever is still there may go on writing: without a reader its next word would end it.
        if streams.stdout.is_open {
            self.tasks.spawn(drain(stdout, self.ending.clone()));
        }
        if streams.stderr.is_open {
            self.tasks.spawn(drain(stderr, self.ending.clone()));
        }
        let (stdout, stdout_cut) = streams.stdout.kept.finish();
        let (mut stderr, stderr_cut) = streams.stderr.kept.finish();
        if timed_out {
            if !stderr.is_empty() && !stderr.ends_with('\n') {
                stderr.push('\n');
            }
            stderr.push_str("command timed out after ");
            stderr.push_str(&self.wish.timeout.as_secs_f64().to_string());
            stderr.push('s');
        }
        Ok(ShellDone { exit_code, stdout, stderr, stdout_cut, stderr_cut, timed_out })
    }

    /// Reads both streams until the shell ends, or has to.
    async fn follow(
        &self,
        child: &mut Child,
        stdout: &mut ChildStdout,
        stderr: &mut ChildStderr,
        streams: &mut Streams,
    ) -> Ended {
        let deadline = Instant::now() + self.wish.timeout;
        let (mut from_stdout, mut from_stderr) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return Ended::Cancelled,
                () = tokio::time::sleep_until(deadline) => return Ended::TimedOut,
                status = child.wait() => return Ended::ByItself(status),
                count = stdout.read(&mut from_stdout), if streams.stdout.is_open => {
                    streams.stdout.took(count, &from_stdout).await;
                }
                count = stderr.read(&mut from_stderr), if streams.stderr.is_open => {
                    streams.stderr.took(count, &from_stderr).await;
                }
            }
        }
    }
}

struct Streams {
    stdout: Stream,
    stderr: Stream,
}

impl Streams {
    /// Reads what the pipes still hold; they close as soon as the last process is gone.
    async fn read_to_the_end(&mut self, stdout: &mut ChildStdout, stderr: &mut ChildStderr) {
        let rest = async { tokio::join!(self.stdout.read_all(stdout), self.stderr.read_all(stderr)) };
        // A process that nothing can end (another user's) may hold them open.
        let _elapsed = tokio::time::timeout(CLOSING_PATIENCE, rest).await;
    }
}

/// One stream of a command.
struct Stream {
    kept: Capture,
    is_open: bool,
}

impl Stream {
    fn new(limit: usize) -> Self {
        Self { kept: Capture::new(limit), is_open: true }
    }

    async fn took(&mut self, count: io::Result<usize>, chunk: &[u8]) {
        match count {
            Ok(count @ 1..) => self.kept.push(&chunk[..count]),
            Ok(0) | Err(_) => self.is_open = false,
        }
        if self.kept.total() > FULL_SPEED_BYTES {
            tokio::time::sleep(READ_PAUSE).await;
        }
    }

    async fn read_all(&mut self, pipe: &mut (impl AsyncRead + Unpin)) {
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.is_open {
            let count = pipe.read(&mut chunk).await;
            self.took(count, &chunk).await;
        }
    }

    /// Reads what lies in the pipe, without waiting for more: asks the system itself, since the runtime may not know yet
    /// what was written a moment ago.
    fn take_what_is_there(&mut self, pipe: &impl std::os::fd::AsFd) {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = REST_BYTES;
        while self.is_open && left > 0 {
            match nix::unistd::read(pipe, &mut chunk) {
                Ok(0) => self.is_open = false,
                Ok(count) => {
                    self.kept.push(&chunk[..count]);
                    left = left.saturating_sub(count);
                }
                Err(nix::errno::Errno::EINTR) => {}
                Err(_nothing_there) => return,
            }
        }
    }
}

/// Reads a pipe that a background process still writes to, and forgets what comes.
async fn drain(mut pipe: impl AsyncRead + Unpin, ending: CancellationToken) {
    let forget_all = async {
        let mut chunk = vec![0; CHUNK_BYTES];
        while matches!(pipe.read(&mut chunk).await, Ok(1..)) {
            tokio::time::sleep(READ_PAUSE).await;
        }
    };
    tokio::select! {
        () = ending.cancelled() => {}
        () = forget_all => {}
    }
}

/// Buries orphans whenever a child ends, and now and then.
async fn reap(ending: CancellationToken) {
    let mut ends = match signal(SignalKind::child()) {
        Ok(ends) => ends,
        Err(error) => {
            tracing::warn!(%error, "ended orphans of shell commands are not buried");
            return;
        }
    };
    let mut reaper = Reaper::default();
    let mut left = false;
    loop {
        tokio::select! {
            () = ending.cancelled() => break,
            _child_ended = ends.recv() => {}
            () = tokio::time::sleep(REAPING_PERIOD), if left => {}
        }
        // Many end together: look once for all of them.
        tokio::time::sleep(REAPING_PAUSE).await;
        let pass = tokio::task::spawn_blocking(move || {
            let left = reaper.pass();
            (reaper, left)
        });
        match pass.await {
            Ok(done) => (reaper, left) = done,
            Err(_panicked) => {
                tracing::error!("the reaper of orphans panicked");
                (reaper, left) = (Reaper::default(), true);
            }
        }
    }
}

async fn end(whose: Whose) {
    if tokio::task::spawn_blocking(move || processes::end(whose)).await.is_err() {
        tracing::error!("ending a shell command's processes panicked");
    }
}

fn exit_code(status: io::Result<std::process::ExitStatus>) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    match status {
        Ok(status) => status.code().or_else(|| status.signal().map(|number| BY_SIGNAL + number)).unwrap_or(BY_SIGNAL),
        Err(error) => {
            tracing::warn!(%error, "the end of a shell command was not seen");
            BY_SIGNAL
        }
    }
}

fn not_started(error: &io::Error) -> ShellDone {
    ShellDone {
        exit_code: NOT_STARTED,
        stdout: String::new(),
        stderr: format!("could not start `{}`: {error}", start::SHELL),
        stdout_cut: 0,
        stderr_cut: 0,
        timed_out: false,
    }
}

/// Keeps other processes of the same user from reading this one's environment and memory through `/proc`. Programs that it
/// starts are not concerned.
fn shut_own_proc_entry() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        tracing::warn!(%error, "shell commands can read the engine's environment");
    }
}
