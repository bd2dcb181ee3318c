//! The one place that starts programs.
//!
//! Every child gets a list of arguments and never a shell text, an empty environment, no standard input, its own process group and
//! resource limits. The group is killed when the time is up, when the caller cancels and when the caller's future is dropped, so no
//! grandchild outlives its request. Standard error is drained all the time and its end is kept. At most `concurrency` children
//! run at once; the rest wait for their turn, fairly between sessions (see [`crate::queue`]).

use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use crate::error::MediaError;
use crate::limits::{self, Limits};
use crate::queue::Turns;

/// Read in one go from a pipe; the size of a Linux pipe.
const CHUNK_BYTES: usize = 64 << 10;

/// One program to run.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) program: &'a Utf8Path,
    pub(crate) args: Vec<String>,
    /// Where it runs and where its relative outputs go; the root when it writes nothing.
    pub(crate) folder: &'a Utf8Path,
    /// How much of standard output may come; more ends the child.
    pub(crate) stdout_limit_bytes: usize,
}

/// What few programs get beyond the usual: most know no environment, and are heard when they have ended.
#[derive(Clone, Copy, Default)]
pub(crate) struct Extra<'a> {
    /// The child's whole environment.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// Is told each line of standard output as it comes.
    pub(crate) on_line: Option<&'a (dyn Fn(&str) + Send + Sync)>,
}

/// What a program left when it ended by itself.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr_tail: String,
}

impl Finished {
    /// The same, if the program says that all went well.
    pub(crate) fn succeeded(self, program: &Utf8Path) -> Result<Self, MediaError> {
        if self.status.success() {
            Ok(self)
        } else {
            Err(MediaError::Exit { program: program.to_owned(), status: self.status, stderr_tail: self.stderr_tail })
        }
    }
}

/// Starts programs under the limits of one configuration.
#[derive(Debug)]
pub(crate) struct Executor {
    turns: Turns,
    wall_limit: Duration,
    limits: Limits,
    stderr_tail_bytes: usize,
}

impl Executor {
    pub(crate) fn new(concurrency: usize, wall_limit: Duration, limits: Limits, stderr_tail_bytes: usize) -> Self {
        Self { turns: Turns::new(concurrency), wall_limit, limits, stderr_tail_bytes }
    }

    /// Runs a program to its end once it is `caller`'s turn. The wall limit starts when the program does, not while it waits for its turn.
    ///
    /// Dropping the future kills the program and all it started.
    pub(crate) async fn run(
        &self,
        job: Job<'_>,
        caller: &Arc<str>,
        stop: &CancellationToken,
    ) -> Result<Finished, MediaError> {
        self.run_with(job, Extra::default(), caller, stop).await
    }

    /// As [`Self::run`], with something extra.
    pub(crate) async fn run_with(
        &self,
        job: Job<'_>,
        extra: Extra<'_>,
        caller: &Arc<str>,
        stop: &CancellationToken,
    ) -> Result<Finished, MediaError> {
        let turn = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(MediaError::Cancelled),
            turn = self.turns.take(caller) => turn,
        };
        let finished = self.run_now(job, extra, stop).await;
        drop(turn);
        finished
    }

    async fn run_now(&self, job: Job<'_>, extra: Extra<'_>, stop: &CancellationToken) -> Result<Finished, MediaError> {
        let Job { program, args, folder, stdout_limit_bytes } = job;
        let started = std::time::Instant::now();
        let mut child = self.start(program, &args, folder, extra.environment)?;
        let group = Group::of(&child);
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        let finished = async {
            let leader = async {
                let status = child.wait().await;
                drop(group); // a stray that holds a pipe open would keep the readers waiting
                status
            };
            let too_much =
                || MediaError::TooMuchOutput { program: program.to_owned(), limit_bytes: stdout_limit_bytes };
            // The first failure drops the rest, and with it the group: a child that prints without end is killed, not drained.
            tokio::try_join!(
                async { leader.await.map_err(|source| MediaError::Start { program: program.to_owned(), source }) },
                async { read_up_to(stdout, stdout_limit_bytes, extra.on_line).await.ok_or_else(too_much) },
                async { Ok(tail(stderr, self.stderr_tail_bytes).await) },
            )
        };
        let (status, stdout, stderr_tail) = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(MediaError::Cancelled),
            ended = tokio::time::timeout(self.wall_limit, finished) => ended
                .map_err(|_elapsed| MediaError::TimedOut { program: program.to_owned(), limit: self.wall_limit })??,
        };
        tracing::debug!(media.program = %program, media.status = %status, media.elapsed = ?started.elapsed(), "a media program ended");
        Ok(Finished { status, stdout, stderr_tail })
    }

    #[expect(clippy::disallowed_methods, reason = "this module is the spawner that the lint sends everybody else to")]
    fn start(
        &self,
        program: &Utf8Path,
        args: &[String],
        folder: &Utf8Path,
        environment: &[(OsString, OsString)],
    ) -> Result<Child, MediaError> {
        let failed = |source| MediaError::Start { program: program.to_owned(), source };
        let mut command = Command::new(find(program).map_err(failed)?);
        command
            .args(args)
            .current_dir(folder)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true); // reaps the leader; its group is killed by `Group`
        limits::apply(&mut command, self.limits);
        command.spawn().map_err(failed)
    }
}

/// What a program that goes to the network is told of our own environment: where programs are, and how the operator's
/// network is left. Nothing else of it, keys above all.
pub(crate) fn network_environment() -> Vec<(OsString, OsString)> {
    const NAMES: [&str; 11] = [
        "PATH",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ];
    NAMES.iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?))).collect()
}

/// A path stays as it is; a bare name is looked up on the engine's own `PATH`, since the child's environment is empty.
pub(crate) fn find(program: &Utf8Path) -> io::Result<Utf8PathBuf> {
    if program.as_str().contains('/') {
        return Ok(program.to_owned());
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| OsStr::new("/usr/local/bin:/usr/bin:/bin").to_owned());
    env::split_paths(&folders)
        .filter_map(|folder| Utf8PathBuf::from_path_buf(folder.join(program)).ok())
        .find(|path| path.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such program on `PATH`"))
}

/// Kills a whole process group when it is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // The group is empty when all has ended by itself, and then there is nothing to do.
            let _ended_already = killpg(leader, Signal::SIGKILL);
        }
    }
}

/// All of a pipe, or `None` as soon as it is more than `limit_bytes`.
async fn read_up_to(
    mut pipe: impl AsyncRead + Unpin,
    limit_bytes: usize,
    on_line: Option<&(dyn Fn(&str) + Send + Sync)>,
) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut told = 0;
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        if kept.len() + count > limit_bytes {
            return None;
        }
        kept.extend_from_slice(&chunk[..count]);
        let Some(on_line) = on_line else { continue };
        while let Some(length) = kept[told..].iter().position(|byte| *byte == b'\n') {
            on_line(&String::from_utf8_lossy(&kept[told..told + length]));
            told += length + 1;
        }
    }
    Some(kept)
}

/// The last `limit_bytes` of a pipe as text.
async fn tail(mut pipe: impl AsyncRead + Unpin, limit_bytes: usize) -> String {
    let mut kept: VecDeque<u8> = VecDeque::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        kept.extend(&chunk[..count]);
        let surplus = kept.len().saturating_sub(limit_bytes);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(kept.make_contiguous()).trim().to_owned()
}
