//! How a process ended, in the protocol's words.

use nix::sys::signal::Signal;

/// An exit, or the signal that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::agent) enum Ending {
    /// It ended by itself.
    Exited(i32),
    /// A signal ended it.
    Signalled(Signal),
}

impl Ending {
    /// The number that clients see: -1 for a signal.
    pub(in crate::agent) fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(_) => -1,
        }
    }

    /// `exit status N` or `signal: NAME`.
    pub(in crate::agent) fn status(self) -> String {
        match self {
            Self::Exited(code) => format!("exit status {code}"),
            Self::Signalled(signal) => format!("signal: {}", name(signal)),
        }
    }
}

/// The words that clients know from the service.
fn name(signal: Signal) -> String {
    let name = match signal {
        Signal::SIGHUP => "hangup",
        Signal::SIGINT => "interrupt",
        Signal::SIGQUIT => "quit",
        Signal::SIGILL => "illegal instruction",
        Signal::SIGTRAP => "trace/breakpoint trap",
        Signal::SIGABRT => "aborted",
        Signal::SIGBUS => "bus error",
        Signal::SIGFPE => "floating point exception",
        Signal::SIGKILL => "killed",
        Signal::SIGUSR1 => "user defined signal 1",
        Signal::SIGSEGV => "segmentation fault",
        Signal::SIGUSR2 => "user defined signal 2",
        Signal::SIGPIPE => "broken pipe",
        Signal::SIGALRM => "alarm clock",
        Signal::SIGTERM => "terminated",
        Signal::SIGXCPU => "CPU time limit exceeded",
        Signal::SIGXFSZ => "file size limit exceeded",
        other => return format!("signal {}", other as i32),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::Signal;

    use super::Ending;

    #[test]
    fn endings_read_as_the_service_writes_them() {
        assert_eq!(Ending::Exited(3).status(), "exit status 3");
        assert_eq!(Ending::Signalled(Signal::SIGKILL).status(), "signal: killed");
        assert_eq!(Ending::Signalled(Signal::SIGKILL).exit_code(), -1);
    }
}
