//! E2B's protocol for clients and servers.
//!
//! E2B serves sandboxes over two planes: a REST *control plane* that makes, lists and ends them, and a *data plane* for each sandbox, spoken by an
//! agent inside it (*envd*): Connect RPC with JSON messages for commands and files, plain HTTP for file contents.
//!
//! [`protocol`] holds what travels, and nothing that acts.

pub mod protocol;
