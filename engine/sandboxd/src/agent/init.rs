//! The second stage: process 1 of the sandbox.

use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::stat::{Mode, umask};

use super::failure::{Attempting as _, StartFailure};
use super::{BootSpec, Report, boot, enter, kernel, loopback, privileges, root, runtime, serve};

/// Makes the sandbox and serves it until the host is gone.
pub(super) fn run() -> Result<ExitCode, StartFailure> {
    prctl::set_pdeathsig(Signal::SIGKILL).attempting("follow the first stage into its end")?;
    let listener = io::stdin().as_fd().try_clone_to_owned().map(UnixListener::from);
    let listener = listener.attempting("take over the host's listening socket")?;
    let control = io::stdout().as_fd().try_clone_to_owned().map(UnixStream::from);
    let control = control.attempting("take over the host's socket")?;
    let spec = read_spec(&control).attempting("read what the host wants")?;
    // As the host counts: its `/proc` is still the one that is mounted.
    let pid = std::fs::read_link("/proc/self").attempting("look at `/proc/self`")?;
    let pid = pid.to_str().and_then(|pid| pid.parse().ok()).unwrap_or_default();

    root::mount_root(&spec)?;
    nix::unistd::sethostname(&spec.hostname).attempting("name the sandbox")?;
    if spec.own_network {
        loopback::switch_on().attempting("switch on the loopback interface")?;
    }
    umask(Mode::from_bits_truncate(0o022));
    kernel::ignore_no_signal();
    // So that no command is in a session with this process.
    let _is_leader_already = nix::unistd::setsid();
    privileges::give_up(spec.data_limit_bytes)?;

    let runtime = runtime::start().attempting("start the runtime of the agent")?;
    let served = runtime.block_on(async {
        let served = serve::start(listener, spec.agent)?;
        boot::report(&Report::Ready { pid });
        enter::close_sockets().attempting("let go of the host's sockets")?;
        host_is_gone(control).await.attempting("watch the host")?;
        drop(served);
        Ok(())
    });
    // A start or a read that stands still (its process was stopped, its file is a pipe) holds nobody any more.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

fn read_spec(control: &UnixStream) -> io::Result<BootSpec> {
    // The host sends one line and nothing after it, so that no byte is lost in the reader.
    let mut line = String::new();
    BufReader::new(control).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Waits for the end of the socket: the host stopped, or died.
pub(super) async fn host_is_gone(control: UnixStream) -> io::Result<()> {
    control.set_nonblocking(true)?;
    let control = tokio::net::UnixStream::from_std(control)?;
    let mut byte = [0; 1];
    loop {
        control.readable().await?;
        match control.try_read(&mut byte) {
            Ok(0) => return Ok(()),
            Ok(_unasked) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
