//! The ears of one process: who listens to which session. A session that nobody listens to takes no memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::broadcast;

use super::{Heard, Signal, Signals};
use crate::ids::SessionId;

/// How many signals a reader may be behind before it is told [`Heard::Missed`] and reads the store. They are shared, so a
/// slow reader costs pointers, and it slows nobody.
const BACKLOG: usize = 256;

/// What is to be done when the last reader of a session has left.
type Left = Box<dyn Fn(&SessionId) + Send + Sync>;

/// All readers of this process. Cheap to share.
pub(super) struct Ears {
    channels: Mutex<HashMap<SessionId, broadcast::Sender<Heard>>>,
    left: Left,
}

impl std::fmt::Debug for Ears {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ears").field("sessions", &self.channels().len()).finish_non_exhaustive()
    }
}

impl Ears {
    /// No reader yet. `left` is called, under the lock, with each session whose last reader leaves.
    pub(super) fn new(left: Left) -> Arc<Self> {
        Arc::new(Self { channels: Mutex::default(), left })
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<SessionId, broadcast::Sender<Heard>>> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new reader.
    pub(super) fn listen(self: &Arc<Self>, session: &SessionId) -> Signals {
        let mut channels = self.channels();
        let receiver = if let Some(sender) = channels.get(session) {
            sender.subscribe()
        } else {
            let (sender, receiver) = broadcast::channel(BACKLOG);
            channels.insert(session.clone(), sender);
            receiver
        };
        drop(channels);
        Signals { receiver, _seat: Seat { ears: Arc::clone(self), session: session.clone() } }
    }

    /// Tells the readers of a session.
    pub(super) fn tell(&self, session: &SessionId, signal: Signal) {
        if let Some(sender) = self.channels().get(session) {
            // Nobody there: the last one is just leaving.
            let _nobody = sender.send(Heard::Signal(Arc::new(signal)));
        }
    }

    /// Tells the readers of a session that they may have missed something.
    pub(super) fn tell_missed(&self, session: &SessionId) {
        if let Some(sender) = self.channels().get(session) {
            let _nobody = sender.send(Heard::Missed);
        }
    }

    /// Tells every reader that it may have missed something.
    pub(super) fn tell_all_missed(&self) {
        for sender in self.channels().values() {
            let _nobody = sender.send(Heard::Missed);
        }
    }

    /// The broker is gone: readers hear that.
    pub(super) fn close(&self) {
        self.channels().clear();
    }

    /// Whom anybody listens to.
    pub(super) fn sessions(&self) -> Vec<SessionId> {
        self.channels().keys().cloned().collect()
    }
}

/// A reader's place. The last one that is given up takes the session's channel with it.
#[derive(Debug)]
pub(super) struct Seat {
    ears: Arc<Ears>,
    session: SessionId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut channels = self.ears.channels();
        // The receiver was dropped before its seat: see the order of the fields of `Signals`.
        if channels.get(&self.session).is_some_and(|sender| sender.receiver_count() == 0) {
            channels.remove(&self.session);
            (self.ears.left)(&self.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_reader_takes_the_channel_with_it() {
        let gone: Arc<Mutex<Vec<SessionId>>> = Arc::default();
        let noted = Arc::clone(&gone);
        let ears = Ears::new(Box::new(move |session| noted.lock().unwrap().push(session.clone())));
        let (session, other) = (SessionId::generate(), SessionId::generate());
        let (first, mut second, _stays) = (ears.listen(&session), ears.listen(&session), ears.listen(&other));
        drop(first);
        assert_eq!(ears.sessions().len(), 2);
        ears.tell(&session, Signal::Interrupt { fence: 1 });
        assert!(matches!(second.next().await, Heard::Signal(_)));
        ears.tell_all_missed();
        assert!(matches!(second.next().await, Heard::Missed));
        drop(second);
        assert_eq!(ears.sessions(), vec![other]);
        assert_eq!(*gone.lock().unwrap(), vec![session.clone()]);
        // Nobody hears it, and nothing is kept for it.
        ears.tell(&session, Signal::Interrupt { fence: 2 });
        assert_eq!(ears.sessions().len(), 1);
    }

    #[tokio::test]
    async fn readers_of_ears_that_closed_hear_the_end() {
        let ears = Ears::new(Box::new(|_session| {}));
        let mut reader = ears.listen(&SessionId::generate());
        ears.close();
        assert!(matches!(reader.next().await, Heard::Closed));
    }
}
