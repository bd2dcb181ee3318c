//! The first stage: out of the host's namespaces.
//!
//! It stays as the parent of process 1, so that the host has a child whose end is the sandbox's end, and whose death takes the sandbox
//! along.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use super::failure::{Attempting as _, StartFailure};
use super::{AGENT_WORD, Report, boot};

/// Leaves the namespaces, starts process 1 and waits for its end.
pub(super) fn run(own_network: bool, control_groups: &[PathBuf]) -> Result<ExitCode, StartFailure> {
    for file in control_groups {
        std::fs::write(file, "0").attempting(format!("join the control group of `{}`", file.display()))?;
    }
    let mut namespaces = CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    if own_network {
        namespaces |= CloneFlags::CLONE_NEWNET;
    }
    unshare(namespaces).attempting("leave the namespaces of the host (this needs root)")?;
    // From here on nothing that is mounted shows on the host, and it all goes with the namespace.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .attempting("keep mounts from the host")?;
    boot::report(&Report::Entered { pid: nix::unistd::getpid().as_raw() });

    #[expect(clippy::disallowed_methods, reason = "process 1 of a sandbox is started here and nowhere else")]
    let mut child = Command::new("/proc/self/exe")
        .arg0("ambientctl")
        .args([AGENT_WORD, "init"])
        .env_clear()
        .current_dir("/")
        .spawn()
        .attempting("start the first process of the sandbox")?;
    // Process 1 alone holds the sockets now: the host sees their end when that process is gone.
    close_sockets().attempting("let go of the host's sockets")?;
    let status = child.wait().attempting("wait for the sandbox")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Puts nothing where the inherited sockets were.
pub(super) fn close_sockets() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}
