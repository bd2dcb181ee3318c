//! Laying one file over another: a rule for each key, Compose's own.

use super::error::Mistake;
use super::mapping::{as_list, as_map, key_of};
use super::mounts;
use super::node::{Data, Map, Node, Place};

/// How a key of both files becomes one.
enum Rule {
    /// The later one alone, even when it is null.
    Replace,
    /// Both as lists, joined.
    Join,
    /// Both as lists, joined without exact doubles.
    JoinOnce,
    /// Both as mappings of dependencies.
    Dependencies,
    /// Both as mappings of networks.
    Networks,
    /// Mappings are merged when they are of one driver.
    Logging,
    /// A text is its `context`.
    Build,
    /// Lists of mappings with the same `subnet` are merged.
    Subnets,
    /// By what the two values are.
    Plain,
}

fn rule(path: &[&str]) -> Rule {
    match path {
        ["networks" | "volumes", _, "labels"] => Rule::Join,
        ["networks", _, "ipam", "config"] => Rule::Subnets,
        ["services", _, key] => match *key {
            "command" | "entrypoint" => Rule::Replace,
            "annotations" | "dns" | "dns_opt" | "dns_search" | "env_file" | "environment" | "label_file" | "labels"
            | "sysctls" | "tmpfs" => Rule::Join,
            "extra_hosts" => Rule::JoinOnce,
            "depends_on" => Rule::Dependencies,
            "networks" => Rule::Networks,
            "logging" => Rule::Logging,
            "build" => Rule::Build,
            _ => Rule::Plain,
        },
        ["services", _, "healthcheck", "test"] | ["services", _, "ulimits", _] => Rule::Replace,
        ["services", _, "build", "args" | "additional_contexts" | "labels"] | ["services", _, "deploy", "labels"] => {
            Rule::Join
        }
        ["services", _, "build", "extra_hosts"] => Rule::JoinOnce,
        _ => Rule::Plain,
    }
}

/// `over` laid over `base`.
pub(super) fn merge(base: Node, over: Node) -> Result<Node, Mistake> {
    merge_at(base, over, &mut Vec::new())
}

fn merge_at(base: Node, over: Node, path: &mut Vec<String>) -> Result<Node, Mistake> {
    let rule = rule(&path.iter().map(String::as_str).collect::<Vec<_>>());
    if matches!(rule, Rule::Replace) {
        return Ok(over);
    }
    if base.is_null() {
        return Ok(over);
    }
    if over.is_null() {
        return Ok(base);
    }
    let place = over.place;
    match rule {
        Rule::Replace => Ok(over),
        Rule::Join => Ok(joined(place, as_list(base), as_list(over))),
        Rule::JoinOnce => {
            let mut items = as_list(base);
            for item in as_list(over) {
                if !items.contains(&item) {
                    items.push(item);
                }
            }
            Ok(Node::new(place, Data::List(items)))
        }
        Rule::Dependencies => {
            let started = super::canonical::started(place);
            plain(as_map(base, &started), as_map(over, &started), path)
        }
        Rule::Networks => plain(as_map(base, &Node::default()), as_map(over, &Node::default()), path),
        Rule::Logging => {
            let (one, other) = (base.get("driver"), over.get("driver"));
            if one == other || one.is_none() || other.is_none() { plain(base, over, path) } else { Ok(over) }
        }
        Rule::Build => plain(super::canonical::build(base), super::canonical::build(over), path),
        Rule::Subnets => subnets(base, over, path),
        Rule::Plain => plain(base, over, path),
    }
}

fn joined(place: Place, mut base: Vec<Node>, over: Vec<Node>) -> Node {
    base.extend(over);
    Node::new(place, Data::List(base))
}

fn plain(base: Node, over: Node, path: &mut Vec<String>) -> Result<Node, Mistake> {
    let place = over.place;
    match (base.data, over.data) {
        (Data::Map(base), Data::Map(over)) => Ok(Node::new(place, Data::Map(mappings(base, over, path)?))),
        (Data::List(base), Data::List(over)) => Ok(joined(place, base, over)),
        (Data::Map(_) | Data::List(_), _) => Err(Mistake::new(
            place,
            &path.join("."),
            "cannot override: one file has a list or a mapping there, and the other something else",
        )),
        (_, data) => Ok(Node::new(place, data)),
    }
}

fn mappings(mut base: Map, over: Map, path: &mut Vec<String>) -> Result<Map, Mistake> {
    for (key, value) in over {
        let merged = match base.get_mut(&key) {
            None => value,
            Some(below) => {
                path.push(key.clone());
                let merged = merge_at(std::mem::take(below), value, path)?;
                path.pop();
                merged
            }
        };
        base.insert(key, merged);
    }
    Ok(base)
}

