//! What the compose files ask for, as what the engine is asked for: networks, volumes, and services in the order of their
//! dependencies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest, VolumeCreateRequest};
use serde_json::{Map, Value};

use super::service::Service;
use super::{DockerError, LABEL};
use crate::compose::{Project, duration, hash};

/// How long a container gets to stop when nobody says.
const USUAL_GRACE: Duration = Duration::from_secs(10);

/// A stack.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The project's name.
    pub project: String,
    /// The folder of its files.
    pub folder: PathBuf,
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Networks that services use.
    pub networks: Vec<WantedNetwork>,
    /// Volumes that services use.
    pub volumes: Vec<WantedVolume>,
    /// Services; each stands behind those that it depends on.
    pub services: Vec<WantedService>,
}

/// A network.
#[derive(Clone, Debug)]
pub struct WantedNetwork {
    /// Its key in the files.
    pub key: String,
    /// Its name for the engine.
    pub name: String,
    /// Whether it is somebody else's.
    pub external: bool,
    /// The hash of what the files say about it.
    pub hash: String,
    pub(super) request: NetworkCreateRequest,
}

/// A volume.
#[derive(Clone, Debug)]
pub struct WantedVolume {
    /// Its key in the files.
    pub key: String,
    /// Its name for the engine.
    pub name: String,
    /// Whether it is somebody else's.
    pub external: bool,
    /// The hash of what the files say about it.
    pub hash: String,
    pub(super) request: VolumeCreateRequest,
}

/// A service.
#[derive(Clone, Debug)]
pub struct WantedService {
    /// Its name in the files.
    pub name: String,
    /// The name of its container.
    pub container: String,
    /// Its image.
    pub image: String,
    /// Where its image comes from.
    pub pull: PullPolicy,
    /// The hash of what the files say about it.
    pub hash: String,
    /// The same as Docker Compose makes it since its fifth version.
    pub newer_hash: String,
    /// What it waits for, and whether it can do without.
    pub depends_on: Vec<(String, Condition, bool)>,
    /// How long its container gets to stop.
    pub grace: Duration,
    pub(super) service: Service,
    /// The names of its networks by their keys.
    pub(super) network_names: BTreeMap<String, String>,
    /// The names of its volumes by their keys.
    pub(super) volume_names: BTreeMap<String, String>,
}

/// When an image is pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullPolicy {
    /// When it is not there.
    Missing,
    /// Each time.
    Always,
    /// Never: it has to be there.
    Never,
}

/// What is awaited of a dependency before a service starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// That it was started.
    Started,
    /// That its health check says so.
    Healthy,
    /// That it ended well.
    Completed,
}

impl Wanted {
    /// # Errors
    /// Names the key that we do not apply, or the value that the engine would not take.
    pub fn of(project: &Project) -> Result<Self, DockerError> {
        let model = project.model()?;
        let section = |name: &str| model.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let networks: Vec<WantedNetwork> =
            section("networks").iter().map(|(key, value)| network(key, value, project.name())).collect();
        let volumes: Vec<WantedVolume> =
            section("volumes").iter().map(|(key, value)| volume(key, value, project.name())).collect();
        let network_names: BTreeMap<_, _> =
            networks.iter().map(|network| (network.key.clone(), network.name.clone())).collect();
        let volume_names: BTreeMap<_, _> =
            volumes.iter().map(|volume| (volume.key.clone(), volume.name.clone())).collect();
        let mut services = Vec::new();
        for (name, value) in &section("services") {
            services.push(service(name, value, project.name(), &network_names, &volume_names)?);
        }
        Ok(Self {
            project: project.name().to_owned(),
            folder: project.folder().to_owned(),
            files: project.files().to_vec(),
            networks,
            volumes,
            services: in_order(services),
        })
    }

    /// The service of that name.
    pub fn service(&self, name: &str) -> Option<&WantedService> {
        self.services.iter().find(|service| service.name == name)
    }

