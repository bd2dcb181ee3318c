//! What Ambient's servers (the engine, the host of sandboxes and the agents in them) do alike with HTTP.

mod unread;

pub use unread::{ReadOn, read_unread};
