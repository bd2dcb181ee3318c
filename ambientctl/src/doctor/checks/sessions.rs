//! What went wrong in a running engine lately, and what the troubleshooting list says about it.
//!
//! The engine's own API tells: sessions that ended as `terminated` and their `session.error`, tools that failed without an
//! envelope, files whose copy to the bucket failed. The log of its container tells the rest, where it can be read.

use std::time::SystemTime;

use futures::future::join_all;
use jiff::Timestamp;
use reqwest::StatusCode;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use crate::doctor::context::Context;
use crate::doctor::finding::{Finding, Level, Remedy, Sink};
use crate::doctor::target::{Target, chain};

/// How many of the latest sessions and files are looked at.
const LATEST: usize = 20;
/// How many events of a session are looked at, from its end.
const EVENTS: usize = 50;
/// How many lines of the engine's log are looked at.
const LINES: usize = 2000;
/// A sandbox that is not up by then does not come up.
const LONGEST_BOOT_SECONDS: i64 = 120;
/// How much of a message is shown.
const SHOWN_CHARACTERS: usize = 160;

pub(super) async fn look(context: &Context, sink: &Sink) {
    let Some(base) = context.engine_url() else {
        sink.put(Finding::skipped("sessions.engine", "the engine publishes no port, so it cannot be asked"));
        return;
    };
    sink.step(format!("the engine at {base}"));
    let (sessions, files) = futures::join!(
        get(context, "v1/sessions", &[("limit", LATEST)]),
        get(context, "v1/files", &[("limit", LATEST)])
    );
    let (sessions, files) = match (sessions, files) {
        (Ok(sessions), Ok(files)) => (sessions, files),
        (Err(problem), _) | (_, Err(problem)) => {
            sink.put(problem.told(context, base.as_str()));
            return;
        }
    };
    sink.step("the events of the latest sessions".to_owned());
    let ids: Vec<&str> = sessions.iter().filter_map(|session| session.get("id")?.as_str()).collect();
    let events = join_all(ids.iter().map(|id| events(context, id))).await;
    let log = log(context).await;
    let facts = Facts { sessions: &sessions, files: &files, events: &events, log: &log };
    let findings = judge(&context.target, &facts);
    if findings.iter().all(|finding| finding.level < Level::Warning) {
        sink.put(Finding::ok(
            "sessions.well",
            format!("nothing went wrong in the latest {} sessions and {} files", sessions.len(), files.len()),
        ));
    }
    for finding in findings {
        sink.put(finding);
    }
}

/// What a running engine tells.
pub(super) struct Facts<'a> {
    /// The latest sessions.
    pub(super) sessions: &'a [Value],
    /// The latest files.
    pub(super) files: &'a [Value],
    /// The last events of each of the sessions.
    pub(super) events: &'a [Vec<Value>],
    /// The end of the engine's log.
    pub(super) log: &'a [String],
}

/// The troubleshooting list, from what happened to what to do.
pub(super) fn judge(target: &Target, facts: &Facts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let ended = facts.sessions.iter().filter(|session| text(session, "/status") == "terminated");
    let errors = messages(facts, "session.error");
    if let Some((id, message)) = ended.clone().find_map(|session| {
        let id = text(session, "/id");
        errors.iter().find(|(of, _)| *of == id).map(|(_, message)| (id, message.clone()))
    }) {
        findings.push(boot(target, id, &message, ended.count()));
    } else if let Some(session) = ended.clone().next() {
        let reason = "it tells no reason";
        findings.push(boot(target, text(session, "/id"), reason, ended.count()));
    }
    let tools = messages(facts, "agent.tool_result");
    let tool = |words: &str| tools.iter().chain(&errors).find(|(_, message)| message.contains(words));
    if let Some((id, _)) = tool("no result envelope") {
        let lower = (target.settings.source.upload_concurrency / 2).max(1);
        findings.push(Finding::failure(
            "sessions.envelope",
            format!("a tool of session `{id}` ended with `no result envelope`: the sandbox ran out of threads"),
            "the agent does not get the clip or frame that it asked for",
            target.set("UPLOAD_CONCURRENCY", &lower.to_string()),
        ));
    }
    if let Some((id, _)) = tool("no media sandbox is active") {
        findings.push(Finding::failure(
            "sessions.no-sandbox",
            format!("a tool of session `{id}` ran without a sandbox: its boot failed or took too long"),
            "the agent cannot look at the video",
            Remedy::run(target.doctor("--deep --only e2b-boot")),
        ));
    }
    let lost = ["is lost", "was not found", "sandbox was gone", "does not exist"];
    if let Some((id, message)) = tools
        .iter()
        .chain(&errors)
        .find(|(_, message)| message.contains("sandbox") && lost.iter().any(|words| message.contains(words)))
    {
        let longer = target.settings.sandbox.wall.as_secs() * 2;
        findings.push(Finding::warning(
            "sessions.lost",
            format!("session `{id}` lost its sandbox: {}", shown(message)),
            "a sandbox ends so long after its last command as `SANDBOX_WALL_SECONDS` says; a new one begins empty",
            target.set("SANDBOX_WALL_SECONDS", &longer.to_string()),
        ));
    }
    findings.extend(copies(target, facts));
    findings.extend(facts.sessions.iter().filter_map(|session| refusing(target, session)));
    findings
}

