//! Sandboxes as namespaces of this machine: started, reached, paused, ended.

mod control_groups;
mod machine;
mod network;
mod stop;

pub(crate) use control_groups::ControlGroups;
pub(crate) use machine::{Launcher, Machine};
pub(crate) use network::Network;
