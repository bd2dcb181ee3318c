//! One question to the session's model: the request is built from the history, tried again where that may help, made
//! smaller where the server wants it smaller, and told to the readers as it comes.
//!
//! Each try is a span of its own. A try that was cut off leaves no message, so nothing of it can run twice.

use std::time::Duration;

use tokio::time::Instant;

use super::client::AnswerStream;
use super::conversation::{Answer, Ask, Asked, Conversation};
use super::error::ModelError;
use super::history::{self, Retention, Turn};
use super::plan;
use super::quirks::{self, Known};
use super::resolve::address_limit;
use super::run::{failed, failure_of};
use super::stream::Completion;
use super::usage::Measured;
use super::wire::{ChatMessage, ChatRequest, Piece};
use crate::broker::Preview;
use crate::events::body::{EventBody, FailureKind, RetryStatus, SessionFailure};
use crate::ids::EventId;
use crate::sessions::change::SessionChange;
use crate::sessions::writer::RunWriteError;

/// Previews of one answer come at most so often: a reader sees no difference, and a broker carries far less.
const PREVIEW_PERIOD: Duration = Duration::from_millis(30);
/// Changes of the media that are tried within one question.
const FITTINGS: u32 = 8;

/// A try that failed.
struct Cut {
    error: ModelError,
    /// Characters that came before.
    characters: usize,
}

/// What was tried already, within one question.
#[derive(Default)]
struct Tried {
    requests: u32,
    fittings: u32,
    shortened: bool,
    /// What was known of the server before the first lesson of this question.
    at_first: Option<Known>,
}

