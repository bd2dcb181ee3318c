//! The steps, in their order, and what is kept of each.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::doctor::chain;
use crate::engine_client::{
    ContentBlock, EngineClient, EngineError, EventBody, Message, NewSession, RetryStatus, Session, VideoFile,
};
use crate::output::{Printer, Progress};

/// Between two looks at a session that is not up yet.
const PAUSE: Duration = Duration::from_millis(500);
/// How much of a tool's words is shown.
const SHOWN_CHARACTERS: usize = 200;
/// Two seconds of a test picture with a tone, for whom has no video at hand.
const SAMPLE: &[u8] = include_bytes!("../../doctor/sample.mp4");

/// How the journey ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// What went wrong.
    pub(super) problem: Option<String>,
    /// The checks of `doctor` that tell why.
    pub(super) checks: Vec<&'static str>,
    /// Whether nobody was there to be asked.
    pub(super) is_silent: bool,
}

impl Ended {
    pub(super) fn failed(problem: impl Into<String>, checks: &[&'static str]) -> Self {
        let checks = if checks.is_empty() { &["sessions"] } else { checks };
        Self { problem: Some(problem.into()), checks: checks.to_vec(), is_silent: false }
    }
}

/// One journey through one engine.
#[derive(Debug)]
pub(super) struct Journey<'a> {
    engine: &'a EngineClient,
    progress: &'a Progress,
    printer: Printer,
    limit: Duration,
    session: Option<String>,
    /// What came of the steps, for programs.
    pub(super) document: Map<String, Value>,
}

/// What came of a run.
#[derive(Debug, Default)]
struct Told {
    calls: Vec<Value>,
    answer: String,
    errors: Vec<String>,
}

impl<'a> Journey<'a> {
    pub(super) fn new(engine: &'a EngineClient, progress: &'a Progress, printer: Printer, limit: Duration) -> Self {
        let mut document = Map::new();
        document.insert("url".to_owned(), json!(engine.base()));
        Self { engine, progress, printer, limit, session: None, document }
    }

    pub(super) async fn run(&mut self, video: Option<&Path>, question: &str) -> Ended {
        match self.steps(video, question).await {
            Ok(()) => Ended { problem: None, checks: Vec::new(), is_silent: false },
            Err(ended) => ended,
        }
    }

    async fn steps(&mut self, video: Option<&Path>, question: &str) -> Result<(), Ended> {
        self.progress.say("health", "asking");
        let asked = self.engine.health().await;
        asked.map_err(|error| Ended {
            is_silent: matches!(error, EngineError::Silent { .. }),
            ..failed(&error, &["ports", "docker", "store", "redis"])
        })?;
        self.tell("health", "the engine is up");

        self.progress.say("upload", "sending");
        let file = self.upload(video).await?;
        self.tell("upload", &format!("{} ({} bytes)", file.id, file.size_bytes));
        self.document.insert("file".to_owned(), json!({ "id": file.id, "size_bytes": file.size_bytes }));

        let made = self.engine.create_session(&NewSession::over(&file.id)).await;
        let session = made.map_err(|error| failed(&error, &["sessions", "store"]))?;
        let id = session.id.clone();
        self.session = Some(id.clone());
        self.up(session).await?;
        self.ask(&id, question).await
    }

