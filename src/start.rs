//! What every command shares that has an engine in its process: the runtime, the start, and what is said when that fails.

use std::num::NonZeroUsize;

use ambient_ctl::output::{Exit, Failure};
use ambient_engine::store::StoreError;
use ambient_engine::{Engine, StartError};
use ambient_settings::Settings;
use tokio::net::TcpListener;

/// Runs a command on a runtime with so many threads.
///
/// # Errors
/// Those of the command, and when there can be no runtime.
pub(crate) fn on_threads<T>(
    threads: NonZeroUsize,
    command: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.get())
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Internal, error))?;
    let ended = runtime.block_on(command);
    // What the engine did not end by itself is not waited for: a blocking read may never come back.
    runtime.shutdown_background();
    ended
}

/// Starts an engine on this listener.
///
/// # Errors
/// When a part of it is not usable, with what to do about it.
pub(crate) async fn engine(settings: Settings, listener: TcpListener) -> Result<Engine, Failure> {
    ambient_engine::start(settings, listener).await.map_err(start_failure)
}

/// What to do about a start that failed, where more can be said than the error's own words.
fn start_failure(error: StartError) -> Failure {
    match error {
        StartError::Store(StoreError::Pending { .. }) | StartError::Sandboxes(_) | StartError::Catalogue(_) => {
            Failure::new(Exit::Usage, error)
        }
        StartError::Store(_) => Failure::new(Exit::Unreachable, error)
            .hint("`DATABASE_URL` names the database; unset, it is a SQLite file in `AMBIENT_HOME`"),
        StartError::Broker(_) => Failure::new(Exit::Unreachable, error)
            .hint("`REDIS_URL` names the Redis; unset, one engine works without any"),
        StartError::Folder { .. } => {
            Failure::new(Exit::Usage, error).hint("`AMBIENT_HOME` and `VIDEO_FOLDER` say where folders are made")
        }
        StartError::Listener(_) | StartError::Client(_) | StartError::Secrets(_) | StartError::Bucket(_) => {
            Failure::new(Exit::Internal, error)
        }
    }
}
