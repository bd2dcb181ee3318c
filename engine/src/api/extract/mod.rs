//! From bytes to types: ids of the path, the query, and JSON bodies read field by field.
//!
//! Whatever does not fit is refused here, in the API's one error shape, with the name of the part and what is accepted.

mod body;
mod fields;
mod path;
mod query;

pub use body::{Body, EVENTS_BODY_BYTES, SMALL_BODY_BYTES, body_bytes};
pub use fields::{Fields, Patch, at, kind_of, text};
pub use path::{Id, Noun, SubId, noun_of};
pub use query::Query;
