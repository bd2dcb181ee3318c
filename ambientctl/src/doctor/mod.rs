//! What `ambientctl doctor` looks at: an installation, a repository's `.env` or the environment of an engine's container, with
//! everything that they need.
//!
//! The way is one direction: a [`Target`] is what an engine there gets to see; each of the `checks` looks at one side of it and
//! puts what it sees into its [`Sink`] as [`Finding`]s; the `runner` runs the checks side by side, each with a time limit of its
//! own, and scrubs every text that leaves it; `render` shows the [`Report`]; `fix` mends what can be mended safely.
//!
//! What it promises: a failure has an id, says what was seen, why that matters, and one remedy that can be pasted; no secret is
//! in any of it; a part that does not answer delays nothing beyond its own limit; nothing is changed, except that a probe object
//! is stored in the bucket and removed again, and a probe stream in Redis likewise.

mod checks;
mod context;
mod finding;
mod fix;
mod render;
mod report;
mod runner;
pub(crate) mod target;

pub use context::{Context, Wishes};
pub use finding::{Finding, Level, Remedy, Sink};
pub use fix::{Fix, apply};
pub use render::{Look, json, text};
pub use report::Report;
pub use runner::{ids, run};
pub(crate) use target::chain;
pub use target::{Place, Target};
