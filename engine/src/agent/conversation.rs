//! The conversation of one run: its history, kept in step with the store, and what is written to both at once.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::RunContext;
use super::config::AgentParts;
use super::endpoint::Endpoint;
use super::quirks::Known;
use super::resolve::Resolver;
use super::stream::Completion;
use super::usage::Measured;
use super::wire::{Thinking, ToolChoice};
use crate::backend::MediaBackend;
use crate::events::body::{ContentBlock, EventBody, SessionFailure};
use crate::ids::EventId;
use crate::sessions::change::{NewEvent, SessionChange};
use crate::sessions::writer::{RunWriteError, RunWriter};
use crate::store::records::{FileRecord, MessageBody, MessageRecord, Origin, SessionRecord, ToolCall};

/// Who the agent's own requests are counted for.
pub(crate) const SOURCE: &str = "agent";

/// A run under way.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about the whole video's place in it")]
pub(crate) struct Conversation<'a> {
    pub(crate) parts: &'a AgentParts,
    pub(crate) writer: RunWriter,
    pub(crate) session: Arc<SessionRecord>,
    pub(crate) file: FileRecord,
    pub(crate) backend: Arc<dyn MediaBackend>,
    pub(crate) stop: CancellationToken,
    pub(crate) endpoint: Endpoint,
    pub(crate) resolver: Resolver,
    /// As stored.
    pub(crate) history: Vec<MessageRecord>,
    /// The whole video belongs at the front of the conversation.
    pub(crate) wants_context: bool,
    /// Without it there is nothing to ask about.
    pub(crate) needs_context: bool,
    /// The context could not be attached in this run; it is not tried again.
    pub(crate) context_failed: bool,
    /// The server cannot read this very video, though it takes others.
    pub(crate) video_unreadable: bool,
}

/// A question to the session's model, apart from the conversation itself.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) system: String,
    pub(crate) tools: Arc<[serde_json::Value]>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) max_tokens: u32,
    pub(crate) response_format: Option<serde_json::Value>,
    pub(crate) thinking: Thinking,
    /// Its words will be an `agent.message`, so readers may see them as they come.
    pub(crate) shows_text: bool,
}

/// How a question came out.
pub(crate) enum Asked {
    Answer(Box<Answer>),
    Failed(SessionFailure),
    Interrupted,
}

/// An answer that is not stored yet.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) completion: Completion,
    /// The `span.model_request_start` that is still open.
    pub(crate) start: EventId,
    /// Announced to readers; the `agent.message` has it.
    pub(crate) message_id: EventId,
    pub(crate) thinking_id: EventId,
    pub(crate) measured: Measured,
}

impl Answer {
    /// Whether the model or its server refused to answer.
    pub(crate) fn is_refusal(&self) -> bool {
        self.completion.refused || self.completion.finish.as_deref() == Some("content_filter")
    }
}

impl<'a> Conversation<'a> {
    /// Reads the history.
    pub(crate) async fn open(
        parts: &'a AgentParts,
        context: RunContext,
        endpoint: Endpoint,
    ) -> Result<Self, RunWriteError> {
        let RunContext { writer, session, file, backend, output_structure: _, stop } = context;
        let history = parts.store.messages(&session.id, 0).await?;
        let base = Resolver::new(
            Arc::clone(&backend),
            Arc::clone(&parts.store),
            Some(session.id.clone()),
            parts.config.link_ttl,
        );
        let resolver = base
            .with_inline_media(parts.config.inline_media)
            .with_recent(parts.recent.clone())
            .for_run(Arc::clone(&backend), session.id.clone());
        Ok(Self {
            parts,
            writer,
            session: Arc::new(session),
            file,
            backend,
            stop,
            endpoint,
            resolver,
            history,
            wants_context: false,
            needs_context: false,
            context_failed: false,
            video_unreadable: false,
        })
    }

    /// What is known of the session's server, and of this video there.
    pub(crate) fn known(&self) -> Known {
        let mut known = self.parts.client.known(&self.endpoint);
        known.refused.video |= self.video_unreadable;
        known
    }

