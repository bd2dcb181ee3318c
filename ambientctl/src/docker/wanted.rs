//! What the compose files ask for, as what the engine is asked for: networks, volumes, and services in the order of their
//! dependencies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::DockerError;
use super::grants::{self, Granted};
use super::resources::{WantedNetwork, WantedVolume, network, volume};
use super::service::Service;
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
    /// What it waits for.
    pub depends_on: Vec<Dependency>,
    /// How long its container gets to stop.
    pub grace: Duration,
    pub(super) service: Service,
    /// The files that it is granted.
    pub(super) granted: Vec<Granted>,
    /// What the files say about it, for its hash.
    model: Value,
    /// The names of its networks by their keys.
    pub(super) network_names: BTreeMap<String, String>,
    /// The names of its volumes by their keys.
    pub(super) volume_names: BTreeMap<String, String>,
}

/// What a service waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The service that it waits for.
    pub service: String,
    /// What is awaited of it.
    pub condition: Condition,
    /// Whether it has to be started again when the other one is made anew.
    pub restarts: bool,
    /// Whether it cannot do without.
    pub is_required: bool,
}

/// The hashes of what the files say about a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashes {
    /// What stands on its container.
    pub own: String,
    /// The same as Docker Compose makes it since its fifth version.
    pub newer: String,
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
            let mut made = service(name, value, project.name(), &network_names, &volume_names)?;
            made.granted = grants::granted(name, &made.service, &model, project)?;
            services.push(made);
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

    /// Services, and all that have to be started again with one of them.
    pub fn with_restarted(&self, mut services: Vec<String>) -> Vec<String> {
        // Dependencies stand first, so one pass finds those of those too.
        for service in &self.services {
            let is_one = |dependency: &Dependency| dependency.restarts && services.contains(&dependency.service);
            if !services.contains(&service.name) && service.depends_on.iter().any(is_one) {
                services.push(service.name.clone());
            }
        }
        services
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
    /// Services whose containers have to be there before this one's is made: it shares their namespaces or volumes.
    pub fn shares(&self) -> impl Iterator<Item = &str> {
        let typed = &self.service;
        let spaces = [&typed.network_mode, &typed.ipc, &typed.pid].into_iter().flatten();
        let spaces = spaces.filter_map(|mode| mode.strip_prefix("service:"));
        let volumes = typed.volumes_from.iter().filter(|from| !from.starts_with("container:"));
        spaces.chain(volumes.map(|from| from.split(':').next().unwrap_or_default()))
    }

    /// The hashes, once it is known which containers it shares something with: ids by services.
    pub fn hashes(&self, containers: &BTreeMap<String, String>) -> Hashes {
        let model = with_containers(&self.model, containers);
        let hash = |model: &Value| hash::sha256(&hash::hashed_text(model));
        Hashes { own: hash(&model), newer: hash(&without_host_paths(&model)) }
    }

    /// What the texts among its secrets and configs are, in one hash.
    pub fn granted_hash(&self) -> Option<String> {
        grants::fingerprint(&self.granted)
    }

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

    /// The platform whose image it is to have, where that was said.
    pub(super) fn platform(&self) -> Option<&str> {
        self.service.platform.as_deref()
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
    pub fn published(&self) -> impl Iterator<Item = (&str, &str, &str)> {
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
            service.depends_on.iter().all(|other| done.iter().any(|earlier| earlier.name == other.service))
        };
        let next = rest.iter().position(is_free).unwrap_or(0);
        done.push(rest.remove(next));
    }
    done
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
        depends_on.push(Dependency {
            service: other.clone(),
            condition,
            restarts: dependency.restart,
            is_required: dependency.required,
        });
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
        depends_on,
        grace,
        service,
        granted: Vec::new(),
        model: value.clone(),
        network_names: networks.clone(),
        volume_names: volumes.clone(),
    })
}

/// Docker Compose hashes a service with the ids of the containers whose namespaces and volumes it shares, not their names.
fn with_containers(service: &Value, containers: &BTreeMap<String, String>) -> Value {
    let mut service = service.clone();
    for key in ["network_mode", "ipc", "pid"] {
        if let Some(mode) = service.get_mut(key) {
            let id = mode.as_str().and_then(|mode| containers.get(mode.strip_prefix("service:")?));
            if let Some(id) = id {
                *mode = Value::from(format!("container:{id}"));
            }
        }
    }
    for from in service.get_mut("volumes_from").and_then(Value::as_array_mut).into_iter().flatten() {
        let text = from.as_str().unwrap_or_default();
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let id = if name == "container" { Some(rest.split(':').next().unwrap_or_default()) } else { None };
        if let Some(id) = id.or_else(|| containers.get(name).map(String::as_str)) {
            *from = Value::from(id);
        }
    }
    service
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
