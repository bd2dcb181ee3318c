//! The commands, a file each. What they share about places and stacks is beside them.

pub mod completions;
pub mod config;
pub mod doctor;
pub mod health;
pub mod install;
pub mod lifecycle;
pub mod logs;
pub mod open;
mod place;
mod stack;
pub mod status;
pub mod template;
pub mod uninstall;
pub mod verify;
pub mod version;

pub use place::docker_failure;
