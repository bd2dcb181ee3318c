//! A reader of a session's events: what already happened from the right place on, then what happens, each event once,
//! in order.
//!
//! The reader listens before it reads the log, so nothing falls between; it goes by the event numbers, so a signal that
//! was lost or overtaken sends it to the store; and it holds no event back and keeps none, so a reader that stalls costs
//! nobody anything.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::unfold;
use futures::{FutureExt as _, Stream};
use tokio_util::sync::CancellationToken;

use super::body::{EventBody, StopReason};
use super::wire::{event_frame, open_frame, ping_frame, preview_frame};
use crate::broker::{Broker, Heard, Preview, Signal, Signals};
use crate::ids::{EventId, SessionId};
use crate::sessions::state::SessionState;
use crate::sessions::wishes::SessionError;
use crate::store::records::{EventRecord, SessionRecord};
use crate::store::{EventFilter, EventWindow, Store, chain};

/// Proxies and clients take a silence of 15 s and more for death.
const PING_PERIOD: Duration = Duration::from_secs(10);
/// Events read from the store at a time.
const PAGE: u32 = 200;
/// Messages whose previews a reader still recognises as too late.
const REMEMBERED_MESSAGES: usize = 64;
/// How long a stream waits, once everything is to end, for the last words of the run under way.
const LAST_WORDS: Duration = Duration::from_secs(8);
/// Sessions whose read marks are remembered, so that many readers of one event store it once.
const REMEMBERED_MARKS: usize = 10_000;
/// Read marks of different sessions that are stored at once.
const MARKED_AT_ONCE: usize = 64;

/// What a reader asks for.
#[derive(Clone, Debug, Default)]
pub struct StreamWish {
    /// Begin right behind this event, if it is one of the session's.
    pub last_event_id: Option<String>,
    /// Show `agent.message` while it is written.
    pub message_previews: bool,
    /// Announce `agent.thinking`.
    pub thinking_previews: bool,
    /// End after the first idle that waits for nothing.
    pub until_idle: bool,
}

/// Opens streams and knows which idle events were handed out. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Streams {
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    draining: CancellationToken,
    aborting: CancellationToken,
    marks: Arc<Marks>,
}

/// The idle events that clients were given, as far as this engine remembers.
#[derive(Debug)]
struct Marks {
    stored: Mutex<HashMap<SessionId, u64>>,
    /// Held while a mark is stored, one for the sessions that share it: the readers of one event come together, and one
    /// of them stores for all.
    turns: [tokio::sync::Mutex<()>; MARKED_AT_ONCE],
}

impl Default for Marks {
    fn default() -> Self {
        Self { stored: Mutex::default(), turns: std::array::from_fn(|_| tokio::sync::Mutex::default()) }
    }
}

impl Marks {
    fn turn(&self, id: &SessionId) -> &tokio::sync::Mutex<()> {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % MARKED_AT_ONCE as u64).unwrap_or_default();
        &self.turns[place]
    }

    fn has(&self, id: &SessionId, seq: u64) -> bool {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.get(id).is_some_and(|marked| *marked >= seq)
    }

    fn keep(&self, id: &SessionId, seq: u64) {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        if stored.len() >= REMEMBERED_MARKS {
            stored.clear();
        }
        stored.insert(id.clone(), seq);
    }
}

impl Streams {
    /// Streams over this store and broker. Once `draining` is cancelled they end with the run under way, at
    /// `aborting` at once.
    pub fn new(
        store: Arc<dyn Store>,
        broker: Arc<dyn Broker>,
        draining: CancellationToken,
        aborting: CancellationToken,
    ) -> Self {
        Self { store, broker, draining, aborting, marks: Arc::default() }
    }

    /// Opens a stream of frames.
    ///
    /// Without a last event it begins with the run under way, or with the last run if nobody has been given its idle
    /// event yet, else with what comes next. So "send, then open" misses nothing, and "open, then send" does not meet
    /// the idle of the run before.
    ///
    /// # Errors
    /// When the session is not there, or store or broker fail.
    pub async fn open(
        &self,
        id: &SessionId,
        wish: StreamWish,
    ) -> Result<impl Stream<Item = Bytes> + Send + use<>, SessionError> {
        let signals = self.broker.subscribe(id).await?;
        let session = self.store.session(id).await?.ok_or_else(|| SessionError::NotFound(id.clone()))?;
        let asked = match wish.last_event_id.as_deref().and_then(|text| text.parse::<EventId>().ok()) {
            Some(event) => self.store.event_seq(id, &event).await?,
            None => None,
        };
        let reader = Reader {
            delivered: asked.unwrap_or_else(|| starting_point(&session)),
            running: matches!(session.state, SessionState::Running { .. }),
            streams: self.clone(),
            id: id.clone(),
            wish,
            signals,
            ready: VecDeque::from([open_frame()]),
            previewed: HashSet::new(),
            finished: VecDeque::new(),
            behind: true,
            ended: false,
        };
        Ok(unfold(reader, async |mut reader| reader.next_frame().await.map(|frame| (frame, reader))))
    }

    /// Notes that these events were given to a client, which matters for idle events.
    pub async fn handed_out(&self, id: &SessionId, events: &[EventRecord]) {
        let idle = events.iter().rev().find(|event| matches!(event.body, EventBody::StatusIdle { .. }));
        let Some(seq) = idle.map(|event| event.seq) else { return };
        if self.marks.has(id, seq) {
            return;
        }
        let _turn = self.marks.turn(id).lock().await;
        if self.marks.has(id, seq) {
            return;
        }
        match self.store.mark_read(id, seq).await {
            Ok(()) => self.marks.keep(id, seq),
            Err(error) => tracing::warn!(session.id = %id, error = %chain(&error), "a read mark was not stored"),
        }
    }
}

