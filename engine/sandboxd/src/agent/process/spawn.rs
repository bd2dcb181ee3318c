//! Starts a process as a call wants it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::protocol::connect::{Code, ConnectError};
use ambient_e2b::protocol::process::StartProcess;
use nix::pty::{OpenptyResult, Winsize, openpty};

use super::attend::{Happening, Input, Process, Source};
use super::pipe::{Pipe, Size};
use crate::agent::kernel;
use crate::agent::paths;
use crate::agent::state::Agent;
use crate::agent::users::User;

const PIPE_CHUNK_BYTES: usize = 32 << 10;
const TERMINAL_CHUNK_BYTES: usize = 16 << 10;

/// Where programs are looked for before any profile says so.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the words that follow, for a program that cannot be started: it so ends with 126 or 127 and a line on standard error, as clients
/// expect.
const BY_SHELL: [&str; 4] = ["/bin/sh", "-c", "exec \"${@}\"", "--"];

/// The size of a terminal that a call gave none.
const USUAL_SIZE: Size = Size { columns: 80, rows: 24 };

/// Starts it. From the answer on it is in the table, and nothing of its output is lost to a listener that is made before the next
/// suspension point.
pub(super) fn spawn(
    agent: &Agent,
    user: &User,
    request: StartProcess,
    limit: Option<Duration>,
) -> Result<Arc<Process>, ConnectError> {
    let StartProcess { process: config, pty, tag, stdin } = request;
    let folder = folder(agent, user, config.cwd.as_deref())?;

    let start = |before: &[&'static str]| -> io::Result<(Child, Ends)> {
        let own = std::iter::once(&config.cmd).chain(&config.args).map(String::as_str);
        let mut words = before.iter().copied().chain(own);
        #[expect(clippy::disallowed_methods, reason = "commands of a sandbox are started here and nowhere else")]
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).current_dir(&folder).env_clear();
        command.envs(environment(agent, user));
        command.envs(config.envs.iter().map(|(name, value)| (name, value.expose())));
        command.env("PWD", &folder);
        kernel::run_as(&mut command, user, pty.is_some());
        let ends = match &pty {
            Some(pty) => terminal_ends(&mut command, pty.size.map_or(USUAL_SIZE, size))?,
            None => Ends::pipes(&mut command, stdin.unwrap_or(true)),
        };
        // The command holds the child's end of a terminal, which would have no end while it lives: it goes here.
        Ok((command.spawn()?, ends))
    };
    let started = agent.processes.start(|| {
        let (child, ends) = start(&[]).or_else(|_not_by_itself| start(&BY_SHELL))?;
        Ok((child.id(), (child, ends)))
    });
    let failed =
        |error: io::Error| ConnectError::new(Code::InvalidArgument, format!("cannot start `{}`: {error}", config.cmd));
    let (pid, (child, ends), ended) = started.map_err(failed)?;
    let (sources, input) = ends.ours(child).map_err(failed)?;
    let process = Arc::new(Process::new(pid, config, tag, input));
    agent.processes.follow(&process, Arc::clone(&process).attend(sources, ended, limit));
    Ok(process)
}

/// What the protocol puts into every environment, the sandbox's own variables last.
fn environment(agent: &Agent, user: &User) -> BTreeMap<String, String> {
    let mut variables: BTreeMap<_, _> =
        [("PATH", PATH), ("HOME", &user.home), ("USER", &user.name), ("LOGNAME", &user.name)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
    variables.extend(agent.variables.iter().map(|(name, value)| (name.clone(), value.clone())));
    variables
}

fn folder(agent: &Agent, user: &User, wanted: Option<&str>) -> Result<PathBuf, ConnectError> {
    let folder = paths::resolve(wanted.unwrap_or_default(), user, agent.default_workdir.as_deref())
        .map_err(|error| ConnectError::new(Code::InvalidArgument, error.to_string()))?;
    if folder.is_dir() {
        return Ok(std::fs::canonicalize(&folder).unwrap_or(folder));
    }
    let message = format!("cwd '{}' does not exist", folder.display());
    Err(ConnectError::new(Code::InvalidArgument, message))
}

/// Both numbers, cut to what a terminal can have.
pub(super) fn size(size: ambient_e2b::protocol::process::PtySize) -> Size {
    let cut = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    Size { columns: cut(size.cols), rows: cut(size.rows) }
}

/// The agent's side of what connects it with a child.
enum Ends {
    Pipes,
    Terminal(OwnedFd),
}

impl Ends {
    fn pipes(command: &mut Command, has_input: bool) -> Self {
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own: `kill 0` in a command is not to reach other commands.
        command.process_group(0);
        Self::Pipes
    }

    fn ours(self, mut child: Child) -> io::Result<(Vec<Source>, Input)> {
        match self {
            Self::Terminal(terminal) => {
                let pipe = Arc::new(Pipe::new(terminal)?);
                let input = Input::Terminal(Arc::clone(&pipe));
                let source = Source { pipe, chunk_bytes: TERMINAL_CHUNK_BYTES, happening: Happening::Terminal };
                Ok((vec![source], input))
            }
            Self::Pipes => {
                let mut sources = Vec::with_capacity(2);
                let mut source = |fd: OwnedFd, happening| -> io::Result<()> {
                    let pipe = Arc::new(Pipe::new(fd)?);
                    sources.push(Source { pipe, chunk_bytes: PIPE_CHUNK_BYTES, happening });
                    Ok(())
                };
                if let Some(stdout) = child.stdout.take() {
                    source(stdout.into(), Happening::Stdout)?;
                }
                if let Some(stderr) = child.stderr.take() {
                    source(stderr.into(), Happening::Stderr)?;
                }
                let input = match child.stdin.take() {
                    Some(stdin) => Input::Pipe(tokio::sync::Mutex::new(Some(Pipe::new(stdin.into())?))),
                    None => Input::None,
                };
                Ok((sources, input))
            }
        }
    }
}

fn terminal_ends(command: &mut Command, size: Size) -> io::Result<Ends> {
    let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    let OpenptyResult { master, slave } = openpty(&size, None)?;
    for fd in [&master, &slave] {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::CLOEXEC)?;
    }
    let slave = File::from(slave);
    command.stdin(slave.try_clone()?).stdout(slave.try_clone()?).stderr(slave);
    Ok(Ends::Terminal(master))
}
