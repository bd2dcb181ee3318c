//! Published ports in their short form: `[[ADDRESS:]PUBLISHED:]TARGET[/PROTOCOL]`, each part perhaps a range.

use std::net::{Ipv4Addr, Ipv6Addr};

/// One binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Port {
    /// The address on the host; any when there is none.
    pub(super) host_ip: Option<String>,
    /// The port in the container.
    pub(super) target: u16,
    /// The port on the host, or a range to choose from; the engine chooses when there is none.
    pub(super) published: Option<String>,
    /// `tcp`, `udp` or `sctp`.
    pub(super) protocol: String,
}

/// The bindings of a short form, one for each port of a range.
pub(super) fn parse(text: &str) -> Result<Vec<Port>, String> {
    let (ports, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = protocol.to_ascii_lowercase();
    if !matches!(protocol.as_str(), "tcp" | "udp" | "sctp") {
        return Err(format!("has the protocol `{protocol}`, which is none of tcp, udp and sctp"));
    }
    let (host, published, target) = apart(ports);
    let host_ip = address(host)?;
    let targets = range(target).ok_or_else(|| format!("`{text}` names no port of the container"))?;
    let published = match published {
        None | Some("") => None,
        Some(published) => {
            Some((published, range(published).ok_or_else(|| format!("`{text}` names no port of the host"))?))
        }
    };
    let count = targets.1 - targets.0;
    if let Some((_, (first, last))) = &published
        && last - first != count
        && count != 0
    {
        return Err(format!("`{text}` has ranges of different lengths"));
    }
    let one = |offset: u16| Port {
        host_ip: host_ip.clone(),
        target: targets.0 + offset,
        published: published.as_ref().map(|(written, (first, last))| {
            // A range for one port of the container is a choice.
            if count == 0 && first != last { (*written).to_owned() } else { (first + offset).to_string() }
        }),
        protocol: protocol.clone(),
    };
    // Compose lists the ports of a range by their text.
    let mut ports: Vec<Port> = (0..=count).map(one).collect();
    ports.sort_by_key(|port| port.target.to_string());
    Ok(ports)
}

/// Address, published and target.
fn apart(ports: &str) -> (&str, Option<&str>, &str) {
    let (rest, target) = match ports.rsplit_once(':') {
        Some((rest, target)) => (Some(rest), target),
        None => (None, ports),
    };
    match rest {
        None => ("", None, target),
        Some(rest) => match rest.rsplit_once(':') {
            Some((host, published)) if !rest.ends_with(']') => (host, Some(published), target),
            _ => ("", Some(rest), target),
        },
    }
}

fn address(host: &str) -> Result<Option<String>, String> {
    let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    if bare.is_empty() {
        return Ok(None);
    }
    if bare.parse::<Ipv4Addr>().is_ok() || bare.parse::<Ipv6Addr>().is_ok() {
        Ok(Some(bare.to_owned()))
    } else {
        Err(format!("`{bare}` is no IP address"))
    }
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let port = |port: Port| {
            format!(
                "{}|{}|{}/{}",
                port.host_ip.unwrap_or_default(),
                port.published.unwrap_or_default(),
                port.target,
                port.protocol
            )
        };
        parse(text).unwrap().into_iter().map(port).collect()
    }

    #[test]
    fn short_forms_are_taken_apart() {
        for (text, expected) in [
            ("8080:80", vec!["|8080|80/tcp"]),
            ("7000", vec!["||7000/tcp"]),
            ("127.0.0.1::5", vec!["127.0.0.1||5/tcp"]),
            ("[::1]:6:7", vec!["::1|6|7/tcp"]),
            ("127.0.0.1:8080:80/UDP", vec!["127.0.0.1|8080|80/udp"]),
            ("3000-3002:4000", vec!["|3000-3002|4000/tcp"]),
            ("5000-5001:6000-6001/udp", vec!["|5000|6000/udp", "|5001|6001/udp"]),
            ("90-91", vec!["||90/tcp", "||91/tcp"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        for text in ["", "x", "80:", "1:2:3", "host:1:2", "99999", "80/icmp", "5-4", "1-3:1-2"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
