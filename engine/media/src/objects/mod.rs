//! Objects in an S3-compatible bucket: what is stored under which key, and how it gets there and back.
//!
//! What it promises:
//!
//! - **Nothing half stored.** A large file goes up in parts of one fixed size; whatever ends the upload early (an error, a cancelled or
//!   dropped caller) aborts it, and what was stored is measured before a success is told.
//! - **Faults are told apart.** A missing object, a missing permission, a wrong clock, a wrong region and a dead network are different
//!   errors, each with what helps.
//! - **Any store.** Path style on an endpoint of one's own, no checksums that a store could refuse, no signed chunks, and links whose
//!   signature covers the `host` header alone, so that any client can follow them.
//!
//! What lies in the bucket is addressed by [`ObjectKey`]; a link to it is made for one request and never stored.

mod body;
mod client;
mod config;
mod download;
mod error;
mod faults;
mod key;
mod link;
mod multipart;
mod store;

pub use config::ObjectStoreConfig;
pub use error::{ObjectError, Operation};
pub use key::{BadObjectKey, ObjectKey};
pub use link::PresignedUrl;
pub(crate) use store::content_range;
pub use store::{About, Listed, ObjectFacts, ObjectReader, ObjectStore};
