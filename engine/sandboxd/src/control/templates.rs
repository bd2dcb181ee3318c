//! Templates and their builds.

use ambient_e2b::protocol::template::{
    BuildProgress, CreateTemplate, CreatedTemplate, FileUpload, ListedTemplate, StartBuild, TemplateAlias,
    TemplateDetail,
};
use ambient_e2b::protocol::{SandboxLogsPage, Token};
use axum::Json as Answer;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::HOST;
use axum::http::{HeaderMap, StatusCode};

use super::failure::Failure;
use super::input::{Caller, Json, Parameters};
use super::telemetry::page;
use crate::serve::{App, text};
use crate::templates::Job;

/// Lines of a build's log in one answer.
const LINES: usize = 100;

/// `POST /v3/templates`.
pub(super) async fn create(
    State(app): State<App>,
    Caller(team): Caller,
    Json(wish): Json<CreateTemplate>,
) -> Result<(StatusCode, Answer<CreatedTemplate>), Failure> {
    Ok((StatusCode::ACCEPTED, Answer(app.catalogue.create(&team, &wish)?)))
}

/// `GET /templates`.
pub(super) async fn list(State(app): State<App>, Caller(team): Caller) -> Answer<Vec<ListedTemplate>> {
    Answer(app.catalogue.list(&team))
}

/// `GET /v2/templates`: all on the first page.
pub(super) async fn list_pages(State(app): State<App>, Caller(team): Caller) -> Answer<Vec<ListedTemplate>> {
    Answer(app.catalogue.list(&team))
}

/// `GET /templates/{id}`.
pub(super) async fn detail(
    State(app): State<App>,
    Caller(team): Caller,
    Path(template): Path<String>,
) -> Result<Answer<TemplateDetail>, Failure> {
    Ok(Answer(app.catalogue.detail(&team, &template)?))
}

/// `DELETE /templates/{id or name}`.
pub(super) async fn remove(
    State(app): State<App>,
    Caller(team): Caller,
    Path(template): Path<String>,
) -> Result<StatusCode, Failure> {
    app.catalogue.remove(&team, &template, |id| app.registry.uses_template(id))?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /templates/aliases/{alias}`.
pub(super) async fn alias(
    State(app): State<App>,
    Caller(team): Caller,
    Path(alias): Path<String>,
) -> Result<Answer<TemplateAlias>, Failure> {
    Ok(Answer(app.catalogue.alias(&team, &alias)?))
}

/// `GET /templates/{id}/files/{hash}`: whether an archive is there, and where to put it.
pub(super) async fn files(
    State(app): State<App>,
    Caller(team): Caller,
    Path((template, hash)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<(StatusCode, Answer<FileUpload>), Failure> {
    app.catalogue.check_own(&team, &template)?;
    let place = app.archives.place(&team, &hash)?;
    // Also when it is there: a step may force the upload.
    let host = text(&headers, HOST).ok_or_else(|| Failure::bad_request("the request has no `Host`"))?;
    let present = place.is_file();
    let scheme = if is_behind_tls(&headers) { "https" } else { "http" };
    let url = format!("{scheme}://{host}/uploads/{}", app.archives.open_address(&team, place));
    let answer = FileUpload { present, url: Some(Token::new(url)), headers: std::collections::BTreeMap::new() };
    Ok((StatusCode::CREATED, Answer(answer)))
}

/// Whether the caller's own connection is to a proxy that takes TLS off.
fn is_behind_tls(headers: &HeaderMap) -> bool {
    let first = text(headers, "x-forwarded-proto").and_then(|protocols| protocols.split(',').next());
    first.is_some_and(|protocol| protocol.trim().eq_ignore_ascii_case("https"))
}

/// `PUT /uploads/{word}`: an archive. The word in the address is the right to it.
pub(super) async fn upload(
    State(app): State<App>,
    Path(word): Path<String>,
    body: Body,
) -> Result<StatusCode, Failure> {
    app.archives.store(&word, body.into_data_stream()).await?;
    Ok(StatusCode::OK)
}

/// `POST /v2/templates/{id}/builds/{build}`.
pub(super) async fn start_build(
    State(app): State<App>,
    Caller(team): Caller,
    Path((template, build)): Path<(String, String)>,
    Json(wish): Json<StartBuild>,
) -> Result<StatusCode, Failure> {
    let (sizes, unwanted) = app.catalogue.start_build(&team, &template, &build)?;
    let job = Job { team, id: build, unwanted };
    let (work, stop) = (app.builder.clone().build(job, sizes, wish), app.stop.clone());
    // Broken off, it counts as failed: the next host finds it unfinished.
    app.tasks.spawn(async move { stop.run_until_cancelled(work).await });
    Ok(StatusCode::ACCEPTED)
}

/// `GET /templates/{id}/builds/{build}/status`.
pub(super) async fn status(
    State(app): State<App>,
    Caller(team): Caller,
    Path((_template, build)): Path<(String, String)>,
    parameters: Parameters,
) -> Result<Answer<BuildProgress>, Failure> {
    let offset = parameters.parse::<usize>("logsOffset")?.unwrap_or(0);
    let limit = parameters.limit(LINES, LINES)?;
    Ok(Answer(app.catalogue.progress(&team, &build, offset, limit)?))
}

/// `GET /templates/{id}/builds/{build}/logs`.
pub(super) async fn build_logs(
    State(app): State<App>,
    Caller(team): Caller,
    Path((_template, build)): Path<(String, String)>,
    parameters: Parameters,
) -> Result<Answer<SandboxLogsPage>, Failure> {
    let whole = app.catalogue.progress(&team, &build, 0, usize::MAX)?;
    Ok(Answer(SandboxLogsPage { logs: page(whole.log_entries, &parameters)? }))
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::is_behind_tls;

    #[test]
    fn a_proxy_says_what_the_caller_s_own_connection_is() {
        let check = |protocols: Option<&'static str>, wanted| {
            let protocols = protocols.map(HeaderValue::from_static);
            let headers: HeaderMap =
                protocols.into_iter().map(|value| ("x-forwarded-proto".parse().unwrap(), value)).collect();
            assert_eq!(is_behind_tls(&headers), wanted, "{headers:?}");
        };
        check(None, false);
        check(Some("http"), false);
        check(Some("HTTPS"), true);
        // Each proxy on the way adds what it saw.
        check(Some("https, http"), true);
        check(Some("http, https"), false);
    }
}
