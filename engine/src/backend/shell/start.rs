//! The start of a shell: its environment, its limits and its tag.
//!
//! The one place of the engine with `unsafe`: limits and a session of its own can only be set between fork and exec, where
//! nothing but async-signal-safe calls is allowed.

use std::io;
use std::process::Stdio;

use camino::Utf8Path;
use nix::sys::resource::{Resource, rlim_t, setrlimit};
use tokio::process::{Child, Command};

use super::ShellLimits;
use super::processes::Tag;

/// The shell, by POSIX's own name.
pub(crate) const SHELL: &str = "/bin/sh";
/// Where programs are when the engine itself was started without a `PATH`.
const FALLBACK_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Seconds between the signal that a program may handle (`SIGXCPU`) and the one that ends it.
const CPU_GRACE_SECONDS: u64 = 5;
/// The folder for temporary files, inside the workspace.
pub(crate) const TEMPORARY: &str = ".tmp";

/// Starts `command` in `folder`, as the leader of a session of its own.
pub(crate) fn start(command: &str, folder: &Utf8Path, tag: Tag, limits: ShellLimits) -> io::Result<Child> {
    #[expect(clippy::disallowed_methods, reason = "the shell tool is one of the two spawners that the lint names")]
    let mut shell = Command::new(SHELL);
    shell
        .arg("-c")
        .arg(command)
        .current_dir(folder)
        .env_clear()
        .envs(environment(folder))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true); // ends and reaps the leader; the rest is ended by its tag
    prepare(&mut shell, tag, limits);
    shell.spawn()
}

/// All that the shell is told: nothing of the engine's environment but where programs are.
fn environment(folder: &Utf8Path) -> Vec<(&'static str, std::ffi::OsString)> {
    vec![
        ("PATH", std::env::var_os("PATH").unwrap_or_else(|| FALLBACK_PATH.into())),
        ("HOME", folder.as_str().into()),
        ("TMPDIR", folder.join(TEMPORARY).as_str().into()),
        ("LANG", "C.UTF-8".into()),
        ("TERM", "dumb".into()),
        ("SHELL", SHELL.into()),
    ]
}

#[expect(
    unsafe_code,
    reason = "limits and session can only be set between fork and exec; the closure calls setsid and setrlimit alone"
)]
fn prepare(shell: &mut Command, tag: Tag, limits: ShellLimits) {
    let cpu_seconds = limits.cpu.as_secs().max(1);
    let rows: [(Resource, rlim_t, rlim_t); 3] = [
        (Resource::RLIMIT_CPU, cpu_seconds, cpu_seconds.saturating_add(CPU_GRACE_SECONDS)),
        // What a process may write to, not what it maps: runtimes reserve far more than they ever use.
        (Resource::RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes),
        (Resource::RLIMIT_CORE, 0, 0),
    ];
    let set = move || {
        nix::unistd::setsid()?;
        for (resource, soft, hard) in rows {
            setrlimit(resource, soft, hard)?;
        }
        #[cfg(target_os = "linux")]
        setrlimit(Resource::RLIMIT_LOCKS, tag.as_limit(), tag.as_limit())?;
        #[cfg(not(target_os = "linux"))]
        let _unused = tag;
        Ok(())
    };
    // SAFETY: the closure runs in the child after fork; it allocates nothing, takes no lock and calls only setsid(2) and
    // setrlimit(2), which are async-signal-safe.
    unsafe {
        shell.pre_exec(set);
    }
}
