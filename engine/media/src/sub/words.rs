//! Numbers of the command line, as the library takes them.

use std::time::SystemTime;

use sha2::{Digest, Sha256};

use super::envelope::Failure;
use crate::probe::Rate;
use crate::time::MediaTime;

const BYTES_PER_MEGABYTE: f64 = 1024.0 * 1024.0;

pub(super) fn seconds(flag: &str, value: f64) -> Result<MediaTime, Failure> {
    MediaTime::from_secs_f64(value).map_err(|error| Failure::bad_request(format!("{flag}: {error}")))
}

pub(super) fn rate(value: f64) -> Result<Rate, Failure> {
    Rate::from_f64(value).ok_or_else(|| {
        Failure::bad_request(format!("--fps: `{value}` is no rate; accepted are 0.001 to 1000 pictures a second"))
    })
}

/// Seconds since 1970, which tell one upload of a name from the next.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// A few digits that tell one text from another.
pub(super) fn digest(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    let number = hash.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    format!("{number:016x}")
}

pub(super) fn megabytes(flag: &str, value: f64) -> Result<u64, Failure> {
    if !(value > 0.0 && value < 1e6) {
        return Err(Failure::bad_request(format!("{flag}: `{value}` is no size; accepted are megabytes above 0")));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 10^12 by the check above"
    )]
    Ok((value * BYTES_PER_MEGABYTE) as u64)
}
