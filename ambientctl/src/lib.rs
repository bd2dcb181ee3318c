//! The operator's side of Ambient.
//!
//! Commands that an operator types, and how their answers and failures are shown. The crate knows no engine from inside:
//! it reads settings through the one catalogue and talks HTTP to a running engine. It reads no environment by itself;
//! `main` hands it in, so that a command can be tested with nothing but data.

pub mod asking;
pub mod commands;
pub mod compose;
pub mod docker;
pub mod doctor;
pub mod engine_client;
pub mod environment;
pub mod files;
pub mod mcp;
pub mod output;
pub mod plan;
pub mod signals;
