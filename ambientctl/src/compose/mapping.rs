//! The two ways of writing pairs, `{K: V}` and `[K=V]`, and lists that may be a single value.

use super::node::{Data, Map, Node};

/// `[K=V]` out of either way; `K` alone where there is no value. A single text is a list of one.
pub(super) fn as_list(node: Node) -> Vec<Node> {
    let place = node.place;
    match node.data {
        Data::List(items) => items,
        Data::Map(map) => {
            let mut pairs: Vec<(String, Node)> = map.into_iter().collect();
            pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
            pairs
                .into_iter()
                .map(|(key, value)| match value.printed() {
                    None => value,
                    Some(_) if value.is_null() => Node::text(value.place, key),
                    Some(text) => Node::text(value.place, format!("{key}={text}")),
                })
                .collect()
        }
        Data::Null => Vec::new(),
        data => vec![Node { place, data }],
    }
}

/// `{K: each}` out of `[K]`; a mapping stays one.
pub(super) fn as_map(node: Node, each: &Node) -> Node {
    let Data::List(items) = node.data else { return node };
    let map: Map = items
        .into_iter()
        .map(|item| {
            let place = item.place;
            let mut value = each.clone();
            value.place = place;
            (item.printed().unwrap_or_default(), value)
        })
        .collect();
    Node { place: node.place, data: Data::Map(map) }
}

/// The name of a `K=V`.
pub(super) fn key_of(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(key, _)| key)
}
