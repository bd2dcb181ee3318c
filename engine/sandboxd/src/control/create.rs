//! Making a sandbox.

use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::protocol::{CreateSandbox, Network, SandboxInstance, header};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;

use super::failure::Failure;
use super::input::Caller;
use super::repeats::Turn;
use crate::config::Team;
use crate::sandboxes::{Behaviour, LONGEST, Wish};
use crate::serve::{App, text};

/// Seconds of life when the request names none.
const USUAL_V1: u64 = 15;
const USUAL_V2: u64 = 300;

/// Everything, as the rules of a network write it.
const EVERYWHERE: [&str; 2] = ["0.0.0.0/0", "::/0"];

type Created = Result<(StatusCode, Answer<SandboxInstance>), Failure>;

/// `POST /sandboxes`: a token only for those who ask.
pub(super) async fn create_v1(
    State(app): State<App>,
    Caller(team): Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Created {
    create(app, team, headers, body, USUAL_V1, false).await
}

/// `POST /v2/sandboxes`: always with a token.
pub(super) async fn create_v2(
    State(app): State<App>,
    Caller(team): Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Created {
    create(app, team, headers, body, USUAL_V2, true).await
}

async fn create(
    app: App,
    team: Team,
    headers: HeaderMap,
    body: Bytes,
    usual_seconds: u64,
    always_secure: bool,
) -> Created {
    let key = text(&headers, header::IDEMPOTENCY_KEY).map(str::to_owned);
    if let Some(key) = &key
        && let Turn::Made(id) = app.repeats.begin(&team, key, &body)?
    {
        let sandbox = app.registry.find(&id).ok_or_else(|| Failure::no_sandbox(&id))?;
        return Ok((StatusCode::CREATED, Answer(sandbox.instance())));
    }
    // A client that hangs up meanwhile gets its sandbox all the same: it is in the list, and its time ends it.
    let work = Arc::clone(&app);
    let making = app.to_the_end(async move {
        let made = make(&work, &team, &body, usual_seconds, always_secure).await;
        if let Some(key) = key {
            work.repeats.finish(&team, &key, made.as_ref().ok().map(|made| made.sandbox_id.as_str()));
        }
        made
    });
    Ok((StatusCode::CREATED, Answer(making.await?)))
}

async fn make(
    app: &App,
    team: &Team,
    body: &[u8],
    usual_seconds: u64,
    always_secure: bool,
) -> Result<SandboxInstance, Failure> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let wish: CreateSandbox = serde_json::from_slice(body)
        .map_err(|error| Failure::bad_request(format!("the body is not what is wanted here: {error}")))?;
    let timeout = life(wish.timeout.unwrap_or(usual_seconds))?;
    let pauses = wish.auto_pause.unwrap_or(false);
    let keeps_memory = wish.auto_pause_memory.unwrap_or(true);
    let wakes = wish.auto_resume.is_some_and(|resume| resume.enabled);
    if !keeps_memory && !pauses {
        return Err(Failure::bad_request("autoPauseMemory=false only applies when autoPause is true."));
    }
    if !keeps_memory && wakes {
        return Err(Failure::bad_request("autoPauseMemory=false cannot be combined with autoResume."));
    }
    if !wish.volume_mounts.is_empty() {
        return Err(Failure::bad_request("this host has no volumes"));
    }
    let network = wish.network.clone().unwrap_or_default();
    let internet = wish.allow_internet_access.unwrap_or(true) && allows_everything(&network)?;
    let resolved = app.catalogue.resolve(team, &wish.template_id)?;
    app.catalogue.spawned(&resolved.template_id);
    let sandbox = app.registry.create(Wish {
        team: team.clone(),
        template_id: resolved.template_id,
        alias: Some(resolved.alias),
        image: resolved.image,
        metadata: wish.metadata,
        variables: wish.env_vars,
        is_secure: always_secure || wish.secure.unwrap_or(false),
        has_private_ports: network.allow_public_traffic == Some(false),
        behaviour: Behaviour {
            pause_at_end: pauses,
            pause_with_memory: keeps_memory,
            wakes_on_traffic: wakes,
            timeout,
            allow_internet_access: wish.allow_internet_access,
            internet,
            network: wish.network,
        },
    });
    Ok(sandbox.await?.instance())
}

/// A length of life that this host gives.
pub(super) fn life(seconds: u64) -> Result<Duration, Failure> {
    let time = Duration::from_secs(seconds);
    if time.is_zero() {
        return Err(Failure::bad_request("Timeout must be greater than 0"));
    }
    check_longest(time)?;
    Ok(time)
}

pub(super) fn check_longest(time: Duration) -> Result<(), Failure> {
    if time > LONGEST {
        let hours = LONGEST.as_secs() / 3600;
        return Err(Failure::bad_request(format!("Timeout cannot be greater than {hours} hours")));
    }
    Ok(())
}

/// Whether the rules leave the way out open. Rules that would have to be enforced host by host are refused: a sandbox that reaches more
/// than its maker thinks is worse than none.
pub(super) fn allows_everything(network: &Network) -> Result<bool, Failure> {
    let closes = network.deny_out.iter().any(|rule| EVERYWHERE.contains(&rule.as_str()));
    let only_closes = network.deny_out.iter().all(|rule| EVERYWHERE.contains(&rule.as_str()));
    let is_plain = only_closes
        && network.allow_out.is_empty()
        && network.rules.is_empty()
        && network.egress_proxy.is_none()
        && network.dns_servers.is_empty();
    if is_plain {
        return Ok(!closes);
    }
    Err(Failure::bad_request(
        "this host closes a sandbox's way out as a whole (`denyOut: [\"0.0.0.0/0\"]`, `allow_internet_access: false`) or leaves it open; \
         rules for single hosts, proxies and name servers are not supported",
    ))
}
