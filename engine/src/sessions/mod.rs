//! Sessions: what they may become, who runs them, and how they end.

mod boot;
pub mod change;
mod recover;
mod send;
pub mod service;
pub mod state;
pub mod supervise;
pub mod wishes;
pub mod writer;
