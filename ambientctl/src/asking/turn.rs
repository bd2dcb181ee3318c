//! One question and what comes of it: a message, the events of its run, and the answer among them.

use serde::Serialize;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::AskError;
use crate::engine_client::{
    ContentBlock, EngineClient, EngineError, Event, EventBody, Message, RetryStatus, StopReason,
};

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Turn {
    /// How it ended.
    pub outcome: Outcome,
    /// What it used.
    pub usage: Usage,
    /// The tools that were called, in order.
    pub calls: Vec<ToolCall>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With this answer.
    Answered(String),
    /// It was stopped before.
    Interrupted,
    /// The model refused to answer.
    Refused,
    /// Something failed, in the engine's words.
    Failed(String),
}

impl Turn {
    /// The answer.
    ///
    /// # Errors
    /// When there is none.
    pub fn answer(&self) -> Result<&str, AskError> {
        match &self.outcome {
            Outcome::Answered(answer) => Ok(answer),
            Outcome::Interrupted => Err(AskError::Interrupted),
            Outcome::Refused => Err(AskError::Refused),
            Outcome::Failed(message) => Err(AskError::Failed { message: message.clone() }),
        }
    }
}

/// What the requests of a run to models used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Tokens of prompts.
    pub input_tokens: u64,
    /// Tokens of answers.
    pub output_tokens: u64,
    /// US dollars; `None` where no price is known.
    pub cost: Option<f64>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolCall {
    /// The id of its event.
    #[serde(skip)]
    pub id: String,
    /// Which tool.
    pub name: String,
    /// With which arguments.
    pub input: Map<String, Value>,
    /// Whether it failed; `None` while it has no result.
    pub failed: Option<bool>,
}

/// Who is told of events as they come.
pub trait Watch {
    /// An event came.
    fn saw(&mut self, event: &Event);
}

impl<F: FnMut(&Event)> Watch for F {
    fn saw(&mut self, event: &Event) {
        self(event);
    }
}

/// Sends a message and follows its run to the end. When `stop` is cancelled the run is interrupted, and followed to its
/// end all the same, so that the session can be asked again.
///
/// # Errors
/// When the engine refuses the message, as it does while another run goes on, or does not answer any more.
pub async fn turn(
    engine: &EngineClient,
    session: &str,
    message: &Message,
    stop: &CancellationToken,
    watch: &mut impl Watch,
) -> Result<Turn, EngineError> {
    let sent = engine.send(session, message).await?;
    let mut events = engine.events(session, Some(sent));
    let mut seen = Seen::default();
    let mut is_told = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event?,
            () = stop.cancelled(), if !is_told => {
                is_told = true;
                engine.interrupt(session).await?;
                continue;
            }
        };
        let Some(event) = event else {
            return Ok(seen.into_turn(Outcome::Failed("the session was ended".to_owned())));
        };
        watch.saw(&event);
        if let Some(end) = seen.take(event) {
            let outcome = if is_told { Outcome::Interrupted } else { end };
            return Ok(seen.into_turn(outcome));
        }
    }
}

/// What the events told so far.
#[derive(Debug, Default)]
struct Seen {
    /// The last message, unless the agent went on to call tools after it.
    answer: Option<String>,
    failure: Option<String>,
    usage: Usage,
    calls: Vec<ToolCall>,
}

