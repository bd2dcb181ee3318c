//! `!reset` and `!override`: what an override takes away from the base before it is laid over it.

use super::node::{Data, Node};

/// Takes the tags out of `over`, and what they hide out of `base`.
pub(super) fn apply(base: &mut Node, over: &mut Node) {
    if let Data::Alone(_) = &over.data {
        let Data::Alone(inner) = std::mem::take(&mut over.data) else { return };
        over.data = inner.data;
        base.data = Data::Null;
    }
    match &mut over.data {
        Data::Map(map) => {
            map.retain(|key, value| {
                if value.data == Data::Reset {
                    remove(base, key);
                    return false;
                }
                if matches!(value.data, Data::Alone(_)) {
                    remove(base, key);
                }
                let mut nothing = Node::default();
                apply(base.get_mut(key).unwrap_or(&mut nothing), value);
                true
            });
        }
        Data::List(items) => {
            items.retain_mut(|item| {
                apply(&mut Node::default(), item);
                item.data != Data::Reset
            });
        }
        _ => {}
    }
}

/// Removes an entry, also out of the `[K=V]` way of writing one.
fn remove(node: &mut Node, key: &str) {
    match &mut node.data {
        Data::Map(map) => {
            map.shift_remove(key);
        }
        Data::List(items) => {
            items.retain(|item| item.as_text().is_none_or(|text| super::mapping::key_of(text) != key));
        }
        _ => {}
    }
}
