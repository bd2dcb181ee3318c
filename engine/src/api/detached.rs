//! Work that goes on when its client hangs up.
//!
//! A client's connection may end at any moment, and with it the handler's future. What changes a session must not stop
//! between two of its steps then (stored, but its run not begun), so it runs as a job of the engine and the handler only
//! waits for it.

use tokio::sync::oneshot;

use super::error::ApiError;
use super::state::App;

/// Runs `work` to its end, whatever becomes of the request.
///
/// # Errors
/// [`ApiError::Panicked`] when the work panicked.
pub async fn detached<T: Send + 'static>(
    app: &App,
    name: &'static str,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, ApiError> {
    let (done, outcome) = oneshot::channel();
    app.lifecycle.spawn_job(name, |_aborting| async move {
        // Nobody waits any more when the client is gone.
        let _unheard = done.send(work.await);
    });
    outcome.await.map_err(|_panicked| ApiError::Panicked)
}
