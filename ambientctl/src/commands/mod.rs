//! One file a command: its words as `Args`, and `run`, which gives how it ended.

pub mod completions;
pub mod config;
pub mod health;
