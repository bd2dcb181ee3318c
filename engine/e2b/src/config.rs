//! Where E2B is and who asks, as E2B's SDKs read it.
//!
//! Nothing here reads the environment: [`Config::from_lookup`] is a plain function of whatever the caller looks names up in.

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::retry::RetryPolicy;

const DEFAULT_DOMAIN: &str = "e2b.app";

/// Domains whose sandboxes all share the host `sandbox.<domain>`, the headers telling them apart.
const SHARED_HOST_DOMAINS: [&str; 7] =
    ["e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev", "e2b-tango.dev", "e2b-juliett.dev", "foxtrot-2.e2b.dev"];

const DEBUG_API_URL: &str = "http://localhost:3000";

/// Everything a client needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The key. Without one every control-plane call fails with [`Error::KeyMissing`](crate::Error::KeyMissing) before it is sent.
    pub api_key: Option<SecretString>,
    /// The base domain.
    pub domain: String,
    /// The control plane's origin, if it is not `https://api.<domain>`.
    pub api_url: Option<String>,
    /// The data plane's origin for every sandbox, if they have no hosts of their own.
    pub sandbox_url: Option<String>,
    /// Drives one bare agent on `localhost:49983` and leaves the control plane out.
    pub debug: bool,
    /// How long one call may take, its repetitions included.
    pub request_timeout: Duration,
    /// When a call is repeated.
    pub retry: RetryPolicy,
    /// How often a silent stream shall show that it lives.
    pub keepalive_interval: Duration,
    /// How long a stream may be silent although its sandbox answers. A server that ignores the interval asked for shows life every 90 s.
    pub stall_after: Duration,
    /// How long the transfer of a file may stand still.
    pub idle_timeout: Duration,
    /// What the client calls itself.
    pub user_agent: String,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfig {
    /// A key that cannot travel in a header. The key is not quoted.
    #[error("`E2B_API_KEY` holds characters that no key has")]
    Key,
    /// An origin that is none.
    #[error("`{name}` is `{value}`, which is no origin such as `http://127.0.0.1:3000`")]
    Origin {
        /// Which setting.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A domain that is none.
    #[error("`E2B_DOMAIN` is `{value}`, which is no domain such as `e2b.app`")]
    Domain {
        /// Its value.
        value: String,
    },
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api_key: None,
            domain: DEFAULT_DOMAIN.to_owned(),
            api_url: None,
            sandbox_url: None,
            debug: false,
            request_timeout: Duration::from_mins(1),
            retry: RetryPolicy::default(),
            keepalive_interval: Duration::from_secs(20),
            stall_after: Duration::from_secs(100),
            idle_timeout: Duration::from_mins(1),
            user_agent: concat!("ambient-e2b/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl Config {
    /// Reads `E2B_API_KEY`, `E2B_DOMAIN`, `E2B_API_URL`, `E2B_SANDBOX_URL` and `E2B_DEBUG` through `lookup`; an empty value counts as none.
    ///
    /// # Errors
    /// When a value cannot be used. A missing key is no error until a call needs it.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, BadConfig> {
        let value = |name| lookup(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let mut config = Self::default();
        if let Some(key) = value("E2B_API_KEY") {
            if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(BadConfig::Key);
            }
            config.api_key = Some(SecretString::from(key));
        }
        if let Some(domain) = value("E2B_DOMAIN") {
            if !is_domain(&domain) {
                return Err(BadConfig::Domain { value: domain });
            }
            config.domain = domain;
        }
        config.api_url = value("E2B_API_URL").map(|text| origin("E2B_API_URL", &text)).transpose()?;
        config.sandbox_url = value("E2B_SANDBOX_URL").map(|text| origin("E2B_SANDBOX_URL", &text)).transpose()?;
        config.debug = value("E2B_DEBUG").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        Ok(config)
    }

    /// Origin of the control plane, without a slash at its end.
    pub fn api_origin(&self) -> String {
        match &self.api_url {
            Some(url) => url.clone(),
            None if self.debug => DEBUG_API_URL.to_owned(),
            None => format!("https://api.{}", self.domain),
        }
    }

    /// Origin of a sandbox's agent. `domain` is what create or connect told.
    pub fn sandbox_origin(&self, sandbox_id: &str, domain: Option<&str>, port: u16) -> String {
        let domain = domain.unwrap_or(&self.domain);
        match &self.sandbox_url {
            Some(url) => url.clone(),
            None if self.debug => format!("http://localhost:{port}"),
            None if SHARED_HOST_DOMAINS.contains(&domain) => format!("https://sandbox.{domain}"),
            None => format!("https://{port}-{sandbox_id}.{domain}"),
        }
    }

    /// Origin of a sandbox's signed addresses, which are opened by somebody who sends no headers.
    pub fn signed_origin(&self, sandbox_id: &str, domain: Option<&str>, port: u16) -> String {
        match &self.sandbox_url {
            Some(url) => url.clone(),
            None if self.debug => format!("http://localhost:{port}"),
            None => format!("https://{port}-{sandbox_id}.{}", domain.unwrap_or(&self.domain)),
        }
    }

    /// Host under which a port of a sandbox is reached, without a scheme.
    pub fn host(&self, sandbox_id: &str, domain: Option<&str>, port: u16) -> String {
        if self.debug {
            format!("localhost:{port}")
        } else {
            format!("{port}-{sandbox_id}.{}", domain.unwrap_or(&self.domain))
        }
    }

    /// The key's text, for the one header that carries it.
    pub(crate) fn key(&self) -> Option<&str> {
        self.api_key.as_ref().map(SecretString::expose_secret).filter(|key| !key.is_empty())
    }
}

/// A bare origin, or one with a path in front of everything, without the slash at its end.
fn origin(name: &'static str, text: &str) -> Result<String, BadConfig> {
    let bad = || BadConfig::Origin { name, value: text.to_owned() };
    let Ok(url) = Url::parse(text) else { return Err(bad()) };
    let is_plain = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || !is_plain {
        return Err(bad());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Letters, digits, dots and dashes, and a port if one's own server needs it.
fn is_domain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':'))
}

