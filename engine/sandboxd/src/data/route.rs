//! Which sandbox, and which port of it, a request is for.

use ambient_e2b::protocol::header;
use axum::extract::Request;
use axum::http::header::HOST;

use crate::serve::text;

/// The route of files, on which signed addresses name no sandbox.
pub(super) const FILES: &str = "/files";

/// For whom a request is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A port of a sandbox.
    Named {
        /// The sandbox; perhaps none has this id.
        id: String,
        /// 49983 is the agent's.
        port: u16,
    },
    /// The sandbox whose signature it carries.
    SignedFile,
    /// It names half of it.
    Incomplete(&'static str),
}

/// `None`: it is for the API.
pub(crate) fn target(request: &Request) -> Option<Target> {
    let headers = request.headers();
    if let Some(id) = text(headers, header::SANDBOX_ID) {
        let Some(port) = text(headers, header::SANDBOX_PORT) else {
            return Some(Target::Incomplete("the header `E2b-Sandbox-Port` is missing"));
        };
        let Ok(port) = port.trim().parse() else {
            return Some(Target::Incomplete("the header `E2b-Sandbox-Port` is no port"));
        };
        return Some(Target::Named { id: id.trim().to_owned(), port });
    }
    let host = text(headers, HOST).or_else(|| request.uri().host());
    if let Some((port, id)) = host.and_then(in_host) {
        return Some(Target::Named { id, port });
    }
    (request.uri().path() == FILES).then_some(Target::SignedFile)
}

/// `PORT-ID.DOMAIN`.
fn in_host(host: &str) -> Option<(u16, String)> {
    let (label, _domain) = host.split_once('.')?;
    let (port, id) = label.split_once('-')?;
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    Some((port.parse().ok()?, is_plain.then(|| id.to_owned())?))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::Request;

    use super::{Target, in_host, target};

    fn request(path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn headers_go_before_hosts() {
        let both = [("E2b-Sandbox-Id", "i1"), ("E2B-SANDBOX-PORT", "49983"), ("host", "3000-i2.localhost:80")];
        let named = |id: &str, port| Some(Target::Named { id: id.to_owned(), port });
        assert_eq!(target(&request("/health", &both)), named("i1", 49983));
        assert_eq!(target(&request("/x", &both[2..])), named("i2", 3000));
        assert!(matches!(target(&request("/x", &both[..1])), Some(Target::Incomplete(_))));
        assert_eq!(target(&request("/files?path=x", &[("host", "127.0.0.1:3000")])), Some(Target::SignedFile));
        assert_eq!(target(&request("/health", &[("host", "127.0.0.1:3000")])), None);
    }

    #[test]
    fn hosts_that_name_nothing_are_the_api() {
        for host in ["localhost:3000", "127.0.0.1", "api.localhost", "x-i1.localhost", "99999-i1.localhost", "80-.x"] {
            assert_eq!(in_host(host), None, "{host}");
        }
    }
}
