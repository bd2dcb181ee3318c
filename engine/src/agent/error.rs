//! What a request to a model can fail with, and what that means for the run: try again, shorten, or give up.
//!
//! Servers say the same thing in many forms (a code, a sentence, another status), so the recognition is here, in one
//! place, as pure functions over status, code and message.

use std::time::Duration;

use crate::events::body::FailureKind;

/// A failed request to a model. Messages name the host, never the key.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// No address is set.
    #[error("no model endpoint is set: set `LLM_BASE_URL` (and `LLM_API_KEY`), or give the agent its own `base_url`")]
    NoEndpoint,
    /// The address may not be asked.
    #[error("the model endpoint `{host}` is not allowed: {reason}")]
    Address {
        /// Whose.
        host: String,
        /// Why.
        reason: String,
    },
    /// The server answered with an error, by its status or inside a stream.
    #[error("HTTP {status} from `{host}`: {message}")]
    Status {
        /// As sent, or the one that an error inside a stream stands for.
        status: u16,
        /// Who answered.
        host: String,
        /// Its words, at most [`MESSAGE_LIMIT`] characters.
        message: String,
        /// Its code or type, if it gave one.
        code: Option<String>,
        /// How long it wants us to wait.
        retry_after: Option<Duration>,
    },
    /// The connection could not be made, or broke before the answer began.
    #[error("`{host}` could not be reached: {reason}")]
    Transport {
        /// Whom.
        host: String,
        /// Why.
        reason: String,
    },
    /// Nothing came for too long.
    #[error("`{host}` said nothing for {} s", limit.as_secs_f64())]
    Silent {
        /// Who.
        host: String,
        /// How long.
        limit: Duration,
    },
    /// The answer ended before it was whole.
    #[error("the answer of `{host}` broke off: {reason}")]
    Broken {
        /// Whose.
        host: String,
        /// How.
        reason: String,
    },
    /// The answer is whole and holds nothing.
    #[error("`{host}` gave an empty answer (finish reason `{finish}`)")]
    Empty {
        /// Who.
        host: String,
        /// As sent, or `none`.
        finish: String,
    },
    /// The call was stopped by us.
    #[error("the call was interrupted")]
    Cancelled,
}

/// Characters kept of a server's own words.
pub const MESSAGE_LIMIT: usize = 500;

/// What servers say when the conversation does not fit the model.
const OVERFLOW_WORDS: &[&str] = &[
    "context length",
    "context_length",
    "context window",
    "context size",
    "context_size",
    "maximum context",
    "exceeds the available context",
    "too many tokens",
    "too many input tokens",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input too long",
    "maximum number of tokens",
    "maximum prompt length",
    "input token count",
    "token limit",
    "tokens exceed",
    "reduce the length",
    "max_model_len",
    "longer than the model",
];

/// What servers say when a body or an address in it is too large.
const SIZE_WORDS: &[&str] = &[
    "too large",
    "payload size",
    "body size",
    "request size",
    "uri too long",
    "url too long",
    "url is too long",
    "uri is too long",
    "string too long",
    "string_above_max_length",
    "maximum length",
    "max length",
    "invalid uri",
    "invalid url",
    "invalid image url",
    "characters",
    "exceeds the maximum size",
    "exceeds the limit",
];

impl ModelError {
    /// An error that a server put into a stream or body (`error` as an object or text).
    pub(crate) fn in_band(host: &str, error: &serde_json::Value) -> Self {
        let (message, code) = message_and_code(error);
        Self::Status {
            status: status_of(code.as_deref(), &message),
            host: host.to_owned(),
            message,
            code,
            retry_after: None,
        }
    }

    /// The status, when a server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::NoEndpoint
            | Self::Address { .. }
            | Self::Transport { .. }
            | Self::Silent { .. }
            | Self::Broken { .. }
            | Self::Empty { .. }
            | Self::Cancelled => None,
        }
    }

    /// The server's words in lower case, its code in front; empty when none answered.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Status { message, code, .. } => {
                format!("{} {message}", code.as_deref().unwrap_or_default()).to_lowercase()
            }
            Self::NoEndpoint
            | Self::Address { .. }
            | Self::Transport { .. }
            | Self::Silent { .. }
            | Self::Broken { .. }
            | Self::Empty { .. }
            | Self::Cancelled => String::new(),
        }
    }

    /// Whether the same request may work a little later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status { status, .. } => {
                !self.is_overflow()
                    && !self.is_billing()
                    && (matches!(status, 408 | 409 | 425 | 429) || (*status >= 500 && !matches!(status, 501 | 505)))
            }
            Self::Transport { .. } | Self::Silent { .. } | Self::Broken { .. } | Self::Empty { .. } => true,
            Self::NoEndpoint | Self::Address { .. } | Self::Cancelled => false,
        }
    }

    /// How long the server wants us to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            Self::NoEndpoint
            | Self::Address { .. }
            | Self::Transport { .. }
            | Self::Silent { .. }
            | Self::Broken { .. }
            | Self::Empty { .. }
            | Self::Cancelled => None,
        }
    }

    /// Whether the conversation does not fit the model. Such a request is never sent again unchanged.
    pub fn is_overflow(&self) -> bool {
        // A rate limit speaks of tokens too.
        let words = self.words();
        self.status().is_some_and(|status| status != 429) && OVERFLOW_WORDS.iter().any(|word| words.contains(word))
    }

    /// Whether the body, or an address in it, is larger than the server takes. A 413 is either this or
    /// [`Self::is_overflow`]; the caller knows how large the media was.
    pub fn is_too_large(&self) -> bool {
        let Some(status) = self.status() else { return false };
        if self.is_overflow() {
            return false;
        }
        let words = self.words();
        matches!(status, 413 | 414)
            || (matches!(status, 400 | 404 | 422) && SIZE_WORDS.iter().any(|word| words.contains(word)))
    }

    /// Whether money is missing.
    fn is_billing(&self) -> bool {
        let words = self.words();
        self.status() == Some(402) || words.contains("insufficient_quota") || words.contains("insufficient credits")
    }

    /// The kind that clients are told.
    pub fn kind(&self) -> FailureKind {
        if self.is_overflow() {
            return FailureKind::CompactionLimitReachedError;
        }
        if self.is_billing() {
            return FailureKind::BillingError;
        }
        match self.status() {
            Some(429) => FailureKind::ModelRateLimitedError,
            Some(503 | 529) => FailureKind::ModelOverloadedError,
            Some(_) | None => FailureKind::ModelRequestFailedError,
        }
    }
}

