//! What can go wrong with a bucket, each case with the facts that its reader needs.

use std::fmt;
use std::io;
use std::time::Duration;

use super::key::ObjectKey;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What was asked of the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Storing an object, or a part of one.
    Put,
    /// Reading an object.
    Get,
    /// Asking for an object's size.
    Head,
    /// Listing keys.
    List,
    /// Removing an object.
    Delete,
    /// Ending an upload in parts without an object.
    Abort,
}

impl Operation {
    /// The permission without which the bucket refuses it.
    pub const fn permission(self) -> &'static str {
        match self {
            Self::Put => "s3:PutObject",
            Self::Get | Self::Head => "s3:GetObject",
            Self::List => "s3:ListBucket",
            Self::Delete => "s3:DeleteObject",
            Self::Abort => "s3:AbortMultipartUpload",
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Put => "store",
            Self::Get => "read",
            Self::Head => "look at",
            Self::List => "list",
            Self::Delete => "remove",
            Self::Abort => "abort the upload of",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.verb())
    }
}

/// Why the bucket did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The key of the settings may not do that. A read that may also mean a missing object says so.
    #[error("bucket `{bucket}` refused to {operation} `{key}` (403 {code}): {}", forbidden(*.operation))]
    Forbidden {
        /// What was attempted.
        operation: Operation,
        /// The bucket.
        bucket: String,
        /// The object, or the prefix that was listed.
        key: String,
        /// The server's word for it; empty when it gave none.
        code: String,
    },
    /// There is no such object.
    #[error("bucket `{bucket}` has no object `{key}`")]
    NotFound {
        /// The bucket.
        bucket: String,
        /// The object.
        key: String,
    },
    /// There is no such bucket.
    #[error("there is no bucket `{bucket}` at {endpoint}: check `S3_BUCKET` and `S3_ENDPOINT`")]
    NoSuchBucket {
        /// The bucket.
        bucket: String,
        /// The server that was asked.
        endpoint: String,
    },
    /// The server does not know the access key, or the secret does not belong to it.
    #[error(
        "{endpoint} did not accept the credentials ({code}): check `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`"
    )]
    Credentials {
        /// The server that was asked.
        endpoint: String,
        /// The server's word for it.
        code: String,
    },
    /// A bucket is set without a key to it.
    #[error("requests to bucket `{bucket}` cannot be signed: set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`")]
    NoCredentials {
        /// The bucket.
        bucket: String,
    },
    /// The two clocks differ by more than a signature may be old. Not a matter of credentials.
    #[error(
        "{endpoint} refused a signed request because the clocks differ: this host is {} s {}; set this host's clock",
        .difference.as_secs(),
        if *.is_ahead { "ahead" } else { "behind" }
    )]
    Clock {
        /// The server that was asked.
        endpoint: String,
        /// By how much they differ.
        difference: Duration,
        /// Whether this host is the one that is ahead.
        is_ahead: bool,
    },
    /// The bucket lives in another region than the one that requests are signed for.
    #[error(
        "bucket `{bucket}` is not in region `{region}`{}: set `AWS_REGION`",
        .expected.as_ref().map(|expected| format!(" but in `{expected}`")).unwrap_or_default()
    )]
    Region {
        /// The bucket.
        bucket: String,
        /// The region of the settings.
        region: String,
        /// The region that the server named.
        expected: Option<String>,
    },
    /// The server could not be reached, or the connection broke and trying again did not help.
    #[error("could not reach the bucket's server {endpoint}")]
    Unreachable {
        /// The server that was asked.
        endpoint: String,
        /// The network's reason.
        #[source]
        source: Cause,
    },
    /// Nothing moved for too long.
    #[error("the bucket's server {endpoint} did not go on for {} s while it was to {operation} `{key}`", .limit.as_secs())]
    Stalled {
        /// The server that was asked.
        endpoint: String,
        /// What was attempted.
        operation: Operation,
        /// The object.
        key: String,
        /// How long nothing moved.
        limit: Duration,
    },
    /// The object is another one than when reading began.
    #[error("the object `{key}` in bucket `{bucket}` was replaced while it was being read")]
    Replaced {
        /// The bucket.
        bucket: String,
        /// The object.
        key: String,
    },
    /// What was stored has another size than what was sent. It was removed again where that was allowed.
    #[error("bucket `{bucket}` holds {found_bytes} bytes under `{key}` where {sent_bytes} were sent")]
    WrongSize {
        /// The bucket.
        bucket: String,
        /// The object.
        key: String,
        /// What we sent.
        sent_bytes: u64,
        /// What the bucket has.
        found_bytes: u64,
    },
    /// The server gave an answer that S3 does not give.
    #[error("the bucket's server {endpoint} answered strangely: {reason}")]
    BadAnswer {
        /// The server that was asked.
        endpoint: String,
        /// What was wrong with it.
        reason: String,
    },
    /// The server refused for a reason of its own.
    #[error("bucket `{bucket}` did not {operation} `{key}`: {status} {code} {message}")]
    Refused {
        /// What was attempted.
        operation: Operation,
        /// The bucket.
        bucket: String,
        /// The object, or the prefix that was listed.
        key: String,
        /// The HTTP status.
        status: u16,
        /// The server's word for it; empty when it gave none.
        code: String,
        /// The server's sentence; empty when it gave none.
        message: String,
    },
    /// A file on this host could not be read or written; the source names it.
    #[error("could not {action}")]
    File {
        /// What was attempted, such as "read the file to store".
        action: &'static str,
        /// The system's reason, with the path.
        #[source]
        source: io::Error,
    },
    /// The request could not be put together, which is a bug of ours or a setting that makes no sense.
    #[error("could not make a request to bucket `{bucket}`")]
    Construction {
        /// The bucket.
        bucket: String,
        /// What was wrong.
        #[source]
        source: Cause,
    },
}

