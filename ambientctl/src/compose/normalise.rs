//! What Compose fills in by itself: names, the default network, absolute paths, dependencies that follow from other keys,
//! and the variables of `env_file`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ambient_settings::dotenv::Document;

use super::error::{ComposeError, Mistake};
use super::mapping::{as_list, key_of};
use super::mounts;
use super::node::{Data, Map, Node, Place};
use super::sources::{Variables, dotenv};
use crate::files::text_of;

pub(super) struct Normaliser<'a> {
    pub(super) folder: &'a Path,
    pub(super) name: &'a str,
    pub(super) variables: &'a Variables,
    /// Whether variables are put in. Without, a name alone stays one.
    pub(super) interpolated: bool,
}

impl Normaliser<'_> {
    pub(super) fn normalise(&self, root: &mut Node) -> Result<(), Mistake> {
        let Some(map) = root.as_map_mut() else { return Ok(()) };
        map.insert("name".to_owned(), Node::text(Place::default(), self.name));
        let mut uses_default = false;
        if let Some(services) = map.get_mut("services").and_then(Node::as_map_mut) {
            for (name, service) in services {
                let path = format!("services.{name}");
                let place = service.place;
                let Some(keys) = service.as_map_mut() else {
                    return Err(Mistake::new(place, &path, format!("must be a mapping, not {}", service.kind())));
                };
                self.service(keys, place);
                uses_default |= keys
                    .get("networks")
                    .is_some_and(|networks| networks.as_map().is_some_and(|map| map.contains_key("default")));
            }
        }
        if uses_default {
            let networks = map.entry("networks".to_owned()).or_default();
            if networks.is_null() {
                networks.data = Data::Map(Map::new());
            }
            if let Some(networks) = networks.as_map_mut() {
                networks.entry("default".to_owned()).or_default();
            }
        }
        for section in ["networks", "volumes", "secrets", "configs"] {
            let Some(entries) = map.get_mut(section).and_then(Node::as_map_mut) else { continue };
            for (key, entry) in entries {
                self.resource(section, key, entry);
            }
        }
        Ok(())
    }

    fn resource(&self, section: &str, key: &str, entry: &mut Node) {
        if entry.is_null() {
            entry.data = Data::Map(Map::new());
        }
        let place = entry.place;
        let Some(map) = entry.as_map_mut() else { return };
        let external =
            map.get("external").is_some_and(|external| external.data != Data::Switch(false) && !external.is_null());
        let old_name = map.get("external").and_then(|external| external.get("name")).cloned();
        if let Some(name) = old_name {
            map.entry("name".to_owned()).or_insert(name);
            map.insert("external".to_owned(), Node::new(place, Data::Switch(true)));
        }
        let name = if external { key.to_owned() } else { format!("{}_{key}", self.name) };
        map.entry("name".to_owned()).or_insert_with(|| Node::text(place, name));
        if matches!(section, "secrets" | "configs") {
            self.absolute(map.get_mut("file"));
        }
        let is_bind = map.get("driver").and_then(Node::as_text) == Some("local")
            && map.get("driver_opts").and_then(|options| options.get("o")).and_then(Node::as_text) == Some("bind");
        if section == "volumes" && is_bind {
            self.absolute(map.get_mut("driver_opts").and_then(|options| options.get_mut("device")));
        }
    }

    fn service(&self, keys: &mut Map, place: Place) {
        let has = |keys: &Map, key: &str| keys.get(key).is_some_and(|node| !node.is_null());
        let no_networks =
            keys.get("networks").is_none_or(|node| node.is_null() || node.as_map().is_some_and(Map::is_empty));
        if no_networks && !has(keys, "network_mode") {
            let networks = Map::from([("default".to_owned(), Node::default())]);
            keys.insert("networks".to_owned(), Node::new(place, Data::Map(networks)));
        }
        if keys.get("pull_policy").and_then(Node::as_text) == Some("if_not_present") {
            keys.insert("pull_policy".to_owned(), Node::text(place, "missing"));
        }
        if let Some(build) = keys.get_mut("build").and_then(Node::as_map_mut) {
            build.entry("context".to_owned()).or_insert_with(|| Node::text(place, "."));
            if !has(build, "dockerfile") && !has(build, "dockerfile_inline") {
                build.insert("dockerfile".to_owned(), Node::text(place, "Dockerfile"));
            }
            if let Some(args) = build.get_mut("args") {
                self.fill(args, false);
            }
            self.context(build.get_mut("context"));
            match build.get_mut("additional_contexts").map(|node| &mut node.data) {
                Some(Data::Map(contexts)) => {
                    for context in contexts.values_mut() {
                        self.context(Some(context));
                    }
                }
                Some(Data::List(contexts)) => {
                    for context in contexts {
                        if let Some((name, path)) = context.as_text().and_then(|text| text.split_once('=')) {
                            let mut path = Node::text(context.place, path);
                            self.context(Some(&mut path));
                            *context =
                                Node::text(context.place, format!("{name}={}", path.as_text().unwrap_or_default()));
                        }
                    }
                }
                _ => {}
            }
        }
        if let Some(Data::List(files)) = keys.get_mut("env_file").map(|node| &mut node.data) {
            for file in files {
                self.absolute(file.get_mut("path"));
            }
        }
        if let Some(Data::List(volumes)) = keys.get_mut("volumes").map(|node| &mut node.data) {
            for volume in volumes {
                if volume.get("type").and_then(Node::as_text) == Some("bind") {
                    self.absolute(volume.get_mut("source"));
                }
            }
        }
        if let Some(environment) = keys.get_mut("environment") {
            self.fill(environment, true);
        }
        dependencies(keys, place);
    }

    fn around(&self, name: &str) -> Option<&str> {
        self.variables.get(name).filter(|_| self.interpolated)
    }

    /// Gives names without a value the one that they have around us; those that have none stay, or go.
    fn fill(&self, pairs: &mut Node, stay: bool) {
        match &mut pairs.data {
            Data::Map(map) => map.retain(|key, value| {
                if let (true, Some(found)) = (value.is_null(), self.around(key)) {
                    value.data = Data::Text(found.to_owned());
                }
                stay || !value.is_null()
            }),
            Data::List(items) => items.retain_mut(|item| {
                let Some(key) = item.as_text().filter(|text| !text.contains('=')) else { return true };
                match self.around(key) {
                    Some(found) => {
                        item.data = Data::Text(format!("{key}={found}"));
                        true
                    }
                    None => stay,
                }
            }),
            _ => {}
        }
    }

    fn context(&self, context: Option<&mut Node>) {
        let is_elsewhere = |text: &str| {
            text.contains("://")
                || text.starts_with("git@")
                || text.starts_with("github.com/")
                || text.starts_with("service:")
        };
        if let Some(context) = context
            && !context.as_text().is_some_and(is_elsewhere)
        {
            self.absolute(Some(context));
        }
    }

    fn absolute(&self, path: Option<&mut Node>) {
        if let Some(node) = path
            && let Data::Text(text) = &mut node.data
        {
            let home = self.variables.get("HOME").filter(|_| text == "~" || text.starts_with("~/"));
            let full: PathBuf = match home {
                Some(home) => PathBuf::from(format!("{home}{}", &text[1..])),
                None => self.folder.join(&*text),
            };
            if !text.is_empty() {
                *text = mounts::clean(&full.to_string_lossy());
            }
        }
    }

    /// Gives every service the values of its variables: those of its `env_file`s, then its own, with the ones that it only
    /// names taken from the process and `.env`.
    pub(super) fn resolve_environments(&self, root: &mut Node) -> Result<(), Result<Mistake, ComposeError>> {
        let Some(services) = root.get_mut("services").and_then(Node::as_map_mut) else { return Ok(()) };
        for (name, service) in services {
            let Some(keys) = service.as_map_mut() else { continue };
            let mut own = keys.get("environment").cloned().unwrap_or_default();
            named(&mut own, &format!("services.{name}.environment")).map_err(Ok)?;
            let files = keys.shift_remove("env_file");
            let mut variables = Map::new();
            for file in files.iter().filter_map(Node::as_list).flatten() {
                let path = format!("services.{name}.env_file");
                for (key, value) in self.env_file(file, &path, &own, &variables)? {
                    variables.insert(key, Node::text(file.place, value));
                }
            }
            let place = own.place;
            if let Data::Map(own) = own.data {
                variables.extend(own);
            }
            if !variables.is_empty() {
                keys.insert("environment".to_owned(), Node::new(place, Data::Map(variables)));
            }
        }
        Ok(())
    }

    fn env_file(
        &self,
        file: &Node,
        key: &str,
        own: &Node,
        earlier: &Map,
    ) -> Result<BTreeMap<String, String>, Result<Mistake, ComposeError>> {
        if let Some(format) = file.get("format") {
            let why = super::schema::refused("format").unwrap_or_default();
            return Err(Ok(Mistake::new(format.place, &format!("{key}.format"), why)));
        }
        let Some(path) = file.get("path").and_then(Node::as_text) else {
            return Err(Ok(Mistake::new(file.place, key, "needs a path")));
        };
        let path = Path::new(path);
        let required = file.get("required").is_none_or(|required| required.data != Data::Switch(false));
        let text = text_of(path).map_err(|error| Err(error.into()))?;
        let Some(text) = text else {
            if required {
                return Err(Ok(Mistake::new(
                    file.place,
                    key,
                    format!("names `{}`, which is not there", path.display()),
                )));
            }
            return Ok(BTreeMap::new());
        };
        // A name that this file sets itself is looked up there before it is looked up in the files before it.
        let sets: BTreeSet<String> = Document::parse(&text)
            .map(|document| document.statements().iter().map(|statement| statement.name.clone()).collect())
            .unwrap_or_default();
        let lookup = |name: &str| {
            let in_map = |map: &Map| map.get(name).filter(|node| !node.is_null()).and_then(Node::printed);
            let around = self.variables.get(name).map(str::to_owned);
            around
                .or_else(|| own.as_map().and_then(in_map))
                .or_else(|| in_map(earlier).filter(|_| !sets.contains(name)))
        };
        dotenv(path, &text, &lookup).map_err(Err)
    }
}

