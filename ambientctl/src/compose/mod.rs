//! The stack as Docker Compose sees it: both files read, their variables put in, merged, and brought into one form.
//!
//! The way is Compose's own, so that `docker compose` and `ambientctl` agree on what is wanted: `yaml` reads text into an
//! untyped tree, `interpolate` puts values in, `merge` lays the override over the base, `canonical` brings short forms
//! into long ones, `typed` checks each value against the `schema` and gives the model; `render` and `hash` only read
//! that. Whatever we do not understand is refused by name, never passed over. Nothing here changes a file.

mod canonical;
mod error;
pub mod hash;
mod interpolate;
mod mapping;
mod merge;
mod mounts;
pub(crate) mod node;
mod normalise;
mod ports;
mod project;
pub mod render;
mod resets;
mod scalar;
mod schema;
mod sources;
mod typed;
mod units;
mod words;
pub(crate) mod yaml;

pub use error::ComposeError;

/// A duration as the model prints it; `None` for what is none, or is less than nothing.
pub fn duration(text: &str) -> Option<std::time::Duration> {
    units::duration(text).and_then(|nanoseconds| u64::try_from(nanoseconds).ok()).map(std::time::Duration::from_nanos)
}

pub use project::{Loaded, Loader, Project};

/// The compose file of an installation, as it ships.
pub const SHIPPED: &str = include_str!("../../../compose/docker-compose.yml");
