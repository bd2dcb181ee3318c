//! The agent as process 1 of a container.
//!
//! What the other two stages do, the container engine has done: namespaces, the root, limits, rights and the filter of system calls. Host and agent
//! meet in a folder that both see: the host leaves the specification there, and the agent answers on a socket.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::stat::{Mode, umask};

use super::failure::{Attempting as _, StartFailure};
use super::{AgentSpec, DOOR_SOCKET, DOOR_SPEC, privileges, serve};

/// Serves until it is killed.
pub(super) fn run(door: &Path) -> Result<ExitCode, StartFailure> {
    let file = door.join(DOOR_SPEC);
    let text = fs::read(&file).attempting("read what the host wants")?;
    fs::remove_file(&file).attempting("remove what the host wants")?;
    let spec: AgentSpec =
        serde_json::from_slice(&text).map_err(std::io::Error::from).attempting("understand what the host wants")?;
    umask(Mode::from_bits_truncate(0o022));
    // So that no command is in a session with this process.
    let _is_leader_already = nix::unistd::setsid();
    privileges::limit_processes(None).attempting("limit what a process may take")?;
    // Without this, root of the sandbox could read the host's program through `/proc/1/exe`, and the variables of others in this memory.
    prctl::set_dumpable(false).attempting("keep the agent's memory to itself")?;

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .attempting("start the runtime of the agent")?;
    runtime.block_on(async {
        let socket = door.join(DOOR_SOCKET);
        let _none_of_an_earlier_start = fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).attempting("open the door to the host")?;
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).attempting("keep the door to root")?;
        let served = serve::start(listener, spec)?;
        let _ended = served.await;
        Ok(ExitCode::FAILURE)
    })
}
