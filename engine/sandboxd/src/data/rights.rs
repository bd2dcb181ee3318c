//! Who may use a sandbox: by token, or for one file by signature.

use ambient_e2b::protocol::{FileOperation, Token, file_signature, header};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, StatusCode};

use crate::clock::now;
use crate::sandboxes::Sandbox;
use crate::serve::{error, text};

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoToken,
    OtherToken,
    NoSignature,
    BadSignature,
    Expired,
    NoTrafficToken,
}

impl Refusal {
    pub(super) fn answer(self) -> Response<Body> {
        let (status, message) = match self {
            Self::NoToken => (StatusCode::UNAUTHORIZED, "unauthorized access: the access token is missing or wrong"),
            Self::OtherToken => (StatusCode::UNAUTHORIZED, "access token present in header but does not match"),
            Self::NoSignature => (StatusCode::UNAUTHORIZED, "missing signature query parameter"),
            Self::BadSignature => (StatusCode::UNAUTHORIZED, "invalid signature"),
            Self::Expired => (StatusCode::UNAUTHORIZED, "signature is already expired"),
            Self::NoTrafficToken => (StatusCode::FORBIDDEN, "the traffic access token is missing or wrong"),
        };
        error(status, message)
    }
}

/// The signature of a `/files` address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Signature {
    given: String,
    path: String,
    username: String,
    operation: FileOperation,
    end: End,
}

/// When a signature ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Never,
    /// In seconds since 1970.
    At(i64),
    /// The address says something that is no time: nobody signed that.
    Unreadable,
}

impl Signature {
    /// What an address carries.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let operation = match *request.method() {
            Method::GET | Method::HEAD => FileOperation::Read,
            _ => FileOperation::Write,
        };
        let query = request.uri().query().unwrap_or_default();
        let (mut given, mut path, mut username, mut end) = (None, String::new(), String::new(), End::Never);
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            match name.as_ref() {
                "signature" => given = Some(value.into_owned()),
                "path" => path = value.into_owned(),
                "username" => username = value.into_owned(),
                "signature_expiration" => end = value.parse().map_or(End::Unreadable, End::At),
                _ => {}
            }
        }
        let given = given.filter(|given| !given.is_empty())?;
        Some(Self { given, path, username, operation, end })
    }

    /// Whether this token made it. When it ends is another question.
    pub(super) fn is_by(&self, token: &Token) -> bool {
        let expiration = match self.end {
            End::Never => None,
            End::At(end) => Some(end),
            End::Unreadable => return false,
        };
        let wanted = file_signature(&self.path, self.operation, &self.username, token, expiration);
        // Compared like a token, which takes its time whatever the first difference.
        Token::new(wanted) == Token::new(self.given.clone())
    }

    fn check(&self, token: &Token) -> Result<(), Refusal> {
        if !self.is_by(token) {
            return Err(Refusal::BadSignature);
        }
        match self.end {
            End::At(end) if end < now().as_second() => Err(Refusal::Expired),
            End::Never | End::At(_) | End::Unreadable => Ok(()),
        }
    }
}

/// Whether the caller may use the agent. A sandbox without a token takes everyone.
pub(super) fn check_agent(sandbox: &Sandbox, request: &Request) -> Result<(), Refusal> {
    let Some(token) = &sandbox.token else { return Ok(()) };
    let is_file = request.uri().path() == super::route::FILES;
    match text(request.headers(), header::ACCESS_TOKEN) {
        Some(given) if Token::new(given) == *token => Ok(()),
        Some(_) if is_file => Err(Refusal::OtherToken),
        None if is_file => Signature::of(request).ok_or(Refusal::NoSignature)?.check(token),
        Some(_) | None => Err(Refusal::NoToken),
    }
}

/// Whether the caller may use the ports of programs.
pub(super) fn check_traffic(sandbox: &Sandbox, headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(token) = &sandbox.traffic_token else { return Ok(()) };
    let given = text(headers, header::TRAFFIC_ACCESS_TOKEN);
    if given.is_some_and(|given| Token::new(given) == *token) { Ok(()) } else { Err(Refusal::NoTrafficToken) }
}

#[cfg(test)]
mod tests {
    use ambient_e2b::protocol::{FileOperation, Token, file_signature};
    use axum::body::Body;
    use axum::extract::Request;
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

    use super::{Refusal, Signature};

    fn signature(method: &str, signed: &str, expiration: Option<i64>) -> Signature {
        let mut address = format!("/files?path=%2Fa%20b&signature={}", utf8_percent_encode(signed, NON_ALPHANUMERIC));
        if let Some(expiration) = expiration {
            address.push_str("&signature_expiration=");
            address.push_str(&expiration.to_string());
        }
        let request = Request::builder().method(method).uri(address).body(Body::empty()).unwrap();
        Signature::of(&request).unwrap()
    }

    #[test]
    fn a_signature_is_for_one_token_one_path_and_one_operation() {
        let token = Token::new("secret");
        let signed = file_signature("/a b", FileOperation::Read, "", &token, None);
        assert_eq!(signature("GET", &signed, None).check(&token), Ok(()));
        assert_eq!(signature("POST", &signed, None).check(&token), Err(Refusal::BadSignature));
        assert_eq!(signature("GET", &signed, None).check(&Token::new("other")), Err(Refusal::BadSignature));
        assert_eq!(signature("GET", &signed, Some(1)).check(&token), Err(Refusal::BadSignature));
    }

    #[test]
    fn a_signature_ends() {
        let token = Token::new("secret");
        for (end, wanted) in [(1, Err(Refusal::Expired)), (4_000_000_000, Ok(()))] {
            let signed = file_signature("/a b", FileOperation::Write, "", &token, Some(end));
            assert_eq!(signature("POST", &signed, Some(end)).check(&token), wanted);
        }
    }
}
