//! Whether the engine lives, whether it can work, and what it has done.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::{BoxFuture, join_all};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, Cause, ErrorBody};
use super::state::App;

/// How long one check may take before it counts as failed.
const CHECK_LIMIT: Duration = Duration::from_secs(2);

/// What `GET /v1/healthz` says.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    #[schema(value_type = String, example = "ok")]
    pub status: &'static str,
}

/// The process lives and serves requests; nothing else is looked at.
#[utoipa::path(get, path = "/v1/healthz", tag = "health", security(()), responses((status = 200, body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "ok" })
}

type Probe = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Cause>> + Send + Sync>;

/// What has to answer before the engine can work. Parts of the engine add themselves at start.
#[derive(Clone, Default)]
pub struct ReadyChecks(Vec<(&'static str, Probe)>);

impl fmt::Debug for ReadyChecks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl ReadyChecks {
    /// Adds a check under a name such as `store`.
    #[must_use]
    pub fn with<F>(mut self, name: &'static str, probe: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), Cause>> + Send + 'static,
    {
        self.0.push((name, Arc::new(move || Box::pin(probe()))));
        self
    }

    /// Asks all of them at once.
    async fn ask(&self) -> Readiness {
        let asked = self.0.iter().map(|(name, probe)| async move {
            let failure = match tokio::time::timeout(CHECK_LIMIT, probe()).await {
                Ok(Ok(())) => None,
                Ok(Err(cause)) => Some(crate::store::chain(cause.as_ref())),
                Err(_elapsed) => Some(format!("no answer within {CHECK_LIMIT:?}")),
            };
            if let Some(error) = &failure {
                // The answer needs no key, so the reason stays in the log.
                tracing::warn!(check = name, error, "not ready");
            }
            ReadyCheck { name, status: if failure.is_none() { "ok" } else { "failed" } }
        });
        let checks = join_all(asked).await;
        let all_ok = checks.iter().all(|check| check.status == "ok");
        Readiness { status: if all_ok { "ready" } else { "not_ready" }, checks }
    }
}

/// What `GET /readyz` says.
#[derive(Debug, Serialize, ToSchema)]
pub struct Readiness {
    /// `ready` or `not_ready`.
    #[schema(value_type = String, example = "ready")]
    pub status: &'static str,
    /// One by one.
    pub checks: Vec<ReadyCheck>,
}

/// Whether one part answers.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReadyCheck {
    /// `store`, `broker`, …
    #[schema(value_type = String, example = "store")]
    pub name: &'static str,
    /// `ok` or `failed`; the engine's log says why.
    #[schema(value_type = String, example = "ok")]
    pub status: &'static str,
}

/// The store, the broker and whatever else the engine needs answer.
#[utoipa::path(get, path = "/readyz", tag = "health", security(()),
    responses((status = 200, body = Readiness), (status = 503, body = Readiness)))]
pub async fn readyz(State(app): State<App>) -> Response {
    let readiness = app.ready.ask().await;
    let status = if readiness.status == "ready" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(readiness)).into_response()
}

/// Metrics go to one recorder a process, whichever engine in it began first.
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Begins to count. Calling it again changes nothing.
pub fn begin_metrics() {
    RECORDER.get_or_init(|| match PrometheusBuilder::new().install_recorder() {
        Ok(handle) => Some(handle),
        Err(error) => {
            tracing::warn!(error = %crate::store::chain(&error), "metrics are off");
            None
        }
    });
}

/// Folds what was counted since the last time into what is shown; without it the memory of a busy engine that nobody
/// scrapes would grow.
pub fn tidy_metrics() {
    if let Some(Some(recorder)) = RECORDER.get() {
        recorder.run_upkeep();
    }
}

/// Counters in Prometheus' text form. Needs no key when the engine listens on a loopback address alone.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, body = String, content_type = "text/plain"), (status = "default", body = ErrorBody)))]
pub async fn metrics() -> Result<Response, ApiError> {
    let Some(Some(recorder)) = RECORDER.get() else {
        return Err(ApiError::not_found("metrics", "of this process"));
    };
    let text = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((text, recorder.render()).into_response())
}
