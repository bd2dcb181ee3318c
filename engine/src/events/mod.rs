//! Every fact of a session is an event: appended to the store by the one writer of that session, then published by the
//! broker. Streams and lists only read events.

pub mod body;
pub mod stream;
pub mod wire;
