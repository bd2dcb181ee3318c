//! URLs among the settings, as types whose `Debug` and `Display` never show a password.

use std::fmt;

use camino::Utf8PathBuf;
use secrecy::SecretString;
use url::Url;

/// The address of a web service. Credentials in it are kept for requests, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl(Url);

impl HttpUrl {
    /// Takes a URL; the loader gives only `http` and `https` ones.
    pub fn new(url: Url) -> Self {
        Self(url)
    }

    /// The whole URL, with credentials: for a request, not for a log.
    pub fn as_url(&self) -> &Url {
        &self.0
    }

    /// This address with `path` appended, with exactly one `/` between the two: `https://h/v1` and `models`
    /// give `https://h/v1/models`.
    pub fn at(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let joined = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(&joined);
        url
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.0.clone();
        if !url.username().is_empty() || url.password().is_some() {
            // Both only fail on URLs without a host, which have no credentials either.
            let _no_host = url.set_username("").and_then(|()| url.set_password(None));
        }
        f.write_str(url.as_str())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Where a model is asked: the base URL of an OpenAI-compatible server, and the key for it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address before `/chat/completions`, such as `https://openrouter.ai/api/v1`.
    pub base_url: HttpUrl,
    /// Sent as a bearer token; local servers often need none.
    pub api_key: Option<SecretString>,
}

/// Where sessions, events and files are stored.
#[derive(Clone, Debug)]
pub enum DatabaseUrl {
    /// A SQLite file; it is made when it is not there. Absolute.
    Sqlite(Utf8PathBuf),
    /// A `postgres://` URL, with its password.
    Postgres(SecretString),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::new(Url::parse(text).unwrap())
    }

    #[test]
    fn a_path_is_appended_with_one_slash() {
        for (base, expected) in [
            ("https://host/v1", "https://host/v1/models"),
            ("https://host/v1/", "https://host/v1/models"),
            ("https://host", "https://host/models"),
            ("https://host/v1?version=2", "https://host/v1/models?version=2"),
        ] {
            assert_eq!(url(base).at("models").as_str(), expected);
            assert_eq!(url(base).at("/models").as_str(), expected);
        }
    }

    #[test]
    fn credentials_are_kept_for_requests_and_not_shown() {
        let url = url("https://ann:secret@host/v1");
        assert_eq!(url.to_string(), "https://host/v1");
        assert_eq!(format!("{url:?}"), "\"https://host/v1\"");
        assert_eq!(url.at("models").as_str(), "https://ann:secret@host/v1/models");
    }
}
