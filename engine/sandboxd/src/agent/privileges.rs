//! What root of a sandbox may not do: the agent gives it up before it serves anyone, and every command inherits that.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::failure::{Attempting as _, StartFailure};
use super::kernel;

/// The rights that root of a sandbox keeps. What mounts, makes devices, loads modules, configures networks, traces other users'
/// processes or passes file permissions by handle is not among them.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETFCAP);

/// Most files that one process may have open.
const OPEN_FILES: u64 = 65_536;

/// Gives up everything else, for this process and all that it starts. Must come before any thread.
pub(super) fn give_up(data_limit_bytes: Option<u64>) -> Result<(), StartFailure> {
    limit_processes(data_limit_bytes).attempting("limit what a process may take")?;
    // The agent's program is a file of the host: without this, root of the sandbox could open it through `/proc/1/exe`.
    prctl::set_dumpable(false).attempting("keep the agent's memory to itself")?;
    // While this process may still do it: without `no_new_privs`, which would take `sudo` away, a filter needs a right that goes next.
    kernel::refuse_calls().attempting("refuse system calls")?;
    drop_capabilities().attempting("give up capabilities")
}

/// What each process may take, where that is nobody else's to limit.
pub(super) fn limit_processes(data_limit_bytes: Option<u64>) -> io::Result<()> {
    lower(Resource::RLIMIT_CORE, 0)?;
    lower(Resource::RLIMIT_NOFILE, OPEN_FILES)?;
    if let Some(bytes) = data_limit_bytes {
        lower(Resource::RLIMIT_DATA, bytes)?;
    }
    Ok(())
}

/// Never raises: not every root may.
fn lower(resource: Resource, limit: u64) -> io::Result<()> {
    let (_soft, hard) = getrlimit(resource)?;
    let limit = limit.min(hard);
    Ok(setrlimit(resource, limit, limit)?)
}

fn drop_capabilities() -> io::Result<()> {
    for capability in (CapabilitySet::all() - KEPT).iter() {
        // One that this kernel does not know cannot be had either.
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}
