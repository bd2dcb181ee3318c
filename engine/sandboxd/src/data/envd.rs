//! Requests to the agent.

use ambient_e2b::protocol::header;
use axum::Json;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode};
use axum::response::IntoResponse as _;
use serde::Serialize;

use super::rights::Refusal;
use super::{cut, not_found};
use crate::driver::DialFailure;
use crate::sandboxes::{Alive, Sandbox};
use crate::serve::{App, error};

/// Headers of one connection, which are nobody else's business.
const OF_THE_CONNECTION: [HeaderName; 5] = [CONNECTION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// The routes of the agent that are open to the world; RPC apart, whose paths begin with the name of a service.
const ROUTES: [&str; 4] = ["/health", "/files", "/files/compose", "/envs"];
const SERVICES: [&str; 2] = ["/process.Process/", "/filesystem.Filesystem/"];

/// Answers for the agent.
pub(super) async fn serve(
    app: &App,
    sandbox: &Sandbox,
    alive: &Alive,
    may: Result<(), Refusal>,
    request: Request,
) -> Response<Body> {
    let path = request.uri().path();
    let needs_right = path != "/health";
    if needs_right && let Err(refusal) = may {
        return refusal.answer();
    }
    if path == "/metrics" {
        return metrics(app, sandbox).await;
    }
    if !ROUTES.contains(&path) && !SERVICES.iter().any(|service| path.starts_with(service)) {
        return error(StatusCode::NOT_FOUND, format!("the agent has no `{path}`"));
    }
    let answered = tokio::select! {
        biased;
        () = alive.cut.cancelled() => return not_found(&sandbox.id),
        answered = alive.machine.dial().send(inside(request)) => answered,
    };
    match answered {
        Ok(answer) => {
            let (mut parts, body) = answer.into_parts();
            keep_to_the_connection(&mut parts.headers);
            if parts.status == StatusCode::METHOD_NOT_ALLOWED
                || (parts.status == StatusCode::NOT_FOUND && is_rpc_miss(&parts.headers))
            {
                return error(parts.status, "the agent has no such call");
            }
            Response::from_parts(parts, cut::body(body, &alive.cut))
        }
        Err(failure) => lost(app, sandbox, alive, &failure),
    }
}

/// The router's own 404 has no body; the agent's has one.
fn is_rpc_miss(headers: &HeaderMap) -> bool {
    !headers.contains_key(axum::http::header::CONTENT_TYPE)
}

/// Without an agent there is no sandbox: what is left of it goes. One that could not be asked because this host is short of something is well.
pub(super) fn lost(app: &App, sandbox: &Sandbox, alive: &Alive, failure: &DialFailure) -> Response<Body> {
    if alive.cut.is_cancelled() {
        return not_found(&sandbox.id);
    }
    tracing::error!(sandbox.id, error = crate::with_causes(failure), "the agent of a sandbox does not answer");
    if let DialFailure::Connect(reason) = failure {
        if is_shortage(reason) {
            return error(
                StatusCode::SERVICE_UNAVAILABLE,
                "the sandbox host has too much to do; try again in a moment",
            );
        }
        let (registry, id) = (app.registry.clone(), sandbox.id.clone());
        app.tasks.spawn(async move {
            if let Some(sandbox) = registry.find(&id) {
                registry.kill(&sandbox).await;
            }
        });
        return not_found(&sandbox.id);
    }
    error(StatusCode::BAD_GATEWAY, "the agent of the sandbox does not answer")
}

/// Whether a connection was not made for want of something that has nothing to do with its other end: open files, memory, or a place in the queue of
/// connections that the agent has yet to take.
fn is_shortage(reason: &std::io::Error) -> bool {
    use nix::errno::Errno;
    const SHORTAGES: [Errno; 5] = [Errno::EMFILE, Errno::ENFILE, Errno::EAGAIN, Errno::ENOMEM, Errno::ENOBUFS];
    reason.raw_os_error().is_some_and(|code| SHORTAGES.contains(&Errno::from_raw(code)))
}

/// The request as the agent gets it: the rights stay out here.
fn inside(request: Request) -> Request {
    let (mut parts, body) = request.into_parts();
    for name in [header::SANDBOX_ID, header::SANDBOX_PORT, header::ACCESS_TOKEN, header::TRAFFIC_ACCESS_TOKEN] {
        parts.headers.remove(name);
    }
    keep_to_the_connection(&mut parts.headers);
    // An address with a host is for proxies; the agent is none.
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.map(Into::into).unwrap_or_default();
    parts.version = axum::http::Version::HTTP_11;
    Request::from_parts(parts, body)
}

pub(super) fn keep_to_the_connection(headers: &mut HeaderMap) {
    for name in OF_THE_CONNECTION {
        headers.remove(name);
    }
}

/// What a sandbox uses, in the agent's own words.
#[derive(Debug, Serialize)]
struct Metrics {
    ts: i64,
    cpu_count: u32,
    cpu_used_pct: f64,
    mem_total: u64,
    mem_used: u64,
    mem_cache: u64,
    mem_total_mib: u64,
    mem_used_mib: u64,
    disk_used: u64,
    disk_total: u64,
}

async fn metrics(app: &App, sandbox: &Sandbox) -> Response<Body> {
    if sandbox.samples().is_empty()
        && let Some(sandbox) = app.registry.find(&sandbox.id)
    {
        app.registry.sample(&sandbox).await;
    }
    let Some(sample) = sandbox.samples().pop() else {
        return error(StatusCode::SERVICE_UNAVAILABLE, "nothing has been measured yet");
    };
    Json(Metrics {
        ts: sample.timestamp_unix,
        cpu_count: sample.cpu_count,
        cpu_used_pct: sample.cpu_used_pct,
        mem_total: sample.mem_total,
        mem_used: sample.mem_used,
        mem_cache: sample.mem_cache,
        mem_total_mib: sample.mem_total >> 20,
        mem_used_mib: sample.mem_used >> 20,
        disk_used: sample.disk_used,
        disk_total: sample.disk_total,
    })
    .into_response()
}

#[cfg(test)]
mod tests {
    use std::io;

    use nix::errno::Errno;

    use super::is_shortage;

    #[test]
    fn a_host_that_is_short_of_something_takes_no_sandbox_for_lost() {
        for own in [Errno::EMFILE, Errno::ENFILE, Errno::EAGAIN, Errno::ENOMEM] {
            assert!(is_shortage(&io::Error::from_raw_os_error(own as i32)), "{own}");
        }
        for gone in [Errno::ECONNREFUSED, Errno::ENOENT, Errno::ECONNRESET] {
            assert!(!is_shortage(&io::Error::from_raw_os_error(gone as i32)), "{gone}");
        }
        assert!(!is_shortage(&io::Error::other("there is no socket where the agent should answer")));
    }
}
