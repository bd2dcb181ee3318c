//! `ambientctl ask VIDEO QUESTION`: one question, one answer.

use std::path::Path;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::opening::{Subject, until_signal};
use super::screen::Screen;
use super::turn::{Turn, turn};
use super::{AskArgs, AskError};
use crate::engine_client::{Block, EngineClient, Message, Session};
use crate::output::{Exit, Failure, Printer};
use crate::signals::Signals;

/// A question that can be asked: its files are there and were read.
#[derive(Clone, Debug)]
pub struct Question {
    subject: Subject,
    text: String,
    schema: Option<Value>,
    shows_thinking: bool,
}

impl Question {
    /// Checks the words and reads the files that they name; the video itself is only looked for.
    ///
    /// # Errors
    /// When a file cannot be read, or is not what it is to be.
    pub fn prepare(args: &AskArgs) -> Result<Self, AskError> {
        if args.question.trim().is_empty() {
            return Err(AskError::NoQuestion);
        }
        Ok(Self {
            subject: Subject::prepare(&args.video, args.subtitles.as_deref(), &args.answer)?,
            text: args.question.clone(),
            schema: args.schema.as_deref().map(schema).transpose()?,
            shows_thinking: args.show_thinking,
        })
    }

    fn message(&self) -> Message {
        let question = Block::Text { text: self.text.clone() };
        let content = self.subject.subtitles.iter().cloned().chain([question]).collect();
        Message { content, output_structure: self.schema.clone() }
    }
}

/// Asks, shows what happens on the way, and prints the answer. The first SIGINT or SIGTERM interrupts the run and waits for
/// its end, the second does not wait.
///
/// # Errors
/// When there is no answer: the engine refused, the run failed, or it was interrupted.
pub async fn ask(
    question: &Question,
    engine: &EngineClient,
    signals: &mut Signals,
    printer: Printer,
    has_colour: bool,
) -> Result<Exit, Failure> {
    let stop = CancellationToken::new();
    let mut screen = Screen::new(printer, question.shows_thinking, has_colour, question.schema.is_none());
    let work = async {
        let session = question.subject.open(engine, &stop, printer).await?;
        let turn = turn(engine, &session.id, &question.message(), &stop, &mut screen).await?;
        screen.finish();
        Ok((session, turn))
    };
    let (session, turn) = until_signal(signals, &stop, |text| printer.note(text), work).await?;
    let answer = turn.answer()?;
    if printer.json {
        printer.data(&document(&session, &turn, answer, question.schema.is_some())?.to_string());
    } else {
        screen.answer(answer);
    }
    Ok(Exit::Ok)
}

/// The one document of `--json`.
fn document(session: &Session, turn: &Turn, answer: &str, has_schema: bool) -> Result<Value, AskError> {
    let mut document = json!({
        "answer": answer,
        "video_id": session.metadata.get("video_id"),
        "model": session.agent.model.id,
        "usage": turn.usage,
        "tool_calls": turn.calls,
    });
    if has_schema {
        document["structured"] = serde_json::from_str(answer).map_err(AskError::Shapeless)?;
    }
    Ok(document)
}

fn schema(path: &Path) -> Result<Value, AskError> {
    let unreadable = |source| AskError::BesideFile { what: "schema", path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let schema: Value =
        serde_json::from_str(&text).map_err(|source| AskError::NoJson { path: path.to_owned(), source })?;
    if schema.is_object() { Ok(schema) } else { Err(AskError::NoSchema(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_a_json_object() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("schema.json");
        assert!(matches!(schema(&path), Err(AskError::BesideFile { what: "schema", .. })));
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(schema(&path), Err(AskError::NoJson { .. })));
        std::fs::write(&path, "[]").unwrap();
        assert!(matches!(schema(&path), Err(AskError::NoSchema(_))));
        std::fs::write(&path, r#"{"type": "object"}"#).unwrap();
        assert_eq!(schema(&path).unwrap(), json!({"type": "object"}));
    }
}
