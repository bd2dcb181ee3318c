//! What sandboxes use, and what happened to them.

use ambient_e2b::protocol::{
    LogDirection, LogEntry, LogLevel, LogLine, ManySandboxMetrics, SandboxLogs, SandboxLogsPage, SandboxMetric,
};
use axum::Json as Answer;
use axum::extract::State;

use super::failure::Failure;
use super::input::{Caller, Own, Parameters};
use crate::names::plain_sandbox_id;
use crate::serve::App;

/// Lines of one page of a log.
const USUAL_LINES: usize = 100;
const MOST_LINES: usize = 1000;

/// Who writes into the logs of sandboxes.
const LOGGER: &str = "sandboxd";

/// `GET /sandboxes/{id}/metrics`.
pub(super) async fn metrics(
    State(app): State<App>,
    Own(sandbox): Own,
    parameters: Parameters,
) -> Result<Answer<Vec<SandboxMetric>>, Failure> {
    let (start, end) = (parameters.parse::<i64>("start")?, parameters.parse::<i64>("end")?);
    if sandbox.samples().is_empty() {
        app.registry.sample(&sandbox).await;
    }
    let samples = sandbox.samples().into_iter().filter(|sample| {
        start.is_none_or(|start| sample.timestamp_unix >= start) && end.is_none_or(|end| sample.timestamp_unix <= end)
    });
    Ok(Answer(samples.collect()))
}

/// `GET /sandboxes/metrics?sandbox_ids=a,b`: the last sample of each that is the caller's.
pub(super) async fn latest(
    State(app): State<App>,
    Caller(team): Caller,
    parameters: Parameters,
) -> Answer<ManySandboxMetrics> {
    let ids = parameters.get("sandbox_ids").unwrap_or_default().split(',').filter_map(plain_sandbox_id);
    let own = ids.filter_map(|id| app.registry.find(id)).filter(|sandbox| sandbox.team == team);
    let latest = own.filter_map(|sandbox| Some((sandbox.id.clone(), sandbox.samples().pop()?)));
    Answer(ManySandboxMetrics { sandboxes: latest.collect() })
}

/// `GET /sandboxes/{id}/logs`.
pub(super) async fn logs_v1(Own(sandbox): Own, parameters: Parameters) -> Result<Answer<SandboxLogs>, Failure> {
    let start = parameters.parse::<i64>("start")?;
    let limit = parameters.limit(MOST_LINES, MOST_LINES)?;
    let entries = sandbox.log().into_iter();
    let entries = entries.filter(|entry| start.is_none_or(|start| entry.timestamp.as_millisecond() >= start));
    let log_entries: Vec<_> = entries.take(limit).collect();
    Ok(Answer(SandboxLogs { logs: log_entries.iter().map(line_of_old).collect(), log_entries }))
}

/// An entry as a line that holds JSON, which `e2b sandbox logs` takes apart.
fn line_of_old(entry: &LogEntry) -> LogLine {
    let mut parts = serde_json::Map::new();
    parts.extend(entry.fields.iter().map(|(name, value)| (name.clone(), value.clone().into())));
    let own = [("level", entry.level.as_str()), ("logger", LOGGER), ("message", entry.message.as_str())];
    parts.extend(own.map(|(name, value)| (name.to_owned(), value.into())));
    LogLine { timestamp: entry.timestamp, line: serde_json::Value::Object(parts).to_string() }
}

/// `GET /v2/sandboxes/{id}/logs`.
pub(super) async fn logs_v2(Own(sandbox): Own, parameters: Parameters) -> Result<Answer<SandboxLogsPage>, Failure> {
    Ok(Answer(SandboxLogsPage { logs: page(sandbox.log(), &parameters)? }))
}

/// The part of a log that was asked for.
pub(super) fn page(entries: Vec<LogEntry>, parameters: &Parameters) -> Result<Vec<LogEntry>, Failure> {
    let cursor = parameters.parse::<i64>("cursor")?;
    let limit = parameters.limit(USUAL_LINES, MOST_LINES)?;
    let least = match parameters.get("level") {
        None => LogLevel::Debug,
        Some(word) => {
            let levels = [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error];
            let level = levels.into_iter().find(|level| level.as_str() == word);
            level.ok_or_else(|| Failure::bad_request(format!("`{word}` is no level")))?
        }
    };
    let direction = match parameters.get("direction") {
        None | Some("forward") => LogDirection::Forward,
        Some("backward") => LogDirection::Backward,
        Some(other) => return Err(Failure::bad_request(format!("`{other}` is no direction"))),
    };
    let search = parameters.get("search").unwrap_or_default();
    let wanted = entries.into_iter().filter(|entry| {
        let at = entry.timestamp.as_millisecond();
        let is_on_this_side = cursor.is_none_or(|cursor| match direction {
            LogDirection::Forward => at >= cursor,
            LogDirection::Backward => at <= cursor,
        });
        is_on_this_side && entry.level >= least && entry.message.contains(search)
    });
    let mut wanted: Vec<_> = wanted.collect();
    if direction == LogDirection::Backward {
        wanted.reverse();
    }
    wanted.truncate(limit);
    Ok(wanted)
}
