//! Sessions as the bodies of answers: read for many at once, and not again while nothing changes.
//!
//! Clients poll. Reads that come together are one ([`Gather`]), and where this engine alone writes to the store
//! ([`Store::revision`]), an answer is given again as long as the session has not changed since it was read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::gather::Gather;
use super::sessions::SessionView;
use crate::ids::SessionId;
use crate::store::records::{ResourceRecord, SessionRecord};
use crate::store::{Store, StoreError};

/// Answers kept: a few hundred kilobytes.
const MOST_KEPT: usize = 256;
/// An answer is read again after this time whatever happens, for somebody may write to the database by hand.
const KEPT_FOR: Duration = Duration::from_millis(250);

/// A failure is that of all who wait.
type Read = Result<Bytes, Arc<StoreError>>;

/// See the module. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SessionReads {
    store: Arc<dyn Store>,
    gather: Gather<SessionId, Read>,
    kept: Arc<Kept>,
}

impl SessionReads {
    /// Reads sessions from this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let kept = Arc::<Kept>::default();
        let (from, keep) = (Arc::clone(&store), Arc::clone(&kept));
        let gather = Gather::new(move |ids: Vec<SessionId>| {
            let (store, kept) = (Arc::clone(&from), Arc::clone(&keep));
            async move { read(store.as_ref(), &kept, ids).await }
        });
        Self { store, gather, kept }
    }

    /// The body of the answer for this session, `None` if there is no such session. It is no older than the call.
    ///
    /// # Errors
    /// What the store fails with.
    pub async fn get(&self, id: &SessionId) -> Result<Option<Bytes>, Arc<StoreError>> {
        let revision = self.store.revision(id);
        if let Some(body) = revision.and_then(|revision| self.kept.body(id, revision, Instant::now())) {
            return Ok(Some(body));
        }
        self.gather.get(id).await.transpose()
    }
}

/// Reads those sessions that are there, and keeps their answers.
async fn read(store: &dyn Store, kept: &Kept, ids: Vec<SessionId>) -> HashMap<SessionId, Read> {
    let at = Instant::now();
    let revisions: HashMap<SessionId, u64> =
        ids.iter().filter_map(|id| Some((id.clone(), store.revision(id)?))).collect();
    let sessions = match store.sessions_with_resources(&ids).await {
        Ok(sessions) => sessions,
        Err(error) => {
            let error = Arc::new(error);
            return ids.into_iter().map(|id| (id, Err(Arc::clone(&error)))).collect();
        }
    };
    let answer = |(session, resources): (SessionRecord, Vec<ResourceRecord>)| {
        let id = session.id.clone();
        let body = serde_json::to_vec(&SessionView::new(session, resources)).expect("a view is always JSON");
        let body = Bytes::from(body);
        if let Some(revision) = revisions.get(&id) {
            kept.keep(&id, Answer { body: body.clone(), revision: *revision, at });
        }
        (id, Ok(body))
    };
    sessions.into_iter().map(answer).collect()
}

/// Answers that were given last.
#[derive(Debug, Default)]
struct Kept {
    answers: Mutex<HashMap<SessionId, Answer>>,
}

#[derive(Debug)]
struct Answer {
    body: Bytes,
    /// The session's revision before it was read.
    revision: u64,
    /// When it was read.
    at: Instant,
}

impl Kept {
    fn answers(&self) -> MutexGuard<'_, HashMap<SessionId, Answer>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The answer that still holds.
    fn body(&self, id: &SessionId, revision: u64, now: Instant) -> Option<Bytes> {
        let answers = self.answers();
        let answer = answers.get(id)?;
        let holds = answer.revision == revision && now.saturating_duration_since(answer.at) < KEPT_FOR;
        holds.then(|| answer.body.clone())
    }

    fn keep(&self, id: &SessionId, answer: Answer) {
        let mut answers = self.answers();
        if answers.len() >= MOST_KEPT && !answers.contains_key(id) {
            // What is not asked for any more is older than what is.
            answers.retain(|_id, other| answer.at.saturating_duration_since(other.at) < KEPT_FOR);
            if answers.len() >= MOST_KEPT {
                return;
            }
        }
        answers.insert(id.clone(), answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(revision: u64, at: Instant) -> Answer {
        Answer { body: Bytes::from_static(b"{}"), revision, at }
    }

    #[test]
    fn an_answer_holds_until_the_session_changes_or_some_time_has_passed() {
        let (kept, id, now) = (Kept::default(), SessionId::generate(), Instant::now());
        assert_eq!(kept.body(&id, 3, now), None);
        kept.keep(&id, answer(3, now));
        assert!(kept.body(&id, 3, now + KEPT_FOR / 2).is_some());
        assert_eq!(kept.body(&id, 4, now), None);
        assert_eq!(kept.body(&id, 3, now + KEPT_FOR), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_old_makes_room() {
        let (kept, now) = (Kept::default(), Instant::now());
        for _ in 0..2 * MOST_KEPT {
            kept.keep(&SessionId::generate(), answer(0, now));
        }
        assert_eq!(kept.answers().len(), MOST_KEPT);
        let id = SessionId::generate();
        kept.keep(&id, answer(0, now + KEPT_FOR));
        assert_eq!(kept.answers().len(), 1);
        assert!(kept.body(&id, 0, now + KEPT_FOR).is_some());
    }
}
