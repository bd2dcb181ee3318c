//! An E2B-compatible sandbox host for one machine: its API, its data plane, and the sandboxes themselves.
//!
//! [`Host::start`] serves both planes on one address. E2B's own SDKs, unmodified, make sandboxes there when `E2B_API_URL` and
//! `E2B_SANDBOX_URL` are that address. A sandbox is a set of namespaces of this machine with a root of its own, or a container of its Docker
//! engine, and in it an agent, which is the same program started once more (see [`agent`]).
//!
//! What a sandbox keeps apart and what it does not stands in the crate's README. Elsewhere than on Linux this crate is empty.

#![cfg(target_os = "linux")]

pub mod agent;
mod clock;
mod config;
mod containers;
mod control;
mod data;
mod driver;
mod folders;
mod host;
mod names;
mod namespace;
mod sandboxes;
mod serve;
mod templates;

pub use config::Config;
pub use driver::{Driver, NetworkMode};
pub use host::{Host, StartError};

/// The version of envd whose behaviour the agent has.
pub(crate) const ENVD_VERSION: &str = "0.6.13";

/// How far the host and its agents read a body that was refused.
pub(crate) const READ_ON: ambient_http::ReadOn =
    ambient_http::ReadOn { bytes: 1 << 20, time: std::time::Duration::from_secs(1) };

/// An error and what caused it, on one line.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    agent::with_causes(error)
}
