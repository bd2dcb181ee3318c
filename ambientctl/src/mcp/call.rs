//! One call of the tool: from its arguments to the answer, with what happens on the way as progress.

use rmcp::model::{CallToolResult, ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::tool::{Arguments, Subject, answered, not_answered};
use crate::asking::{AnswerArgs, AskError, Video, call_text, shortened, turn};
use crate::engine_client::{EngineClient, Event, EventBody, Message, NewSession, RetryStatus, Session};

/// Does a call. What goes wrong is an answer too: the model that called is to read it.
pub(super) async fn call(
    engine: &EngineClient,
    wish: &AnswerArgs,
    arguments: &Arguments,
    stop: &CancellationToken,
    steps: &Steps,
) -> CallToolResult {
    let session = match session(engine, wish, arguments, stop, steps).await {
        Ok(session) => session,
        Err(why) => return not_answered(&why, None),
    };
    let video_id = session.metadata.get("video_id").map(String::as_str).unwrap_or_default();
    let message = Message::text(arguments.question.clone());
    let mut watch = |event: &Event| {
        if let Some(text) = step_of(event) {
            steps.tell(&text);
        }
    };
    let turn = turn(engine, &session.id, &message, stop, &mut watch).await.map_err(AskError::from);
    let answer = match &turn {
        Ok(turn) => turn.answer().map(str::to_owned),
        Err(error) => return not_answered(&told(error), Some((&session.id, video_id))),
    };
    match answer {
        Ok(answer) => answered(&answer, &session.id, video_id),
        Err(error) => not_answered(&told(&error), Some((&session.id, video_id))),
    }
}

/// The session to ask in: the one that is named, or a new one over the video.
async fn session(
    engine: &EngineClient,
    wish: &AnswerArgs,
    arguments: &Arguments,
    stop: &CancellationToken,
    steps: &Steps,
) -> Result<Session, String> {
    let video_id = match arguments.subject()? {
        Subject::Session { id, video_id } => {
            let session = engine.session(&id).await.map_err(|error| told(&error.into()))?;
            let own = session.metadata.get("video_id");
            return match video_id {
                Some(video_id) if own != Some(&video_id) => {
                    Err(format!("session {id} is about another video than {video_id}; leave `session_id` out"))
                }
                Some(_) | None => Ok(session),
            };
        }
        Subject::Video(id) => id,
        Subject::Path(path) => {
            let video = Video::named(&path).map_err(|error| told(&error))?;
            steps.tell("opening the video");
            let heard = steps.clone();
            let brought = video.bring(engine, stop, move |how_far| heard.tell(how_far)).await;
            brought.map_err(|error| told(&error))?.id
        }
    };
    let new = NewSession {
        fast: wish.fast,
        model: wish.model.clone(),
        max_turns: wish.max_turns,
        ..NewSession::over(&video_id)
    };
    engine.create_session(&new).await.map_err(|error| told(&error.into()))
}

/// An error with its causes, on one line.
fn told(error: &AskError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// What an event is to somebody who waits; `None` for what they need not know.
fn step_of(event: &Event) -> Option<String> {
    match &event.body {
        EventBody::Running {} => Some("thinking".to_owned()),
        EventBody::ToolUse { name, input } => Some(shortened(&call_text(name, input))),
        EventBody::ToolResult { is_error, .. } => {
            Some(if *is_error { "the tool failed" } else { "the tool is done" }.to_owned())
        }
        EventBody::Progress { message, percent: Some(percent) } => Some(format!("{message}: {percent} %")),
        EventBody::Progress { message, percent: None } => Some(message.clone()),
        EventBody::Failed { error } if error.retry_status == RetryStatus::Retrying => {
            Some(shortened(&format!("trying again: {}", error.message)))
        }
        EventBody::PreviewStart { .. } => Some("answering".to_owned()),
        EventBody::PreviewText { .. }
        | EventBody::Message { .. }
        | EventBody::Thinking { .. }
        | EventBody::Rescheduled {}
        | EventBody::Idle { .. }
        | EventBody::Terminated {}
        | EventBody::Deleted {}
        | EventBody::Failed { .. }
        | EventBody::ModelRequestEnd { .. }
        | EventBody::Other => None,
    }
}

/// Takes steps in, in order, from wherever they happen. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Steps(Option<UnboundedSender<String>>);

impl Steps {
    /// Steps for a client that gave this token; without one they are told to nobody. The future sends them on, and ends
    /// when all clones are gone.
    pub(super) fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> (Self, impl Future<Output = ()>) {
        let (steps, told) = match token {
            Some(token) => {
                let (sender, receiver) = unbounded_channel();
                (Self(Some(sender)), Some((token, receiver)))
            }
            None => (Self(None), None),
        };
        (steps, async move {
            if let Some((token, receiver)) = told {
                send_on(&peer, &token, receiver).await;
            }
        })
    }

    fn tell(&self, text: &str) {
        if let Some(sender) = &self.0 {
            let _the_call_may_be_over = sender.send(text.to_owned());
        }
    }
}

async fn send_on(peer: &Peer<RoleServer>, token: &ProgressToken, mut steps: UnboundedReceiver<String>) {
    let mut count = 0.0;
    while let Some(text) = steps.recv().await {
        // It has to grow with each notification; how many there will be is known to nobody.
        count += 1.0;
        let step = ProgressNotificationParam::new(token.clone(), count).with_message(text);
        if let Err(error) = peer.notify_progress(step).await {
            tracing::debug!(%error, "a client hears no progress any more");
            return;
        }
    }
}
