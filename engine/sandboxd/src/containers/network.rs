//! The network of sandboxes that are containers.
//!
//! As with namespaces: a sandbox reaches other machines, but neither the host, nor other sandboxes, nor link-local addresses. Address translation and
//! name servers are Docker's, and so is that bridges do not reach each other; the rest are rules of ours.

use std::collections::HashMap;

use bollard::Docker;
use bollard::models::NetworkCreateRequest;

use super::engine::is_missing;
use crate::driver::firewall::{self, Hook, LINK_LOCAL, NAMESPACES};
use crate::driver::{NetworkFailure, NetworkMode, tell_closed};

/// How containers are connected.
#[derive(Debug)]
pub(super) enum Network {
    /// They are on the host's network.
    Host,
    /// They have networks of their own, and no way out.
    Closed,
    /// They are on a bridge of ours.
    Bridge(Bridge),
}

/// A network of this host on the engine, and the rules for it.
#[derive(Debug)]
pub(super) struct Bridge {
    /// Its name on the engine.
    name: String,
    /// Its interface on this machine, and what chains of rules are named after.
    interface: String,
}

impl Network {
    /// Makes ready what sandboxes need, in place of what an earlier host left. Without a way out they are closed, and the log says why.
    pub(super) async fn set_up(
        docker: &Docker,
        mode: NetworkMode,
        host: &str,
        labels: HashMap<String, String>,
    ) -> Self {
        let bridge = Bridge { name: format!("ambient-sandboxd-{host}"), interface: format!("asd-{host}") };
        bridge.remove(docker).await;
        match mode {
            NetworkMode::Host => Self::Host,
            NetworkMode::Private => match bridge.make(docker, labels).await {
                Ok(()) => Self::Bridge(bridge),
                Err(error) => {
                    tell_closed(&error);
                    bridge.remove(docker).await;
                    Self::Closed
                }
            },
        }
    }

    /// What the engine calls the network of a sandbox.
    pub(super) fn of(&self, internet: bool) -> &str {
        match self {
            Self::Bridge(bridge) if internet => &bridge.name,
            Self::Host if internet => "host",
            Self::Host | Self::Closed | Self::Bridge(_) => "none",
        }
    }

    /// Takes away what was made.
    pub(super) async fn tear_down(&self, docker: &Docker) {
        if let Self::Bridge(bridge) = self {
            bridge.remove(docker).await;
        }
    }
}

impl Bridge {
    /// Chains are called this, and this with `-IN`.
    fn chain(&self) -> String {
        format!("AMBIENT-{}", self.interface)
    }

    /// The rules come first: there is no moment in which a sandbox has a network without them.
    async fn make(&self, docker: &Docker, labels: HashMap<String, String>) -> Result<(), NetworkFailure> {
        firewall::add(&self.rules()).await?;
        let options = [
            ("com.docker.network.bridge.enable_icc", "false"),
            ("com.docker.network.bridge.name", self.interface.as_str()),
        ];
        let request = NetworkCreateRequest {
            name: self.name.clone(),
            driver: Some("bridge".to_owned()),
            options: Some(options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            labels: Some(labels),
            ..NetworkCreateRequest::default()
        };
        docker.create_network(request).await?;
        firewall::silence_ipv6(&self.interface)?;
        Ok(())
    }

    /// Docker runs through `DOCKER-USER` before its own rules, and leaves what is in there alone.
    fn rules(&self) -> String {
        let (chain, interface) = (self.chain(), &self.interface);
        let bridges = firewall::no_bridges(&chain, &format!("-i {interface}"));
        let name_servers = firewall::only_name_servers(&format!("{chain}-IN"), &format!("-i {interface}"));
        format!(
            "*filter\n:{chain} - [0:0]\n:{chain}-IN - [0:0]\n\
             -A {chain} -i {interface} -o {interface} -j DROP\n\
             -A {chain} -i {interface} -d {NAMESPACES} -j DROP\n\
             -A {chain} -i {interface} -d {LINK_LOCAL} -j DROP\n\
             {bridges}\
             {name_servers}\
             -I DOCKER-USER -j {chain}\n-I INPUT -j {chain}-IN\nCOMMIT\n"
        )
    }

    async fn remove(&self, docker: &Docker) {
        match docker.remove_network(&self.name).await {
            Err(error) if !is_missing(&error) => {
                tracing::warn!(%error, network = self.name, "the network of sandboxes stays");
            }
            _ => {}
        }
        let (chain, inner) = (self.chain(), format!("{}-IN", self.chain()));
        let hooks = [("DOCKER-USER", &chain), ("INPUT", &inner)];
        firewall::remove(&hooks.map(|(from, chain)| Hook { table: "filter", from, chain })).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{Bridge, Network};

    fn bridge() -> Bridge {
        Bridge { name: "ambient-sandboxd-00112233".to_owned(), interface: "asd-00112233".to_owned() }
    }

    #[test]
    fn a_bridge_lets_nothing_through_to_this_machine_but_questions_to_name_servers() {
        insta::assert_snapshot!(bridge().rules(), @r"
        *filter
        :AMBIENT-asd-00112233 - [0:0]
        :AMBIENT-asd-00112233-IN - [0:0]
        -A AMBIENT-asd-00112233 -i asd-00112233 -o asd-00112233 -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -d 10.233.0.0/16 -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -d 169.254.0.0/16 -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -o asd-+ -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -o docker0 -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -o br-+ -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -o podman+ -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -o cni+ -j DROP
        -A AMBIENT-asd-00112233 -i asd-00112233 -o virbr+ -j DROP
        -A AMBIENT-asd-00112233-IN -i asd-00112233 -p udp --dport 53 -j ACCEPT
        -A AMBIENT-asd-00112233-IN -i asd-00112233 -p tcp --dport 53 -j ACCEPT
        -A AMBIENT-asd-00112233-IN -i asd-00112233 -j DROP
        -I DOCKER-USER -j AMBIENT-asd-00112233
        -I INPUT -j AMBIENT-asd-00112233-IN
        COMMIT
        ");
        // The kernel's limits.
        assert!(bridge().interface.len() < 16);
        assert!(bridge().chain().len() + "-IN".len() < 29);
    }

    #[test]
    fn a_sandbox_without_internet_has_no_network() {
        assert_eq!(Network::Bridge(bridge()).of(true), "ambient-sandboxd-00112233");
        assert_eq!(Network::Bridge(bridge()).of(false), "none");
        assert_eq!(Network::Closed.of(true), "none");
        assert_eq!(Network::Host.of(true), "host");
        assert_eq!(Network::Host.of(false), "none");
    }
}
