//! Short forms become long ones, so that a merge and a check see one form only. Doing it twice changes nothing.

use super::error::Mistake;
use super::mapping::{as_list, as_map};
use super::node::{Data, Map, Node, Place};
use super::{mounts, ports};

/// Brings all services of a model into the long form. With `lenient`, a short form that holds a variable stays as it is.
pub(super) fn canonical(root: &mut Node, lenient: bool) -> Result<(), Mistake> {
    let Some(services) = root.get_mut("services").and_then(Node::as_map_mut) else { return Ok(()) };
    for (name, service) in services {
        let path = format!("services.{name}");
        let Some(keys) = service.as_map_mut() else { continue };
        for (key, value) in keys {
            if value.is_null() {
                continue;
            }
            let path = format!("{path}.{key}");
            let taken = std::mem::take(value);
            *value = long(key, taken, &path, lenient)?;
        }
    }
    Ok(())
}

fn long(key: &str, value: Node, path: &str, lenient: bool) -> Result<Node, Mistake> {
    let place = value.place;
    Ok(match key {
        "build" => build(value),
        "depends_on" => dependencies(as_map(value, &started(place))),
        "dns" => Node::new(place, Data::List(as_list(value))),
        "networks" => as_map(value, &Node::default()),
        "env_file" => each(as_list(value), place, &mut |item| Ok(vec![env_file(item)]))?,
        "ports" => all_or_as_it_is(value, lenient, &mut |item| port(item, path))?,
        "volumes" => all_or_as_it_is(value, lenient, &mut |item| mount(item, path).map(|mount| vec![mount]))?,
        "devices" => all_or_as_it_is(value, lenient, &mut |item| device(item, path).map(|device| vec![device]))?,
        "secrets" | "configs" => each(as_list(value), place, &mut |item| Ok(vec![grant(item, key)]))?,
        "gpus" => gpus(value),
        _ => value,
    })
}

