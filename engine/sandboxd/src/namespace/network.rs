//! The network of sandboxes.
//!
//! Each sandbox has a network of its own. Its one way out is a pair of virtual interfaces, behind address translation: it reaches what the
//! host reaches, but neither the host itself, nor other sandboxes, nor link-local addresses (where clouds keep their keys). Nothing outside
//! reaches it by address: its ports are carried by its agent.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};

use nix::fcntl::{Flock, FlockArg};

use crate::driver::firewall::{self, Hook, LINK_LOCAL, NAMESPACES, ToolFailure};
use crate::driver::{NetworkFailure, NetworkMode, tell_closed};

/// Hosts on one machine that can have a block of addresses each.
const BLOCKS: u8 = 16;

/// Sandboxes that one block has room for: four addresses each.
const SLOTS: u16 = 1024;

/// How sandboxes are connected.
#[derive(Debug)]
pub(crate) enum Network {
    /// They are on the host's network.
    Host,
    /// They have networks of their own, and no way out.
    Closed,
    /// They have networks of their own, and a way out.
    Translated(Arc<Block>),
}

/// A block of addresses and the rules for it.
#[derive(Debug)]
pub(crate) struct Block {
    number: u8,
    slots: Mutex<Slots>,
    _lock: Flock<fs::File>,
}

#[derive(Debug, Default)]
struct Slots {
    taken: BTreeSet<u16>,
    next: u16,
}

/// The addresses of one sandbox, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    block: Arc<Block>,
    slot: u16,
}

impl Network {
    /// Makes ready what sandboxes need. Without a way out they are closed, and the log says why.
    pub(crate) async fn set_up(mode: NetworkMode) -> Self {
        match mode {
            NetworkMode::Host => Self::Host,
            NetworkMode::Private => match Block::take().await {
                Ok(block) => Self::Translated(Arc::new(block)),
                Err(error) => {
                    tell_closed(&error);
                    Self::Closed
                }
            },
        }
    }

    /// Whether sandboxes leave the host's network.
    pub(crate) fn is_own(&self) -> bool {
        !matches!(self, Self::Host)
    }

    /// Connects the network that this process is in, if there is a way out.
    pub(crate) async fn connect(&self, process: i32) -> Result<Option<Lease>, NetworkFailure> {
        match self {
            Self::Host | Self::Closed => Ok(None),
            Self::Translated(block) => Block::connect(block, process).await.map(Some),
        }
    }

    /// Name servers for sandboxes. One on the host's loopback is of no use to them.
    pub(crate) fn resolv_conf(&self) -> String {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let own = read("/etc/resolv.conf");
        match self {
            Self::Host => own,
            Self::Closed | Self::Translated(_) => reachable(&own)
                .or_else(|| reachable(&read("/run/systemd/resolve/resolv.conf")))
                .unwrap_or_else(|| "nameserver 1.1.1.1\nnameserver 8.8.8.8\n".to_owned()),
        }
    }

    /// Takes the rules away.
    pub(crate) async fn tear_down(&self) {
        if let Self::Translated(block) = self {
            block.remove_rules().await;
        }
    }
}

/// The lines without name servers on loopback; `None` when no name server is left.
fn reachable(text: &str) -> Option<String> {
    let server = |line: &str| line.strip_prefix("nameserver").map(|server| server.trim().parse::<IpAddr>());
    let is_lost = |line: &&str| matches!(server(line), Some(Ok(address)) if address.is_loopback());
    let kept: Vec<_> = text.lines().filter(|line| !is_lost(line)).collect();
    kept.iter().any(|line| server(line).is_some()).then(|| kept.join("\n") + "\n")
}

impl Block {
    async fn take() -> Result<Self, NetworkFailure> {
        let (number, lock) =
            (0..BLOCKS).find_map(|number| Some((number, lock(number)?))).ok_or(NetworkFailure::NoBlock(BLOCKS))?;
        let block = Self { number, slots: Mutex::default(), _lock: lock };
        // What a host that died left behind.
        block.remove_rules().await;
        block.make_rules().await?;
        Ok(block)
    }

    /// `10.233.N.0/20`.
    fn pool(&self) -> String {
        format!("{}/20", Ipv4Addr::new(10, 233, self.number * 16, 0))
    }

    fn chain(&self) -> String {
        format!("AMBIENT-SBX-{}", self.number)
    }

