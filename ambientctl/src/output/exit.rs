//! How a command ends, as a number.

use std::process::ExitCode;

/// The exit codes. They are part of the contract with scripts: add, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command did what it says.
    Ok = 0,
    /// The command ran, and its answer is no.
    Unhealthy = 1,
    /// Words or settings are wrong; clap's own code.
    Usage = 2,
    /// A store, a broker or an engine did not answer.
    Unreachable = 3,
    /// A bug of ours.
    Internal = 70,
    /// A signal cut short what was asked for, or a second one the stop; a shell's own code for an interrupt.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
