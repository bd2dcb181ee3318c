//! Addresses that a client may make the engine talk to.
//!
//! An agent's own `base_url` comes from a client, and the engine stands inside somebody's network: without a check a
//! client could reach its neighbours, a cloud's metadata service among them. Names are checked here as far as they show
//! it by themselves; where a name leads is checked with [`is_public`] when it is resolved for a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Why an address is not taken.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadAddress {
    /// No URL at all.
    #[error("must be an absolute URL such as `https://models.example.com/v1`")]
    NoUrl,
    /// Another scheme.
    #[error("must begin with `http://` or `https://`")]
    Scheme,
    /// A user name or password in it.
    #[error("must not hold a user name or password; send the key as `api_key`")]
    Credentials,
    /// A query or fragment, which would end up in front of the path that is appended.
    #[error("must not have a `?` or `#` part")]
    Query,
    /// It leads inside.
    #[error(
        "leads to `{host}`, an address of this machine or its network; an operator can allow that with `LLM_ALLOW_PRIVATE_URLS=true`"
    )]
    Private {
        /// Where it leads.
        host: String,
    },
}

/// Takes the address of a model server.
///
/// # Errors
/// When it is no http(s) URL, or leads to a private address and `allow_private` does not say that this is fine.
pub fn model_server(text: &str, allow_private: bool) -> Result<Url, BadAddress> {
    let url = Url::parse(text).map_err(|_no_url| BadAddress::NoUrl)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(BadAddress::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadAddress::Credentials);
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(BadAddress::Query);
    }
    let is_inside = match url.host().ok_or(BadAddress::NoUrl)? {
        Host::Ipv4(address) => !is_public(address.into()),
        Host::Ipv6(address) => !is_public(address.into()),
        Host::Domain(name) => is_local_name(name),
    };
    if is_inside && !allow_private {
        return Err(BadAddress::Private { host: url.host_str().unwrap_or_default().to_owned() });
    }
    Ok(url)
}

/// Names that by custom never leave a network.
fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let last = name.rsplit('.').next().unwrap_or_default();
    // A name without a dot is completed by the resolver's own search list.
    !name.contains('.') || matches!(last, "localhost" | "local" | "internal" | "lan" | "home" | "corp" | "intranet")
}

/// Whether an address lies in the public internet.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_unspecified()
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        // Shared by carriers (RFC 6598), protocol assignments, benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !is_special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // 6to4 and NAT64 carry an IPv4 address inside, Teredo hides one: the inside decides, or nothing does.
    let carried = match segments {
        [0x2002, high, low, ..] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)))
        }
        _ => None,
    };
    if let Some(inside) = carried {
        return is_public_v4(inside);
    }
    let is_global_unicast = segments[0] & 0xe000 == 0x2000;
    let is_teredo_or_reserved = segments[0] == 0x2001 && segments[1] < 0x200;
    let is_documentation = segments[0] == 0x2001 && segments[1] == 0xdb8;
    is_global_unicast && !is_teredo_or_reserved && !is_documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_the_internet_are_taken() {
        for good in ["https://openrouter.ai/api/v1", "http://93.184.216.34:8000/v1", "https://[2606:4700::1111]/v1"] {
            assert!(model_server(good, false).is_ok(), "{good}");
        }
    }

    #[test]
    fn addresses_inside_are_refused_in_every_spelling() {
        for bad in [
            "http://127.0.0.1:18099/v1",
            "http://127.1/v1",
            "http://2130706433/v1",
            "http://0x7f.0.0.1/v1",
            "http://0177.0.0.1/v1",
            "http://localhost/v1",
            "http://LOCALHOST./v1",
            "http://a.localhost/v1",
            "http://metadata.google.internal/v1",
            "http://redis:6379/v1",
            "http://169.254.169.254/latest",
            "http://10.0.0.1/v1",
            "http://172.16.5.5/v1",
            "http://192.168.1.1/v1",
            "http://100.64.0.1/v1",
            "http://0.0.0.0/v1",
            "http://[::1]/v1",
            "http://[::]/v1",
            "http://[::ffff:127.0.0.1]/v1",
            "http://[fd00::1]/v1",
            "http://[fe80::1]/v1",
            "http://[2002:7f00:1::]/v1",
            "http://[64:ff9b::a00:1]/v1",
            "http://224.0.0.1/v1",
        ] {
            assert!(matches!(model_server(bad, false), Err(BadAddress::Private { .. })), "{bad}");
            assert!(model_server(bad, true).is_ok(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_plain_http_address_is_refused() {
        for (bad, why) in [
            ("", BadAddress::NoUrl),
            ("models.example.com/v1", BadAddress::NoUrl),
            ("file:///etc/passwd", BadAddress::Scheme),
            ("ftp://example.com/", BadAddress::Scheme),
            ("https://user:pass@example.com/v1", BadAddress::Credentials),
            ("https://example.com/v1?key=1", BadAddress::Query),
        ] {
            assert_eq!(model_server(bad, true), Err(why), "{bad}");
        }
    }
}
