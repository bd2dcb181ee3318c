//! When a failed request to a model is sent again.

use std::time::Duration;

use rand::RngExt as _;

use super::error::ModelError;

/// How often, and after which pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Requests in all, the first included.
    pub tries: u32,
    /// Before the second request; it doubles from then on.
    pub first_pause: Duration,
    /// No pause of ours is longer.
    pub longest_pause: Duration,
    /// A server may ask for more, up to this.
    pub longest_wish: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            tries: 5,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(20),
            longest_wish: Duration::from_mins(1),
        }
    }
}

/// Empty answers cost as much as others and rarely get better.
const TRIES_OF_EMPTY: u32 = 2;

impl RetryPolicy {
    /// The pause before the next request, after `tried` of them; `None` gives up.
    pub fn pause(&self, error: &ModelError, tried: u32) -> Option<Duration> {
        let tries = if matches!(error, ModelError::Empty { .. }) { TRIES_OF_EMPTY.min(self.tries) } else { self.tries };
        if !error.is_retryable() || tried >= tries {
            return None;
        }
        let doubled = self.first_pause.saturating_mul(1 << tried.saturating_sub(1).min(16));
        // Engines that failed together must not come back together.
        let own = doubled.min(self.longest_pause).mul_f64(rand::rng().random_range(0.5..1.0));
        Some(error.retry_after().map_or(own, |wish| wish.min(self.longest_wish).max(own)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> ModelError {
        let retry_after = retry_after.map(Duration::from_secs);
        ModelError::Status { status, host: "h".into(), message: "m".into(), code: None, retry_after }
    }

    #[test]
    fn pauses_grow_to_a_limit_and_end() {
        let policy = RetryPolicy { tries: 40, ..RetryPolicy::default() };
        for tried in 1..40 {
            let pause = policy.pause(&status(500, None), tried).unwrap();
            assert!(pause >= policy.first_pause / 2 && pause <= policy.longest_pause, "{tried}: {pause:?}");
        }
        assert_eq!(policy.pause(&status(500, None), 40), None);
    }

    #[test]
    fn a_servers_wish_counts_up_to_a_limit() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.pause(&status(429, Some(7)), 1), Some(Duration::from_secs(7)));
        assert_eq!(policy.pause(&status(429, Some(3600)), 1), Some(policy.longest_wish));
        assert!(policy.pause(&status(429, Some(0)), 1).unwrap() > Duration::ZERO);
    }

    #[test]
    fn what_stays_wrong_is_not_tried_again() {
        let policy = RetryPolicy::default();
        for error in
            [status(400, None), status(401, None), status(403, None), status(404, None), ModelError::NoEndpoint]
        {
            assert_eq!(policy.pause(&error, 1), None, "{error}");
        }
        let empty = ModelError::Empty { host: "h".into(), finish: "stop".into() };
        assert!(policy.pause(&empty, 1).is_some() && policy.pause(&empty, 2).is_none());
    }
}
