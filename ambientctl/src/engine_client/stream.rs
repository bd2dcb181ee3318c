//! The events of a session as they happen, over a connection that may break.
//!
//! Events have ids, so a stream that broke goes on right behind the last one that was given: nothing is lost and nothing
//! comes twice. Previews are told once; a message whose preview was cut short still comes as a whole.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _};
use reqwest::Method;
use sse_stream::SseByteStream;

use super::{EngineClient, EngineError, Event, EventBody};

/// An engine says something every 10 s, if it is only that it lives.
const SILENCE: Duration = Duration::from_secs(40);
/// Attempts to go on, one after the other without an event between them.
const ATTEMPTS: u32 = 8;
/// Before the second attempt; it doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

type Frames = SseByteStream<Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>>;

/// What happens in a session. See [`EngineClient::events`].
pub struct EventStream {
    engine: EngineClient,
    session: String,
    last: Option<String>,
    frames: Option<Frames>,
    failures: u32,
    is_over: bool,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventStream").field("session", &self.session).field("last", &self.last).finish_non_exhaustive()
    }
}

impl EventStream {
    pub(super) fn new(engine: EngineClient, session: String, after: Option<String>) -> Self {
        Self { engine, session, last: after, frames: None, failures: 0, is_over: false }
    }

    /// The next event; `None` when the session is over. What was begun and dropped before it gave something is not lost.
    ///
    /// # Errors
    /// When the session is not there, or the stream broke and could not be taken up again.
    pub async fn next(&mut self) -> Result<Option<Event>, EngineError> {
        while !self.is_over {
            match self.attempt().await {
                Ok(event) => {
                    self.failures = 0;
                    if event.id.is_some() {
                        self.last.clone_from(&event.id);
                    }
                    self.is_over = matches!(event.body, EventBody::Deleted {} | EventBody::Terminated {});
                    return Ok(Some(event));
                }
                Err(error) => {
                    self.frames = None;
                    self.failures += 1;
                    if !error.is_passing() {
                        return Err(error);
                    }
                    if self.failures > ATTEMPTS {
                        let session = self.session.clone();
                        let source = Box::new(error);
                        return Err(EngineError::StreamLost { session, attempts: ATTEMPTS, source });
                    }
                    tokio::time::sleep(pause_before(self.failures)).await;
                }
            }
        }
        Ok(None)
    }

    /// An event of the open stream, or of a new one.
    async fn attempt(&mut self) -> Result<Event, EngineError> {
        let frames = match &mut self.frames {
            Some(frames) => frames,
            None => self.frames.insert(open(&self.engine, &self.session, self.last.as_deref()).await?),
        };
        loop {
            let next = tokio::time::timeout(SILENCE, frames.next()).await;
            let frame = next.map_err(|_elapsed| EngineError::StreamSilent { seconds: SILENCE.as_secs() })?;
            let frame = frame.ok_or(EngineError::StreamClosed)?.map_err(EngineError::Stream)?;
            let Some(data) = frame.data.filter(|_| frame.event.as_deref() != Some("ping")) else { continue };
            let url = self.engine.base().to_owned();
            return serde_json::from_str(&data).map_err(|source| EngineError::Garbled { url, source });
        }
    }
}

async fn open(engine: &EngineClient, session: &str, after: Option<&str>) -> Result<Frames, EngineError> {
    let path = ["v1", "sessions", session, "events", "stream"];
    let query = [("event_deltas[]", "agent.message")];
    let mut request = engine.unlimited(Method::GET, &path, &query).header("accept", "text/event-stream");
    if let Some(id) = after {
        request = request.header("last-event-id", id);
    }
    // The head of a stream comes at once, so it has a limit, which its body has not.
    let answer = tokio::time::timeout(SILENCE, engine.answer(request)).await;
    let answer = answer.map_err(|_elapsed| EngineError::StreamSilent { seconds: SILENCE.as_secs() })??;
    let bytes = answer.bytes_stream().map_err(|error| io::Error::other(error.without_url()));
    Ok(SseByteStream::new(Box::pin(bytes)))
}

fn pause_before(attempt: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(LONGEST_PAUSE)
}
