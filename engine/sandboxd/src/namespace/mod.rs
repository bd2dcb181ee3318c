//! Sandboxes as namespaces of this machine: started, reached, paused, ended.

mod commands;
mod control_groups;
mod dial;
mod machine;
mod network;
mod stop;

pub(crate) use commands::{Output, RunFailure, ShellCommand};
pub(crate) use control_groups::{ControlGroups, Limits, Usage};
pub(crate) use dial::{Dial, DialFailure};
pub(crate) use machine::{HOSTNAME, Launch, LaunchFailure, Launcher, Machine, START};
pub(crate) use network::Network;
pub use network::NetworkMode;
