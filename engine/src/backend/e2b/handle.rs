//! One sandbox as this engine has it at hand: commands in it, a few at a time, with its end put off while they run.

use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::{Command, Error, Exit, Process, ProcessOutput, Sandbox, Utf8Decoder};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::scripts;
use crate::backend::shell::capture::Capture;
use crate::broker::{Broker, Lease};
use crate::lifecycle::Lifecycle;
use crate::store::chain;

/// Media or shell commands that run at once in a sandbox, whichever engines they come from.
const AT_ONCE: usize = 3;
/// The life of the right to run one of them; it is kept alive while the command runs.
const SLOT_TTL: Duration = Duration::from_mins(1);
/// Between two looks for a free one that another engine has.
const SLOT_PAUSE: Duration = Duration::from_millis(100);
/// The end of a sandbox is put off so often in its life, and at least once a minute.
const RENEWALS_PER_LIFE: u32 = 3;
const LONGEST_RENEWAL: Duration = Duration::from_secs(20);
/// How long the beginning of a command that is no longer wanted is waited for.
const START_PATIENCE: Duration = Duration::from_secs(5);
/// How long a media command that is to stop may take to put its things in order.
const STOP_PATIENCE: Duration = Duration::from_secs(2);
/// How long the end of a swept command's output is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a sweep or a look into a sandbox may take.
const SMALL_COMMAND: Duration = Duration::from_secs(20);
/// The server ends a command so long after we would have, should we be gone by then.
const SERVER_GRACE: Duration = Duration::from_secs(30);
/// Characters of a sandbox's id in the log.
const ID_SHOWN: usize = 8;

/// What there is in a sandbox for media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MediaTool {
    /// `/app/ambientctl`, and the version that it says it is.
    Ours { version: String },
    /// `/app/main.py` of the Python repository.
    Python,
    /// Neither.
    None,
}

/// A command to run in a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct BoxCommand {
    pub(crate) arguments: Vec<String>,
    pub(crate) folder: Option<&'static str>,
    pub(crate) environment: Vec<(&'static str, SecretString)>,
    pub(crate) tag: String,
    pub(crate) timeout: Duration,
    /// Whether it is asked to end before it is ended.
    pub(crate) ends_gently: bool,
}

/// How a command ended.
#[derive(Debug)]
pub(crate) enum Ended {
    By(Exit),
    TimedOut,
    Cancelled,
}

/// Why a command did not run to its end.
#[derive(Debug)]
pub(crate) enum RunError {
    /// It was not begun, so another sandbox may run it.
    NotBegun(Error),
    /// It may have been begun.
    Begun(Error),
}

impl RunError {
    pub(crate) fn error(&self) -> &Error {
        match self {
            Self::NotBegun(error) | Self::Begun(error) => error,
        }
    }
}

/// A sandbox at hand.
#[derive(Debug)]
pub(crate) struct Handle {
    sandbox: Sandbox,
    wall: Duration,
    turns: Semaphore,
    tool: OnceCell<MediaTool>,
    broker: Arc<dyn Broker>,
    lifecycle: Lifecycle,
}

/// The right to run one command.
struct Slot<'a> {
    _turn: SemaphorePermit<'a>,
    lease: Option<Lease>,
    handle: &'a Handle,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let Some(lease) = self.lease.take() else { return };
        let broker = Arc::clone(&self.handle.broker);
        self.handle.lifecycle.spawn_job("end of a command", |_aborting| async move {
            if let Err(error) = broker.release(&lease).await {
                tracing::debug!(lease = %lease.name, error = %chain(&error), "a lease was not given back; it ends by itself");
            }
        });
    }
}

/// Ends what a dropped call left running.
struct Leftover<'a> {
    handle: &'a Handle,
    tag: Option<String>,
}

impl Leftover<'_> {
    /// Nothing goes on in a sandbox that is gone.
    fn failed(&mut self, error: Error) -> RunError {
        if error.is_sandbox_lost() {
            self.tag = None;
        }
        RunError::Begun(error)
    }
}

impl Drop for Leftover<'_> {
    fn drop(&mut self) {
        let Some(tag) = self.tag.take() else { return };
        let sandbox = self.handle.sandbox.clone();
        self.handle.lifecycle.spawn_job("end of a dropped command", |_aborting| async move {
            sweep(&sandbox, &tag).await;
        });
    }
}

impl Handle {
    pub(crate) fn new(sandbox: Sandbox, wall: Duration, broker: Arc<dyn Broker>, lifecycle: Lifecycle) -> Self {
        Self { sandbox, wall, turns: Semaphore::new(AT_ONCE), tool: OnceCell::new(), broker, lifecycle }
    }

    pub(crate) fn id(&self) -> &str {
        self.sandbox.id()
    }

    /// The beginning of its id, as log lines show it.
    pub(crate) fn short_id(&self) -> &str {
        let id = self.id();
        id.get(..ID_SHOWN).unwrap_or(id)
    }

    /// Puts its end off.
    pub(crate) async fn keep_alive(&self) -> Result<(), Error> {
        self.sandbox.set_timeout(self.wall).await
    }

