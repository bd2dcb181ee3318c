//! From a service to what the engine is asked to create: the same request that Docker Compose makes. Pure.
//!
//! `networks` says where the container is reached, `mounts` what of the machine it sees, `host` all else that is the
//! machine's to give.

mod host;
mod mounts;
mod networks;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bollard::models::{ContainerCreateBody, EndpointSettings, HealthConfig, NetworkingConfig};

use self::host::{host, shared};
use self::networks::{endpoints, exposed};
use super::resources::MAKER;
use super::service::{self, Service};
use super::{DockerError, GRANTED, LABEL, Wanted, WantedService};
use crate::compose::duration;

/// A container to create.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) body: ContainerCreateBody,
    /// Networks that it is connected to afterwards, for engines that take only one at first.
    pub(super) later: Vec<(String, EndpointSettings)>,
}

/// What a container is made of besides what its files say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings<'a> {
    /// The id of its image.
    pub(super) image_id: &'a str,
    /// Ids of the containers that are there, by their services.
    pub(super) containers: &'a BTreeMap<String, String>,
    /// What it takes the place of.
    pub(super) predecessor: &'a Predecessor,
    /// Whether the engine takes all networks at once.
    pub(super) all_networks_at_once: bool,
}

/// What is carried over from a container that is replaced.
#[derive(Clone, Debug, Default)]
pub(super) struct Predecessor {
    /// Anonymous volumes by the path at which they are mounted.
    pub(super) volumes: BTreeMap<String, String>,
    /// What the label `com.docker.compose.replace` says.
    pub(super) replaces: Option<String>,
}

/// # Errors
/// Names a value that the engine would not take.
pub(super) fn body(wanted: &Wanted, service: &WantedService, around: Surroundings<'_>) -> Result<Body, DockerError> {
    let typed = &service.service;
    let all_networks_at_once = around.all_networks_at_once;
    let endpoints = endpoints(wanted, service);
    let (at_once, later) = if all_networks_at_once || endpoints.len() < 2 {
        (endpoints.clone(), Vec::new())
    } else {
        (endpoints[..1].to_vec(), endpoints[1..].to_vec())
    };
    if !all_networks_at_once && typed.healthcheck.as_ref().is_some_and(|check| check.start_interval.is_some()) {
        // Older engines would pass it over, and Docker Compose refuses it there.
        return Err(DockerError::Value {
            service: service.name.clone(),
            key: "healthcheck.start_interval".to_owned(),
            problem: "needs Docker Engine 25 or later".to_owned(),
        });
    }
    if !all_networks_at_once && endpoints.iter().any(|(_, settings)| settings.mac_address.is_some()) {
        return Err(DockerError::Value {
            service: service.name.clone(),
            key: "mac_address".to_owned(),
            problem: "needs Docker Engine 25 or later".to_owned(),
        });
    }
    let mode = shared(typed.network_mode.as_ref(), around.containers);
    let mode = mode.or_else(|| endpoints.first().map(|(name, _)| name.clone()));
    let body = ContainerCreateBody {
        hostname: typed.hostname.clone(),
        domainname: typed.domainname.clone(),
        user: typed.user.clone(),
        attach_stdin: Some(false),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        exposed_ports: Some(exposed(typed)),
        tty: Some(typed.tty),
        open_stdin: Some(typed.stdin_open),
        stdin_once: Some(false),
        env: Some(variables(typed)),
        cmd: typed.command.clone(),
        healthcheck: typed.healthcheck.as_ref().map(|check| health(service, check)).transpose()?,
        image: Some(service.image.clone()),
        volumes: Some(anonymous(typed).map(str::to_owned).collect()),
        working_dir: typed.working_dir.clone(),
        entrypoint: typed.entrypoint.clone(),
        labels: Some(labels(wanted, service, around)),
        stop_signal: typed.stop_signal.clone(),
        stop_timeout: typed.stop_grace_period.as_ref().map(|_| seconds(service.grace)),
        host_config: Some(host(service, mode, around)?),
        networking_config: Some(NetworkingConfig { endpoints_config: Some(at_once.into_iter().collect()) }),
        ..ContainerCreateBody::default()
    };
    Ok(Body { body, later })
}

/// Whole seconds, as the engine counts a grace period.
pub(super) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs_f64().ceil().max(0.0).to_string().parse::<u64>().unwrap_or(u64::MAX))
        .unwrap_or(i64::MAX)
}

fn variables(service: &Service) -> Vec<String> {
    service
        .environment
        .iter()
        .map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name.clone(),
        })
        .collect()
}

fn health(service: &WantedService, check: &service::HealthCheck) -> Result<HealthConfig, DockerError> {
    if check.disable {
        return Ok(HealthConfig { test: Some(vec!["NONE".to_owned()]), ..HealthConfig::default() });
    }
    let time = |key: &str, text: &Option<String>| -> Result<Option<i64>, DockerError> {
        let Some(text) = text else { return Ok(None) };
        let wrong = || DockerError::Value {
            service: service.name.clone(),
            key: format!("healthcheck.{key}"),
            problem: "is no duration".to_owned(),
        };
        let duration = duration(text).ok_or_else(wrong)?;
        i64::try_from(duration.as_nanos()).map(Some).map_err(|_too_long| wrong())
    };
    Ok(HealthConfig {
        test: (!check.test.is_empty()).then(|| check.test.clone()),
        interval: time("interval", &check.interval)?,
        timeout: time("timeout", &check.timeout)?,
        retries: check.retries,
        start_period: time("start_period", &check.start_period)?,
        start_interval: time("start_interval", &check.start_interval)?,
    })
}

fn labels(wanted: &Wanted, service: &WantedService, around: Surroundings<'_>) -> HashMap<String, String> {
    let typed = &service.service;
    let files: Vec<String> = wanted.files.iter().map(|file| file.display().to_string()).collect();
    let depends_on: Vec<String> = typed
        .depends_on
        .iter()
        .map(|(name, dependency)| format!("{name}:{}:{}", dependency.condition, dependency.restart))
        .collect();
    let mut labels: HashMap<String, String> =
        typed.labels.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    for (key, value) in [
        ("project", wanted.project.clone()),
        ("service", service.name.clone()),
        ("container-number", "1".to_owned()),
        ("oneoff", "False".to_owned()),
        ("config-hash", service.hashes(around.containers).own),
        ("depends_on", depends_on.join(",")),
        ("image", around.image_id.to_owned()),
        ("project.working_dir", wanted.folder.display().to_string()),
        ("project.config_files", files.join(",")),
        ("version", MAKER.to_owned()),
    ] {
        labels.insert(format!("{LABEL}{key}"), value);
    }
    if let Some(hash) = service.granted_hash() {
        labels.insert(GRANTED.to_owned(), hash);
    }
    if let Some(replaced) = &around.predecessor.replaces {
        labels.insert(format!("{LABEL}replace"), replaced.clone());
    }
    labels
}

/// Paths of volumes without a name.
fn anonymous(service: &Service) -> impl Iterator<Item = &str> {
    service
        .volumes
        .iter()
        .filter(|mount| mount.kind == "volume" && mount.source.is_none())
        .map(|mount| mount.target.as_str())
}
