//! The engine of Ambient: HTTP API, sessions, agent loop, tools, store, broker.
//!
//! request → `api` → `sessions` → `agent` → `tools` → `backend` → `ambient-media` → ffmpeg; every fact becomes an event,
//! appended to the store by the one writer of its session, then published by the broker.

pub mod agent;
pub mod api;
pub mod backend;
pub mod broker;
pub mod built_in;
pub mod clock;
mod engine;
pub mod events;
pub mod ids;
pub mod ingest;
pub mod lifecycle;
pub mod outbound;
pub mod secrets;
pub mod sessions;
pub mod store;
pub mod tools;

pub use engine::{Engine, StartError, start};
