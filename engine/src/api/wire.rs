//! Pieces that many answers share: times, metadata, and what a deletion says.

use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{Fields, Patch, kind_of};
use crate::store::records::Metadata;

/// A time on the wire: RFC 3339 in UTC with microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(value_type = String, format = DateTime, example = "2026-11-29T22:00:00.123456Z")]
pub struct Moment(pub Timestamp);

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self(time)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

/// What a deletion answers.
#[derive(Debug, Serialize, ToSchema)]
pub struct Deleted {
    /// Of the thing that is gone.
    pub id: String,
    /// Such as `file_deleted`.
    #[serde(rename = "type")]
    #[schema(value_type = String, example = "file_deleted")]
    pub kind: &'static str,
}

/// Pairs of metadata that a thing may have.
const METADATA_PAIRS: usize = 16;
/// Characters of a key, and of a value.
const METADATA_KEY: usize = 64;
const METADATA_VALUE: usize = 512;

/// What `metadata` of an update does to each key.
pub type MetadataPatch = IndexMap<String, Option<String>>;

fn bad_metadata(message: String) -> ApiError {
    ApiError::invalid_as("invalid_metadata", message)
}

/// Reads `metadata` as a patch: a text sets its key, null deletes it. Left out or null is an empty patch.
///
/// # Errors
/// For keys and values that do not fit.
pub fn metadata_patch(fields: &mut Fields) -> Result<MetadataPatch, ApiError> {
    let path = fields.at("metadata");
    let map = match fields.take("metadata") {
        Patch::Absent | Patch::Null => return Ok(MetadataPatch::new()),
        Patch::Given(Value::Object(map)) => map,
        Patch::Given(other) => {
            return Err(bad_metadata(format!("`{path}` must be an object of strings, not {}", kind_of(&other))));
        }
    };
    let mut patch = MetadataPatch::with_capacity(map.len().min(METADATA_PAIRS));
    for (key, value) in map {
        let shown = super::error::shortened(&key);
        if key.is_empty() || key.chars().count() > METADATA_KEY || key.contains('\0') {
            return Err(bad_metadata(format!(
                "a key of `{path}` must have 1 to {METADATA_KEY} characters and no NUL, unlike `{shown}`"
            )));
        }
        let value = match value {
            Value::Null => None,
            Value::String(text) if text.chars().count() > METADATA_VALUE => {
                return Err(bad_metadata(format!("`{path}.{shown}` must have at most {METADATA_VALUE} characters")));
            }
            Value::String(text) if text.contains('\0') => {
                return Err(bad_metadata(format!("`{path}.{shown}` holds a NUL character; remove it")));
            }
            Value::String(text) => Some(text),
            other => {
                return Err(bad_metadata(format!("`{path}.{shown}` must be a string, not {}", kind_of(&other))));
            }
        };
        patch.insert(key, value);
    }
    Ok(patch)
}

/// Reads `metadata` of a new thing.
///
/// # Errors
/// As [`metadata_patch`], for null values, and for too many pairs.
pub fn new_metadata(fields: &mut Fields) -> Result<Metadata, ApiError> {
    let path = fields.at("metadata");
    let patch = metadata_patch(fields)?;
    let mut metadata = Metadata::with_capacity(patch.len());
    for (key, value) in patch {
        let Some(value) = value else {
            return Err(bad_metadata(format!("`{path}.{key}` must be a string, not null")));
        };
        metadata.insert(key, value);
    }
    within_pairs(metadata)
}

/// Metadata after a patch.
///
/// # Errors
/// When there are too many pairs.
pub fn patched(mut metadata: Metadata, patch: MetadataPatch) -> Result<Metadata, ApiError> {
    for (key, value) in patch {
        match value {
            Some(value) => {
                metadata.insert(key, value);
            }
            None => {
                metadata.shift_remove(&key);
            }
        }
    }
    within_pairs(metadata)
}

fn within_pairs(metadata: Metadata) -> Result<Metadata, ApiError> {
    if metadata.len() > METADATA_PAIRS {
        return Err(bad_metadata(format!(
            "`metadata` may have at most {METADATA_PAIRS} pairs, not {}",
            metadata.len()
        )));
    }
    Ok(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(json: &str) -> Result<Metadata, ApiError> {
        new_metadata(&mut Fields::of_body(json.as_bytes()).unwrap())
    }

    #[test]
    fn limits_count_characters_not_bytes() {
        let value = "ž".repeat(512);
        assert_eq!(metadata(&format!(r#"{{"metadata":{{"a":"{value}"}}}}"#)).unwrap()["a"], value);
        assert!(metadata(&format!(r#"{{"metadata":{{"a":"{value}x"}}}}"#)).is_err());
        assert!(metadata(&format!(r#"{{"metadata":{{"{}":"x"}}}}"#, "k".repeat(65))).is_err());
        assert!(metadata(r#"{"metadata":{"a":1}}"#).is_err());
        assert!(metadata(r#"{"metadata":{"a":null}}"#).is_err());
        assert!(metadata(r#"{"metadata":[]}"#).is_err());
        assert!(metadata(r#"{"metadata":null}"#).unwrap().is_empty());
    }

    #[test]
    fn a_patch_sets_and_deletes() {
        let old = metadata(r#"{"metadata":{"keep":"1","drop":"1"}}"#).unwrap();
        let mut body = Fields::of_body(br#"{"metadata":{"drop":null,"new":"2"}}"#).unwrap();
        let new = patched(old, metadata_patch(&mut body).unwrap()).unwrap();
        assert_eq!(serde_json::to_string(&new).unwrap(), r#"{"keep":"1","new":"2"}"#);
    }

    #[test]
    fn times_always_have_microseconds() {
        let time = |text: &str| serde_json::to_string(&Moment(text.parse().unwrap())).unwrap();
        assert_eq!(time("2026-11-29T22:00:00Z"), r#""2026-11-29T22:00:00.000000Z""#);
        assert_eq!(time("2026-11-29T22:00:00.1234567Z"), r#""2026-11-29T22:00:00.123456Z""#);
    }
}