#[cfg(test)]
mod tests {
    use super::{BadConfig, Config};

    fn config(pairs: &[(&str, &str)]) -> Result<Config, BadConfig> {
        Config::from_lookup(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_anything_the_cloud_is_meant() {
        let config = config(&[("E2B_API_KEY", ""), ("E2B_DOMAIN", " ")]).unwrap();
        assert!(config.key().is_none());
        assert_eq!(config.api_origin(), "https://api.e2b.app");
        assert_eq!(config.sandbox_origin("i1", None, 49983), "https://sandbox.e2b.app");
        assert_eq!(config.sandbox_origin("i1", Some("x.org"), 49983), "https://49983-i1.x.org");
        assert_eq!(config.signed_origin("i1", None, 49983), "https://49983-i1.e2b.app");
        assert_eq!(config.host("i1", None, 80), "80-i1.e2b.app");
    }

    #[test]
    fn both_origins_win_over_the_domain() {
        let config = config(&[
            ("E2B_API_KEY", "e2b_00"),
            ("E2B_DOMAIN", "x.org"),
            ("E2B_API_URL", "http://127.0.0.1:3000/"),
            ("E2B_SANDBOX_URL", "http://127.0.0.1:3001"),
        ])
        .unwrap();
        assert_eq!(config.api_origin(), "http://127.0.0.1:3000");
        assert_eq!(config.sandbox_origin("i1", Some("y.org"), 49983), "http://127.0.0.1:3001");
        assert_eq!(config.host("i1", Some("y.org"), 80), "80-i1.y.org");
        assert!(!format!("{config:?}").contains("e2b_00"));
    }

    #[test]
    fn debug_drives_a_bare_agent() {
        let config = config(&[("E2B_DEBUG", "TRUE")]).unwrap();
        assert_eq!(config.api_origin(), "http://localhost:3000");
        assert_eq!(config.sandbox_origin("debug_sandbox_id", None, 49983), "http://localhost:49983");
        assert_eq!(config.host("debug_sandbox_id", None, 80), "localhost:80");
    }

    #[test]
    fn what_cannot_be_used_is_refused_without_showing_the_key() {
        let refusal = config(&[("E2B_API_KEY", "e2b_\nsecret")]).unwrap_err();
        assert!(!refusal.to_string().contains("secret"));
        for url in ["127.0.0.1:3000", "ftp://x", "http://", "http://u@x", "http://x?y"] {
            let refusal = config(&[("E2B_API_URL", url)]).unwrap_err();
            assert_eq!(refusal, BadConfig::Origin { name: "E2B_API_URL", value: url.to_owned() });
        }
        assert!(config(&[("E2B_DOMAIN", "https://e2b.app")]).is_err());
    }
}
