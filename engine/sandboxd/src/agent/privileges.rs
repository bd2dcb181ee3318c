//! What root of a sandbox may not do: the agent gives it up before it serves anyone, and every command inherits that.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::failure::{Attempting as _, StartFailure};
use super::kernel;

/// The rights that root of a sandbox keeps. What mounts, makes devices, loads modules, configures networks, traces other users'
/// processes or passes file permissions by handle is not among them.
const KEPT: [(CapabilitySet, &str); 12] = [
    (CapabilitySet::CHOWN, "CHOWN"),
    (CapabilitySet::DAC_OVERRIDE, "DAC_OVERRIDE"),
    (CapabilitySet::FOWNER, "FOWNER"),
    (CapabilitySet::FSETID, "FSETID"),
    (CapabilitySet::KILL, "KILL"),
    (CapabilitySet::SETGID, "SETGID"),
    (CapabilitySet::SETUID, "SETUID"),
    (CapabilitySet::SETPCAP, "SETPCAP"),
    (CapabilitySet::NET_BIND_SERVICE, "NET_BIND_SERVICE"),
    (CapabilitySet::SYS_CHROOT, "SYS_CHROOT"),
    (CapabilitySet::AUDIT_WRITE, "AUDIT_WRITE"),
    (CapabilitySet::SETFCAP, "SETFCAP"),
];

/// Their names, as a container engine is given them.
pub(crate) fn kept_names() -> Vec<String> {
    KEPT.iter().map(|(_right, name)| (*name).to_owned()).collect()
}

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
    let kept = KEPT.iter().fold(CapabilitySet::empty(), |all, (right, _name)| all | *right);
    for capability in (CapabilitySet::all() - kept).iter() {
        // One that this kernel does not know cannot be had either.
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::KEPT;

    #[test]
    fn each_right_goes_by_its_own_name() {
        for (right, name) in KEPT {
            assert_eq!(rustix::thread::CapabilitySet::from_name(name), Some(right), "{name}");
        }
    }
}
