//! What an override shall mean after a change: by this the changed text is judged.

use super::Entry;
use crate::compose::node::{self, Data, Map, Node};

/// What the file shall mean afterwards; `None` when there is no place for it.
pub(super) fn changed(old: &Node, service: &str, key: &str, entry: Entry<'_>) -> Option<Node> {
    let mut new = old.clone();
    let mut node = &mut new;
    for name in ["services", service, "environment"] {
        if node.is_null() {
            node.data = Data::Map(Map::new());
        }
        if entry == Entry::Gone && node.as_map().is_some_and(|map| !map.contains_key(name)) {
            return Some(old.clone());
        }
        node = node.as_map_mut()?.entry(name.to_owned()).or_default();
    }
    let node = if matches!(node.data, Data::Alone(_)) {
        let Data::Alone(inner) = &mut node.data else { return None };
        &mut **inner
    } else {
        node
    };
    if node.is_null() {
        if entry == Entry::Gone {
            return Some(old.clone());
        }
        node.data = Data::Map(Map::new());
    }
    let value = match entry {
        Entry::PassedOn => Some(format!("${{{key}}}")),
        Entry::Literal(value) => Some(value.replace('$', "$$")),
        Entry::Gone => None,
    };
    match &mut node.data {
        Data::Map(map) => match value {
            Some(value) => {
                let entry = map.entry(key.to_owned()).or_default();
                // A number that prints as it should is left as it is.
                if entry.is_null() || entry.printed().as_deref() != Some(value.as_str()) {
                    entry.data = Data::Text(value);
                }
            }
            None => {
                map.shift_remove(key);
            }
        },
        Data::List(items) => {
            let is_it = |item: &Node| {
                item.as_text()
                    .and_then(|text| text.strip_prefix(key))
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            };
            match value {
                Some(value) => {
                    let pair = format!("{key}={value}");
                    match items.iter_mut().rev().find(|item| is_it(item)) {
                        Some(item) => item.data = Data::Text(pair),
                        None => items.push(Node::text(node::Place::default(), pair)),
                    }
                }
                None => items.retain(|item| !is_it(item)),
            }
        }
        _ => return None,
    }
    Some(new)
}
