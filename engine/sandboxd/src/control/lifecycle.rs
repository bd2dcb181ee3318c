//! Calls about one sandbox.

use std::time::Duration;

use ambient_e2b::protocol::{
    ConnectSandbox, Network, PauseSandbox, RefreshSandbox, ResumeSandbox, SandboxDetail, SandboxInstance, SetTimeout,
};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;

use super::create::{allows_everything, check_longest};
use super::failure::Failure;
use super::input::{Json, Own};
use crate::sandboxes::TransitionFailure;
use crate::serve::App;

/// Seconds of life when the request names none.
const USUAL_CONNECT: u64 = 300;
const USUAL_RESUME: u64 = 15;

/// What a refresh gives at least and at most.
const REFRESH_SECONDS: std::ops::RangeInclusive<u64> = 15..=3600;

/// `GET /sandboxes/{id}`.
pub(super) async fn get(Own(sandbox): Own) -> Result<Answer<SandboxDetail>, Failure> {
    sandbox.detail().map(Answer).ok_or_else(|| Failure::no_sandbox(&sandbox.id))
}

/// `DELETE /sandboxes/{id}`.
pub(super) async fn kill(State(app): State<App>, Own(sandbox): Own) -> Result<StatusCode, Failure> {
    let (registry, id) = (app.registry.clone(), sandbox.id.clone());
    if app.to_the_end(async move { registry.kill(&sandbox).await }).await {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Failure::no_sandbox(&id))
}

/// `POST /sandboxes/{id}/connect` and the same under `/v2`: 200 when it ran, 201 when it was paused.
pub(super) async fn connect(
    State(app): State<App>,
    Own(sandbox): Own,
    Json(wish): Json<ConnectSandbox>,
) -> Result<(StatusCode, Answer<SandboxInstance>), Failure> {
    let time = Duration::from_secs(wish.timeout.unwrap_or(USUAL_CONNECT));
    check_longest(time)?;
    if app.registry.end_in(&sandbox, time, true) {
        return Ok((StatusCode::OK, Answer(sandbox.instance())));
    }
    match app.resume(&sandbox, time, wish.memory.unwrap_or(true)).await {
        Ok(()) => Ok((StatusCode::CREATED, Answer(sandbox.instance()))),
        // Another caller was first.
        Err(TransitionFailure::Running) => {
            app.registry.end_in(&sandbox, time, true);
            Ok((StatusCode::OK, Answer(sandbox.instance())))
        }
        Err(failure) => Err(Failure::transition(&sandbox.id, &failure)),
    }
}

/// `POST /sandboxes/{id}/resume`.
pub(super) async fn resume(
    State(app): State<App>,
    Own(sandbox): Own,
    Json(wish): Json<ResumeSandbox>,
) -> Result<(StatusCode, Answer<SandboxInstance>), Failure> {
    let time = Duration::from_secs(wish.timeout.unwrap_or(USUAL_RESUME));
    check_longest(time)?;
    let resumed = app.resume(&sandbox, time, wish.memory.unwrap_or(true)).await;
    resumed.map_err(|failure| Failure::transition(&sandbox.id, &failure))?;
    Ok((StatusCode::CREATED, Answer(sandbox.instance())))
}

/// `POST /sandboxes/{id}/pause`.
pub(super) async fn pause(
    State(app): State<App>,
    Own(sandbox): Own,
    Json(wish): Json<PauseSandbox>,
) -> Result<StatusCode, Failure> {
    let (registry, id, with_memory) = (app.registry.clone(), sandbox.id.clone(), wish.memory.unwrap_or(true));
    let paused = app.to_the_end(async move { registry.pause(&sandbox, with_memory).await }).await;
    paused.map_err(|failure| Failure::transition(&id, &failure))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /sandboxes/{id}/timeout`: its end becomes that, earlier or later.
pub(super) async fn set_timeout(
    State(app): State<App>,
    Own(sandbox): Own,
    Json(wish): Json<SetTimeout>,
) -> Result<StatusCode, Failure> {
    let time = Duration::from_secs(u64::try_from(wish.timeout).unwrap_or(0));
    check_longest(time)?;
    if app.registry.end_in(&sandbox, time, false) {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Failure::no_sandbox(&sandbox.id))
}

/// `POST /sandboxes/{id}/refreshes`: only lengthens.
pub(super) async fn refresh(
    State(app): State<App>,
    Own(sandbox): Own,
    Json(wish): Json<RefreshSandbox>,
) -> Result<StatusCode, Failure> {
    let seconds = wish.duration.unwrap_or(0);
    if seconds > *REFRESH_SECONDS.end() {
        let message = format!("`duration` is {seconds}, and may be at most {}", REFRESH_SECONDS.end());
        return Err(Failure::bad_request(message));
    }
    let time = Duration::from_secs(seconds.max(*REFRESH_SECONDS.start()));
    if app.registry.end_in(&sandbox, time, true) {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Failure::no_sandbox(&sandbox.id))
}

/// `PUT /sandboxes/{id}/network`: nothing can be changed, so only what is so already is taken.
pub(super) async fn network(Own(sandbox): Own, Json(wish): Json<NetworkWish>) -> Result<StatusCode, Failure> {
    let rules = Network {
        allow_out: wish.allow_out.unwrap_or_default(),
        deny_out: wish.deny_out.unwrap_or_default(),
        ..Network::default()
    };
    let internet = wish.allow_internet_access.unwrap_or(true) && allows_everything(&rules)?;
    if internet == sandbox.behaviour.internet {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Failure::bad_request("this host decides about a sandbox's way out when it is made; make another sandbox"))
}

/// The body of that call, as far as this host knows it.
#[derive(Debug, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NetworkWish {
    allow_out: Option<Vec<String>>,
    deny_out: Option<Vec<String>>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
}
