//! The signals that end a command, or what it is doing.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT. From the moment this is made they do not end the process by themselves any more.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// When the system does not let the process listen.
    pub fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// The name of the next one. Nothing is lost when this is dropped before it came.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => TERMINATE,
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// The name of the signal that asks to end, not to do something else.
pub const TERMINATE: &str = "SIGTERM";
