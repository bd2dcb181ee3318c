//! Sandboxes as containers of this machine's Docker engine: made, reached, paused, ended; and images as the layers of templates.
//!
//! A container's process 1 is the agent, in a program that is mounted into it. Everything that keeps sandboxes apart is Docker's.

mod engine;
mod images;
mod machine;

pub(crate) use engine::Containers;
pub(crate) use images::ImageFailure;
pub(crate) use machine::Machine;
