//! What the server can be told to do.

use std::collections::HashSet;
use std::time::Duration;

/// A right of the key. All are there at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Permission {
    /// `s3:GetObject`.
    Get,
    /// `s3:PutObject`.
    Put,
    /// `s3:ListBucket`.
    List,
    /// `s3:DeleteObject`.
    Delete,
    /// `s3:AbortMultipartUpload`.
    Abort,
}

/// How the server behaves; the default is well.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own, and any of them may be on together")]
pub struct Conduct {
    /// Rights that the key lacks.
    pub denied: HashSet<Permission>,
    /// Answers 400 to a request with a checksum, as some stores do.
    pub refuses_checksums: bool,
    /// Answers every range request with 200 and the whole object.
    pub ignores_ranges: bool,
    /// How often one presigned link may be followed; then it is a 403.
    pub reads_per_link: Option<u32>,
    /// How many further answers to a read are cut off, and after how many bytes.
    pub cuts: Option<(u32, usize)>,
    /// How many further connections are closed as soon as they are open.
    pub dropped_connections: u32,
    /// How many further parts are refused as damaged on their way.
    pub failing_parts: u32,
    /// How long the server waits after each mebibyte of a part: a slow line.
    pub pause_in_parts: Option<Duration>,
    /// How many further reads are allowed; then the key lacks the right to read.
    pub reads_left: Option<u32>,
    /// Leaves the last part out of the next object that is put together, and says that all is well.
    pub loses_a_part: bool,
    /// Never takes the body of a part: the upload stands still.
    pub stands_still: bool,
    /// By how many seconds the server's clock is ahead of ours.
    pub clock_ahead_seconds: i64,
    /// Anybody may read, without a signature.
    pub is_public: bool,
    /// The region of the bucket; any will do when there is none.
    pub region: Option<String>,
}