    async fn make_rules(&self) -> Result<(), NetworkFailure> {
        if fs::read_to_string("/proc/sys/net/ipv4/ip_forward").is_ok_and(|on| on.trim() == "0") {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1")
                .map_err(|source| ToolFailure::Start { program: "/proc/sys/net/ipv4/ip_forward", source })?;
        }
        let (chain, pool) = (self.chain(), self.pool());
        let name_servers = firewall::only_name_servers(&format!("{chain}-IN"), &format!("-s {pool}"));
        let bridges = firewall::no_bridges(&chain, &format!("-s {pool}"));
        let rules = format!(
            "*nat\n:{chain} - [0:0]\n\
             -A {chain} -s {pool} ! -d {pool} -j MASQUERADE\n\
             -I POSTROUTING -j {chain}\nCOMMIT\n\
             *filter\n:{chain} - [0:0]\n:{chain}-IN - [0:0]\n\
             -A {chain} -s {pool} -d {NAMESPACES} -j DROP\n\
             -A {chain} -s {pool} -d {LINK_LOCAL} -j DROP\n\
             {bridges}\
             -A {chain} -s {pool} -j ACCEPT\n\
             -A {chain} -d {pool} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
             -A {chain} -d {pool} -j DROP\n\
             {name_servers}\
             -I FORWARD -j {chain}\n-I INPUT -j {chain}-IN\nCOMMIT\n"
        );
        Ok(firewall::add(&rules).await?)
    }

    async fn remove_rules(&self) {
        let chain = self.chain();
        let inner = format!("{chain}-IN");
        let hooks = [("nat", "POSTROUTING", &chain), ("filter", "FORWARD", &chain), ("filter", "INPUT", &inner)];
        firewall::remove(&hooks.map(|(table, from, chain)| Hook { table, from, chain })).await;
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In turn, so that a slot rests before it is used again: the kernel takes old interfaces away a little later.
    fn slot(&self) -> Option<u16> {
        let mut slots = self.slots();
        let next = slots.next;
        let free = (0..SLOTS).map(|step| (next + step) % SLOTS).find(|slot| !slots.taken.contains(slot))?;
        slots.taken.insert(free);
        slots.next = free + 1;
        Some(free)
    }

    fn address(&self, slot: u16, host: u8) -> Ipv4Addr {
        let [high, low] = (slot * 4).to_be_bytes();
        Ipv4Addr::new(10, 233, self.number * 16 + high, low + host)
    }

    async fn connect(block: &Arc<Self>, process: i32) -> Result<Lease, NetworkFailure> {
        let slot = block.slot().ok_or(NetworkFailure::NoSlot(SLOTS))?;
        let lease = Lease { block: Arc::clone(block), slot };
        let name = format!("asb{}-{slot}", block.number);
        let (outside, inside) = (block.address(slot, 1), block.address(slot, 2));
        let pair = format!("link add {name} type veth peer name eth0 netns {process}\n");
        firewall::run("ip", &["-batch", "-"], &pair).await?;
        firewall::silence_ipv6(&name)?;
        let here = format!("addr add {outside}/30 dev {name}\nlink set {name} up\n");
        firewall::run("ip", &["-batch", "-"], &here).await?;
        let there = format!("addr add {inside}/30 dev eth0\nlink set eth0 up\nroute add default via {outside}\n");
        let network = format!("--net=/proc/{process}/ns/net");
        firewall::run("nsenter", &[&network, "ip", "-batch", "-"], &there).await?;
        Ok(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.block.slots().taken.remove(&self.slot);
    }
}

/// A block is a host's as long as it holds the lock; the kernel lets go of it when the host dies.
fn lock(number: u8) -> Option<Flock<fs::File>> {
    let file = fs::File::create(format!("/run/ambient-sandboxd-{number}.lock")).ok()?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).ok()
}

#[cfg(test)]
mod tests {
    use super::reachable;

    #[test]
    fn name_servers_on_loopback_are_left_out() {
        assert_eq!(reachable("nameserver 127.0.0.53\noptions edns0\n"), None);
        let both = "search lan\nnameserver 127.0.0.1\nnameserver 10.0.0.2\n";
        assert_eq!(reachable(both).as_deref(), Some("search lan\nnameserver 10.0.0.2\n"));
        assert_eq!(reachable(""), None);
    }
}
