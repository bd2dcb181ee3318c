//! Running, finding and ending commands.

use std::time::Duration;

use super::agent::Envd;
use super::command::{Command, MARK_VARIABLE};
use super::output::{Capture, Output};
use super::process::{Process, Stdin};
use crate::error::Error;
use crate::protocol::process::{
    self, ConnectProcess, Empty, ProcessInfo, ProcessList, Pty, PtySize, Selector, SendSignal, Signal, UpdateProcess,
};

/// How long a sweep may take.
const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// Kills what has `$1` in its environment until nothing has: what is killed may have started something in the moment before.
///
/// Where root may not look into the processes of others (a container without that right), it looks as each of them.
const SWEEP: &str = r#"n=0
look() {
  grep -lazxs -- "$1" /proc/[0-9]*/environ
  stat -c '%u %g' /proc/[0-9]* 2>/dev/null | sort -u | while read -r uid gid; do
    [ "$uid" = 0 ] || setpriv --reuid "$uid" --regid "$gid" --clear-groups grep -lazxs -- "$1" /proc/[0-9]*/environ 2>/dev/null
  done
}
while [ $n -lt 50 ]; do
  found=$(look "$1" | cut -d/ -f3 | sort -u)
  [ -n "$found" ] || exit 0
  kill -KILL $found 2>/dev/null
  n=$((n + 1))
  sleep 0.02
done
exit 1"#;

/// Commands of one sandbox.
#[derive(Clone, Copy, Debug)]
pub struct Commands<'a> {
    envd: &'a Envd,
}

impl<'a> Commands<'a> {
    pub(crate) fn new(envd: &'a Envd) -> Self {
        Self { envd }
    }

    /// Runs a command to its end. An exit code other than 0 is no error: see [`Output::exit`].
    ///
    /// It ends when both its output streams are closed, so a daemon that keeps them holds it until the deadline: redirect the output of those, or see
    /// [`Command::shell_until_exit`]. Dropping the future leaves the command running.
    ///
    /// # Errors
    /// [`Error::CommandTimedOut`] at its deadline, when it has been killed; [`Error::SandboxLost`] when the sandbox is gone; [`Error::StreamStalled`] when it
    /// answers but the command's stream does not.
    pub async fn run(&self, command: &Command) -> Result<Output, Error> {
        let mut capture = Capture::new(command.output_limit);
        let exit = match self.start(command).await?.wait(&mut capture).await {
            Err(error @ Error::CommandTimedOut { .. }) => {
                if let Some(mark) = &command.mark {
                    // The timeout is the news; a sweep that fails leaves what a command without a mark leaves.
                    let _ = self.sweep(mark).await;
                }
                return Err(error);
            }
            exit => exit?,
        };
        Ok(capture.into_output(exit))
    }

    /// Ends whatever carries this mark: a command, its children, and what they left behind in groups and sessions of their own. A signal to a command reaches
    /// its first process only, and so does its deadline.
    ///
    /// It looks at the environment that processes were started with, as root. What clears its environment escapes it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the mark is none; [`Error::Conflict`] when some could not be ended.
    pub async fn sweep(&self, mark: &str) -> Result<(), Error> {
        let is_mark = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if mark.is_empty() || !mark.bytes().all(is_mark) {
            return Err(Error::InvalidArgument {
                message: format!("`{mark}` is no mark of letters, digits, `_` and `-`"),
            });
        }
        let what = format!("{MARK_VARIABLE}={mark}");
        let sweeper = Command::program("/bin/sh").args(["-c", SWEEP, "sweep", &what]).user("root").timeout(SWEEP_LIMIT);
        let mut capture = Capture::new(sweeper.output_limit);
        let exit = self.start(&sweeper).await?.wait(&mut capture).await?;
        if exit.is_success() {
            return Ok(());
        }
        Err(Error::Conflict { message: format!("what carries the mark `{mark}` could not be ended: {}", exit.status) })
    }

    /// Starts a command and returns as soon as it runs.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when it cannot be started as it is; else as [`run`](Self::run).
    pub async fn start(&self, command: &Command) -> Result<Process, Error> {
        let stream =
            self.envd.stream(process::START, &command.message(), command.user.as_deref(), command.timeout).await?;
        Process::opened(stream, command.pty.is_some()).await
    }

    /// Joins a command that runs, by its number or tag. What it wrote in between is lost. One that ended less than 30 s ago still tells its end.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is none.
    pub async fn connect(&self, selector: Selector, timeout: Duration) -> Result<Process, Error> {
        let question = ConnectProcess { process: selector };
        let stream = self.envd.stream(process::CONNECT, &question, None, timeout).await?;
        Process::opened(stream, false).await
    }

    /// Commands that run.
    ///
    /// # Errors
    /// When the agent does not answer.
    pub async fn list(&self) -> Result<Vec<ProcessInfo>, Error> {
        let list: ProcessList = self.envd.unary(process::LIST, &Empty {}, None).await?;
        Ok(list.processes)
    }

    /// Sends a signal to a command's first process, not to its children. `false` says that there is no such command.
    ///
    /// # Errors
    /// When it is not known whether the signal was sent.
    pub async fn signal(&self, selector: Selector, signal: Signal) -> Result<bool, Error> {
        let question = SendSignal { process: selector, signal };
        match self.envd.unary::<_, Empty>(process::SEND_SIGNAL, &question, None).await {
            Ok(Empty {}) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a command's first process at once. `false` says that there is no such command.
    ///
    /// # Errors
    /// When it is not known whether it ended.
    pub async fn kill(&self, selector: Selector) -> Result<bool, Error> {
        self.signal(selector, Signal::Kill).await
    }

    /// The input of a command that was started with one.
    pub fn stdin(&self, selector: Selector) -> Stdin {
        Stdin::new(self.envd.clone(), selector, false)
    }

    /// Changes the size of a command's terminal.
    ///
    /// # Errors
    /// [`Error::NotFound`] when there is no such command.
    pub async fn resize(&self, selector: Selector, columns: u32, rows: u32) -> Result<(), Error> {
        let pty = Some(Pty { size: Some(PtySize { cols: columns, rows }) });
        let Empty {} = self.envd.unary(process::UPDATE, &UpdateProcess { process: selector, pty }, None).await?;
        Ok(())
    }
}