    /// What it has for media, looked up once.
    pub(crate) async fn tool(&self) -> Result<&MediaTool, Error> {
        self.tool
            .get_or_try_init(|| async {
                let look = Command::program(scripts::BASH).args(["-c", scripts::DETECT]).timeout(SMALL_COMMAND);
                let output = self.sandbox.commands().run(&look).await?;
                let tool = tool_of(&output.stdout.text());
                self.judge(&tool);
                Ok(tool)
            })
            .await
    }

    fn judge(&self, tool: &MediaTool) {
        match tool {
            MediaTool::Ours { version } if version == env!("CARGO_PKG_VERSION") => {}
            MediaTool::Ours { version } => tracing::warn!(
                sandbox.id = self.id(),
                template.version = version,
                engine.version = env!("CARGO_PKG_VERSION"),
                "the template is of another version than the engine; build it anew with `ambientctl template build`"
            ),
            MediaTool::Python => tracing::info!(
                sandbox.id = self.id(),
                "the template has the Python media tool; `ambientctl template build` makes one that is faster"
            ),
            MediaTool::None => tracing::warn!(
                sandbox.id = self.id(),
                "the template has no media tool; build it with `ambientctl template build`, or name the right one in `E2B_TEMPLATE`"
            ),
        }
    }

    async fn slot(&self, stop: &CancellationToken) -> Option<Slot<'_>> {
        let turn = tokio::select! {
            () = stop.cancelled() => return None,
            turn = self.turns.acquire() => turn.ok()?,
        };
        loop {
            for number in 0..AT_ONCE {
                let name = format!("sandbox:{}:{number}", self.id());
                match self.broker.acquire(&name, SLOT_TTL).await {
                    Ok(Some(lease)) => return Some(Slot { _turn: turn, lease: Some(lease), handle: self }),
                    Ok(None) => {}
                    Err(error) => {
                        // Our own count still holds; that of other engines matters at a hand-over only.
                        tracing::warn!(error = %chain(&error), "commands in a sandbox are counted by this engine alone");
                        return Some(Slot { _turn: turn, lease: None, handle: self });
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                () = tokio::time::sleep(SLOT_PAUSE) => {}
            }
        }
    }

    /// Runs a command. Whatever way this ends, dropping it included, nothing of the command goes on but what it left in the
    /// background before it ended by itself.
    pub(crate) async fn run(
        &self,
        wish: &BoxCommand,
        output: &mut impl Listener,
        stop: &CancellationToken,
    ) -> Result<Ended, RunError> {
        let Some(slot) = self.slot(stop).await else { return Ok(Ended::Cancelled) };
        tokio::select! {
            () = stop.cancelled() => return Ok(Ended::Cancelled),
            kept = self.keep_alive() => kept.map_err(RunError::NotBegun)?,
        }
        let mut command = Command::program(scripts::BASH)
            .args(wish.arguments.iter().cloned())
            .envs(wish.environment.iter().map(|(name, value)| (*name, value.expose_secret())))
            .tag(wish.tag.clone())
            .timeout(wish.timeout + SERVER_GRACE);
        if let Some(folder) = wish.folder {
            command = command.current_dir(folder);
        }
        let mut leftover = Leftover { handle: self, tag: Some(wish.tag.clone()) };
        let commands = self.sandbox.commands();
        let starting = commands.start(&command);
        tokio::pin!(starting);
        let started = tokio::select! {
            started = &mut starting => started,
            // It may have begun without the answer being here yet: what begins after the sweep would go on.
            () = stop.cancelled() => match tokio::time::timeout(START_PATIENCE, &mut starting).await {
                Ok(started) => started,
                Err(_elapsed) => {
                    sweep(&self.sandbox, &wish.tag).await;
                    leftover.tag = None;
                    return Ok(Ended::Cancelled);
                }
            },
        };
        let mut process = started.map_err(|error| leftover.failed(error))?;
        let cause = {
            let ended = listen(&mut process, output);
            tokio::pin!(ended);
            tokio::select! {
                exit = &mut ended => {
                    let exit = exit.map_err(|error| leftover.failed(error))?;
                    leftover.tag = None;
                    return Ok(Ended::By(exit));
                }
                () = tokio::time::sleep(wish.timeout) => Ended::TimedOut,
                () = stop.cancelled() => Ended::Cancelled,
                error = self.attend(&slot) => return Err(leftover.failed(error)),
            }
        };
        if wish.ends_gently
            && process.signal(ambient_e2b::protocol::process::Signal::Terminate).await.is_ok_and(|sent| sent)
        {
            let _ended = tokio::time::timeout(STOP_PATIENCE, listen(&mut process, output)).await;
        }
        sweep(&self.sandbox, &wish.tag).await;
        leftover.tag = None;
        let _last_words = tokio::time::timeout(LAST_WORDS, listen(&mut process, output)).await;
        Ok(cause)
    }

    /// Keeps the sandbox and the right to run in it alive. Comes back when the sandbox is gone.
    async fn attend(&self, slot: &Slot<'_>) -> Error {
        let period = (self.wall / RENEWALS_PER_LIFE).min(LONGEST_RENEWAL);
        loop {
            tokio::time::sleep(period).await;
            if let Some(lease) = &slot.lease
                && let Err(error) = self.broker.extend(lease, SLOT_TTL).await
            {
                tracing::debug!(error = %chain(&error), "a command's count was not kept");
            }
            match self.keep_alive().await {
                Ok(()) => {}
                Err(error) if error.is_sandbox_lost() => return error,
                // The next time may get through before the sandbox ends.
                Err(error) => {
                    tracing::warn!(sandbox.id = self.id(), error = %chain(&error), "a sandbox's end was not put off");
                }
            }
        }
    }
}

/// Takes in what a command writes.
pub(crate) trait Listener: Send {
    fn stdout(&mut self, bytes: &[u8]);
    fn stderr(&mut self, bytes: &[u8]);
}

/// Reads on until the end. Dropped and called again, it loses nothing.
async fn listen(process: &mut Process, output: &mut impl Listener) -> Result<Exit, Error> {
    loop {
        match process.next().await? {
            Some(ProcessOutput::Stdout(bytes) | ProcessOutput::Terminal(bytes)) => output.stdout(&bytes),
            Some(ProcessOutput::Stderr(bytes)) => output.stderr(&bytes),
            Some(ProcessOutput::Exit(exit)) => return Ok(exit),
            None => return Err(Error::Protocol { message: "a command that ended twice".to_owned() }),
        }
    }
}

/// Ends every process with this tag, those of other users too where that is allowed.
async fn sweep(sandbox: &Sandbox, tag: &str) {
    let command = Command::program(scripts::BASH).args(["-c", scripts::SWEEP, tag]).timeout(SMALL_COMMAND);
    if sandbox.commands().run(&command.clone().user("root")).await.is_ok_and(|output| output.is_success()) {
        return;
    }
    if let Err(error) = sandbox.commands().run(&command).await
        && !error.is_sandbox_lost()
    {
        tracing::warn!(sandbox.id = sandbox.id(), error = %chain(&error), "processes of a command may go on in a sandbox");
    }
}

fn tool_of(words: &str) -> MediaTool {
    let mut words = words.split_whitespace();
    match words.next() {
        Some("ours") => MediaTool::Ours { version: words.next_back().unwrap_or_default().to_owned() },
        Some("python") => MediaTool::Python,
        Some(_) | None => MediaTool::None,
    }
}

/// Both streams of a shell command, beginning and end of each.
#[derive(Debug)]
pub(crate) struct ShellOutput {
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
}

impl Listener for ShellOutput {
    fn stdout(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.stderr.push(bytes);
    }
}

/// The answer of a media command and its log lines, which go to ours.
pub(crate) struct MediaOutput<'a> {
    sandbox: String,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    decoder: Utf8Decoder,
    line: String,
    progress: Option<&'a (dyn Fn(&str) + Send + Sync)>,
}

