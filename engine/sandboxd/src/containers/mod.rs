//! Sandboxes as containers of this machine's Docker engine: made, reached, paused, ended; and images as the layers of templates.
//!
//! A container's process 1 is the agent, in a program that is mounted into it. What keeps sandboxes apart is Docker's, but for the rules of the
//! firewall and the agent's own memory.

mod engine;
mod images;
mod machine;
mod network;

pub(crate) use engine::Containers;
pub(crate) use images::ImageFailure;
pub(crate) use machine::Machine;
