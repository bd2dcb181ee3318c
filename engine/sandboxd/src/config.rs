//! What a host is started with.

use std::net::SocketAddr;
use std::path::PathBuf;

use camino::Utf8PathBuf;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::driver::{Driver, NetworkMode};
use crate::names::hex;

/// Settings of a host.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where both planes are served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The keys that are let in, each a team of its own.
    pub keys: Vec<SecretString>,
    /// Where templates and sandboxes are kept. Used by one host at a time.
    pub data_folder: Utf8PathBuf,
    /// How many sandboxes may exist at once, paused ones too.
    pub max_sandboxes: usize,
    /// The network of sandboxes.
    pub network: NetworkMode,
    /// What sandboxes are made of.
    pub driver: Driver,
    /// The program that calls [`agent::main`](crate::agent::main) for the word [`AGENT_WORD`](crate::agent::AGENT_WORD). Usually this one.
    pub agent_program: PathBuf,
}

impl Config {
    /// The usual settings: this program's own agent, a hundred sandboxes, networks of their own.
    pub fn new(listen: SocketAddr, keys: Vec<SecretString>, data_folder: Utf8PathBuf) -> Self {
        Self {
            listen,
            keys,
            data_folder,
            max_sandboxes: 100,
            network: NetworkMode::default(),
            driver: Driver::default(),
            agent_program: PathBuf::from("/proc/self/exe"),
        }
    }
}

/// A key's team. Its name is made of the key's hash, so that templates stay with their key whatever the order of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) struct Team(String);

impl Team {
    fn of(key: &str) -> Self {
        let digest = Sha256::digest(key);
        Self(format!("team-{}", hex(&digest[..6])))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

/// The teams, by hashes of their keys: how long a look-up takes tells nothing about a key.
#[derive(Debug)]
pub(crate) struct Teams(Vec<([u8; 32], Team)>);

/// What keys begin with.
pub(crate) const KEY_PREFIX: &str = "e2b_";

impl Teams {
    pub(crate) fn new(keys: &[SecretString]) -> Self {
        let team = |key: &SecretString| (hash(key.expose_secret()), Team::of(key.expose_secret()));
        Self(keys.iter().map(team).collect())
    }

    pub(crate) fn find(&self, key: &str) -> Option<Team> {
        let wanted = hash(key);
        self.0.iter().find(|(known, _team)| *known == wanted).map(|(_known, team)| team.clone())
    }
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::Teams;

    #[test]
    fn each_key_is_a_team() {
        let teams = Teams::new(&[SecretString::from("e2b_0"), SecretString::from("e2b_1")]);
        assert_ne!(teams.find("e2b_0"), None);
        assert_ne!(teams.find("e2b_0"), teams.find("e2b_1"));
        assert_eq!(teams.find("e2b_2"), None);
        assert!(!format!("{teams:?}").contains("e2b_0"));
    }
}
