//! One process: its output to whoever is connected, its input, its end.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ambient_e2b::protocol::process::{ProcessConfig, ProcessInput};
use bytes::Bytes;
use futures::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ending::Ending;
use super::pipe::{Pipe, Size};

/// Events that a connected client may be behind before the process has to wait for it.
const BEHIND: usize = 64;

/// What connected clients hear.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    Stdout(Bytes),
    Stderr(Bytes),
    Terminal(Bytes),
    Ended(Ending),
}

/// One end that output comes from.
pub(super) struct Source {
    pub(super) pipe: Arc<Pipe>,
    pub(super) chunk_bytes: usize,
    pub(super) happening: fn(Bytes) -> Happening,
}

/// How input reaches the process.
#[derive(Debug)]
pub(super) enum Input {
    /// It has none.
    None,
    /// A pipe, until it is closed.
    Pipe(tokio::sync::Mutex<Option<Pipe>>),
    /// Its terminal.
    Terminal(Arc<Pipe>),
}

/// Why input was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum InputFailure {
    #[error("error writing to stdin: tty assigned to process — input should be written to the pty, not the stdin")]
    WantsTerminal,
    #[error("error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty")]
    WantsPipe,
    #[error("error writing to stdin: stdin not enabled or closed")]
    Closed,
    #[error("error writing to the process")]
    Write(#[source] io::Error),
}

/// A process that a call started.
#[derive(Debug)]
pub(in crate::agent) struct Process {
    pid: u32,
    config: ProcessConfig,
    tag: Option<String>,
    input: Input,
    audience: Mutex<Audience>,
    /// A client sent a signal: its end is told as soon as it is dead, whoever still holds its pipes.
    signalled: CancellationToken,
    /// The time that its starter gave it is over.
    out_of_time: CancellationToken,
}

#[derive(Debug, Default)]
struct Audience {
    listeners: Vec<mpsc::Sender<Happening>>,
    ending: Option<Ending>,
}

impl Process {
    pub(super) fn new(pid: u32, config: ProcessConfig, tag: Option<String>, input: Input) -> Self {
        Self {
            pid,
            config,
            tag,
            input,
            audience: Mutex::default(),
            signalled: CancellationToken::new(),
            out_of_time: CancellationToken::new(),
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn config(&self) -> &ProcessConfig {
        &self.config
    }

    pub(super) fn tag(&self) -> Option<&String> {
        self.tag.as_ref()
    }

    /// Cancelled when its time is over, before it is killed.
    pub(super) fn out_of_time(&self) -> &CancellationToken {
        &self.out_of_time
    }

    /// Everything from now on; the end at once if it has ended.
    pub(super) fn listen(&self) -> mpsc::Receiver<Happening> {
        let (sender, receiver) = mpsc::channel(BEHIND);
        let mut audience = self.audience();
        match audience.ending {
            Some(ending) => {
                let _has_room = sender.try_send(Happening::Ended(ending));
            }
            None => audience.listeners.push(sender),
        }
        receiver
    }

    /// Writes input, waiting until the process takes it.
    pub(super) async fn write(&self, input: &ProcessInput) -> Result<(), InputFailure> {
        match (&self.input, input) {
            (Input::Terminal(terminal), ProcessInput::Pty(bytes)) => {
                terminal.write_all(bytes).await.map_err(InputFailure::Write)
            }
            (Input::Terminal(_), ProcessInput::Stdin(_)) => Err(InputFailure::WantsTerminal),
            (Input::Pipe(_) | Input::None, ProcessInput::Pty(_)) => Err(InputFailure::WantsPipe),
            (Input::None, ProcessInput::Stdin(_)) => Err(InputFailure::Closed),
            (Input::Pipe(pipe), ProcessInput::Stdin(bytes)) => {
                let pipe = pipe.lock().await;
                let pipe = pipe.as_ref().ok_or(InputFailure::Closed)?;
                pipe.write_all(bytes).await.map_err(InputFailure::Write)
            }
        }
    }

    /// Ends its input. `false`: it has a terminal, whose input has no such end.
    pub(super) async fn close_input(&self) -> bool {
        match &self.input {
            Input::Terminal(_) => return false,
            Input::Pipe(pipe) => *pipe.lock().await = None,
            Input::None => {}
        }
        true
    }

    /// Tells its terminal a size. `None`: it has none.
    pub(super) fn resize(&self, size: Size) -> Option<io::Result<()>> {
        match &self.input {
            Input::Terminal(terminal) => Some(terminal.resize(size)),
            Input::Pipe(_) | Input::None => None,
        }
    }

    /// Sends a signal to this one process.
    pub(super) fn signal(&self, signal: Signal) -> nix::Result<()> {
        self.signalled.cancel();
        kill(Pid::from_raw(self.pid.cast_signed()), signal)
    }

    /// Carries output until the process has ended and every holder of its pipes too, or it was signalled and has ended.
    pub(super) async fn attend(
        self: Arc<Self>,
        sources: Vec<Source>,
        ended: oneshot::Receiver<Ending>,
        limit: Option<Duration>,
    ) -> Ending {
        let outputs = async { drop(join_all(sources.iter().map(|source| self.carry(source))).await) };
        let time_over = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => pending().await,
            }
        };
        tokio::pin!(outputs, ended, time_over);
        let (mut ending, mut all_read, mut in_time) = (None, false, true);
        while ending.is_none() || !all_read {
            tokio::select! {
                biased;
                () = &mut outputs, if !all_read => all_read = true,
                end = &mut ended, if ending.is_none() => ending = Some(end.unwrap_or(Ending::Exited(-1))),
                () = self.signalled.cancelled(), if ending.is_some() => break,
                () = &mut time_over, if in_time => {
                    in_time = false;
                    // First the word, then the deed: a client must not take this for an exit.
                    self.out_of_time.cancel();
                    let _may_have_ended_just_now = self.signal(Signal::SIGKILL);
                }
            }
        }
        let ending = ending.expect("the loop ends with an ending alone");
        let listeners = {
            let mut audience = self.audience();
            audience.ending = Some(ending);
            std::mem::take(&mut audience.listeners)
        };
        for listener in listeners {
            // A client that does not read holds up its own stream alone.
            let patience = tokio::time::timeout(Duration::from_secs(10), listener.send(Happening::Ended(ending)));
            let _client_may_be_gone = patience.await;
        }
        ending
    }

    async fn carry(&self, source: &Source) {
        let mut buffer = Vec::with_capacity(source.chunk_bytes);
        loop {
            match source.pipe.read(&mut buffer).await {
                Ok(()) if buffer.is_empty() => return,
                Ok(()) => self.tell((source.happening)(Bytes::copy_from_slice(&buffer))).await,
                Err(error) => {
                    tracing::warn!(%error, pid = self.pid, "cannot read the output of a process");
                    return;
                }
            }
        }
    }

    /// To all that are connected; who is gone is dropped. With nobody there the output is lost, as the protocol says.
    async fn tell(&self, happening: Happening) {
        let listeners = self.audience().listeners.clone();
        let mut someone_left = false;
        for listener in &listeners {
            someone_left |= listener.send(happening.clone()).await.is_err();
        }
        if someone_left {
            self.audience().listeners.retain(|listener| !listener.is_closed());
        }
    }

    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
