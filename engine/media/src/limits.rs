//! Resource limits of a child, set between fork and exec.
//!
//! The one place of this crate with `unsafe`: `pre_exec` runs in the forked child, where only async-signal-safe calls are allowed.
//! `setrlimit` is one, and nothing else is called.

use nix::sys::resource::{Resource, rlim_t, setrlimit};
use tokio::process::Command;

/// What one child may use. Passing a limit ends the child, never the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) cpu_seconds: u64,
    /// Of address space; `None` leaves it open, for programs that reserve far more than they use.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) output_bytes: u64,
}

/// Makes `command` start under `limits` and without core dumps.
#[expect(
    unsafe_code,
    reason = "rlimits of a child can only be set between fork and exec; the closure calls nothing but setrlimit"
)]
pub(crate) fn apply(command: &mut Command, limits: Limits) {
    let rows: [(Resource, Option<rlim_t>); 4] = [
        (Resource::RLIMIT_CPU, Some(limits.cpu_seconds)),
        (Resource::RLIMIT_AS, limits.memory_bytes),
        (Resource::RLIMIT_FSIZE, Some(limits.output_bytes)),
        (Resource::RLIMIT_CORE, Some(0)),
    ];
    let set = move || {
        for (resource, limit) in rows {
            let Some(limit) = limit else { continue };
            setrlimit(resource, limit, limit).map_err(std::io::Error::from)?;
        }
        Ok(())
    };
    // SAFETY: the closure runs in the child after fork; it allocates nothing, takes no lock and calls only setrlimit(2).
    unsafe {
        command.pre_exec(set);
    }
}