/// A session that refuses messages for now, as the 409 says that a client gets.
fn refusing(target: &Target, session: &Value) -> Option<Finding> {
    let id = text(session, "/id");
    match text(session, "/status") {
        "pending" => {
            let begun = text(session, "/created_at").parse::<Timestamp>().ok();
            let now = Timestamp::try_from(SystemTime::now()).ok();
            let waited = begun.zip(now).map_or(0, |(begun, now)| now.as_second() - begun.as_second());
            let words = "messages get 409 `session sandbox is still starting; retry shortly`";
            if waited < LONGEST_BOOT_SECONDS {
                return Some(Finding::ok(
                    "sessions.pending",
                    format!("session `{id}` is starting; until it is `idle`, {words}"),
                ));
            }
            Some(Finding::warning(
                "sessions.pending",
                format!("session `{id}` has been starting for {waited} s; {words}"),
                "a run waits 120 s for a sandbox, and then its tools fail",
                Remedy::run(target.doctor("--deep --only e2b-key,e2b-template,e2b-boot")),
            ))
        }
        "running" => Some(Finding::ok(
            "sessions.running",
            format!(
                "session `{id}` is answering; until `session.status_idle`, messages get 409 `a run is already in flight for this session`"
            ),
        )),
        _ => None,
    }
}

/// A session whose sandbox did not boot, by the reason that it tells.
fn boot(target: &Target, id: &str, message: &str, count: usize) -> Finding {
    let others = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
    let lower = message.to_lowercase();
    let remedy = if lower.contains("template") {
        Remedy::run(target.doctor("--only e2b-template"))
    } else if lower.contains("key") {
        Remedy::run(target.doctor("--only e2b-key"))
    } else {
        Remedy::run(target.doctor("--deep --only e2b-boot"))
    };
    Finding::failure(
        "sessions.terminated",
        format!("session `{id}`{others} ended as `terminated`: {}", shown(message)),
        "its sandbox did not boot, so nothing can be asked in it",
        remedy,
    )
}

/// Videos whose copy to the bucket failed.
fn copies(target: &Target, facts: &Facts<'_>) -> Option<Finding> {
    const WORDS: &str = "R2 upload failed for ";
    let logged = facts.log.iter().rev().find_map(|line| {
        let rest = line.split_once(WORDS)?.1;
        let (video, reason) = rest.split_once(": ").unwrap_or((rest, ""));
        Some((video.to_owned(), reason.to_owned()))
    });
    let undescribed = facts.files.iter().filter(|_| target.is_on_e2b()).find(|file| {
        file.get("description_status").is_some_and(Value::is_null) && text(file, "/source_status") == "ready"
    });
    let seen = match (logged, undescribed) {
        (Some((video, reason)), _) => format!("the log has `{WORDS}{video}`: {}", shown(&reason)),
        (None, Some(file)) => {
            format!("`{}` has no description and is waiting for none (`description_status` is null)", text(file, "/id"))
        }
        (None, None) => return None,
    };
    Some(Finding::failure(
        "sessions.copy",
        format!("{seen}; its copy to the bucket failed"),
        "sandboxes cannot find the video; once the bucket is right, upload it again",
        Remedy::run(target.doctor("--only bucket")),
    ))
}

