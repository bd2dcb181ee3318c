//! A command that runs.

use bytes::Bytes;

use super::agent::Envd;
use super::output::{Capture, Exit};
use super::stream::MessageStream;
use crate::error::Error;
use crate::protocol::process::{
    self, CloseStdin, Empty, EventMessage, ProcessEvent, ProcessInput, Selector, SendInput, SendSignal, Signal,
};

/// How much input one request carries: in base64 it stays well under the usual limit of 4 MiB for a message.
const INPUT_PIECE: usize = 256 << 10;

/// A command and the stream of what it tells.
///
/// Dropping it closes the stream and leaves the command running; [`kill`](Self::kill) ends it.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    stream: MessageStream,
    has_terminal: bool,
    ended: bool,
    /// An exit that has come and has not been told yet.
    exit: Option<Exit>,
}

/// Something that a command told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessOutput {
    /// It wrote to standard output. A piece may end within a character: see [`Utf8Decoder`](super::Utf8Decoder).
    Stdout(Bytes),
    /// It wrote to standard error.
    Stderr(Bytes),
    /// It wrote to its terminal.
    Terminal(Bytes),
    /// It ended, after all that it wrote. Nothing follows.
    Exit(Exit),
}

impl Process {
    /// Waits for the command's start, which is the first thing a stream must tell.
    pub(crate) async fn opened(mut stream: MessageStream, has_terminal: bool) -> Result<Self, Error> {
        let limit = stream.envd().config().request_timeout;
        let first = async {
            loop {
                match stream.next::<EventMessage>().await?.map(|message| message.event) {
                    Some(ProcessEvent::Start { pid }) => return Ok(pid),
                    Some(ProcessEvent::Keepalive | ProcessEvent::Unknown) => {}
                    Some(other) => {
                        let what = event_name(&other);
                        return Err(Error::Protocol { message: format!("a command's stream that begins with {what}") });
                    }
                    None => {
                        return Err(Error::Protocol { message: "a command's stream that tells nothing".to_owned() });
                    }
                }
            }
        };
        let pid = match tokio::time::timeout(limit, first).await {
            Ok(outcome) => outcome?,
            Err(_elapsed) => return Err(stream.envd().diagnose(Error::RequestTimedOut { limit }).await),
        };
        Ok(Self { pid, stream, has_terminal, ended: false, exit: None })
    }

    /// Its number in the sandbox.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it tells next; `None` after its exit. May be dropped at any point and called again without losing anything.
    ///
    /// # Errors
    /// As [`Commands::run`](super::Commands::run). After an error nothing more is told; the command may still run unless the error is its timeout.
    pub async fn next(&mut self) -> Result<Option<ProcessOutput>, Error> {
        if let Some(exit) = self.exit.take() {
            return Ok(Some(ProcessOutput::Exit(exit)));
        }
        if self.ended {
            return Ok(None);
        }
        loop {
            let message = match self.stream.next::<EventMessage>().await {
                Ok(message) => message,
                Err(error) => {
                    self.ended = true;
                    if matches!(error, Error::CommandTimedOut { .. }) && self.stream.is_overdue() {
                        // The server let its deadline pass, so the command may still run. The timeout is the news, whatever comes of this.
                        let _ = self.kill().await;
                    }
                    return Err(error);
                }
            };
            match message.map(|message| message.event) {
                Some(ProcessEvent::Stdout(bytes)) => return Ok(Some(ProcessOutput::Stdout(bytes))),
                Some(ProcessEvent::Stderr(bytes)) => return Ok(Some(ProcessOutput::Stderr(bytes))),
                Some(ProcessEvent::Pty(bytes)) => return Ok(Some(ProcessOutput::Terminal(bytes))),
                Some(ProcessEvent::End(end)) => {
                    self.ended = true;
                    // Kept over the wait, in case this is dropped there.
                    self.exit = Some(end.into());
                    self.stream.finish().await;
                    return Ok(self.exit.take().map(ProcessOutput::Exit));
                }
                Some(ProcessEvent::Keepalive | ProcessEvent::Unknown | ProcessEvent::Start { .. }) => {}
                None => {
                    self.ended = true;
                    return Err(Error::Protocol { message: "a command's stream without the command's end".to_owned() });
                }
            }
        }
    }

    /// Takes in what it writes until it ends. When this fails, `capture` holds what came before.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn wait(&mut self, capture: &mut Capture) -> Result<Exit, Error> {
        loop {
            match self.next().await? {
                Some(ProcessOutput::Stdout(bytes) | ProcessOutput::Terminal(bytes)) => capture.push_stdout(&bytes),
                Some(ProcessOutput::Stderr(bytes)) => capture.push_stderr(&bytes),
                Some(ProcessOutput::Exit(exit)) => return Ok(exit),
                None => {
                    return Err(Error::InvalidArgument { message: "the command was waited for already".to_owned() });
                }
            }
        }
    }

    /// Ends its first process at once. `false` says that it has ended already.
    ///
    /// # Errors
    /// When it is not known whether it ended.
    pub async fn kill(&self) -> Result<bool, Error> {
        self.signal(Signal::Kill).await
    }

    /// Sends a signal to its first process. `false` says that it has ended already.
    ///
    /// # Errors
    /// When it is not known whether the signal was sent.
    pub async fn signal(&self, signal: Signal) -> Result<bool, Error> {
        let question = SendSignal { process: Selector::Pid(self.pid), signal };
        match self.stream.envd().unary::<_, Empty>(process::SEND_SIGNAL, &question, None).await {
            Ok(Empty {}) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Its input.
    pub fn stdin(&self) -> Stdin {
        Stdin::new(self.stream.envd().clone(), Selector::Pid(self.pid), self.has_terminal)
    }
}

fn event_name(event: &ProcessEvent) -> &'static str {
    match event {
        ProcessEvent::Start { .. } => "its start",
        ProcessEvent::Stdout(_) | ProcessEvent::Stderr(_) | ProcessEvent::Pty(_) => "output",
        ProcessEvent::End(_) => "its end",
        ProcessEvent::Keepalive => "a keepalive",
        ProcessEvent::Unknown => "something unknown",
    }
}

/// The input of a command.
#[derive(Clone, Debug)]
pub struct Stdin {
    envd: Envd,
    selector: Selector,
    is_terminal: bool,
}

impl Stdin {
    pub(crate) fn new(envd: Envd, selector: Selector, is_terminal: bool) -> Self {
        Self { envd, selector, is_terminal }
    }

    /// Writes all of it, in order.
    ///
    /// # Errors
    /// When the command has no open input or has ended. A part may have been written by then.
    pub async fn write(&self, bytes: impl Into<Bytes>) -> Result<(), Error> {
        let mut rest: Bytes = bytes.into();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(INPUT_PIECE));
            let input = if self.is_terminal { ProcessInput::Pty(piece) } else { ProcessInput::Stdin(piece) };
            let question = SendInput { process: self.selector.clone(), input };
            let Empty {} = self.envd.unary(process::SEND_INPUT, &question, None).await?;
        }
        Ok(())
    }

    /// Ends it: the command reads end of file. On a terminal that is Control-D.
    ///
    /// # Errors
    /// When the command has ended.
    pub async fn close(&self) -> Result<(), Error> {
        if self.is_terminal {
            return self.write(&b"\x04"[..]).await;
        }
        let question = CloseStdin { process: self.selector.clone() };
        let Empty {} = self.envd.unary(process::CLOSE_STDIN, &question, None).await?;
        Ok(())
    }
}
