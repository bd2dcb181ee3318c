//! The id of a video from a hash.

use std::fmt::Write;

use aws_lc_rs::digest::Digest;

use crate::ids::VideoId;

/// A hash as 64 lower-case hex digits.
pub(super) fn hex(hash: &Digest) -> String {
    hash.as_ref().iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes any text");
        text
    })
}

/// The id that belongs to a SHA-256 in hex.
pub(super) fn video_id(sha256_hex: &str) -> VideoId {
    VideoId::of_hash(sha256_hex).expect("a SHA-256 in hex is long enough")
}