/// Message and code of an `error`, whatever its shape.
pub(crate) fn message_and_code(error: &serde_json::Value) -> (String, Option<String>) {
    let plain = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) if !text.is_empty() => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::String(_)
        | serde_json::Value::Array(_)
        | serde_json::Value::Object(_) => None,
    };
    if let Some(text) = plain(error) {
        return (cut(&text), None);
    }
    let message = ["message", "detail", "msg"].iter().find_map(|key| error.get(key).and_then(plain));
    // OpenRouter wraps the provider's own words.
    let inner = error.pointer("/metadata/raw").and_then(plain);
    let message = match (message, inner) {
        (Some(outer), Some(inner)) => format!("{outer}: {inner}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => error.to_string(),
    };
    let code = ["code", "type", "status"].iter().find_map(|key| error.get(key).and_then(plain));
    (cut(&message), code)
}

/// The HTTP status that an error inside a stream stands for.
fn status_of(code: Option<&str>, message: &str) -> u16 {
    let code = code.unwrap_or_default();
    if let Ok(number @ 400..=599) = code.parse::<u16>() {
        return number;
    }
    let words = format!("{code} {message}").to_lowercase();
    let holds = |needles: &[&str]| needles.iter().any(|needle| words.contains(needle));
    if holds(&["insufficient_quota", "billing", "insufficient credits"]) {
        402
    } else if holds(&["rate_limit", "rate limit", "too many requests", "resource_exhausted"]) {
        429
    } else if holds(&["overloaded", "unavailable", "capacity"]) {
        503
    } else if holds(OVERFLOW_WORDS) || holds(&["invalid_request", "invalid request", "bad_request"]) {
        400
    } else if holds(&["authentication", "unauthorized", "invalid_api_key"]) {
        401
    } else {
        502
    }
}

/// At most [`MESSAGE_LIMIT`] characters.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(MESSAGE_LIMIT) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(status: u16, code: Option<&str>, message: &str) -> ModelError {
        ModelError::Status {
            status,
            host: "h".into(),
            message: message.into(),
            code: code.map(Into::into),
            retry_after: None,
        }
    }

    #[test]
    fn an_overflow_is_seen_in_all_its_forms_and_never_tried_again() {
        for error in [
            status(400, Some("context_length_exceeded"), "nope"),
            status(400, None, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
            status(413, None, "prompt is too long: 210000 tokens > 200000 maximum"),
            status(500, None, "the request exceeds the available context size, try increasing it"),
            status(422, None, "Please reduce the length of the messages"),
        ] {
            assert!(error.is_overflow(), "{error}");
            assert!(!error.is_retryable(), "{error}");
            assert_eq!(error.kind(), FailureKind::CompactionLimitReachedError);
        }
        let limited = status(429, None, "rate limit: too many tokens per minute");
        assert!(!limited.is_overflow() && limited.is_retryable());
    }

    #[test]
    fn an_error_in_a_stream_keeps_its_code() {
        let quota = ModelError::in_band("h", &json!({"message": "quota", "code": 429}));
        assert_eq!((quota.status(), quota.kind()), (Some(429), FailureKind::ModelRateLimitedError));
        assert!(quota.is_retryable());
        let text = ModelError::in_band("h", &json!("backend exploded"));
        assert_eq!(text.status(), Some(502));
        assert!(text.is_retryable());
        let broke = ModelError::in_band("h", &json!({"message": "pay", "type": "insufficient_quota"}));
        assert_eq!(broke.kind(), FailureKind::BillingError);
        assert!(!broke.is_retryable());
        let overloaded = ModelError::in_band("h", &json!({"message": "Overloaded", "type": "overloaded_error"}));
        assert_eq!(overloaded.kind(), FailureKind::ModelOverloadedError);
    }

    #[test]
    fn a_size_limit_is_not_an_overflow() {
        assert!(status(413, None, "Request Entity Too Large").is_too_large());
        assert!(
            status(400, None, "Invalid 'image_url': string too long. Expected maximum length 65520").is_too_large()
        );
        assert!(!status(400, None, "unknown parameter").is_too_large());
        assert!(!status(413, None, "prompt is too long").is_too_large());
    }

    #[test]
    fn long_words_of_a_server_are_cut_at_a_character() {
        assert_eq!(cut(&"ž".repeat(600)).chars().count(), MESSAGE_LIMIT + 1);
    }
}