/// The texts of all events of a type, with their sessions.
fn messages<'a>(facts: &Facts<'a>, kind: &str) -> Vec<(&'a str, String)> {
    let mut found = Vec::new();
    for (session, events) in facts.sessions.iter().zip(facts.events) {
        for event in events.iter().filter(|event| text(event, "/type") == kind) {
            let message = event.pointer("/error/message").and_then(Value::as_str).map(str::to_owned);
            let is_error = message.is_some() || event.get("is_error").and_then(Value::as_bool).unwrap_or(false);
            let content = event.get("content").map(ToString::to_string);
            if let Some(message) = message.or(content).filter(|_| is_error) {
                found.push((text(session, "/id"), message));
            }
        }
    }
    found
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn shown(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let short: String = first.chars().take(SHOWN_CHARACTERS).collect();
    if short.len() < first.len() { format!("{short}…") } else { short }
}

/// Why an engine could not be asked.
enum Problem {
    Silent(String),
    Key,
    Status(StatusCode),
}

impl Problem {
    fn told(self, context: &Context, base: &str) -> Finding {
        let target = &context.target;
        let base = base.trim_end_matches('/');
        match self {
            Self::Silent(reason) if context.wishes.engine.is_some() => Finding::failure(
                "sessions.engine",
                format!("no engine answers at {base}: {reason}"),
                "what happened in it cannot be told",
                Remedy::run(format!("curl -sS {base}/v1/healthz")),
            ),
            Self::Silent(_) => Finding::skipped(
                "sessions.engine",
                format!("no engine runs at {base}, so there are no sessions to look at"),
            ),
            Self::Key => Finding::failure(
                "sessions.key",
                format!("the engine at {base} does not take the API key of these settings"),
                "it was started with another key, so clients with this one are refused",
                Remedy::run(if target.is_install() {
                    target.command("restart engine")
                } else {
                    "ambientctl serve".to_owned()
                }),
            ),
            Self::Status(status) => Finding::warning(
                "sessions.engine",
                format!("the program at {base} answered {}, as no engine does", status.as_u16()),
                "what happened in it cannot be told",
                Remedy::run(format!("curl -sS {base}/v1/healthz")),
            ),
        }
    }
}

/// The `data` of a list of the engine.
async fn get(context: &Context, path: &str, query: &[(&str, usize)]) -> Result<Vec<Value>, Problem> {
    let mut url = context.engine_path(path).ok_or_else(|| Problem::Silent("its address is none".to_owned()))?;
    for (name, value) in query {
        url.query_pairs_mut().append_pair(name, &value.to_string());
    }
    if path.ends_with("/events") {
        url.query_pairs_mut().append_pair("order", "desc");
    }
    let key = context.target.settings.server.api_key.expose_secret();
    let request = context.http.get(url).header("x-api-key", key).timeout(context.request_limit());
    let answer = request.send().await.map_err(|error| Problem::Silent(chain(&error.without_url())))?;
    match answer.status() {
        StatusCode::OK => {
            let body: Value = answer.json().await.map_err(|error| Problem::Silent(chain(&error.without_url())))?;
            Ok(body.get("data").and_then(Value::as_array).cloned().unwrap_or_default())
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Problem::Key),
        status => Err(Problem::Status(status)),
    }
}

async fn events(context: &Context, id: &str) -> Vec<Value> {
    get(context, &format!("v1/sessions/{id}/events"), &[("limit", EVENTS)]).await.unwrap_or_default()
}

/// The end of the log of the engine's container.
async fn log(context: &Context) -> Vec<String> {
    let Some(engine) = context
        .target
        .stack
        .as_ref()
        .filter(|_| context.target.is_install())
        .and_then(super::super::target::Stack::engine)
    else {
        return Vec::new();
    };
    match context.docker().await {
        Ok(connection) => crate::docker::last_lines(&connection, &engine.container, LINES).await,
        Err(_see_docker) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Place;
    use crate::environment::Environment;

    #[test]
    fn a_copy_that_failed_is_found_in_the_log() {
        let variables = vec![("HOME".into(), "/tmp".into())];
        let target = Target::read(Place::Process, None, &Environment { variables, env_file: None });
        let log = ["x".to_owned(), "WARN R2 upload failed for vid_0123: the bucket refuses".to_owned()];
        let found = judge(&target, &Facts { sessions: &[], files: &[], events: &[], log: &log });
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].id, "sessions.copy");
        assert!(
            found[0].seen.starts_with("the log has `R2 upload failed for vid_0123`: the bucket refuses"),
            "{found:?}"
        );
        assert_eq!(
            found[0].remedy.as_ref().map(|remedy| remedy.paste.as_str()),
            Some("ambientctl doctor --only bucket")
        );
    }
}