    /// Whether the history holds a message of this origin.
    pub(crate) fn has(&self, wanted: Origin) -> bool {
        self.history.iter().any(|record| matches!(&record.body, MessageBody::User { origin, .. } if *origin == wanted))
    }

    /// Makes a change, and takes what it appended to the history.
    pub(crate) async fn commit(&mut self, change: SessionChange) -> Result<(), RunWriteError> {
        let changed = self.writer.commit(change).await?;
        // An instruction of the client may have been stored in between: then the store knows more than we do.
        let next = self.history.last().map_or(0, |last| last.index + 1);
        if changed.messages.first().is_some_and(|first| first.index != next) {
            let missed = self.parts.store.messages(&self.session.id, next).await?;
            self.history.extend(missed);
        } else {
            self.history.extend(changed.messages);
        }
        Ok(())
    }

    /// Appends messages without an event.
    pub(crate) async fn append(&mut self, messages: Vec<MessageBody>) -> Result<(), RunWriteError> {
        let mut change = self.writer.begin();
        change.messages = messages;
        self.commit(change).await
    }

    /// Stores an answer without calls as the agent's message. `text` stands for the model's own words where they were
    /// brought into form.
    pub(crate) async fn keep_answer(&mut self, answer: Answer, text: Option<String>) -> Result<(), RunWriteError> {
        let mut change = self.writer.begin();
        let text = text.unwrap_or_else(|| answer.completion.text.clone());
        self.tell(&mut change, &answer, Some(&text));
        self.close(&mut change, &answer);
        push_assistant(&mut change, answer, text, Vec::new());
        self.commit(change).await
    }

    /// Stores an answer that the user does not get, and what the engine says to it.
    pub(crate) async fn drop_answer(&mut self, answer: Answer, then: Option<MessageBody>) -> Result<(), RunWriteError> {
        let mut change = self.writer.begin();
        self.tell(&mut change, &answer, None);
        self.close(&mut change, &answer);
        let text = answer.completion.text.clone();
        push_assistant(&mut change, answer, text, Vec::new());
        change.messages.extend(then);
        self.commit(change).await
    }

    /// Adds thinking and words of an answer.
    pub(crate) fn tell(&self, change: &mut SessionChange, answer: &Answer, text: Option<&str>) {
        if self.parts.config.expose_thinking
            && let Some(reasoning) =
                answer.completion.reasoning.as_ref().filter(|reasoning| !reasoning.text.trim().is_empty())
        {
            let content = Some(vec![ContentBlock::text(reasoning.text.clone())]);
            change.events.push(NewEvent { id: answer.thinking_id.clone(), body: EventBody::AgentThinking { content } });
        }
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            let content = vec![ContentBlock::text(text)];
            change.events.push(NewEvent { id: answer.message_id.clone(), body: EventBody::AgentMessage { content } });
        }
    }

    /// Ends the span of a request that was answered, and counts it.
    pub(crate) fn close(&self, change: &mut SessionChange, answer: &Answer) {
        self.end_span(change, &answer.start, &answer.measured, false);
    }

    /// Ends the span of a request, and counts it.
    pub(crate) fn end_span(&self, change: &mut SessionChange, start: &EventId, measured: &Measured, is_error: bool) {
        let measured = if self.parts.config.track_usage { *measured } else { Measured::default() };
        change.event(EventBody::ModelRequestEnd {
            model_request_start_id: start.clone(),
            is_error,
            model_usage: measured.event(),
            source: SOURCE.to_owned(),
            model: self.endpoint.model.clone(),
            cost: measured.shown_cost(),
            estimated: measured.estimated,
        });
        if self.parts.config.track_usage {
            let mut totals = change.usage.take().unwrap_or_default();
            totals.add(&measured.totals(SOURCE, &self.endpoint.model, u64::from(!is_error)));
            change.usage = Some(totals);
        }
    }
}

/// Appends the model's message, unless it holds nothing.
pub(crate) fn push_assistant(change: &mut SessionChange, answer: Answer, text: String, calls: Vec<ToolCall>) {
    if text.trim().is_empty() && calls.is_empty() {
        return;
    }
    let text = (!text.is_empty()).then_some(text);
    change.messages.push(MessageBody::Assistant { text, reasoning: answer.completion.reasoning, calls });
}
