//! How often each session was changed by this engine.
//!
//! Where nobody else writes to the database, a reader may go by this instead of reading again: what was read at a
//! revision is right as long as that revision stands. Sessions share a fixed number of counters, so a change now and
//! then counts for a session that it did not touch, and none is ever missed.

use std::array;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ids::SessionId;

/// One for each value of a byte: more than the sessions that are at work at one time on one machine.
const COUNTERS: usize = 1 << u8::BITS;

/// See the module.
#[derive(Debug)]
pub(super) struct Revisions {
    counters: [AtomicU64; COUNTERS],
}

/// A change that is under way. What is read meanwhile may be from before it or from after it, so it counts at both ends.
#[derive(Debug)]
#[must_use = "the change ends when this is dropped"]
pub(super) struct Changing<'a>(&'a AtomicU64);

impl Revisions {
    pub(super) fn new() -> Self {
        Self { counters: array::from_fn(|_| AtomicU64::new(0)) }
    }

    pub(super) fn of(&self, id: &SessionId) -> u64 {
        self.counter(id).load(Ordering::SeqCst)
    }

    pub(super) fn change(&self, id: &SessionId) -> Changing<'_> {
        let counter = self.counter(id);
        counter.fetch_add(1, Ordering::SeqCst);
        Changing(counter)
    }

    fn counter(&self, id: &SessionId) -> &AtomicU64 {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        let [place, ..] = hasher.finish().to_le_bytes();
        &self.counters[usize::from(place)]
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_before_or_during_a_change_does_not_hold_after_it() {
        let (revisions, id) = (Revisions::new(), SessionId::generate());
        let before = revisions.of(&id);
        let change = revisions.change(&id);
        let during = revisions.of(&id);
        drop(change);
        let after = revisions.of(&id);
        assert!(before != during && during != after && before != after);
        assert_eq!(after, revisions.of(&id), "nothing has changed since");
    }
}
