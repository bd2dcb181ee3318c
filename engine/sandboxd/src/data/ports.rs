//! Requests to programs in a sandbox, also such that switch to another protocol.

use ambient_e2b::protocol::header;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONNECTION, HOST, UPGRADE};
use axum::http::{HeaderValue, Response, StatusCode};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::{cut, envd, not_found, port_is_not_open};
use crate::sandboxes::{Alive, Sandbox};
use crate::serve::{App, error};

/// Answers for a program.
pub(super) async fn serve(
    app: &App,
    sandbox: &Sandbox,
    alive: &Alive,
    port: u16,
    mut request: Request,
) -> Response<Body> {
    let connected = tokio::select! {
        biased;
        () = alive.cut.cancelled() => return not_found(&sandbox.id),
        connected = alive.machine.dial().port(port) => connected,
    };
    let connection = match connected {
        Ok(Some(connection)) => connection,
        Ok(None) => return port_is_not_open(&sandbox.id, port),
        Err(failure) => return envd::lost(app, sandbox, alive, &failure),
    };
    let (mut sender, connection) = match http1::handshake(TokioIo::new(TokioIo::new(connection))).await {
        Ok(connection) => connection,
        Err(failure) => return broken(&failure),
    };
    let cut = alive.cut.clone();
    app.tasks.spawn(async move {
        tokio::select! {
            // How it ended shows in the request's own answer.
            _ended = connection.with_upgrades() => {}
            () = cut.cancelled() => {}
        }
    });
    let theirs = hyper::upgrade::on(&mut request);
    let answered = tokio::select! {
        biased;
        () = alive.cut.cancelled() => return not_found(&sandbox.id),
        answered = sender.send_request(inside(sandbox, request)) => answered,
    };
    let mut answer = match answered {
        Ok(answer) => answer,
        Err(failure) => return broken(&failure),
    };
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let ours = hyper::upgrade::on(&mut answer);
        let cut = alive.cut.clone();
        app.tasks.spawn(async move {
            if let Ok((theirs, ours)) = tokio::try_join!(theirs, ours) {
                let (mut theirs, mut ours) = (TokioIo::new(theirs), TokioIo::new(ours));
                tokio::select! {
                    // Either side may hang up at any time: that is how such a connection ends.
                    _ended = tokio::io::copy_bidirectional(&mut theirs, &mut ours) => {}
                    () = cut.cancelled() => {}
                }
            }
        });
        let (parts, _none) = answer.into_parts();
        return Response::from_parts(parts, Body::empty());
    }
    let (mut parts, body) = answer.into_parts();
    envd::keep_to_the_connection(&mut parts.headers);
    Response::from_parts(parts, cut::body(body, &alive.cut))
}

fn broken(failure: &hyper::Error) -> Response<Body> {
    error(StatusCode::BAD_GATEWAY, format!("the program in the sandbox broke off: {failure}"))
}

/// The request as the program gets it.
fn inside(sandbox: &Sandbox, request: Request) -> Request {
    let (mut parts, body) = request.into_parts();
    for name in [header::SANDBOX_ID, header::SANDBOX_PORT, header::TRAFFIC_ACCESS_TOKEN] {
        parts.headers.remove(name);
    }
    let upgrade = parts.headers.get(UPGRADE).cloned();
    envd::keep_to_the_connection(&mut parts.headers);
    if let Some(upgrade) = upgrade {
        parts.headers.insert(UPGRADE, upgrade);
        parts.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let mask = sandbox.behaviour.network.as_ref().and_then(|network| network.mask_request_host.as_deref());
    if let Some(mask) = mask.and_then(|mask| HeaderValue::from_str(mask).ok()) {
        parts.headers.insert(HOST, mask);
    }
    let path = parts.uri.path_and_query().cloned();
    parts.uri = path.map(Into::into).unwrap_or_default();
    parts.version = axum::http::Version::HTTP_11;
    Request::from_parts(parts, body)
}
