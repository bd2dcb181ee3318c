//! The threads of the agent.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

/// Longer than a sandbox lives.
const FOR_GOOD: Duration = Duration::from_hours(10 * 365 * 24);

/// One thread that serves, since a sandbox that idles is to cost next to nothing, and one for files, which is there from the beginning: when a
/// sandbox has no room for another process, it has none for another thread either, and its files are to be read all the same. More come as they
/// are wanted.
pub(super) fn start() -> io::Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().thread_keep_alive(FOR_GOOD).build()?;
    runtime.block_on(runtime.spawn_blocking(|| ()))?;
    Ok(runtime)
}
