//! Lists of sandboxes.

use ambient_e2b::protocol::{ListOrder, ListedSandbox, MOST_A_PAGE, SandboxState, decode_metadata, header};
use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue};

use super::failure::Failure;
use super::input::{Caller, Parameters};
use crate::config::Team;
use crate::sandboxes::Query;
use crate::serve::App;

/// `GET /v2/sandboxes`: all states, in pages.
pub(super) async fn list_v2(
    State(app): State<App>,
    Caller(team): Caller,
    parameters: Parameters,
) -> Result<(HeaderMap, Answer<Vec<ListedSandbox>>), Failure> {
    let mut headers = HeaderMap::new();
    let Some(query) = query(&app, &team, &parameters)? else {
        headers.insert(header::TOTAL_RUNNING, HeaderValue::from_static("0"));
        return Ok((headers, Answer(Vec::new())));
    };
    let page = query.page(of_team(&app, &team)).map_err(|error| Failure::bad_request(error.to_string()))?;
    if let Some(running) = page.total_running {
        headers.insert(header::TOTAL_RUNNING, HeaderValue::from(running));
    }
    if let Some(token) = page.next_token.and_then(|token| HeaderValue::from_str(&token).ok()) {
        headers.insert(header::NEXT_TOKEN, token);
    }
    Ok((headers, Answer(page.sandboxes)))
}

/// `GET /sandboxes`: what runs, in one piece.
pub(super) async fn list_v1(
    State(app): State<App>,
    Caller(team): Caller,
    parameters: Parameters,
) -> Result<Answer<Vec<ListedSandbox>>, Failure> {
    let metadata = metadata(&parameters)?;
    let query = Query { metadata, states: vec![SandboxState::Running], limit: usize::MAX, ..Query::default() };
    let page = query.page(of_team(&app, &team)).map_err(|error| Failure::bad_request(error.to_string()))?;
    Ok(Answer(page.sandboxes))
}

fn of_team(app: &App, team: &Team) -> impl Iterator<Item = ListedSandbox> {
    let all = app.registry.all().into_iter();
    all.filter(move |sandbox| sandbox.team == *team).filter_map(|sandbox| sandbox.listed())
}

fn metadata(parameters: &Parameters) -> Result<std::collections::BTreeMap<String, String>, Failure> {
    decode_metadata(parameters.get("metadata").unwrap_or_default())
        .map_err(|error| Failure::bad_request(error.to_string()))
}

/// `None`: nothing can be found.
fn query(app: &App, team: &Team, parameters: &Parameters) -> Result<Option<Query>, Failure> {
    let mut states = Vec::new();
    for word in parameters.get("state").unwrap_or_default().split(',').filter(|word| !word.is_empty()) {
        states.push(match word {
            "running" => SandboxState::Running,
            "paused" => SandboxState::Paused,
            other => return Err(Failure::bad_request(format!("`{other}` is no state: there are running and paused"))),
        });
    }
    let order = match parameters.get("order") {
        None | Some("desc") => ListOrder::Descending,
        Some("asc") => ListOrder::Ascending,
        Some(other) => return Err(Failure::bad_request(format!("`{other}` is no order: there are asc and desc"))),
    };
    let template_id = match parameters.get("template") {
        None => None,
        Some(name) => match app.catalogue.id_of(team, name)? {
            None => return Ok(None),
            known => known,
        },
    };
    let most = MOST_A_PAGE as usize;
    Ok(Some(Query {
        metadata: metadata(parameters)?,
        states,
        template_id,
        started_after: parameters.parse("startedAfter")?,
        order,
        limit: parameters.limit(most, most)?,
        next_token: parameters.get("nextToken").map(str::to_owned),
    }))
}
