//! Ports that somebody else has: found before anything is pulled, or explained after the engine refused.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

use bollard::query_parameters::ListContainersOptionsBuilder;

use super::{Connection, DockerError, Found, LABEL, Wanted, WantedService};

/// Fails for the first port of a service that is not up yet and that somebody else has. Our own containers and listeners on
/// other addresses do not count.
///
/// # Errors
/// [`DockerError::Port`] with who has it.
pub async fn check_ports(connection: &Connection, wanted: &Wanted, found: &Found) -> Result<(), DockerError> {
    let others = others(connection, &wanted.project).await?;
    for service in &wanted.services {
        for (host, published, protocol) in service.published() {
            let Ok(port) = published.parse::<u16>() else { continue };
            if port == 0 {
                continue;
            }
            let taken =
                |holder: String| DockerError::Port { service: service.name.clone(), port: shown(host, port), holder };
            let clash = others.iter().find(|other| other.clashes(host, port, protocol));
            if let Some(other) = clash {
                return Err(taken(format!("the container `{}` has it", other.container)));
            }
            let is_ours = found.containers.iter().any(|container| {
                container.state.is_up() && container.ports.iter().any(|text| text.contains(&format!(":{port}->")))
            });
            let is_local = connection.address.url.starts_with("unix://");
            if protocol == "tcp" && is_local && !is_ours && is_taken(host, port) {
                return Err(taken("another program on this machine listens there".to_owned()));
            }
        }
    }
    Ok(())
}

/// Who has the port that the engine's refusal is about; `None` for a refusal about something else.
pub(super) async fn explained(
    connection: &Connection,
    wanted: &Wanted,
    service: &WantedService,
    refusal: &str,
) -> Option<DockerError> {
    let is_about_a_port = ["port is already allocated", "address already in use", "Ports are not available"]
        .iter()
        .any(|words| refusal.contains(words));
    if !is_about_a_port {
        return None;
    }
    let others = others(connection, &wanted.project).await.unwrap_or_default();
    let ports: Vec<(&str, u16, &str)> = service
        .published()
        .filter_map(|(host, published, protocol)| Some((host, published.parse().ok()?, protocol)))
        .collect();
    let named = ports.iter().find(|(_, port, _)| refusal.contains(&format!(":{port}"))).or(ports.first())?;
    let (host, port, protocol) = *named;
    let holder = match others.iter().find(|other| other.clashes(host, port, protocol)) {
        Some(other) => format!("the container `{}` has it", other.container),
        None => "another program on this machine listens there".to_owned(),
    };
    Some(DockerError::Port { service: service.name.clone(), port: shown(host, port), holder })
}

fn shown(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("`[{host}]:{port}`")
    } else if host.is_empty() {
        format!("`{port}`")
    } else {
        format!("`{host}:{port}`")
    }
}

/// A port that a container of somebody else publishes.
#[derive(Clone, Debug)]
struct Other {
    container: String,
    host: String,
    port: u16,
    protocol: String,
}

impl Other {
    fn clashes(&self, host: &str, port: u16, protocol: &str) -> bool {
        self.port == port && self.protocol == protocol && overlap(&self.host, host)
    }
}

/// Whether two addresses of listeners get in each other's way.
fn overlap(one: &str, other: &str) -> bool {
    let any = |host: &str| matches!(host, "" | "0.0.0.0" | "::");
    one == other || any(one) || any(other)
}

async fn others(connection: &Connection, project: &str) -> Result<Vec<Other>, DockerError> {
    let filters: HashMap<&str, Vec<&str>> = HashMap::from([("status", vec!["running", "paused", "restarting"])]);
    let options = ListContainersOptionsBuilder::default().filters(&filters).build();
    let all =
        connection.docker.list_containers(Some(options)).await.map_err(DockerError::call("list the containers"))?;
    let mut others = Vec::new();
    for summary in all {
        let labels = summary.labels.unwrap_or_default();
        if labels.get(&format!("{LABEL}project")).is_some_and(|found| found == project) {
            continue;
        }
        let name = summary.names.unwrap_or_default().into_iter().next().unwrap_or_default();
        for port in summary.ports.unwrap_or_default() {
            if let Some(public) = port.public_port {
                others.push(Other {
                    container: name.trim_start_matches('/').to_owned(),
                    host: port.ip.unwrap_or_default(),
                    port: public,
                    protocol: port.typ.map(|typ| typ.to_string()).unwrap_or_default(),
                });
            }
        }
    }
    Ok(others)
}

/// Whether somebody listens there. Tried by listening ourselves for a moment, on both families where no address is named.
pub(crate) fn is_taken(host: &str, port: u16) -> bool {
    let addresses: Vec<IpAddr> = match host.parse() {
        Ok(address) => vec![address],
        Err(_no_address) => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
    };
    addresses.into_iter().any(|address| {
        let attempt = TcpListener::bind(SocketAddr::new(address, port));
        attempt.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_on_other_addresses_do_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_taken("127.0.0.1", port) && is_taken("0.0.0.0", port) && is_taken("", port));
        assert!(!is_taken("127.0.0.2", port));
        drop(listener);
        assert!(!is_taken("127.0.0.1", port));
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(is_taken("::1", port) && is_taken("::", port) && is_taken("", port));
        assert!(!is_taken("127.0.0.1", port) && !is_taken("0.0.0.0", port));
    }

    #[test]
    fn addresses_overlap_when_one_is_any() {
        for (one, other, expected) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("0.0.0.0", "127.0.0.1", true),
            ("", "10.0.0.1", true),
            ("::", "127.0.0.1", true),
            ("127.0.0.1", "10.0.0.1", false),
        ] {
            assert_eq!(overlap(one, other), expected, "{one} {other}");
        }
    }
}
