//! Starts the shipped binary in an empty home and sees what comes out of it.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long anything may take here. Generous, since it is only waited out when something is broken.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// The command, with nothing of the tester's environment but PATH, in `home` as working directory.
#[expect(clippy::disallowed_methods, reason = "the journeys drive the shipped binary")]
pub(crate) fn ambientctl(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ambientctl"));
    command.current_dir(home).env_clear().env("HOME", home).env("AMBIENT_HOME", home.join("ambient"));
    command.env("MODEL_CATALOGUE_URL", "").stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Exit code, stdout and stderr as one text, with the home's path replaced.
pub(crate) fn told(home: &Path, output: &Output) -> String {
    let code = output.status.code().map_or_else(|| "a signal".to_owned(), |code| code.to_string());
    let text = format!(
        "exit: {code}\n--- stdout\n{}--- stderr\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    text.replace(&*home.to_string_lossy(), "[home]")
}

/// A running `ambientctl serve`. Ends with this value at the latest.
pub(crate) struct Serving {
    child: Child,
    /// The first line of stdout, without its line break.
    pub(crate) first_line: String,
    /// `http://HOST:PORT` of that line.
    pub(crate) url: String,
}

impl Serving {
    /// Starts it and waits for its first line.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no stdout"))?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(stdout).lines();
            let _test_may_be_over = sender.send(lines.next());
        });
        let Ok(Some(line)) = receiver.recv_timeout(LIMIT) else {
            child.kill()?;
            let mut log = String::new();
            child.stderr.take().ok_or_else(|| io::Error::other("no stderr"))?.read_to_string(&mut log)?;
            return Err(io::Error::other(format!("serve printed no line; its log:\n{log}")));
        };
        let line = line?;
        let url = line.rsplit(' ').next().unwrap_or_default().to_owned();
        Ok(Self { child, first_line: line, url })
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        let id = i32::try_from(self.child.id()).map_err(io::Error::other)?;
        Ok(kill(Pid::from_raw(id), signal)?)
    }

    /// Waits for its end; gives how it ended and what it logged.
    pub(crate) fn end(mut self) -> io::Result<(ExitStatus, String)> {
        let mut stderr = self.child.stderr.take().ok_or_else(|| io::Error::other("no stderr"))?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut log = String::new();
            let _test_may_be_over = stderr.read_to_string(&mut log).map(|_| sender.send(log));
        });
        let log = receiver.recv_timeout(LIMIT).map_err(io::Error::other)?;
        Ok((self.child.wait()?, log))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _may_have_ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Tries until `attempt` gives something, at most [`LIMIT`].
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return Ok(value);
        }
        if began.elapsed() > LIMIT {
            return Err(io::Error::other(format!("not within {LIMIT:?}: {what}")));
        }
        std::thread::yield_now();
    }
}
