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

pub use project::{Loaded, Loader, Project};

/// The compose file of an installation, as it ships.
pub const SHIPPED: &str = include_str!("../../../compose/docker-compose.yml");
