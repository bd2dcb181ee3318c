//! What an override says about a variable of a service.

use super::OverrideError;
use crate::compose::node::{Data, Node};
use crate::compose::yaml;

/// What the file says about a variable of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// The name alone: the value is that of the process, or none.
    NameAlone,
    /// This text, with its references.
    Text(String),
}

/// What `text` says about a service's variable.
///
/// # Errors
/// When the text cannot be read.
pub fn found(text: &str, service: &str, key: &str) -> Result<Found, OverrideError> {
    let documents = read(text)?;
    let environment =
        documents.first().and_then(|root| root.get("services")?.get(service)?.as_map()?.get("environment"));
    Ok(environment.map_or(Found::Nothing, |environment| entry_of(environment, key)))
}

/// Whether a value gets to the service what `.env` has under the key.
pub fn refers_to(text: &str, key: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let after = &rest[at + 1..];
        let name = after.strip_prefix('{').unwrap_or(after);
        if let Some(behind) = name.strip_prefix(key)
            && !after.starts_with('$')
            && !behind.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
        {
            return true;
        }
        rest = after.strip_prefix('$').unwrap_or(after);
    }
    false
}

/// The documents of a file.
pub(super) fn read(text: &str) -> Result<Vec<Node>, OverrideError> {
    yaml::documents(text, 0)
        .map_err(|mistake| OverrideError::Unreadable { line: mistake.place.line, problem: mistake.problem })
}

fn entry_of(environment: &Node, key: &str) -> Found {
    let said = |node: &Node| match node.printed() {
        Some(_) if node.is_null() => Found::NameAlone,
        Some(text) => Found::Text(text),
        None => Found::NameAlone,
    };
    match &environment.data {
        Data::Map(map) => map.get(key).map_or(Found::Nothing, said),
        Data::List(items) => items
            .iter()
            .rev()
            .find_map(|item| match item.as_text()?.strip_prefix(key)? {
                "" => Some(Found::NameAlone),
                rest => rest.strip_prefix('=').map(|value| Found::Text(value.to_owned())),
            })
            .unwrap_or(Found::Nothing),
        Data::Alone(inner) => entry_of(inner, key),
        _ => Found::Nothing,
    }
}