    /// Names of services, checked; all of them when none is named.
    ///
    /// # Errors
    /// When one is not part of the stack.
    pub fn chosen(&self, names: &[String]) -> Result<Vec<String>, DockerError> {
        let known: Vec<String> = self.services.iter().map(|service| service.name.clone()).collect();
        match names.iter().find(|name| !known.contains(name)) {
            Some(name) => Err(DockerError::NoService { name: name.clone(), known }),
            None if names.is_empty() => Ok(known),
            None => Ok(known.into_iter().filter(|name| names.contains(name)).collect()),
        }
    }
}

impl WantedService {
    /// Names of its networks.
    pub fn networks(&self) -> impl Iterator<Item = &str> {
        let keys = self.service.networks.keys().filter(|_| self.service.network_mode.is_none());
        keys.filter_map(|key| self.network_names.get(key)).map(String::as_str)
    }

    /// Names of its volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &str> {
        let named = self.service.volumes.iter().filter(|mount| mount.kind == "volume");
        named.filter_map(|mount| self.volume_names.get(mount.source.as_ref()?)).map(String::as_str)
    }

    /// Its variables, for finding secrets in what it says.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.service.environment.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_deref()?)))
    }

    /// The URL of the first port that it publishes, as this machine reaches it.
    pub fn address(&self) -> Option<String> {
        let (host, port, _) = self.published().find(|(_, _, protocol)| *protocol == "tcp")?;
        let host = match host {
            "" | "0.0.0.0" | "::" => "127.0.0.1".to_owned(),
            host if host.contains(':') => format!("[{host}]"),
            host => host.to_owned(),
        };
        Some(format!("http://{host}:{port}"))
    }

    /// What it publishes: address, port and protocol.
    pub(super) fn published(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.service.ports.iter().filter_map(|port| {
            let host = port.host_ip.as_deref().unwrap_or_default();
            Some((host, port.published.as_deref()?, port.protocol.as_deref().unwrap_or("tcp")))
        })
    }
}

/// Dependencies first; the files are known to have no circle.
fn in_order(services: Vec<WantedService>) -> Vec<WantedService> {
    let mut rest = services;
    let mut done: Vec<WantedService> = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let is_free = |service: &WantedService| {
            service.depends_on.iter().all(|(name, _, _)| done.iter().any(|earlier| earlier.name == *name))
        };
        let next = rest.iter().position(is_free).unwrap_or(0);
        done.push(rest.remove(next));
    }
    done
}

