//! A request as the server saw it.

use axum::http::{HeaderMap, Method, Uri};

/// One request and the status of its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Such as `GET`.
    pub method: String,
    /// The path as it was sent, with the bucket in front.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
    /// The asked range, such as `bytes=0-99`.
    pub range: Option<String>,
    /// The names of headers with a checksum in them.
    pub checksums: Vec<String>,
    /// `x-amz-content-sha256`: a hash, or what stands for one.
    pub payload: Option<String>,
    /// The length of the body.
    pub content_length: Option<u64>,
    /// The status that was answered.
    pub status: u16,
}

impl Seen {
    pub(crate) fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_checksum = |name: &&str| {
            name.starts_with("x-amz-checksum-") || matches!(*name, "x-amz-sdk-checksum-algorithm" | "x-amz-trailer")
        };
        Self {
            method: method.to_string(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            range: text("range"),
            checksums: headers
                .keys()
                .map(axum::http::HeaderName::as_str)
                .filter(is_checksum)
                .map(str::to_owned)
                .collect(),
            payload: text("x-amz-content-sha256"),
            content_length: text("content-length").and_then(|length| length.parse().ok()),
            status: 0,
        }
    }

    /// The value of a name in the query, still encoded.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(key, _value)| *key == name)
            .map(|(_key, value)| value)
    }

    /// Whether it came over a presigned link.
    pub fn is_link(&self) -> bool {
        self.parameter("X-Amz-Signature").is_some()
    }

    /// Whether it reads an object.
    pub fn is_read(&self) -> bool {
        self.method == "GET" && self.path.matches('/').count() > 1
    }

    /// Whether it sends one part of an upload.
    pub fn is_part(&self) -> bool {
        self.method == "PUT" && self.parameter("partNumber").is_some()
    }
}
