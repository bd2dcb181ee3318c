//! `ambientctl sandboxd`: a host of sandboxes, which are made of what Linux has.

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod host;

use std::net::{SocketAddr, ToSocketAddrs as _};

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{agent, run};
#[cfg(target_os = "linux")]
pub(crate) use host::{agent, run};

/// The usual address: E2B's own SDKs take it as `E2B_API_URL` and `E2B_SANDBOX_URL`.
pub(crate) const USUAL_ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3000);

/// An address of `--listen`: a number or a name, and a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| format!("`{text}` is no address with a port: {error}"))?;
    let found: Vec<_> = found.collect();
    // `localhost` is two addresses here and there; clients look at the older one first.
    let usual = found.iter().find(|address| address.is_ipv4()).or(found.first());
    usual.copied().ok_or_else(|| format!("`{text}` has no address"))
}