/// An answer is some kilobytes; a manifest of a day's tiles has some hundred.
const ANSWER_BYTES: usize = 16 << 20;
/// Of the log lines, what an error may quote and some more.
const WORDS_BYTES: usize = 32 << 10;
/// A longer log line is cut.
const LINE_BYTES: usize = 4 << 10;
/// What a line begins with that tells progress.
const PROGRESS: &str = "AMBIENT_PROGRESS ";

impl<'a> MediaOutput<'a> {
    pub(crate) fn new(handle: &Handle, progress: Option<&'a (dyn Fn(&str) + Send + Sync)>) -> Self {
        Self {
            sandbox: handle.short_id().to_owned(),
            stdout: Capture::new(ANSWER_BYTES),
            stderr: Capture::new(WORDS_BYTES),
            decoder: Utf8Decoder::new(),
            line: String::new(),
            progress,
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.trim_end();
        if let Some(json) = line.strip_prefix(PROGRESS) {
            if let Some(progress) = self.progress {
                progress(json);
            }
        } else if !line.is_empty() {
            tracing::info!("[box {}] {line}", self.sandbox);
        }
    }

    /// Logs a last line that had no end.
    pub(crate) fn finish(&mut self) {
        self.line.push_str(self.decoder.finish());
        self.end_line();
    }
}

impl Listener for MediaOutput<'_> {
    fn stdout(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
    }

    fn stderr(&mut self, bytes: &[u8]) {
        self.stderr.push(bytes);
        let text = self.decoder.push(bytes);
        for piece in text.split_inclusive(['\n', '\r']) {
            if self.line.len() < LINE_BYTES {
                self.line.push_str(piece);
            }
            if piece.ends_with(['\n', '\r']) {
                self.end_line();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_sandbox_has_is_read_from_its_words() {
        assert_eq!(tool_of("ours ambientctl 0.1.0\n"), MediaTool::Ours { version: "0.1.0".to_owned() });
        assert_eq!(tool_of("ours\n"), MediaTool::Ours { version: String::new() });
        assert_eq!(
            (tool_of("python\n"), tool_of("none\n"), tool_of("")),
            (MediaTool::Python, MediaTool::None, MediaTool::None)
        );
    }
}
