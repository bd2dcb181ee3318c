//! Starts a process as a call wants it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::protocol::connect::{Code, ConnectError};
use ambient_e2b::protocol::process::StartProcess;
use nix::errno::Errno;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::tcsetwinsize;
use tokio::sync::mpsc;

use super::attend::{Happening, Input, Process, Source};
use super::launch::{Launch, Surroundings};
use super::pipe::{Pipe, Size};
use crate::agent::paths;
use crate::agent::state::Agent;
use crate::agent::users::User;

const PIPE_CHUNK_BYTES: usize = 32 << 10;
const TERMINAL_CHUNK_BYTES: usize = 16 << 10;

/// Where programs are looked for before any profile says so.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Runs the words that follow, for a program that cannot be started: it so ends with 126 or 127 and a line on standard error, as clients
/// expect.
const BY_SHELL: [&CStr; 4] = [c"/bin/sh", c"-c", c"exec \"${@}\"", c"--"];

/// The size of a terminal that a call gave none.
const USUAL_SIZE: Size = Size { columns: 80, rows: 24 };

/// Starts it, which waits until its program is there. From the answer on it is in the table, and all that it tells is in what comes with it.
pub(super) fn spawn(
    agent: &Agent,
    user: &User,
    request: StartProcess,
    limit: Option<Duration>,
) -> Result<(Arc<Process>, mpsc::Receiver<Happening>), ConnectError> {
    let StartProcess { process: config, pty, tag, stdin } = request;
    let folder = folder(agent, user, config.cwd.as_deref())?;

    let mut variables = environment(agent, user);
    variables.extend(config.envs.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())));
    let started = agent.processes.start(|| {
        // All that can fail comes first: what runs is followed.
        let Ends { sources, input, theirs } = match &pty {
            Some(pty) => Ends::terminal(pty.size.map_or(USUAL_SIZE, size))?,
            None => Ends::pipes(stdin.unwrap_or(true))?,
        };
        let around =
            Surroundings { user, variables: &variables, folder: &folder, ends: theirs, has_terminal: pty.is_some() };
        let words = std::iter::once(&config.cmd).chain(&config.args).map(String::as_str);
        let launch = Launch::new(words, around)?;
        let pid = launch.start().or_else(|_not_by_itself| launch.after(&BY_SHELL).start())?;
        // The child's ends are closed here: while this process holds them, there is no end of what it reads.
        Ok((pid.as_raw().unsigned_abs(), (sources, input)))
    });
    let (pid, (sources, input), ended) = started.map_err(|error| not_started(&config.cmd, &error))?;
    let process = Arc::new(Process::new(pid, config, tag, input));
    let happenings = process.listen();
    agent.processes.follow(&process, Arc::clone(&process).attend(sources, ended, limit));
    Ok((process, happenings))
}

fn not_started(command: &str, error: &io::Error) -> ConnectError {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAGAIN) => {
            let message =
                format!("cannot start `{command}`: the sandbox has as many processes as it may; end some of them");
            ConnectError::new(Code::ResourceExhausted, message)
        }
        _ => ConnectError::new(Code::InvalidArgument, format!("cannot start `{command}`: {error}")),
    }
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

/// What connects a child with the agent.
struct Ends {
    sources: Vec<Source>,
    input: Input,
    /// The child's own, for its input, output and errors.
    theirs: [OwnedFd; 3],
}

impl Ends {
    fn pipes(has_input: bool) -> io::Result<Self> {
        let (output, to_output) = io::pipe()?;
        let (errors, to_errors) = io::pipe()?;
        let (input, from_input) = if has_input {
            let (from_input, input) = io::pipe()?;
            (Input::Pipe(tokio::sync::Mutex::new(Some(Pipe::new(input.into())?))), from_input.into())
        } else {
            (Input::None, File::open("/dev/null")?.into())
        };
        let source = |fd: PipeReader, happening| -> io::Result<Source> {
            Ok(Source { pipe: Arc::new(Pipe::new(fd.into())?), chunk_bytes: PIPE_CHUNK_BYTES, happening })
        };
        let sources = vec![source(output, Happening::Stdout)?, source(errors, Happening::Stderr)?];
        Ok(Self { sources, input, theirs: [from_input, to_output.into(), to_errors.into()] })
    }

    /// Like pipes, both ends are nobody else's from their first moment on: another command may be starting.
    fn terminal(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        unlockpt(&ours)?;
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        tcsetwinsize(&ours, size.into())?;
        let pipe = Arc::new(Pipe::new(ours)?);
        let input = Input::Terminal(Arc::clone(&pipe));
        let source = Source { pipe, chunk_bytes: TERMINAL_CHUNK_BYTES, happening: Happening::Terminal };
        Ok(Self { sources: vec![source], input, theirs: [theirs.try_clone()?, theirs.try_clone()?, theirs] })
    }
}
