//! Time, injected: the engine asks a [`Clock`], so that tests can move it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// Where the engine takes the time from. Cheap to clone; clones share one source.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The system's clock, cut to whole microseconds, which is what the store keeps.
    pub fn system() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]
        Self(Arc::new(|| whole_micros(Timestamp::now())))
    }

    /// A clock that stands still until it is moved by the handle.
    pub fn manual(start: Timestamp) -> (Self, ManualClock) {
        let handle = ManualClock(Arc::new(Mutex::new(whole_micros(start))));
        let shared = handle.clone();
        (Self(Arc::new(move || shared.now())), handle)
    }

    /// The time now, in whole microseconds.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Moves a clock made by [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: std::time::Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.checked_add(by).unwrap_or(*now);
    }

    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole_micros(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}