/// The number of the last event that a new reader does not get.
fn starting_point(session: &SessionRecord) -> u64 {
    let unread = session.run_start_seq > 0 && session.read_seq < session.run_start_seq;
    match session.state {
        SessionState::Running { .. } => session.run_start_seq.saturating_sub(1),
        // The reader is to see why, and that the stream is over.
        SessionState::Terminated { .. } => 0,
        SessionState::Idle | SessionState::Pending { .. } if unread => session.run_start_seq - 1,
        SessionState::Idle | SessionState::Pending { .. } => session.last_seq,
    }
}

/// One open stream.
#[derive(Debug)]
struct Reader {
    streams: Streams,
    id: SessionId,
    wish: StreamWish,
    signals: Signals,
    /// Frames to give out before anything else is looked at.
    ready: VecDeque<Bytes>,
    /// Number of the last event given out.
    delivered: u64,
    /// Events whose preview this reader got from its start, without a gap.
    previewed: HashSet<EventId>,
    /// The last messages given out: a preview of one of them comes too late.
    finished: VecDeque<EventId>,
    /// The store may have events that were not given out yet.
    behind: bool,
    /// Whether a run is under way, as far as the events given out tell.
    running: bool,
    ended: bool,
}

impl Reader {
    async fn next_frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.ended {
                return None;
            }
            if self.behind {
                if !self.catch_up().await {
                    return None;
                }
                continue;
            }
            if !self.running && self.streams.draining.is_cancelled() {
                return None;
            }
            tokio::select! {
                biased;
                heard = self.signals.next() => self.take(heard).await,
                () = last_words(&self.streams.aborting, self.running) => return None,
                () = self.streams.draining.cancelled(), if !self.running => return None,
                () = tokio::time::sleep(PING_PERIOD) => return Some(ping_frame()),
            }
        }
    }

    /// Reads the next page of the log. `false` when the session is gone or the store fails: the client comes back with
    /// its last event id.
    async fn catch_up(&mut self) -> bool {
        let window = EventWindow {
            limit: PAGE,
            descending: false,
            after_seq: Some(self.delivered),
            filter: EventFilter::default(),
        };
        match self.streams.store.events(&self.id, &window).await {
            Ok(page) => {
                self.behind = page.has_more;
                if page.items.is_empty() && !matches!(self.streams.store.session(&self.id).await, Ok(Some(_))) {
                    self.take_farewell().await;
                    return true;
                }
                for event in page.items {
                    self.give(&event).await;
                }
                true
            }
            Err(error) => {
                tracing::warn!(session.id = %self.id, error = %chain(&error), "a stream lost its store");
                false
            }
        }
    }

    /// The session is gone from the store. Its last event may still be among what was heard.
    async fn take_farewell(&mut self) {
        while let Some(Heard::Signal(signal)) = self.signals.next().now_or_never() {
            if let Signal::Events(events) = signal.as_ref()
                && let Some(last) = events.iter().find(|event| event.body.ends_streams())
            {
                self.give(last).await;
            }
        }
        self.behind = false;
        self.ended = true;
    }

    async fn take(&mut self, heard: Heard) {
        match heard {
            Heard::Signal(signal) => match signal.as_ref() {
                Signal::Events(events) => {
                    for event in events {
                        if event.seq == self.delivered + 1 {
                            self.give(event).await;
                        } else if event.seq > self.delivered {
                            self.behind = true;
                            return;
                        }
                    }
                }
                Signal::Preview(preview) => self.preview(preview),
                Signal::Interrupt { .. } => {}
            },
            Heard::Missed => {
                self.behind = true;
                // A preview with a hole in it would not fit the event.
                self.previewed.clear();
            }
            Heard::Closed => self.ended = true,
        }
    }

    async fn give(&mut self, event: &EventRecord) {
        if self.ended {
            return;
        }
        self.delivered = event.seq;
        self.previewed.remove(&event.id);
        match &event.body {
            EventBody::StatusRunning {} => self.running = true,
            EventBody::StatusIdle { stop_reason, .. } => {
                self.running = false;
                // Before it leaves: whoever opens the next stream must not meet it again.
                self.streams.handed_out(&self.id, std::slice::from_ref(event)).await;
                self.ended |= self.wish.until_idle && !matches!(stop_reason, StopReason::RequiresAction { .. });
            }
            EventBody::AgentMessage { .. } | EventBody::AgentThinking { .. } => {
                if self.finished.len() == REMEMBERED_MESSAGES {
                    self.finished.pop_front();
                }
                self.finished.push_back(event.id.clone());
            }
            body => self.ended |= body.ends_streams(),
        }
        self.ready.push_back(event_frame(event));
    }

    fn preview(&mut self, preview: &Preview) {
        match preview {
            Preview::Start { id, event_type } => {
                let wanted = match event_type.as_str() {
                    "agent.message" => self.wish.message_previews,
                    "agent.thinking" => self.wish.thinking_previews,
                    _ => false,
                };
                if wanted && !self.finished.contains(id) {
                    self.previewed.insert(id.clone());
                    self.ready.push_back(preview_frame(preview));
                }
            }
            Preview::Text { id, .. } => {
                if self.previewed.contains(id) {
                    self.ready.push_back(preview_frame(preview));
                }
            }
        }
    }
}

/// Comes when a stream has to end although a run may be under way: at once without one, else when it had time to speak.
async fn last_words(aborting: &CancellationToken, running: bool) {
    aborting.cancelled().await;
    if running {
        tokio::time::sleep(LAST_WORDS).await;
    }
}