    async fn upload(&self, video: Option<&Path>) -> Result<VideoFile, Ended> {
        let checks: &[&'static str] = &["disk", "ffmpeg", "ffprobe", "store"];
        let sent = if let Some(path) = video {
            self.engine.upload(path, |_sent, _of| {}).await
        } else {
            let (folder, path) = sample()
                .map_err(|error| Ended::failed(format!("the sample could not be written: {error}"), &["disk"]))?;
            let sent = self.engine.upload(&path, |_sent, _of| {}).await;
            drop(folder);
            sent
        };
        sent.map_err(|error| failed(&error, checks))
    }

    /// Waits until the session is up, with a line for what is waited for.
    async fn up(&mut self, session: Session) -> Result<(), Ended> {
        let begun = Instant::now();
        let mut session = session;
        let id = session.id.clone();
        while session.status == "pending" {
            if begun.elapsed() > self.limit {
                let problem = format!("session {id} was still `pending` after {} s", self.limit.as_secs());
                return Err(Ended::failed(problem, &["e2b-key", "e2b-template"]));
            }
            self.progress.say("session", &format!("{id} is pending, {} s", begun.elapsed().as_secs()));
            tokio::time::sleep(PAUSE).await;
            session = self.engine.session(&id).await.map_err(|error| failed(&error, &["store"]))?;
        }
        let Session { status, sandbox, .. } = session;
        self.tell("session", &format!("{id} is {status}"));
        self.tell("sandbox", &sandbox.to_string());
        self.document.insert("session".to_owned(), json!({ "id": id, "status": status, "sandbox": sandbox }));
        if status != "terminated" {
            return Ok(());
        }
        let errors = self.errors(&id).await;
        let reason = errors.last().cloned().unwrap_or_else(|| "it tells no reason".to_owned());
        self.document.insert("errors".to_owned(), json!(errors));
        let problem = format!("session {id} ended as `terminated`: {reason}");
        Err(Ended::failed(problem, &["e2b-key", "e2b-template", "bucket"]))
    }

    /// What the session's own events say went wrong.
    async fn errors(&self, id: &str) -> Vec<String> {
        let events = self.engine.past_events(id, &["session.error"]).await.unwrap_or_default();
        let message = |body| match body {
            EventBody::Failed { error } => Some(error.message),
            _ => None,
        };
        events.into_iter().filter_map(|event| message(event.body)).collect()
    }

    async fn ask(&mut self, id: &str, question: &str) -> Result<(), Ended> {
        let checks: &[&'static str] = &["llm", "sessions"];
        self.tell("question", question);
        let sent = self.engine.send(id, &Message::text(question)).await.map_err(|error| failed(&error, checks))?;
        let mut told = Told::default();
        let followed = timeout(self.limit, self.follow(id, sent, &mut told)).await;
        let Told { calls, answer, errors } = told;
        self.document.insert("question".to_owned(), json!(question));
        self.document.insert("tool_calls".to_owned(), json!(calls));
        self.document.insert("answer".to_owned(), json!(answer));
        self.document.insert("errors".to_owned(), json!(errors));
        match followed {
            Err(_elapsed) => {
                let problem = format!("session {id} gave no answer within {} s", self.limit.as_secs());
                return Err(Ended::failed(problem, checks));
            }
            Ok(Err(error)) => return Err(failed(&error, checks)),
            Ok(Ok(())) => {}
        }
        match errors.last() {
            _ if !answer.is_empty() => Ok(()),
            Some(reason) => Err(Ended::failed(format!("session {id} gave no answer: {reason}"), matching(reason))),
            None => Err(Ended::failed(format!("session {id} gave no answer"), checks)),
        }
    }

    /// Tells what happens until the run is over.
    async fn follow(&self, id: &str, sent: String, told: &mut Told) -> Result<(), EngineError> {
        let mut events = self.engine.events(id, Some(sent));
        while let Some(event) = events.next().await? {
            match event.body {
                EventBody::ToolUse { name, input } => {
                    let input = Value::Object(input);
                    self.tell("tool call", &format!("{name} {input}"));
                    told.calls.push(json!({ "name": name, "input": input }));
                }
                EventBody::ToolResult { content, is_error: true, .. } => {
                    let words = ContentBlock::text_of(&content);
                    self.tell("tool error", &words.chars().take(SHOWN_CHARACTERS).collect::<String>());
                    told.errors.push(words);
                }
                EventBody::Message { content } => {
                    told.answer = ContentBlock::text_of(&content);
                    self.tell("answer", &told.answer);
                }
                EventBody::Failed { error } if error.retry_status != RetryStatus::Retrying => {
                    told.errors.push(error.message);
                }
                EventBody::Progress { message, .. } => self.progress.say("question", &message),
                EventBody::Idle { .. } | EventBody::Terminated {} | EventBody::Deleted {} => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the session, whatever came of it.
    pub(super) async fn end(&mut self) {
        let Some(id) = self.session.take() else { return };
        match self.engine.delete_session(&id).await {
            Ok(()) => self.tell("end", &format!("{id} is ended")),
            Err(error) => self.printer.warning(&format!("session {id} could not be ended: {}", chain(&error))),
        }
    }

    /// A step that is done: data for people.
    fn tell(&self, step: &str, what: &str) {
        if !self.printer.json {
            self.printer.data(&format!("{:<11} {what}", format!("{step}:")));
        }
    }
}

/// The sample as a file, in a folder that goes with the first value.
fn sample() -> io::Result<(tempfile::TempDir, std::path::PathBuf)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("sample.mp4");
    std::fs::write(&path, SAMPLE)?;
    Ok((folder, path))
}

/// The checks that tell why something of this kind happens.
fn matching(reason: &str) -> &'static [&'static str] {
    if reason.contains("no result envelope") || reason.contains("no media sandbox") {
        &["sessions", "e2b-key", "e2b-template"]
    } else if reason.contains("bucket") || reason.contains("S3") {
        &["bucket"]
    } else {
        &["llm", "sessions"]
    }
}

fn failed(error: &EngineError, checks: &[&'static str]) -> Ended {
    match error {
        EngineError::Refused { status: 401 | 403, .. } => Ended::failed(
            format!(
                "{error}; name the engine's own API key with `--api-key KEY`, or `--api-key -` to keep it off the screen"
            ),
            &["sessions"],
        ),
        _ => Ended::failed(chain(error), checks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leads_to_the_check_that_tells_why() {
        assert_eq!(matching("sandbox produced no result envelope (exit=1)")[0], "sessions");
        assert_eq!(matching("the bucket refuses")[0], "bucket");
        assert_eq!(matching("status 401")[0], "llm");
        let refused = |status| EngineError::Refused {
            status,
            kind: "x".to_owned(),
            message: "y".to_owned(),
            request_id: String::new(),
        };
        assert_eq!(failed(&refused(401), &["store"]).checks, ["sessions"]);
        assert_eq!(failed(&refused(500), &["store"]).checks, ["store"]);
    }
}