fn subnets(base: Node, over: Node, path: &mut Vec<String>) -> Result<Node, Mistake> {
    let place = over.place;
    let (Data::List(mut pools), Data::List(more)) = (base.data, over.data) else {
        return Err(Mistake::new(place, &path.join("."), "must be a list"));
    };
    for pool in more {
        let same = pools.iter().position(|known| known.get("subnet") == pool.get("subnet"));
        match same {
            Some(index) => {
                let known = std::mem::take(&mut pools[index]);
                pools[index] = plain(known, pool, path)?;
            }
            None => pools.push(pool),
        }
    }
    Ok(Node::new(place, Data::List(pools)))
}

/// Lists in which a later entry takes the place of an earlier one for the same thing.
pub(super) fn without_doubles(root: &mut Node) {
    for (section, lists) in [("services", SERVICE_LISTS), ("networks", &["labels"]), ("volumes", &["labels"])] {
        let Some(entries) = root.get_mut(section).and_then(Node::as_map_mut) else { continue };
        for entry in entries.values_mut() {
            for path in lists {
                for_each_at(entry, path, &mut |name, items| unique(name, items));
            }
        }
    }
}

/// Paths below a service; `*` is any key.
const SERVICE_LISTS: &[&str] = &[
    "annotations",
    "build.args",
    "build.additional_contexts",
    "build.labels",
    "build.tags",
    "cap_add",
    "cap_drop",
    "configs",
    "deploy.labels",
    "devices",
    "dns",
    "dns_opt",
    "dns_search",
    "env_file",
    "environment",
    "expose",
    "labels",
    "links",
    "networks.*.aliases",
    "networks.*.link_local_ips",
    "ports",
    "profiles",
    "secrets",
    "sysctls",
    "tmpfs",
    "volumes",
];

fn for_each_at(node: &mut Node, path: &str, act: &mut dyn FnMut(&str, &mut Vec<Node>)) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    match rest {
        None => {
            if let Some(Node { data: Data::List(items), .. }) = node.get_mut(first) {
                act(first, items);
            }
        }
        Some(rest) if first == "*" => {
            if let Some(map) = node.as_map_mut() {
                for value in map.values_mut() {
                    for_each_at(value, rest, act);
                }
            }
        }
        Some(rest) => {
            if let Some(inner) = node.get_mut(first) {
                for_each_at(inner, rest, act);
            }
        }
    }
}

fn unique(name: &str, items: &mut Vec<Node>) {
    let mut kept: Vec<(Option<String>, Node)> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        let key = identity(name, &item);
        match kept.iter_mut().find(|(known, _)| known.is_some() && *known == key) {
            Some((_, place)) => *place = item,
            None => kept.push((key, item)),
        }
    }
    items.extend(kept.into_iter().map(|(_, item)| item));
}

/// What an entry is about, so that another one about the same replaces it; `None` for one that nothing replaces.
fn identity(list: &str, item: &Node) -> Option<String> {
    let field = |key: &str| item.get(key).and_then(Node::printed);
    match list {
        "ports" if item.as_map().is_some() => {
            // A published port that is a number is another than one that is text: so it is in Compose.
            let published = match item.get("published").map(|node| &node.data) {
                Some(Data::Whole(number)) => format!("#{number}"),
                _ => field("published").unwrap_or_default(),
            };
            let host = field("host_ip").unwrap_or_else(|| "0.0.0.0".to_owned());
            let protocol = field("protocol").unwrap_or_else(|| "tcp".to_owned());
            Some(format!("{host}:{published}:{}/{protocol}", field("target")?))
        }
        "volumes" | "devices" => match item.as_text() {
            Some(text) if list == "volumes" => mounts::target_of(text),
            Some(text) => text.split(':').nth(1).or(Some(text)).map(str::to_owned),
            None => field("target").map(|target| mounts::clean(&target)),
        },
        "secrets" | "configs" => {
            let folder = if list == "secrets" { "/run/secrets/" } else { "/" };
            match item.as_text() {
                Some(text) => Some(format!("{folder}{text}")),
                None => field("target").or_else(|| field("source").map(|source| format!("{folder}{source}"))),
            }
        }
        "env_file" => item.as_text().map(str::to_owned).or_else(|| field("path")),
        _ => item.printed().map(|text| key_of(&text).to_owned()),
    }
}
