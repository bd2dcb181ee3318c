//! The agent as process 1 of a container.
//!
//! What the other two stages do, the container engine has done: namespaces, the root, limits, rights and the filter of system calls. Host and agent
//! meet in a folder that both see: the host leaves the specification there, and the agent answers on a socket. The first connection is the line of
//! life: the agent says on it that it is ready, and ends when the host lets go of it, whatever the host died of.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};

use super::failure::{Attempting as _, StartFailure};
use super::{AgentSpec, DOOR_SOCKET, DOOR_SPEC, init, kernel, privileges, root, runtime, serve};

/// Serves until the host is gone.
pub(super) fn run(door: &Path) -> Result<ExitCode, StartFailure> {
    let file = door.join(DOOR_SPEC);
    let text = fs::read(&file).attempting("read what the host wants")?;
    fs::remove_file(&file).attempting("remove what the host wants")?;
    let spec: AgentSpec =
        serde_json::from_slice(&text).map_err(std::io::Error::from).attempting("understand what the host wants")?;
    umask(Mode::from_bits_truncate(0o022));
    kernel::ignore_no_signal();
    root::make_tmp().attempting("make `/tmp`")?;
    // So that no command is in a session with this process.
    let _is_leader_already = nix::unistd::setsid();
    privileges::limit_processes(None).attempting("limit what a process may take")?;
    // Without this, root of the sandbox could read the host's program through `/proc/1/exe`, and the variables of others in this memory.
    prctl::set_dumpable(false).attempting("keep the agent's memory to itself")?;

    let socket = door.join(DOOR_SOCKET);
    let listener = UnixListener::bind(&socket).attempting("open the door to the host")?;
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).attempting("keep the door to root")?;
    // Nobody else runs in here yet, so this is the host.
    let (mut life, _host) = listener.accept().attempting("meet the host")?;

    let runtime = runtime::start().attempting("start the runtime of the agent")?;
    let served = runtime.block_on(async {
        let served = serve::start(listener, spec)?;
        life.write_all(b"\n").attempting("tell the host that all is ready")?;
        init::host_is_gone(life).await.attempting("watch the host")?;
        drop(served);
        Ok(())
    });
    // As in `init`: what stands still holds nobody any more.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}