impl Conversation<'_> {
    /// Asks the session's model.
    pub(crate) async fn ask(&mut self, ask: &Ask) -> Result<Asked, RunWriteError> {
        let mut tried = Tried::default();
        loop {
            if self.stop.is_cancelled() {
                return Ok(Asked::Interrupted);
            }
            if let Some(error) = self.attach_context().await? {
                return Ok(Asked::Failed(error));
            }
            let known = self.known();
            let (request, prompt_chars) = self.request(ask, &known).await;
            let start = self.writer.event(EventBody::ModelRequestStart {}).await?;
            let (message_id, thinking_id) = (EventId::generate(), EventId::generate());
            let outcome = self.try_once(ask, &request, &message_id, &thinking_id).await;
            tried.requests += 1;
            let pricing = self.parts.catalogue.pricing(&self.endpoint.model);
            match outcome {
                Ok(completion) => {
                    let answer_chars = answer_chars(&completion);
                    let measured =
                        Measured::new(completion.usage.as_ref(), pricing.as_ref(), prompt_chars, answer_chars);
                    return Ok(Asked::Answer(Box::new(Answer {
                        completion,
                        start,
                        message_id,
                        thinking_id,
                        measured,
                    })));
                }
                Err(cut) => {
                    // A server that refused to begin has counted nothing; one that was cut off has.
                    let measured = if cut.characters > 0 || matches!(cut.error, ModelError::Cancelled) {
                        Measured::new(None, pricing.as_ref(), prompt_chars, cut.characters)
                    } else {
                        Measured::default()
                    };
                    let mut change = self.writer.begin();
                    self.end_span(&mut change, &start, &measured, true);
                    if let Some(end) = self.after(cut.error, &known, &mut tried, change).await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Decides what a failed try means. `None` tries again.
    async fn after(
        &mut self,
        error: ModelError,
        known: &Known,
        tried: &mut Tried,
        mut change: SessionChange,
    ) -> Result<Option<Asked>, RunWriteError> {
        if matches!(error, ModelError::Cancelled) {
            self.commit(change).await?;
            return Ok(Some(Asked::Interrupted));
        }
        tracing::info!(session.id = %self.session.id, model.id = %self.endpoint.model, error = %error, "a request to the model failed");
        let now = self.known();
        if now != *known && tried.fittings < FITTINGS {
            // The server takes less than was sent, or another form of it: the next request is made accordingly.
            tried.fittings += 1;
            let before = *tried.at_first.get_or_insert(*known);
            if now.refused.video && !known.refused.video && quirks::is_about_one_medium(&error.words()) {
                self.video_unreadable = true;
                self.parts.client.note(&self.endpoint, before);
            }
            self.commit(change).await?;
            return Ok(None);
        }
        // A 413 that has nothing to do with media is about the words.
        if error.is_overflow() || error.status() == Some(413) {
            if tried.shortened || !history::can_shorten(&self.history, self.writer.run()) {
                self.commit(change).await?;
                let message = format!(
                    "the conversation does not fit the model `{}`, even shortened: {error}",
                    self.endpoint.model
                );
                return Ok(Some(Asked::Failed(failed(FailureKind::CompactionLimitReachedError, message))));
            }
            tried.shortened = true;
            change.event(EventBody::ContextCompacted {});
            change.messages.push(history::shortening());
            self.commit(change).await?;
            return Ok(None);
        }
        let Some(pause) = self.parts.config.retry.pause(&error, tried.requests) else {
            self.commit(change).await?;
            if let Some(before) = tried.at_first {
                // The other form was refused as well, so the form was not the reason.
                self.parts.client.note(&self.endpoint, before);
            }
            return Ok(Some(Asked::Failed(failure_of(&error))));
        };
        let told = SessionFailure { retry_status: RetryStatus::Retrying, ..failure_of(&error) };
        change.event(EventBody::SessionError { error: told });
        change.event(EventBody::StatusRescheduled {});
        self.commit(change).await?;
        tokio::select! {
            () = self.stop.cancelled() => return Ok(Some(Asked::Interrupted)),
            () = tokio::time::sleep(pause) => {}
        }
        self.writer.event(EventBody::StatusRunning {}).await?;
        Ok(None)
    }

    /// Builds the request, and counts the characters of its words.
    async fn request(&self, ask: &Ask, known: &Known) -> (ChatRequest, usize) {
        let (config, catalogue) = (&self.parts.config, &self.parts.catalogue);
        let retention = Retention {
            max_videos: config.max_clips_per_prompt,
            max_images: config.max_frames_per_prompt.min(plan::image_cap(&self.endpoint, catalogue)),
            accepts: plan::accepted(&self.endpoint, catalogue, known),
        };
        let turns = history::turns(&self.history, self.writer.run(), retention);
        let limit = address_limit(known, history::media(&turns).count());
        let mut messages = Vec::with_capacity(turns.len() + 1);
        messages.push(ChatMessage::System(ask.system.clone()));
        for turn in turns {
            messages.push(match turn {
                Turn::System(text) => ChatMessage::System(text),
                Turn::User(parts) => ChatMessage::User(self.resolver.pieces(&parts, limit).await),
                Turn::Assistant { text, calls, reasoning, current } => {
                    ChatMessage::Assistant { text, calls, reasoning, current }
                }
                Turn::Tool { call_id, text } => ChatMessage::Tool { call_id, text },
            });
        }
        let prompt_chars = messages.iter().map(words_of).sum();
        let request = ChatRequest {
            messages,
            tools: std::sync::Arc::clone(&ask.tools),
            tool_choice: ask.tool_choice,
            max_tokens: ask.max_tokens,
            response_format: ask.response_format.clone(),
            thinking: ask.thinking.clone(),
            provider: catalogue.route(&self.endpoint.model).provider,
        };
        (request, prompt_chars)
    }

    async fn try_once(
        &self,
        ask: &Ask,
        request: &ChatRequest,
        message_id: &EventId,
        thinking_id: &EventId,
    ) -> Result<Completion, Cut> {
        let stream = self.parts.client.stream(&self.endpoint, request, &self.stop).await;
        let mut stream = stream.map_err(|error| Cut { error, characters: 0 })?;
        if let Err(error) = self.show(ask, &mut stream, message_id, thinking_id).await {
            return Err(Cut { error, characters: stream.characters() });
        }
        let characters = stream.characters();
        stream.finish().map_err(|error| Cut { error, characters })
    }

    /// Reads the answer to its end and shows readers what comes.
    async fn show(
        &self,
        ask: &Ask,
        stream: &mut AnswerStream,
        message_id: &EventId,
        thinking_id: &EventId,
    ) -> Result<(), ModelError> {
        let mut shown = Shown { held: String::new(), started: false, last: None };
        let mut thought = false;
        loop {
            let next = match shown.due() {
                None => stream.next().await?,
                Some(due) => tokio::select! {
                    biased;
                    next = stream.next() => next?,
                    () = tokio::time::sleep_until(due) => {
                        self.flush(&mut shown, message_id).await;
                        continue;
                    }
                },
            };
            let Some(added) = next else { break };
            if added.thought && !thought && self.parts.config.expose_thinking {
                thought = true;
                let event_type = "agent.thinking".to_owned();
                self.writer.preview(Preview::Start { id: thinking_id.clone(), event_type }).await;
            }
            if ask.shows_text && !added.text.is_empty() {
                shown.held.push_str(&added.text);
                if shown.due().is_some_and(|due| due <= Instant::now()) {
                    self.flush(&mut shown, message_id).await;
                }
            }
        }
        self.flush(&mut shown, message_id).await;
        Ok(())
    }

    async fn flush(&self, shown: &mut Shown, id: &EventId) {
        if !shown.is_worth_showing() {
            return;
        }
        if !shown.started {
            shown.started = true;
            self.writer.preview(Preview::Start { id: id.clone(), event_type: "agent.message".to_owned() }).await;
        }
        let text = std::mem::take(&mut shown.held);
        self.writer.preview(Preview::Text { id: id.clone(), text }).await;
        shown.last = Some(Instant::now());
    }
}

/// The preview of an answer's words.
struct Shown {
    /// Came, not shown yet.
    held: String,
    started: bool,
    last: Option<Instant>,
}

impl Shown {
    /// A message begins with its first word: before that it may never be one.
    fn is_worth_showing(&self) -> bool {
        !self.held.is_empty() && (self.started || !self.held.trim().is_empty())
    }

    /// When what is held is to be shown; `None` when nothing is.
    fn due(&self) -> Option<Instant> {
        self.is_worth_showing().then(|| self.last.map_or_else(Instant::now, |last| last + PREVIEW_PERIOD))
    }
}

fn words_of(message: &ChatMessage) -> usize {
    match message {
        ChatMessage::System(text) | ChatMessage::Tool { text, .. } => text.len(),
        ChatMessage::User(pieces) => pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.len(),
                Piece::Image(_) | Piece::Video(_) => 0,
            })
            .sum(),
        ChatMessage::Assistant { text, calls, .. } => {
            text.as_ref().map_or(0, String::len) + calls.iter().map(|call| call.arguments.len()).sum::<usize>()
        }
    }
}

fn answer_chars(completion: &Completion) -> usize {
    let reasoning = completion.reasoning.as_ref().map_or(0, |reasoning| reasoning.text.len());
    let calls: usize = completion.calls.iter().map(|call| call.name.len() + call.arguments.len()).sum();
    completion.text.len() + reasoning + calls
}
