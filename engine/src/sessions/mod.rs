//! Sessions: what they may become, who runs them, and how they end.

pub mod change;
pub mod state;
pub mod wishes;
pub mod writer;
