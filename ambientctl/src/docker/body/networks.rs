//! Where a container is reached: its networks, the names that it has and knows there, and its ports.

use std::collections::HashMap;

use bollard::models::{EndpointIpamConfig, EndpointSettings, PortBinding};

use super::super::service::{self, Service};
use super::super::{Wanted, WantedService};

/// By priority, then by name: the first one is the container's own.
pub(super) fn endpoints(wanted: &Wanted, service: &WantedService) -> Vec<(String, EndpointSettings)> {
    let links = links(wanted, service);
    if service.service.network_mode.is_some() {
        return Vec::new();
    }
    let mut networks: Vec<(&String, Option<&service::ServiceNetwork>)> =
        service.service.networks.iter().map(|(key, network)| (key, network.as_ref())).collect();
    networks.sort_by_key(|(key, network)| (std::cmp::Reverse(network.map_or(0, |network| network.priority)), *key));
    networks
        .into_iter()
        .enumerate()
        .map(|(place, (key, network))| {
            let mut aliases = vec![service.container.clone(), service.name.clone()];
            let mut settings = EndpointSettings { links: links.clone(), ..EndpointSettings::default() };
            if place == 0 {
                settings.mac_address.clone_from(&service.service.mac_address);
            }
            if let Some(network) = network {
                aliases.extend(network.aliases.iter().cloned());
                if network.mac_address.is_some() {
                    settings.mac_address.clone_from(&network.mac_address);
                }
                settings.driver_opts = (!network.driver_opts.is_empty())
                    .then(|| network.driver_opts.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
                let addressed = network.ipv4_address.is_some()
                    || network.ipv6_address.is_some()
                    || !network.link_local_ips.is_empty();
                settings.ipam_config = addressed.then(|| EndpointIpamConfig {
                    ipv4_address: network.ipv4_address.clone(),
                    ipv6_address: network.ipv6_address.clone(),
                    link_local_ips: (!network.link_local_ips.is_empty()).then(|| network.link_local_ips.clone()),
                });
            }
            settings.aliases = Some(aliases);
            let name = service.network_names.get(key).cloned().unwrap_or_else(|| key.clone());
            (name, settings)
        })
        .collect()
}

/// Containers by the names under which this one knows them: each linked service by the name that the link gives it, and by
/// the names that its containers have.
fn links(wanted: &Wanted, service: &WantedService) -> Option<Vec<String>> {
    let mut links = Vec::new();
    for link in &service.service.links {
        let (name, alias) = link.split_once(':').unwrap_or((link, link));
        let Some(other) = wanted.service(name) else { continue };
        for known_as in [alias, &format!("{name}-1"), &format!("{}-{name}-1", wanted.project)] {
            links.push(format!("{}:{known_as}", other.container));
        }
    }
    for link in &service.service.external_links {
        let (container, alias) = link.split_once(':').unwrap_or((link, link));
        links.push(format!("{container}:{alias}"));
    }
    (!links.is_empty()).then_some(links)
}

/// Ports that it listens on, published or not.
pub(super) fn exposed(service: &Service) -> Vec<String> {
    let with_protocol = |port: &str| if port.contains('/') { port.to_owned() } else { format!("{port}/tcp") };
    let mut ports: Vec<String> = service.ports.iter().map(port_key).collect();
    ports.extend(service.expose.iter().map(|port| with_protocol(port)));
    ports.sort();
    ports.dedup();
    ports
}

fn port_key(port: &service::Port) -> String {
    format!("{}/{}", port.target, port.protocol.as_deref().unwrap_or("tcp"))
}

/// Ports of the machine that lead to it.
pub(super) fn bindings(service: &Service) -> HashMap<String, Option<Vec<PortBinding>>> {
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in &service.ports {
        let binding = PortBinding {
            host_ip: Some(port.host_ip.clone().unwrap_or_default()),
            host_port: Some(port.published.clone().unwrap_or_default()),
        };
        bindings.entry(port_key(port)).or_default().get_or_insert_default().push(binding);
    }
    bindings
}
