//! The sessions that were changed last, as they stood then.
//!
//! A run changes its session several times in a row, and each time the store has to know how it stands. What is kept here
//! saves the look. It may be outdated, since other engines write too; a change that goes by it says what it went by, and
//! the database takes it only if that still holds.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::records::SessionRecord;
use crate::ids::SessionId;

/// Sessions kept: those with runs under way, and some more.
const MOST_KEPT: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LatelyChanged {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    sessions: HashMap<SessionId, SessionRecord>,
    /// Each of them once, the one that was added first at the front.
    order: VecDeque<SessionId>,
}

impl LatelyChanged {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a session stood after its last change by this engine.
    pub(super) fn session(&self, id: &SessionId) -> Option<SessionRecord> {
        self.kept().sessions.get(id).cloned()
    }

    /// Keeps how it stands, unless something newer is kept.
    pub(super) fn keep(&self, session: &SessionRecord) {
        let mut kept = self.kept();
        let kept = &mut *kept;
        match kept.sessions.get_mut(&session.id) {
            Some(known) if known.updated_at >= session.updated_at => {}
            Some(known) => *known = session.clone(),
            None => {
                if kept.order.len() >= MOST_KEPT
                    && let Some(oldest) = kept.order.pop_front()
                {
                    kept.sessions.remove(&oldest);
                }
                kept.order.push_back(session.id.clone());
                kept.sessions.insert(session.id.clone(), session.clone());
            }
        }
    }

    /// Takes in a read mark, which is no change.
    pub(super) fn mark_read(&self, id: &SessionId, seq: u64) {
        if let Some(session) = self.kept().sessions.get_mut(id) {
            session.read_seq = session.read_seq.max(seq);
        }
    }

    /// Forgets a session that is gone.
    pub(super) fn forget(&self, id: &SessionId) {
        let mut kept = self.kept();
        if kept.sessions.remove(id).is_some() {
            kept.order.retain(|other| other != id);
        }
    }
}
