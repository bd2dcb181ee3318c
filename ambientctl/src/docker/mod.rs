//! The containers of an installation, by way of the Docker API.
//!
//! `address` finds the engine and `connection` speaks with it, in three different words when it cannot: missing, refused,
//! silent. `wanted` is what the compose files ask for, `found` what is there; the pure [`crate::plan`] compares the two, and
//! `apply` does what it says, in the order of the dependencies, with the old containers kept aside until the new ones are
//! well. What we make carries the labels by which Docker Compose knows its own, and what Compose made is ours too. Volumes
//! and containers that no file asks for are never removed.

mod address;
mod apply;
mod body;
mod connection;
mod credentials;
mod error;
mod facts;
mod found;
mod grants;
mod logs;
mod ports;
mod pull;
mod resources;
mod service;
mod ssh;
mod things;
mod wait;
mod wanted;

pub use address::{Address, Origin, addresses};
pub use apply::{Journal, apply, remove, stop};
pub use connection::Connection;
pub use error::DockerError;
pub use facts::{EngineFacts, ImageFacts, engine_facts, image_facts};
pub use found::{Found, FoundContainer, FoundNetwork, State, containers_of, look};
pub use logs::{LogWishes, Tail, follow, last_lines};
pub use ports::check_ports;
pub(crate) use ports::is_taken;
pub use pull::pull;
pub use resources::{WantedNetwork, WantedVolume};
pub use things::{networks_of, remove_network, remove_volume, volume_exists, volumes_of};
pub use wait::{Patience, wait};
pub use wanted::{Condition, Dependency, Hashes, PullPolicy, Wanted, WantedService};

/// What every label of Docker Compose begins with.
pub(crate) const LABEL: &str = "com.docker.compose.";

/// The label by which a container tells which secrets and configs were put into it.
pub(crate) const GRANTED: &str = "ambient.granted-hash";
