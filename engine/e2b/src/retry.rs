//! When a call is repeated, and after what wait.

use std::time::Duration;

use reqwest::header::HeaderMap;

use crate::protocol::header;

/// How often and how long. The defaults are those of E2B's SDKs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Most tries after the first.
    pub retries: u32,
    /// The first wait; each further one doubles.
    pub base: Duration,
    /// The longest of those waits.
    pub longest: Duration,
    /// The longest `Retry-After` that is waited for. A longer one ends the call at once with an error that tells it.
    pub longest_asked: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 3,
            base: Duration::from_millis(100),
            longest: Duration::from_secs(10),
            longest_asked: Duration::from_secs(30),
        }
    }
}

/// Whether doing a call twice is the same as doing it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It is: an answer that got lost may be asked for again.
    Safe,
    /// It is not: only a call that the server says it did not do may be repeated.
    IfRefused,
}

/// What an answer says about trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the answer.
    Final,
    /// Not done; try again.
    Again,
    /// Something between client and server answered, and nobody knows whether it was done.
    Unclear,
}

/// Judges an answer. `Should-Retry` decides where it is given: a server that knows it knows best.
pub(crate) fn judge(status: u16, headers: &HeaderMap) -> Verdict {
    match headers.get(header::SHOULD_RETRY).map(|value| value.as_bytes().eq_ignore_ascii_case(b"true")) {
        Some(true) => Verdict::Again,
        Some(false) => Verdict::Final,
        None => match status {
            429 | 503 => Verdict::Again,
            502 | 504 => Verdict::Unclear,
            _ => Verdict::Final,
        },
    }
}

/// The server's `Retry-After` in whole seconds; a date, which E2B never sends, counts as none.
pub(crate) fn asked_wait(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

impl RetryPolicy {
    /// The wait before try `attempt` (1 is the first repetition), or `None` when there shall be no more. `jitter` is between 0 and 1.
    pub(crate) fn wait(&self, attempt: u32, asked: Option<Duration>, jitter: f64) -> Option<Duration> {
        if attempt > self.retries {
            return None;
        }
        match asked {
            Some(asked) if asked > self.longest_asked => None,
            // A little more than asked, so that many who were told the same second do not come in the same moment.
            Some(asked) => Some(asked + self.base.mul_f64(jitter)),
            None => {
                let doubled = self.base.saturating_mul(2_u32.saturating_pow(attempt - 1));
                Some(doubled.min(self.longest).mul_f64(f64::midpoint(1.0, jitter)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use reqwest::header::{HeaderMap, HeaderValue};

    use super::{RetryPolicy, Verdict, asked_wait, judge};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn the_header_wins_over_the_status() {
        for (status, pairs, verdict) in [
            (200, &[][..], Verdict::Final),
            (429, &[], Verdict::Again),
            (503, &[], Verdict::Again),
            (502, &[], Verdict::Unclear),
            (504, &[], Verdict::Unclear),
            (500, &[], Verdict::Final),
            (500, &[("should-retry", "true")], Verdict::Again),
            (429, &[("should-retry", "false")], Verdict::Final),
            (503, &[("should-retry", "maybe")], Verdict::Final),
        ] {
            assert_eq!(judge(status, &headers(pairs)), verdict, "{status} {pairs:?}");
        }
    }

    #[test]
    fn waits_double_and_end() {
        let policy = RetryPolicy { retries: 9, ..RetryPolicy::default() };
        let millis = |attempt, jitter| policy.wait(attempt, None, jitter).map(|wait| wait.as_millis());
        assert_eq!((millis(1, 0.0), millis(1, 1.0)), (Some(50), Some(100)));
        assert_eq!((millis(3, 1.0), millis(9, 1.0), millis(10, 1.0)), (Some(400), Some(10_000), None));
    }

    #[test]
    fn what_the_server_asks_for_is_kept_up_to_the_cap() {
        let policy = RetryPolicy::default();
        let asked = asked_wait(&headers(&[("retry-after", "7")]));
        assert_eq!(policy.wait(1, asked, 0.0), Some(Duration::from_secs(7)));
        assert_eq!(policy.wait(1, Some(Duration::from_secs(31)), 0.0), None);
        assert_eq!(asked_wait(&headers(&[("retry-after", "Mon, 30 Nov 2026 10:00:00 GMT")])), None);
    }
}
