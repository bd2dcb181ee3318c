//! Who may use the API: whoever has the one key.
//!
//! `x-api-key` first, then `Authorization: Bearer` in any case. Only the bytes of a file may be fetched with the key in
//! the query (`?api_key=`), because a `<video>` element cannot send headers; everywhere else a key in a URL would only
//! end up in logs. Open without a key: `GET /v1/healthz`, `/readyz`, `/openapi.json`, and `/metrics` when the engine
//! listens on a loopback address alone.

use aws_lc_rs::digest::{SHA256, digest};
use axum::http::request::Parts;
use axum::http::{Method, header};
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

use super::error::ApiError;

/// Knows the key, as its hash: comparing hashes gives away neither the key's bytes nor its length by the time it takes.
#[derive(Clone, Debug)]
pub struct KeyCheck {
    hash: Vec<u8>,
    metrics_are_open: bool,
}

impl KeyCheck {
    /// For this key. `on_loopback` says that no other machine reaches the engine.
    pub fn new(key: &SecretString, on_loopback: bool) -> Self {
        Self { hash: hash(key.expose_secret().as_bytes()), metrics_are_open: on_loopback }
    }

    /// Lets a request through, or says why not.
    ///
    /// # Errors
    /// When the route needs the key and the request has none, or another one.
    pub fn check(&self, parts: &Parts) -> Result<(), ApiError> {
        if self.is_open(&parts.method, parts.uri.path()) {
            return Ok(());
        }
        let given = sent_key(parts).ok_or(ApiError::MissingKey)?;
        if bool::from(hash(&given).ct_eq(&self.hash)) { Ok(()) } else { Err(ApiError::WrongKey) }
    }

    fn is_open(&self, method: &Method, path: &str) -> bool {
        let reads = method == Method::GET || method == Method::HEAD;
        match path {
            "/v1/healthz" | "/readyz" | "/openapi.json" => reads,
            "/metrics" => reads && self.metrics_are_open,
            // Everything the API has is under `/v1`; what is not there at all may say so to anybody.
            _ => !path.starts_with("/v1"),
        }
    }
}

fn hash(key: &[u8]) -> Vec<u8> {
    digest(&SHA256, key).as_ref().to_vec()
}

/// In front of a bearer token, in any case.
const SCHEME: &[u8] = b"bearer ";

/// The key that came with the request, from the first place that has one.
fn sent_key(parts: &Parts) -> Option<Vec<u8>> {
    let header = |name| parts.headers.get(name).map(|value| value.as_bytes().trim_ascii());
    if let Some(key) = header(header::HeaderName::from_static("x-api-key")).filter(|key| !key.is_empty()) {
        return Some(key.to_vec());
    }
    if let Some(value) = header(header::AUTHORIZATION)
        && value.len() > SCHEME.len()
        && value[..SCHEME.len()].eq_ignore_ascii_case(SCHEME)
    {
        return Some(value[SCHEME.len()..].trim_ascii().to_vec());
    }
    if is_file_content(parts) {
        let query = parts.uri.query().unwrap_or_default();
        let key = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "api_key")?.1;
        return Some(key.trim().as_bytes().to_vec()).filter(|key| !key.is_empty());
    }
    None
}

fn is_file_content(parts: &Parts) -> bool {
    let reads = parts.method == Method::GET || parts.method == Method::HEAD;
    let path = parts.uri.path();
    reads
        && path
            .strip_prefix("/v1/files/")
            .and_then(|rest| rest.strip_suffix("/content"))
            .is_some_and(|id| !id.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<(), u16> {
        let mut request = axum::http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        KeyCheck::new(&"dev-token".into(), false).check(&parts).map_err(|error| error.contract().0.as_u16())
    }

    #[test]
    fn the_key_is_taken_from_where_the_sdks_put_it() {
        for headers in [
            vec![("x-api-key", "dev-token")],
            vec![("x-api-key", "  dev-token ")],
            vec![("authorization", "Bearer dev-token")],
            vec![("authorization", "bEARER   dev-token ")],
            vec![("x-api-key", ""), ("authorization", "Bearer dev-token")],
            vec![("x-api-key", "dev-token"), ("authorization", "Bearer other")],
        ] {
            assert_eq!(check("GET", "/v1/agents", &headers), Ok(()), "{headers:?}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for headers in [
            vec![],
            vec![("authorization", "dev-token")],
            vec![("authorization", "Basic dev-token")],
            vec![("x-api-key", "dev-toke")],
            vec![("x-api-key", "dev-token2")],
            vec![("x-api-key", "other"), ("authorization", "Bearer dev-token")],
        ] {
            assert_eq!(check("GET", "/v1/agents", &headers), Err(401), "{headers:?}");
        }
    }

    #[test]
    fn a_key_in_the_query_opens_file_contents_alone() {
        assert_eq!(check("GET", "/v1/files/vid_1/content?api_key=dev-token", &[]), Ok(()));
        assert_eq!(check("GET", "/v1/files/vid_1/content?api_key=other", &[]), Err(401));
        for (method, path) in [
            ("GET", "/v1/files/vid_1?api_key=dev-token"),
            ("GET", "/v1/agents?api_key=dev-token"),
            ("GET", "/v1/sessions/a/b/content?api_key=dev-token"),
            ("DELETE", "/v1/files/vid_1/content?api_key=dev-token"),
        ] {
            assert_eq!(check(method, path, &[]), Err(401), "{method} {path}");
        }
    }

    #[test]
    fn health_is_open_and_metrics_are_not_on_a_reachable_address() {
        assert_eq!(check("GET", "/v1/healthz", &[]), Ok(()));
        assert_eq!(check("GET", "/readyz", &[]), Ok(()));
        assert_eq!(check("GET", "/metrics", &[]), Err(401));
        assert_eq!(check("POST", "/v1/healthz", &[]), Err(401));
        assert_eq!(check("GET", "/v1", &[]), Err(401));
    }
}