fn texts(value: Option<&Value>) -> std::collections::HashMap<String, String> {
    let map = value.and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn label(key: &str) -> String {
    format!("{LABEL}{key}")
}

/// Who made it: the label `com.docker.compose.version`.
pub(super) const MAKER: &str = concat!("ambientctl-", env!("CARGO_PKG_VERSION"));

fn network(key: &str, value: &Value, project: &str) -> WantedNetwork {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let switch = |key: &str| value.get(key).and_then(Value::as_bool);
    let name = text("name").unwrap_or_default();
    let hash = hash::sha256(&hash::compact(value));
    let mut labels = texts(value.get("labels"));
    labels.extend([
        (label("network"), key.to_owned()),
        (label("project"), project.to_owned()),
        (label("version"), MAKER.to_owned()),
        (label("config-hash"), hash.clone()),
    ]);
    let pools: Vec<IpamConfig> = value
        .get("ipam")
        .and_then(|ipam| ipam.get("config"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|pool| {
            let text = |key: &str| pool.get(key).and_then(Value::as_str).map(str::to_owned);
            let auxiliary = texts(pool.get("aux_addresses"));
            IpamConfig {
                subnet: text("subnet"),
                gateway: text("gateway"),
                ip_range: text("ip_range"),
                auxiliary_addresses: (!auxiliary.is_empty()).then_some(auxiliary),
            }
        })
        .collect();
    let ipam_driver = value.get("ipam").and_then(|ipam| ipam.get("driver")).and_then(Value::as_str);
    let ipam = (!pools.is_empty() || ipam_driver.is_some()).then(|| Ipam {
        driver: ipam_driver.map(str::to_owned),
        config: (!pools.is_empty()).then_some(pools),
        ..Ipam::default()
    });
    let request = NetworkCreateRequest {
        name: name.clone(),
        driver: text("driver"),
        internal: switch("internal"),
        attachable: switch("attachable"),
        ipam,
        enable_ipv4: switch("enable_ipv4"),
        enable_ipv6: switch("enable_ipv6"),
        options: Some(texts(value.get("driver_opts"))),
        labels: Some(labels),
        ..NetworkCreateRequest::default()
    };
    let external = switch("external").unwrap_or(false);
    WantedNetwork { key: key.to_owned(), name, external, hash, request }
}

fn volume(key: &str, value: &Value, project: &str) -> WantedVolume {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").unwrap_or_default();
    let driver = text("driver").unwrap_or_else(|| "local".to_owned());
    // The driver is filled in before the hash is made, behind the name.
    let mut hashed = Map::new();
    hashed.insert("name".to_owned(), Value::from(name.as_str()));
    hashed.insert("driver".to_owned(), Value::from(driver.as_str()));
    for (key, value) in value.as_object().into_iter().flatten() {
        hashed.entry(key.clone()).or_insert_with(|| value.clone());
    }
    let hash = hash::sha256(&hash::compact(&Value::Object(hashed)));
    let mut labels = texts(value.get("labels"));
    labels.extend([
        (label("volume"), key.to_owned()),
        (label("project"), project.to_owned()),
        (label("version"), MAKER.to_owned()),
        (label("config-hash"), hash.clone()),
    ]);
    let request = VolumeCreateRequest {
        name: Some(name.clone()),
        driver: Some(driver),
        driver_opts: Some(texts(value.get("driver_opts"))),
        labels: Some(labels),
        ..VolumeCreateRequest::default()
    };
    let external = value.get("external").and_then(Value::as_bool).unwrap_or(false);
    WantedVolume { key: key.to_owned(), name, external, hash, request }
}

fn service(
    name: &str,
    value: &Value,
    project: &str,
    networks: &BTreeMap<String, String>,
    volumes: &BTreeMap<String, String>,
) -> Result<WantedService, DockerError> {
    let service = Service::parse(name, value)?;
    let wrong =
        |key: &str, problem: String| DockerError::Value { service: name.to_owned(), key: key.to_owned(), problem };
    let hashed = hash::hashed_text(value);
    let newer = hash::hashed_text(&without_host_paths(value));
    let mut depends_on = Vec::new();
    for (other, dependency) in &service.depends_on {
        let condition = match dependency.condition.as_str() {
            "service_started" => Condition::Started,
            "service_healthy" => Condition::Healthy,
            "service_completed_successfully" => Condition::Completed,
            unknown => {
                return Err(wrong(&format!("depends_on.{other}.condition"), format!("cannot be `{unknown}`")));
            }
        };
        depends_on.push((other.clone(), condition, dependency.required));
    }
    let pull = match service.pull_policy.as_deref() {
        None | Some("missing" | "if_not_present") if service.build.is_some() => PullPolicy::Never,
        None | Some("missing" | "if_not_present") => PullPolicy::Missing,
        Some("always") => PullPolicy::Always,
        Some("never" | "build") => PullPolicy::Never,
        Some(other) => {
            return Err(wrong("pull_policy", format!("cannot be `{other}`; it takes missing, always and never")));
        }
    };
    let grace = match &service.stop_grace_period {
        None => USUAL_GRACE,
        Some(text) => duration(text).ok_or_else(|| wrong("stop_grace_period", "is no duration".to_owned()))?,
    };
    Ok(WantedService {
        name: name.to_owned(),
        container: service.container_name.clone().unwrap_or_else(|| format!("{project}-{name}-1")),
        image: service.image.clone().unwrap_or_else(|| format!("{project}-{name}")),
        pull,
        hash: hash::sha256(&hashed),
        newer_hash: hash::sha256(&newer),
        depends_on,
        grace,
        service,
        network_names: networks.clone(),
        volume_names: volumes.clone(),
    })
}

/// Since its fifth version Docker Compose leaves `create_host_path` out of what it hashes.
fn without_host_paths(service: &Value) -> Value {
    let mut service = service.clone();
    for mount in service.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(bind) = mount.get_mut("bind").and_then(Value::as_object_mut) {
            bind.shift_remove("create_host_path");
        }
    }
    service
}
