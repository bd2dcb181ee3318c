//! Repeated creates: a request that carries the key of an earlier one makes no second sandbox.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use crate::clock::now;
use crate::config::Team;

/// How long a key is remembered.
const KEPT: SignedDuration = SignedDuration::from_hours(24);

/// The longest key.
const LONGEST: usize = 255;

/// The keys of creates.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    known: Mutex<HashMap<(Team, String), Known>>,
}

#[derive(Debug)]
struct Known {
    request: [u8; 32],
    at: Timestamp,
    /// Absent while the first request goes on.
    sandbox_id: Option<String>,
}

/// What a key means for a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the first: make the sandbox.
    First,
    /// It was made; here is its id.
    Made(String),
}

impl Repeats {
    fn known(&self) -> MutexGuard<'_, HashMap<(Team, String), Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this request is the first with its key.
    pub(super) fn begin(&self, team: &Team, key: &str, body: &[u8]) -> Result<Turn, Failure> {
        let is_plain = key.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if key.is_empty() || key.len() > LONGEST || !is_plain {
            let message = format!("`Idempotency-Key` is 1 to {LONGEST} of `a-z`, `0-9` and `-`");
            return Err(Failure::bad_request(message));
        }
        let request: [u8; 32] = Sha256::digest(body).into();
        let at = now();
        let mut known = self.known();
        known.retain(|_key, entry| at.duration_since(entry.at) < KEPT);
        match known.get(&(team.clone(), key.to_owned())) {
            None => {
                known.insert((team.clone(), key.to_owned()), Known { request, at, sandbox_id: None });
                Ok(Turn::First)
            }
            Some(entry) if entry.request != request => {
                let message = "this `Idempotency-Key` came with another request before";
                Err(Failure::new(StatusCode::UNPROCESSABLE_ENTITY, message))
            }
            Some(Known { sandbox_id: None, .. }) => {
                Err(Failure::conflict("a request with this `Idempotency-Key` is being worked on"))
            }
            Some(Known { sandbox_id: Some(id), .. }) => Ok(Turn::Made(id.clone())),
        }
    }

    /// The first request made a sandbox, or nothing: then the key is as new.
    pub(super) fn finish(&self, team: &Team, key: &str, made: Option<&str>) {
        let mut known = self.known();
        let place = (team.clone(), key.to_owned());
        match made {
            Some(id) => {
                if let Some(entry) = known.get_mut(&place) {
                    entry.sandbox_id = Some(id.to_owned());
                }
            }
            None => {
                known.remove(&place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::{Repeats, Turn};
    use crate::config::Teams;

    #[test]
    fn a_key_makes_one_sandbox() {
        let team = Teams::new(&[SecretString::from("e2b_a")]).find("e2b_a").unwrap();
        let repeats = Repeats::default();
        assert_eq!(repeats.begin(&team, "k-1", b"{}").unwrap(), Turn::First);
        assert!(repeats.begin(&team, "k-1", b"{}").is_err());
        repeats.finish(&team, "k-1", Some("i1"));
        assert_eq!(repeats.begin(&team, "k-1", b"{}").unwrap(), Turn::Made("i1".to_owned()));
        assert!(repeats.begin(&team, "k-1", b"{ }").is_err());
        assert!(repeats.begin(&team, "K", b"{}").is_err());
        assert_eq!(repeats.begin(&team, "k-2", b"{}").unwrap(), Turn::First);
        repeats.finish(&team, "k-2", None);
        assert_eq!(repeats.begin(&team, "k-2", b"{ }").unwrap(), Turn::First);
    }
}
