//! The one place that reads the time.

use jiff::{Timestamp, Unit};

/// Now, to the microsecond: what clients see, and what pages of a list are compared by, is the same number.
#[expect(clippy::disallowed_methods, reason = "the host's clock; deadlines of sandboxes are times of day")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now().round(Unit::Microsecond).unwrap_or(Timestamp::UNIX_EPOCH)
}
