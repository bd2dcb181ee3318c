//! Connect's errors: the sixteen codes, the error body, the end of a stream.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an RPC failed of. A code that is not one of these reads as [`Code::Unknown`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    /// The caller gave up.
    Canceled,
    /// Nobody knows.
    Unknown,
    /// The request is wrong, whatever the state of things.
    InvalidArgument,
    /// The time was over.
    DeadlineExceeded,
    /// What was asked for is not there.
    NotFound,
    /// What was to be made is there.
    AlreadyExists,
    /// The caller may not.
    PermissionDenied,
    /// A limit is reached.
    ResourceExhausted,
    /// Things are not in the state that the request needs.
    FailedPrecondition,
    /// Two requests met.
    Aborted,
    /// A position past the end.
    OutOfRange,
    /// The server does not do this.
    Unimplemented,
    /// A fault of the server.
    Internal,
    /// The server is not there now.
    Unavailable,
    /// Data are lost.
    DataLoss,
    /// The caller is not known.
    Unauthenticated,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Unknown => "unknown",
            Self::InvalidArgument => "invalid_argument",
            Self::DeadlineExceeded => "deadline_exceeded",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::FailedPrecondition => "failed_precondition",
            Self::Aborted => "aborted",
            Self::OutOfRange => "out_of_range",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::DataLoss => "data_loss",
            Self::Unauthenticated => "unauthenticated",
        }
    }

    /// The status with which a unary RPC answers this code. A stream answers 200 and says the code in its end frame.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Canceled => 499,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::DeadlineExceeded => 504,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::PermissionDenied => 403,
            Self::ResourceExhausted => 429,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::Unauthenticated => 401,
        }
    }

    /// What a plain HTTP status means, such as a proxy answers in place of an RPC's own.
    pub const fn of_http_status(status: u16) -> Self {
        match status {
            400 => Self::InvalidArgument,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::NotFound,
            409 => Self::AlreadyExists,
            413 | 429 => Self::ResourceExhausted,
            499 => Self::Canceled,
            500 => Self::Internal,
            501 | 505 => Self::Unimplemented,
            502 | 503 => Self::Unavailable,
            504 => Self::DeadlineExceeded,
            _ => Self::Unknown,
        }
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Code {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = String::deserialize(deserializer)?;
        Ok(Self::ALL.into_iter().find(|code| code.as_str() == word).unwrap_or(Self::Unknown))
    }
}

/// The body of a failed unary RPC, and the error in an end frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectError {
    /// What it failed of.
    pub code: Code,
    /// What happened, in words.
    #[serde(default)]
    pub message: String,
}

impl ConnectError {
    /// The error with this code and message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// What a failed HTTP answer to an RPC says: Connect's own body, or a plain error body whose integer `code` wins over the status, or anything else by
    /// the status alone. A body that is no JSON is not quoted: it is some page.
    pub fn of_answer(status: u16, body: &[u8]) -> Self {
        if let Ok(error) = serde_json::from_slice::<Self>(body) {
            return error;
        }
        match serde_json::from_slice::<Plain>(body) {
            Ok(plain) => Self {
                code: Code::of_http_status(plain.code.unwrap_or(status)),
                message: plain.message.unwrap_or_else(|| format!("status {status}")),
            },
            Err(_no_json) => Self::new(Code::of_http_status(status), format!("status {status} without a JSON body")),
        }
    }
}

/// An error body that is not Connect's.
#[derive(Deserialize)]
struct Plain {
    code: Option<u16>,
    message: Option<String>,
}

/// The payload of the end frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOfStream {
    /// What the stream failed of; absent when it ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ConnectError>,
    /// Trailers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, Vec<String>>>,
}

impl EndOfStream {
    /// An end with an error.
    pub fn failed(error: ConnectError) -> Self {
        Self { error: Some(error), metadata: None }
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, ConnectError, EndOfStream};

    #[test]
    fn every_code_comes_back_from_its_word() {
        for code in Code::ALL {
            let word = serde_json::to_string(&code).unwrap();
            assert_eq!(serde_json::from_str::<Code>(&word).unwrap(), code);
        }
        assert_eq!(serde_json::from_str::<Code>(r#""novel""#).unwrap(), Code::Unknown);
    }

    #[test]
    fn an_end_without_error_is_an_empty_object() {
        assert_eq!(serde_json::to_string(&EndOfStream::default()).unwrap(), "{}");
        let failed: EndOfStream =
            serde_json::from_str(r#"{"error":{"code":"not_found"},"metadata":{"a":["b"]}}"#).unwrap();
        assert_eq!(failed.error, Some(ConnectError::new(Code::NotFound, "")));
    }

    #[test]
    fn any_answer_becomes_an_error() {
        for (status, body, code, message) in [
            (404, r#"{"code":"not_found","message":"gone","details":[]}"#, Code::NotFound, "gone"),
            (
                200,
                r#"{"code":502,"message":"The sandbox was not found"}"#,
                Code::Unavailable,
                "The sandbox was not found",
            ),
            (502, "<html><body>Bad Gateway</body></html>", Code::Unavailable, "status 502 without a JSON body"),
            (401, r#"{"code":401,"message":"no"}"#, Code::Unauthenticated, "no"),
            (413, "", Code::ResourceExhausted, "status 413 without a JSON body"),
            (418, r#"{"message":"teapot"}"#, Code::Unknown, "teapot"),
        ] {
            assert_eq!(ConnectError::of_answer(status, body.as_bytes()), ConnectError::new(code, message), "{body}");
        }
    }
}