/// `{K: V}` out of either way of writing it.
fn named(environment: &mut Node, path: &str) -> Result<(), Mistake> {
    let is_pairs = match &environment.data {
        Data::Null => return Ok(()),
        Data::Map(_) => true,
        Data::List(items) => items.iter().all(|item| item.printed().is_some()),
        _ => false,
    };
    if !is_pairs {
        let problem = "must be text, a number, or true or false for each name, as a mapping or as a list of `K=V`";
        return Err(Mistake::new(environment.place, path, problem));
    }
    environment.data = Data::Map(entries(std::mem::take(&mut environment.data)).into_iter().collect());
    Ok(())
}

/// Pairs of either way of writing them.
fn entries(data: Data) -> Vec<(String, Node)> {
    match data {
        Data::Map(map) => map.into_iter().collect(),
        Data::List(items) => items
            .into_iter()
            .map(|item| {
                let place = item.place;
                let text = item.printed().unwrap_or_default();
                let key = key_of(&text).to_owned();
                let value = text
                    .split_once('=')
                    .map_or_else(|| Node::new(place, Data::Null), |(_, value)| Node::text(place, value));
                (key, value)
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// What a service waits for because of keys that say so between the lines.
fn dependencies(keys: &mut Map, place: Place) {
    let texts = |key: &str, keys: &Map| -> Vec<String> {
        keys.get(key).cloned().map(as_list).unwrap_or_default().iter().filter_map(Node::printed).collect()
    };
    let mut implied: Vec<(String, bool)> = Vec::new();
    for link in texts("links", keys) {
        implied.push((link.split(':').next().unwrap_or_default().to_owned(), true));
    }
    for key in ["network_mode", "ipc", "pid", "uts", "cgroup"] {
        if let Some(service) = keys.get(key).and_then(Node::as_text).and_then(|text| text.strip_prefix("service:")) {
            implied.push((service.to_owned(), true));
        }
    }
    for from in texts("volumes_from", keys) {
        if !from.starts_with("container:") {
            implied.push((from.split(':').next().unwrap_or_default().to_owned(), false));
        }
    }
    if implied.is_empty() {
        return;
    }
    let all = keys.entry("depends_on".to_owned()).or_insert_with(|| Node::new(place, Data::Map(Map::new())));
    let Some(all) = all.as_map_mut() else { return };
    for (service, restart) in implied {
        all.entry(service).or_insert_with(|| {
            let mut one = super::canonical::started(place);
            if let Some(map) = one.as_map_mut() {
                map.insert("restart".to_owned(), Node::new(place, Data::Switch(restart)));
            }
            one
        });
    }
}

/// Takes away what nothing uses, and finds what is used and not there.
pub(super) fn finish(root: &mut Node) -> Result<(), String> {
    let mut used: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let services = root.get("services").and_then(Node::as_map).cloned().unwrap_or_default();
    for (name, service) in &services {
        if service.get("image").is_none() && service.get("build").is_none() {
            return Err(format!("service `{name}` has neither an image nor a build context"));
        }
        if service.get("network_mode").is_some() && service.get("networks").is_some() {
            return Err(format!("service `{name}` has both `network_mode` and `networks`"));
        }
        twice(name, service)?;
        let mut uses = |section, key: String| used.entry(section).or_default().insert(key);
        for network in service.get("networks").and_then(Node::as_map).into_iter().flat_map(Map::keys) {
            uses("networks", network.clone());
        }
        for volume in service.get("volumes").and_then(Node::as_list).into_iter().flatten() {
            if volume.get("type").and_then(Node::as_text) == Some("volume")
                && let Some(source) = volume.get("source").and_then(Node::as_text)
            {
                uses("volumes", source.to_owned());
            }
        }
        let build = service.get("build");
        for (section, node) in [("secrets", Some(service)), ("configs", Some(service)), ("secrets", build)] {
            for grant in node.and_then(|node| node.get(section)).and_then(Node::as_list).into_iter().flatten() {
                if let Some(source) = grant.get("source").and_then(Node::as_text) {
                    uses(section, source.to_owned());
                }
            }
        }
        for dependency in service.get("depends_on").and_then(Node::as_map).into_iter().flat_map(Map::keys) {
            if !services.contains_key(dependency) {
                return Err(format!("service `{name}` depends on `{dependency}`, which no file declares"));
            }
        }
    }
    no_circle(&services)?;
    for section in ["networks", "volumes", "secrets", "configs"] {
        let used = used.remove(section).unwrap_or_default();
        let declared = root.get_mut(section).and_then(Node::as_map_mut);
        let missing = used.iter().find(|key| declared.as_ref().is_none_or(|map| !map.contains_key(*key)));
        if let Some(missing) = missing {
            let kind = section.trim_end_matches('s');
            return Err(format!("a service uses the {kind} `{missing}`, which no file declares"));
        }
        if let Some(map) = declared {
            map.retain(|key, _| used.contains(key));
        }
    }
    Ok(())
}

/// Two keys for one thing have to say the same.
fn twice(name: &str, service: &Node) -> Result<(), String> {
    let deploy = |path: [&str; 3]| {
        path.iter().filter(|key| !key.is_empty()).try_fold(service.get("deploy")?, |node, key| node.get(key))
    };
    for (key, path) in [
        ("scale", ["replicas", "", ""]),
        ("cpus", ["resources", "limits", "cpus"]),
        ("mem_limit", ["resources", "limits", "memory"]),
        ("pids_limit", ["resources", "limits", "pids"]),
        ("mem_reservation", ["resources", "reservations", "memory"]),
    ] {
        let (Some(one), Some(other)) = (service.get(key), deploy(path)) else { continue };
        let (one, other) = (one.printed(), other.printed());
        let size = |text: &Option<String>| text.as_deref().and_then(super::units::size);
        if one != other && size(&one) != size(&other) {
            return Err(format!("service `{name}` says `{key}` and `deploy` says something else"));
        }
    }
    Ok(())
}

fn no_circle(services: &Map) -> Result<(), String> {
    let waits_for = |name: &str| -> Vec<String> {
        let all = services.get(name).and_then(|service| service.get("depends_on")).and_then(Node::as_map);
        all.into_iter().flat_map(Map::keys).filter(|key| services.contains_key(*key)).cloned().collect()
    };
    let mut done: BTreeSet<String> = BTreeSet::new();
    loop {
        let ready: Vec<String> = services
            .keys()
            .filter(|name| !done.contains(*name) && waits_for(name).iter().all(|other| done.contains(other)))
            .cloned()
            .collect();
        if ready.is_empty() {
            break;
        }
        done.extend(ready);
    }
    match services.keys().find(|name| !done.contains(*name)) {
        Some(name) => Err(format!("service `{name}` waits for itself, by way of `depends_on`")),
        None => Ok(()),
    }
}