impl Seen {
    /// Takes an event in; gives how the run ended, when it did.
    fn take(&mut self, event: Event) -> Option<Outcome> {
        match event.body {
            EventBody::Message { content } => self.answer = Some(ContentBlock::text_of(&content)),
            EventBody::ToolUse { name, input } => {
                self.answer = None;
                self.calls.push(ToolCall { id: event.id.unwrap_or_default(), name, input, failed: None });
            }
            EventBody::ToolResult { tool_use_id, is_error, .. } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.id == tool_use_id) {
                    call.failed = Some(is_error);
                }
            }
            EventBody::Failed { error } if error.retry_status != RetryStatus::Retrying => {
                self.failure = Some(error.message);
            }
            EventBody::ModelRequestEnd { model_usage, cost } => {
                self.usage.input_tokens += model_usage.input_tokens;
                self.usage.output_tokens += model_usage.output_tokens;
                if let Some(cost) = cost {
                    self.usage.cost = Some(self.usage.cost.unwrap_or(0.0) + cost);
                }
            }
            EventBody::Idle { stop_reason } => return Some(self.end(&stop_reason)),
            EventBody::Terminated {} | EventBody::Deleted {} => {
                let failure = self.failure.take();
                return Some(Outcome::Failed(failure.unwrap_or_else(|| "the session was ended".to_owned())));
            }
            EventBody::PreviewStart { .. }
            | EventBody::PreviewText { .. }
            | EventBody::Thinking { .. }
            | EventBody::Running {}
            | EventBody::Rescheduled {}
            | EventBody::Failed { .. }
            | EventBody::Progress { .. }
            | EventBody::Other => {}
        }
        None
    }

    fn end(&mut self, why: &StopReason) -> Outcome {
        match (why, self.failure.take(), self.answer.take()) {
            (StopReason::Refusal, _, _) => Outcome::Refused,
            (StopReason::RequiresAction { .. }, _, _) => {
                Outcome::Failed("the agent waits for its client to allow a tool, or to run one of its own".to_owned())
            }
            (_, Some(failure), _) => Outcome::Failed(failure),
            (_, None, Some(answer)) => Outcome::Answered(answer),
            (_, None, None) => Outcome::Failed("the run ended without a message".to_owned()),
        }
    }

    fn into_turn(self, outcome: Outcome) -> Turn {
        Turn { outcome, usage: self.usage, calls: self.calls }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(events: &[Value]) -> (Option<Outcome>, Seen) {
        let mut seen = Seen::default();
        let mut end = None;
        for event in events {
            assert_eq!(end, None, "there is something behind the end");
            end = seen.take(serde_json::from_value(event.clone()).unwrap());
        }
        (end, seen)
    }

    fn message(text: &str) -> Value {
        json!({"id": "m", "type": "agent.message", "content": [{"type": "text", "text": text}]})
    }

    fn idle(why: &str) -> Value {
        json!({"id": "i", "type": "session.status_idle", "stop_reason": {"type": why}})
    }

    #[test]
    fn the_answer_is_the_last_message_and_not_a_remark_before_a_tool() {
        let (end, seen) = run(&[
            message("let me look"),
            json!({"id": "c1", "type": "agent.tool_use", "name": "focus_clip", "input": {"start_time": 1}}),
            json!({"id": "c2", "type": "agent.tool_use", "name": "bash", "input": {}}),
            json!({"id": "r", "type": "agent.tool_result", "tool_use_id": "c2", "content": [], "is_error": true}),
            json!({"id": "s", "type": "span.model_request_end", "model_usage": {"input_tokens": 7, "output_tokens": 2}, "cost": 0.5}),
            json!({"id": "s", "type": "span.model_request_end", "model_usage": {"input_tokens": 1}, "cost": null}),
            message("a door"),
            idle("end_turn"),
        ]);
        assert_eq!(end, Some(Outcome::Answered("a door".to_owned())));
        assert_eq!(seen.usage, Usage { input_tokens: 8, output_tokens: 2, cost: Some(0.5) });
        let failed: Vec<_> = seen.calls.iter().map(|call| (call.name.as_str(), call.failed)).collect();
        assert_eq!(failed, [("focus_clip", None), ("bash", Some(true))]);
    }

    #[test]
    fn every_other_end_says_why() {
        let error = |status: &str| {
            json!({"id": "e", "type": "session.error",
                "error": {"type": "unknown_error", "message": "no room", "retry_status": {"type": status}}})
        };
        for (events, expected) in [
            (vec![error("exhausted"), idle("retries_exhausted")], Outcome::Failed("no room".to_owned())),
            (vec![error("retrying"), message("a"), idle("end_turn")], Outcome::Answered("a".to_owned())),
            (vec![message("I cannot"), idle("refusal")], Outcome::Refused),
            (
                vec![error("terminal"), json!({"type": "session.status_terminated"})],
                Outcome::Failed("no room".to_owned()),
            ),
            (vec![json!({"type": "session.deleted"})], Outcome::Failed("the session was ended".to_owned())),
            (vec![idle("end_turn")], Outcome::Failed("the run ended without a message".to_owned())),
        ] {
            assert_eq!(run(&events).0, Some(expected), "for {events:?}");
        }
        assert!(matches!(run(&[idle("requires_action")]).0, Some(Outcome::Failed(_))));
    }
}
