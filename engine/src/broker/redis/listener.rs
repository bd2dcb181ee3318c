//! The one connection that listens, and the task that owns it.
//!
//! The task follows the readers of this process: it subscribes to a session for the first of them and drops it after the
//! last. A connection that breaks is made again, every session that is still listened to is subscribed to again, and then
//! all readers are told that they may have missed something.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Client, Msg, RedisError};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::ANSWER_LIMIT;
use crate::broker::ears::Ears;
use crate::broker::{BrokerError, Signal, Signals};
use crate::ids::SessionId;

/// How often a silent connection is asked whether it still lives.
const PING_EVERY: Duration = Duration::from_secs(15);

/// Between two tries to connect: the first is at once, each later one waits twice as long, up to the second.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How long a new reader waits for Redis to confirm that it hears.
const CONFIRM_LIMIT: Duration = Duration::from_secs(5);

/// Where a session's signals go.
pub(super) fn channel_of(session: &SessionId) -> String {
    format!("session:{session}:events")
}

fn session_of(channel: &str) -> Option<SessionId> {
    channel.strip_prefix("session:")?.strip_suffix(":events")?.parse().ok()
}

enum Request {
    /// A reader waits until its session is heard.
    Hear { session: SessionId, confirmed: oneshot::Sender<()> },
    /// The last reader of a session left.
    Leave { session: SessionId },
}

/// Ends its task, and with it the connection, when it is dropped; its readers then hear that the broker is gone.
pub(super) struct Listener {
    ears: Arc<Ears>,
    /// Without a bound, since a reader leaves in a `drop`, which cannot wait. It holds one short request for each reader
    /// that comes or goes.
    requests: mpsc::UnboundedSender<Request>,
    _task: AbortOnDropHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.ears.close();
    }
}

impl Listener {
    pub(super) fn start(client: Client, wake_channel: String, woken: Arc<Notify>) -> Self {
        let (requests, received) = mpsc::unbounded_channel();
        let on_leave = requests.clone();
        let ears = Ears::new(Box::new(move |session| {
            // Without a task there is nothing to leave.
            let _gone = on_leave.send(Request::Leave { session: session.clone() });
        }));
        let task = Task { client, ears: Arc::clone(&ears), requests: received, wake_channel, woken };
        #[expect(clippy::disallowed_methods, reason = "the listener owns its task and ends it with itself")]
        let running = tokio::spawn(task.run());
        Self { ears, requests, _task: AbortOnDropHandle::new(running) }
    }

    pub(super) async fn listen(&self, session: &SessionId) -> Result<Signals, BrokerError> {
        // The reader is there before Redis is asked: what arrives right after the confirmation finds it.
        let signals = self.ears.listen(session);
        let (confirmed, answer) = oneshot::channel();
        let _gone = self.requests.send(Request::Hear { session: session.clone(), confirmed });
        match tokio::time::timeout(CONFIRM_LIMIT, answer).await {
            Ok(Ok(())) => Ok(signals),
            Ok(Err(_)) | Err(_) => Err(BrokerError::Unavailable(no_answer())),
        }
    }
}

fn no_answer() -> RedisError {
    std::io::Error::new(std::io::ErrorKind::TimedOut, "Redis does not confirm a subscription").into()
}

struct Task {
    client: Client,
    ears: Arc<Ears>,
    requests: mpsc::UnboundedReceiver<Request>,
    wake_channel: String,
    woken: Arc<Notify>,
}

/// A connection and what it hears.
struct Connected {
    sink: PubSubSink,
    messages: PubSubStream,
    heard: HashSet<SessionId>,
}

impl Task {
    async fn run(mut self) {
        let mut pause = PAUSE.0;
        let mut is_first = true;
        loop {
            match limited(self.connect()).await {
                Ok(connected) => {
                    if !is_first {
                        tracing::info!("the broker's listening connection is back");
                        self.ears.tell_all_missed();
                        self.woken.notify_waiters();
                    }
                    (is_first, pause) = (false, PAUSE.0);
                    let broken = self.serve(connected).await;
                    tracing::warn!(error = %broken, "the broker's listening connection broke");
                }
                Err(error) => {
                    tracing::warn!(error = %error, "the broker's listening connection is not made");
                    tokio::time::sleep(pause.mul_f32(rand::random_range(0.5..1.0))).await;
                    pause = PAUSE.1.min(pause * 2);
                }
            }
        }
    }

    async fn connect(&self) -> Result<Connected, RedisError> {
        let (mut sink, messages) = self.client.get_async_pubsub().await?.split();
        sink.subscribe(&self.wake_channel).await?;
        let heard: HashSet<SessionId> = self.ears.sessions().into_iter().collect();
        if !heard.is_empty() {
            sink.subscribe(heard.iter().map(channel_of).collect::<Vec<_>>()).await?;
        }
        Ok(Connected { sink, messages, heard })
    }

    /// Until the connection breaks.
    async fn serve(&mut self, mut on: Connected) -> RedisError {
        let mut ping = tokio::time::interval(PING_EVERY);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let result = tokio::select! {
                message = on.messages.next() => match message {
                    Some(message) => {
                        self.tell(&message);
                        Ok(())
                    }
                    None => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
                },
                // The sender lives in `Listener`, which ends this task.
                Some(request) = self.requests.recv() => limited(on.answer(request)).await,
                _tick = ping.tick() => limited(on.sink.ping::<redis::Value>()).await.map(drop),
            };
            if let Err(error) = result {
                return error;
            }
        }
    }

    fn tell(&self, message: &Msg) {
        let channel = message.get_channel_name();
        if channel == self.wake_channel {
            self.woken.notify_waiters();
            return;
        }
        let Some(session) = session_of(channel) else { return };
        match serde_json::from_slice::<Signal>(message.get_payload_bytes()) {
            Ok(signal) => self.ears.tell(&session, signal),
            // An engine of another version may say what this one does not know: the store has the events.
            Err(error) => {
                tracing::warn!(session.id = %session, error = %error, "a signal was not readable");
                self.ears.tell_missed(&session);
            }
        }
    }
}

impl Connected {
    async fn answer(&mut self, request: Request) -> Result<(), RedisError> {
        match request {
            Request::Hear { session, confirmed } => {
                if !self.heard.contains(&session) {
                    self.sink.subscribe(channel_of(&session)).await?;
                    self.heard.insert(session);
                }
                // The reader may have lost patience.
                let _left = confirmed.send(());
            }
            Request::Leave { session } => {
                if self.heard.remove(&session) {
                    self.sink.unsubscribe(channel_of(&session)).await?;
                }
            }
        }
        Ok(())
    }
}

/// A connection that does not answer in time counts as broken.
async fn limited<T>(work: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    tokio::time::timeout(ANSWER_LIMIT, work).await.unwrap_or_else(|_elapsed| Err(no_answer()))
}