impl ObjectError {
    /// Whether the same request may succeed later without anybody changing a setting.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Stalled { .. } | Self::WrongSize { .. } => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Forbidden { .. }
            | Self::NotFound { .. }
            | Self::NoSuchBucket { .. }
            | Self::Credentials { .. }
            | Self::NoCredentials { .. }
            | Self::Clock { .. }
            | Self::Region { .. }
            | Self::Replaced { .. }
            | Self::BadAnswer { .. }
            | Self::File { .. }
            | Self::Construction { .. } => false,
        }
    }

    /// A short, stable word for the kind of failure, for envelopes and logs; part of the contract with scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "S3Forbidden",
            Self::NotFound { .. } => "S3NotFound",
            Self::NoSuchBucket { .. } => "S3NoSuchBucket",
            Self::Credentials { .. } => "S3Credentials",
            Self::NoCredentials { .. } => "S3NotConfigured",
            Self::Clock { .. } => "S3Clock",
            Self::Region { .. } => "S3Region",
            Self::Unreachable { .. } => "S3Unreachable",
            Self::Stalled { .. } => "S3Stalled",
            Self::Replaced { .. } => "S3Replaced",
            Self::WrongSize { .. } => "S3WrongSize",
            Self::BadAnswer { .. } => "S3BadAnswer",
            Self::Refused { .. } => "S3Refused",
            Self::File { .. } => "FileError",
            Self::Construction { .. } => "Internal",
        }
    }

    pub(crate) fn file(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, source }
    }

    pub(crate) fn not_found(bucket: &str, key: &ObjectKey) -> Self {
        Self::NotFound { bucket: bucket.to_owned(), key: key.to_string() }
    }
}

/// Without the right to list, S3 hides whether an object is there, so a refused read has two possible reasons.
fn forbidden(operation: Operation) -> String {
    let permission = operation.permission();
    match operation {
        Operation::Get | Operation::Head => format!(
            "the access key lacks `{permission}`, or the object is missing and the key lacks `s3:ListBucket`, without which the two look the same"
        ),
        Operation::Put | Operation::List | Operation::Delete | Operation::Abort => {
            format!("the access key lacks `{permission}`")
        }
    }
}
