//! The client against a server that breaks the protocol in every way that was ever seen, and some more.

mod control;
mod server;
mod streams;
mod transfers;
