//! The data plane: requests to the agent of a sandbox, and to the programs in it.
//!
//! Checked in this order: does the sandbox run (502), may the caller (401), and then what is asked. A sandbox that sleeps is woken by who may.

mod cut;
mod envd;
mod ports;
mod rights;
mod route;

use std::sync::Arc;

use ambient_e2b::protocol::{ENVD_PORT, ErrorBody};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Response, StatusCode};

pub(crate) use route::{Target, target};

use crate::sandboxes::{Alive, Reached, Sandbox, TransitionFailure};
use crate::serve::{App, error, error_body, open_to_browsers};

/// Answers a request that names a sandbox.
pub(crate) async fn serve(app: &App, target: Target, request: Request) -> Response<Body> {
    let is_agents = matches!(target, Target::SignedFile | Target::Named { port: ENVD_PORT, .. });
    let mut response = match target {
        // A page asks whether it may ask. Programs in the sandbox decide about their own ports.
        _ if is_agents && request.method() == Method::OPTIONS => no_content(),
        Target::Incomplete(message) => error(StatusCode::BAD_REQUEST, message),
        Target::SignedFile => signed_file(app, request).await,
        Target::Named { id, port } => named(app, &id, port, request).await,
    };
    if is_agents {
        open_to_browsers(response.headers_mut());
    }
    response
}

async fn named(app: &App, id: &str, port: u16, request: Request) -> Response<Body> {
    let Some(sandbox) = app.registry.find(id) else { return not_found(id) };
    let may = if port == ENVD_PORT {
        rights::check_agent(&sandbox, &request)
    } else {
        rights::check_traffic(&sandbox, request.headers())
    };
    let alive = match reach(app, &sandbox, may).await {
        Ok(alive) => alive,
        Err(response) => return *response,
    };
    if port == ENVD_PORT {
        return envd::serve(app, &sandbox, &alive, may, request).await;
    }
    if let Err(refusal) = may {
        return refusal.answer();
    }
    ports::serve(app, &sandbox, &alive, port, request).await
}

/// The running sandbox, woken if traffic wakes it and the caller `may` use it.
async fn reach(
    app: &App,
    sandbox: &Arc<Sandbox>,
    may: Result<(), rights::Refusal>,
) -> Result<Alive, Box<Response<Body>>> {
    match sandbox.reach() {
        Reached::Running(alive) => return Ok(alive),
        Reached::Nothing => return Err(Box::new(not_found(&sandbox.id))),
        Reached::Asleep => may.map_err(|refusal| Box::new(refusal.answer()))?,
    }
    match app.resume(sandbox, sandbox.behaviour.timeout, true).await {
        // Another request was first.
        Ok(()) | Err(TransitionFailure::Running) => {}
        Err(failure) => {
            tracing::warn!(sandbox.id, error = crate::with_causes(&failure), "a sandbox did not wake");
        }
    }
    match sandbox.reach() {
        Reached::Running(alive) => Ok(alive),
        Reached::Asleep | Reached::Nothing => Err(Box::new(not_found(&sandbox.id))),
    }
}

/// A signed address names no sandbox: the one whose token makes the signature right is meant.
async fn signed_file(app: &App, request: Request) -> Response<Body> {
    let Some(signature) = rights::Signature::of(&request) else {
        return rights::Refusal::NoSignature.answer();
    };
    for sandbox in app.registry.all() {
        if sandbox.token.as_ref().is_some_and(|token| signature.is_by(token)) {
            let may = rights::check_agent(&sandbox, &request);
            return match reach(app, &sandbox, may).await {
                Ok(alive) => envd::serve(app, &sandbox, &alive, may, request).await,
                Err(response) => *response,
            };
        }
    }
    rights::Refusal::BadSignature.answer()
}

fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// By this text clients tell a sandbox that is gone from one that does not answer.
pub(super) fn not_found(id: &str) -> Response<Body> {
    let mut body = ErrorBody::new(StatusCode::BAD_GATEWAY.as_u16(), "The sandbox was not found");
    body.sandbox_id = Some(id.to_owned());
    error_body(StatusCode::BAD_GATEWAY, &body)
}

/// The same for a program that is not there.
pub(super) fn port_is_not_open(id: &str, port: u16) -> Response<Body> {
    let mut body = ErrorBody::new(StatusCode::BAD_GATEWAY.as_u16(), "The sandbox is running but port is not open");
    body.sandbox_id = Some(id.to_owned());
    body.port = Some(port);
    error_body(StatusCode::BAD_GATEWAY, &body)
}