/// A mapping in the order given, without what is not there.
fn mapping(place: Place, entries: impl IntoIterator<Item = (&'static str, Option<Data>)>) -> Node {
    let map: Map = entries
        .into_iter()
        .filter_map(|(key, data)| data.map(|data| (key.to_owned(), Node::new(place, data))))
        .collect();
    Node::new(place, Data::Map(map))
}

fn text(text: impl Into<String>) -> Data {
    Data::Text(text.into())
}

type Long<'a> = dyn FnMut(Node) -> Result<Vec<Node>, Mistake> + 'a;

fn each(items: Vec<Node>, place: Place, long: &mut Long<'_>) -> Result<Node, Mistake> {
    let mut all = Vec::with_capacity(items.len());
    for item in items {
        all.extend(long(item)?);
    }
    Ok(Node::new(place, Data::List(all)))
}

fn all_or_as_it_is(value: Node, lenient: bool, long: &mut Long<'_>) -> Result<Node, Mistake> {
    let place = value.place;
    let Data::List(items) = &value.data else { return Ok(value) };
    match each(items.clone(), place, long) {
        Err(_short) if lenient => Ok(value),
        result => result,
    }
}

/// What a dependency is when nothing more is said.
pub(super) fn started(place: Place) -> Node {
    mapping(place, [("condition", Some(text("service_started"))), ("required", Some(Data::Switch(true)))])
}

/// A dependency is required unless it says otherwise.
fn dependencies(mut value: Node) -> Node {
    for dependency in value.as_map_mut().into_iter().flat_map(Map::values_mut) {
        let place = dependency.place;
        if let Some(map) = dependency.as_map_mut() {
            map.entry("required".to_owned()).or_insert_with(|| Node::new(place, Data::Switch(true)));
        }
    }
    value
}

/// A text is the folder to build in.
pub(super) fn build(value: Node) -> Node {
    match value.data {
        Data::Text(context) => mapping(value.place, [("context", Some(text(context)))]),
        data => Node::new(value.place, data),
    }
}

fn env_file(item: Node) -> Node {
    let place = item.place;
    match item.data {
        Data::Text(path) => mapping(place, [("path", Some(text(path))), ("required", Some(Data::Switch(true)))]),
        Data::Map(mut map) => {
            map.entry("required".to_owned()).or_insert_with(|| Node::new(place, Data::Switch(true)));
            Node::new(place, Data::Map(map))
        }
        data => Node::new(place, data),
    }
}

fn port(item: Node, path: &str) -> Result<Vec<Node>, Mistake> {
    let place = item.place;
    let short = match &item.data {
        Data::Text(_) | Data::Whole(_) => item.printed().unwrap_or_default(),
        Data::Map(_) => {
            let mut item = item;
            if let Some(map) = item.as_map_mut() {
                map.entry("mode".to_owned()).or_insert_with(|| Node::text(place, "ingress"));
                map.entry("protocol".to_owned()).or_insert_with(|| Node::text(place, "tcp"));
            }
            return Ok(vec![item]);
        }
        _ => return Err(Mistake::new(place, path, format!("takes ports, not {}", item.kind()))),
    };
    let bindings = ports::parse(&short).map_err(|problem| Mistake::new(place, path, problem))?;
    Ok(bindings
        .into_iter()
        .map(|port| {
            mapping(
                place,
                [
                    ("mode", Some(text("ingress"))),
                    ("host_ip", port.host_ip.map(Data::Text)),
                    ("target", Some(Data::Whole(port.target.into()))),
                    ("published", port.published.map(Data::Text)),
                    ("protocol", Some(text(port.protocol))),
                ],
            )
        })
        .collect())
}

fn mount(item: Node, path: &str) -> Result<Node, Mistake> {
    let place = item.place;
    let Data::Text(short) = &item.data else {
        let mut item = item;
        if let Some(Node { data: Data::Text(target), .. }) = item.get_mut("target") {
            *target = mounts::clean(target);
        }
        return Ok(item);
    };
    let mount = mounts::parse(short).map_err(|problem| Mistake::new(place, path, problem))?;
    let is_bind = mount.is_bind();
    let bind = is_bind.then(|| {
        mapping(
            place,
            [
                ("selinux", mount.selinux.map(Data::Text)),
                ("propagation", mount.propagation.map(Data::Text)),
                ("create_host_path", Some(Data::Switch(true))),
            ],
        )
    });
    let volume =
        (!is_bind || mount.no_copy).then(|| mapping(place, [("nocopy", mount.no_copy.then_some(Data::Switch(true)))]));
    Ok(mapping(
        place,
        [
            ("type", Some(text(if is_bind { "bind" } else { "volume" }))),
            ("source", mount.source.map(Data::Text)),
            ("target", Some(text(mount.target))),
            ("read_only", mount.read_only.then_some(Data::Switch(true))),
            ("bind", bind.map(|own| own.data)),
            ("volume", volume.map(|own| own.data)),
        ],
    ))
}

fn device(item: Node, path: &str) -> Result<Node, Mistake> {
    let Data::Text(short) = &item.data else { return Ok(item) };
    let parts: Vec<&str> = short.split(':').collect();
    let (source, target, permissions) = match parts.as_slice() {
        [source] => (*source, *source, "rwm"),
        [source, target] => (*source, *target, "rwm"),
        [source, target, permissions] => (*source, *target, *permissions),
        _ => return Err(Mistake::new(item.place, path, "has too many colons; write it in the long form")),
    };
    Ok(mapping(
        item.place,
        [("source", Some(text(source))), ("target", Some(text(target))), ("permissions", Some(text(permissions)))],
    ))
}

fn grant(item: Node, kind: &str) -> Node {
    let place = item.place;
    let secret = kind == "secrets";
    match item.data {
        Data::Text(source) => {
            let target = secret.then(|| Data::Text(format!("/run/secrets/{source}")));
            mapping(place, [("source", Some(text(source))), ("target", target)])
        }
        Data::Map(mut map) => {
            let source = map.get("source").and_then(Node::printed);
            if let (true, Some(source)) = (secret, source) {
                map.entry("target".to_owned()).or_insert_with(|| Node::text(place, format!("/run/secrets/{source}")));
            }
            Node::new(place, Data::Map(map))
        }
        data => Node::new(place, data),
    }
}

fn gpus(value: Node) -> Node {
    let place = value.place;
    match value.as_text() {
        Some("all") => {
            let all = mapping(place, [("count", Some(text("all")))]);
            Node::new(place, Data::List(vec![all]))
        }
        _ => value,
    }
}
