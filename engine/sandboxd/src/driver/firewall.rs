//! What sandboxes reach of this machine, as rules of its firewall in chains of our own.
//!
//! Whatever they are made of, sandboxes with a network of their own reach neither the host (name servers on it apart) nor link-local addresses,
//! where clouds keep their keys.

use std::io;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

/// Addresses that no sandbox reaches.
pub(crate) const LINK_LOCAL: &str = "169.254.0.0/16";

/// The addresses of sandboxes of namespaces, of all hosts on this machine.
pub(crate) const NAMESPACES: &str = "10.233.0.0/16";

/// Interfaces behind which machines and containers of this machine are, whose ports are open to nobody else: those of sandboxes among them.
const BRIDGES: [&str; 6] = ["asd-+", "docker0", "br-+", "podman+", "cni+", "virbr+"];

/// Why a tool of the system did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolFailure {
    #[error("cannot start `{program}`")]
    Start {
        program: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("`{program}` refused: {said}")]
    Refused { program: &'static str, said: String },
}

/// A chain of our own, and the chain that leads to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hook<'a> {
    pub(crate) table: &'a str,
    pub(crate) from: &'a str,
    pub(crate) chain: &'a str,
}

/// The lines of a chain for packets to this machine: of those that match `who` (`-s 10.0.0.0/8`, `-i bridge`) only questions to name servers pass.
pub(crate) fn only_name_servers(chain: &str, who: &str) -> String {
    format!(
        "-A {chain} {who} -p udp --dport 53 -j ACCEPT\n\
         -A {chain} {who} -p tcp --dport 53 -j ACCEPT\n\
         -A {chain} {who} -j DROP\n"
    )
}

/// The lines of a chain that keep what matches `who` away from the containers and virtual machines of this machine: our rules are asked before those of
/// whoever made them.
pub(crate) fn no_bridges(chain: &str, who: &str) -> String {
    BRIDGES.map(|bridge| format!("-A {chain} {who} -o {bridge} -j DROP\n")).concat()
}

/// Makes this machine deaf and mute in IPv6 on an interface to sandboxes, which our rules say nothing about: every interface has an address of its own
/// in it, and the machine answers on that to all of its addresses. To be called before the interface is switched on.
pub(crate) fn silence_ipv6(interface: &str) -> Result<(), ToolFailure> {
    const SETTINGS: &str = "/proc/sys/net/ipv6/conf";
    let file = format!("{SETTINGS}/{interface}/disable_ipv6");
    let has_none = || !std::path::Path::new(SETTINGS).exists();
    let is_off = || std::fs::read_to_string(&file).is_ok_and(|off| off.trim() == "1");
    match std::fs::write(&file, "1") {
        Err(_cannot_be_written) if has_none() || is_off() => Ok(()),
        other => other.map_err(|source| ToolFailure::Start { program: SETTINGS, source }),
    }
}

/// Adds rules, as `iptables-save` writes them: all or none.
pub(crate) async fn add(rules: &str) -> Result<(), ToolFailure> {
    run("iptables-restore", &["--noflush", "--wait"], rules).await
}

/// Takes chains away, and what leads to them. Those that are not there are no failure.
pub(crate) async fn remove(hooks: &[Hook<'_>]) {
    for Hook { table, from, chain } in hooks {
        for words in [["-D", from, "-j", chain].as_slice(), &["-F", chain], &["-X", chain]] {
            let words = [["--wait", "-t", table].as_slice(), words].concat();
            if run("iptables", &words, "").await.is_err() {
                break; // It is not there.
            }
        }
    }
}

/// Runs a tool of the system to its end.
pub(crate) async fn run(program: &'static str, words: &[&str], input: &str) -> Result<(), ToolFailure> {
    #[expect(clippy::disallowed_methods, reason = "the system's own tools for interfaces and rules")]
    let mut command = tokio::process::Command::new(program);
    let failed = |source| ToolFailure::Start { program, source };
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends early says why on standard error.
        let _may_not_read = stdin.write_all(input.as_bytes()).await;
    }
    let ended = child.wait_with_output().await.map_err(failed)?;
    if ended.status.success() {
        return Ok(());
    }
    Err(ToolFailure::Refused { program, said: String::from_utf8_lossy(&ended.stderr).trim().to_owned() })
}
