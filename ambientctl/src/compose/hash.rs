//! The hash by which Docker Compose tells whether a container is still what its files say.
//!
//! It stands on the container as the label `com.docker.compose.config-hash`. Ours is the same, so that neither tool makes a
//! container anew that the other made.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};

pub use super::render::compact;

/// The text that is hashed for a service in its JSON form: without what no container shows.
pub fn hashed_text(service: &Value) -> String {
    let mut service = service.clone();
    if let Some(map) = service.as_object_mut() {
        for key in ["build", "pull_policy", "scale", "depends_on", "profiles"] {
            map.shift_remove(key);
        }
        if let Some(deploy) = map.get_mut("deploy").and_then(Value::as_object_mut) {
            deploy.shift_remove("replicas");
        }
    }
    compact(&service)
}

/// The hash of a text, as hex digits.
pub fn sha256(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text.as_bytes()) {
        write!(hex, "{byte:02x}").expect("a String takes whatever is written");
    }
    hex
}
