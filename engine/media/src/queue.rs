//! Who may start the next child: fair between callers.
//!
//! There are so many turns as children may run at once. A caller who finds none waits under its key (a session's id); when a turn comes free it goes
//! to the keys in rotation, and within a key to whoever asked first. So a session with a hundred requests waits behind itself and not in
//! front of the others.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

/// Gives out turns.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: HashMap<Arc<str>, VecDeque<oneshot::Sender<Turn>>>,
    /// The keys that wait, in the order in which they are served next. Invariant: exactly the keys of `waiting`, each once.
    rotation: VecDeque<Arc<str>>,
}

/// The right to run one child; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Option<Turns>,
}

impl Turns {
    pub(crate) fn new(count: usize) -> Self {
        let state = State { free: count.max(1), waiting: HashMap::new(), rotation: VecDeque::new() };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a turn. Dropping the future gives the place in the queue up.
    pub(crate) async fn take(&self, key: &Arc<str>) -> Turn {
        let receiver = {
            let mut state = self.state();
            if state.free > 0 {
                state.free -= 1;
                return Turn { turns: Some(self.clone()) };
            }
            let (sender, receiver) = oneshot::channel();
            if !state.waiting.contains_key(key) {
                state.rotation.push_back(Arc::clone(key));
            }
            state.waiting.entry(Arc::clone(key)).or_default().push_back(sender);
            receiver
        };
        receiver.await.expect("the queue keeps a sender until it has given a turn, and lives as long as its callers")
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a turn on, or keeps it for the next one to ask.
    fn give_back(&self) {
        loop {
            let next = {
                let mut state = self.state();
                let next = state.next();
                if next.is_none() {
                    state.free += 1;
                }
                next
            };
            let Some(waiting) = next else { return };
            let turn = Turn { turns: Some(self.clone()) };
            match waiting.send(turn) {
                Ok(()) => return,
                // Gave up waiting: the next one's turn, and not a second return of this one.
                Err(mut turn) => turn.turns = None,
            }
        }
    }
}

impl State {
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let key = self.rotation.pop_front()?;
        let queue = self.waiting.get_mut(&key)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&key);
        } else {
            self.rotation.push_back(key);
        }
        next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.give_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use futures::future::{BoxFuture, FutureExt};
    use futures::poll;

    use super::*;

    fn key(name: &str) -> Arc<str> {
        Arc::from(name)
    }

    /// Asks for a turn under each key, in this order; all wait.
    async fn ask(turns: &Turns, keys: &[&str]) -> Vec<(String, BoxFuture<'static, Turn>)> {
        let mut waiting = Vec::new();
        for name in keys {
            let (turns, key) = (turns.clone(), key(name));
            let mut asked = async move { turns.take(&key).await }.boxed();
            assert!(poll!(&mut asked).is_pending());
            waiting.push(((*name).to_owned(), asked));
        }
        waiting
    }

    /// Gives a turn back again and again, and says in which order the waiting ones got it.
    async fn served(mut turn: Turn, mut waiting: Vec<(String, BoxFuture<'static, Turn>)>) -> Vec<String> {
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(turn);
            let mut got = None;
            for (place, (_name, asked)) in waiting.iter_mut().enumerate() {
                if let Poll::Ready(next) = poll!(asked) {
                    assert!(got.is_none(), "one turn went to two");
                    got = Some((place, next));
                }
            }
            let (place, next) = got.expect("a turn that was given back goes to somebody");
            order.push(waiting.remove(place).0);
            turn = next;
        }
        order
    }

    #[tokio::test]
    async fn a_busy_session_does_not_starve_the_others() {
        let turns = Turns::new(1);
        let first = turns.take(&key("busy")).await;
        let waiting = ask(&turns, &["busy", "busy", "busy", "busy", "quiet", "late", "late"]).await;
        assert_eq!(served(first, waiting).await, ["busy", "quiet", "late", "busy", "late", "busy", "busy"]);
    }

    #[tokio::test]
    async fn who_gives_up_loses_no_turn() {
        let turns = Turns::new(2);
        let (one, two) = (turns.take(&key("a")).await, turns.take(&key("a")).await);
        let mut waiting = ask(&turns, &["b", "c", "d"]).await;
        drop(waiting.remove(0));
        drop(one);
        let (_name, mut c) = waiting.remove(0);
        let Poll::Ready(third) = poll!(&mut c) else { panic!("the turn was lost") };
        // Given, and dropped before it was taken.
        drop(third);
        waiting.clear();
        drop(two);
        let both = (turns.take(&key("e")).now_or_never(), turns.take(&key("e")).now_or_never());
        assert!(both.0.is_some() && both.1.is_some());
        assert!(turns.take(&key("e")).now_or_never().is_none(), "there are two turns and not three");
    }
}
