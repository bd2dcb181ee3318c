//! Sends that a client repeats because it did not hear the answer.
//!
//! The SDKs try a POST again by themselves, without any key that would tell a retry from a second wish, but with a count.
//! So what was sent with a count above zero, and is byte for byte what this engine took for the same session within the
//! last minute, gets the same answer again instead of a second run. (Another replica does not know of it; there the
//! session's one run at a time is what stops the double.)

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::HeaderMap;
use jiff::Timestamp;

use crate::ids::SessionId;
use crate::store::records::EventRecord;

/// Longer than the SDKs go on trying.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// Sends remembered at once, over all sessions.
const MOST_KEPT: usize = 1024;

/// Which session was sent what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SendKey(SessionId, Vec<u8>);

/// Remembers what was sent lately. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct RetriedSends {
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    answers: HashMap<SendKey, (Timestamp, Vec<EventRecord>)>,
    order: VecDeque<(Timestamp, SendKey)>,
}

/// Whether the client says that it tried before.
pub fn is_retry(headers: &HeaderMap) -> bool {
    let count = headers.get("x-stainless-retry-count").and_then(|value| value.to_str().ok());
    count.and_then(|text| text.trim().parse().ok()).is_some_and(|count: u32| count > 0)
}

impl RetriedSends {
    /// What tells this send from others.
    pub fn key(&self, session: &SessionId, body: &[u8]) -> SendKey {
        SendKey(session.clone(), digest(&SHA256, body).as_ref().to_vec())
    }

    /// What was answered to the same send a moment ago.
    pub fn answer(&self, key: &SendKey, now: Timestamp) -> Option<Vec<EventRecord>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, events) = kept.answers.get(key)?;
        (!is_over(*at, now)).then(|| events.clone())
    }

    /// Notes what was answered.
    pub fn keep(&self, key: SendKey, events: &[EventRecord], now: Timestamp) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((at, _)) = kept.order.front()
            && (is_over(*at, now) || kept.order.len() >= MOST_KEPT)
        {
            let Some((at, oldest)) = kept.order.pop_front() else { break };
            // The same key may have been noted again since.
            if kept.answers.get(&oldest).is_some_and(|(noted, _)| *noted == at) {
                kept.answers.remove(&oldest);
            }
        }
        kept.order.push_back((now, key.clone()));
        kept.answers.insert(key, (now, events.to_vec()));
    }
}

fn is_over(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() > KEPT_FOR
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn an_answer_is_remembered_for_a_minute_and_for_its_session_alone() {
        let sends = RetriedSends::default();
        let (one, other) = (SessionId::generate(), SessionId::generate());
        let key = sends.key(&one, b"hello");
        assert_eq!(sends.answer(&key, at(0)), None);
        sends.keep(key.clone(), &[], at(0));
        assert_eq!(sends.answer(&key, at(60)), Some(Vec::new()));
        assert_eq!(sends.answer(&key, at(61)), None);
        assert_eq!(sends.answer(&sends.key(&other, b"hello"), at(0)), None);
        assert_eq!(sends.answer(&sends.key(&one, b"hello!"), at(0)), None);
    }

    #[test]
    fn memory_is_bounded() {
        let sends = RetriedSends::default();
        let session = SessionId::generate();
        for number in 0..5000_u32 {
            sends.keep(sends.key(&session, &number.to_le_bytes()), &[], at(0));
        }
        assert!(sends.kept.lock().unwrap().answers.len() <= MOST_KEPT);
        assert!(sends.answer(&sends.key(&session, &4999_u32.to_le_bytes()), at(1)).is_some());
        assert!(sends.answer(&sends.key(&session, &0_u32.to_le_bytes()), at(1)).is_none());
    }

    #[test]
    fn only_a_count_above_zero_is_a_retry() {
        let with = |text: &'static str| {
            is_retry(&HeaderMap::from_iter([(
                axum::http::HeaderName::from_static("x-stainless-retry-count"),
                axum::http::HeaderValue::from_static(text),
            )]))
        };
        assert!(with("1") && with("2"));
        assert!(!with("0") && !with("x") && !is_retry(&HeaderMap::new()));
    }
}
