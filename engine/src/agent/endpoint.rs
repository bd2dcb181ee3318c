//! Where a model is asked, and whether that address may be asked at all.
//!
//! An agent may bring an address of its own. That one is a stranger's word: its host is looked up and checked, addresses
//! of this machine and its network are refused unless the operator allows them, redirects are not followed, and the
//! engine's own key never goes there, because an endpoint holds address and key together.

use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use secrecy::SecretString;
use url::{Host, Url};

use super::error::ModelError;
use crate::outbound::is_public;

/// A model and where it is asked.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// As given, with or without `/chat/completions`.
    pub base_url: String,
    /// What goes into `Authorization`; `None` for a keyless server.
    pub api_key: Option<SecretString>,
    /// The model asked for.
    pub model: String,
    /// The operator's own address. `false` is one that came with an agent.
    pub trusted: bool,
}

/// What kind of service answers at an address; they differ in what they take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// `openrouter.ai`: routes to providers, takes fields of its own.
    OpenRouter,
    /// Vercel's gateway.
    Vercel,
    /// Anything else: a server that the operator runs, or a vendor's own.
    Direct,
}

impl Endpoint {
    /// The same address, asked for another model.
    #[must_use]
    pub fn with_model(&self, model: &str) -> Self {
        Self { model: model.to_owned(), ..self.clone() }
    }

    /// The address that requests go to: `<base>/chat/completions`, the suffix added if it is not there.
    ///
    /// # Errors
    /// [`ModelError::Address`] when it is no HTTP address.
    pub fn url(&self) -> Result<Url, ModelError> {
        let refuse = |reason: &str| ModelError::Address { host: self.host(), reason: reason.to_owned() };
        let mut url = Url::parse(self.base_url.trim()).map_err(|fault| refuse(&fault.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(refuse("it has to begin with `http://` or `https://` and name a host"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        if path.ends_with("/chat/completions") {
            url.set_path(&path);
        } else {
            url.set_path(&format!("{path}/chat/completions"));
        }
        Ok(url)
    }

    /// Host and port, for messages: without user, password, path and query.
    pub fn host(&self) -> String {
        match Url::parse(self.base_url.trim()) {
            Ok(url) => match (url.host_str(), url.port()) {
                (Some(host), Some(port)) => format!("{host}:{port}"),
                (Some(host), None) => host.to_owned(),
                (None, _) => "an address without a host".to_owned(),
            },
            Err(_) => "an address that does not parse".to_owned(),
        }
    }

    /// Which kind of service this is.
    pub fn service(&self) -> Service {
        let host = self.host().to_lowercase();
        if host.contains("openrouter") {
            Service::OpenRouter
        } else if host.contains("vercel") {
            Service::Vercel
        } else {
            Service::Direct
        }
    }

    /// What is remembered about a server is remembered under this.
    pub(crate) fn memory_key(&self) -> String {
        format!("{} {}", self.base_url.trim().trim_end_matches('/'), self.model)
    }
}

/// Refuses an address that is written as a number and is not on the public network. Names are checked when they are
/// looked up, by [`PublicOnly`].
pub(crate) fn check_literal(url: &Url) -> Result<(), String> {
    let address: IpAddr = match url.host() {
        Some(Host::Ipv4(address)) => address.into(),
        Some(Host::Ipv6(address)) => address.into(),
        Some(Host::Domain(_)) | None => return Ok(()),
    };
    if is_public(address) { Ok(()) } else { Err(private_reason(address)) }
}

fn private_reason(address: IpAddr) -> String {
    format!("`{address}` is not on the public network (`LLM_ALLOW_PRIVATE_URLS=true` allows such addresses)")
}

/// Looks names up and refuses those that lead anywhere but the public network. The connection is made to the very
/// addresses that were checked, so a name that changes in between gains nothing.
#[derive(Debug)]
pub(crate) struct PublicOnly;

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if let Some(private) = found.iter().find(|address| !is_public(address.ip())) {
                return Err(private_reason(private.ip()).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> Endpoint {
        Endpoint { base_url: base_url.into(), api_key: None, model: "m".into(), trusted: false }
    }

    #[test]
    fn the_suffix_is_added_once() {
        for base in ["http://h/v1", "http://h/v1/", "http://h/v1/chat/completions", "http://h/v1/chat/completions/"] {
            assert_eq!(endpoint(base).url().unwrap().as_str(), "http://h/v1/chat/completions", "{base}");
        }
        assert_eq!(endpoint("http://h/v1?k=1").url().unwrap().as_str(), "http://h/v1/chat/completions?k=1");
        for bad in ["", "h/v1", "ftp://h/v1", "file:///etc/passwd"] {
            assert!(endpoint(bad).url().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_for_messages_holds_no_password() {
        assert_eq!(endpoint("https://user:secret@h.example:81/v1?key=secret").host(), "h.example:81");
    }

    #[test]
    fn addresses_of_this_network_are_not_public() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn numbers_in_any_notation_are_checked() {
        for bad in ["http://127.1/v1", "http://0x7f000001/v1", "http://2130706433/v1", "http://[::1]/v1"] {
            assert!(check_literal(&endpoint(bad).url().unwrap()).is_err(), "{bad}");
        }
        assert!(check_literal(&endpoint("http://model.example/v1").url().unwrap()).is_ok());
    }

    #[test]
    fn services_are_told_by_host() {
        assert_eq!(endpoint("https://openrouter.ai/api/v1").service(), Service::OpenRouter);
        assert_eq!(endpoint("https://ai-gateway.vercel.sh/v1").service(), Service::Vercel);
        assert_eq!(endpoint("http://127.0.0.1/openrouter").service(), Service::Direct);
    }
}
