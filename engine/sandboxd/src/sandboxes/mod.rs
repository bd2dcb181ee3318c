//! Sandboxes as clients know them: made, found, listed, paused, ended in time.

mod keeper;
mod listing;
mod meter;
mod registry;
mod sandbox;
pub(crate) mod start_command;

pub(crate) use listing::Query;
pub(crate) use registry::{CreateFailure, Registry, Wish};
pub(crate) use sandbox::{Alive, Behaviour, LONGEST, Reached, Sandbox, TransitionFailure};
