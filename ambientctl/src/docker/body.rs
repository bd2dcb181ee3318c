//! From a service to what the engine is asked to create: the same request that Docker Compose makes. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, EndpointIpamConfig, EndpointSettings, HealthConfig, HostConfig,
    HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount, MountBindOptions, MountTmpfsOptions, MountType,
    MountVolumeOptions, NetworkingConfig, PortBinding, ResourcesUlimits, RestartPolicy, RestartPolicyNameEnum,
};

use super::service::{self, Limit, Service};
use super::wanted::{MAKER, WantedService};
use super::{DockerError, LABEL, Wanted};
use crate::compose::duration;

/// A container to create.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub(super) body: ContainerCreateBody,
    /// Networks that it is connected to afterwards, for engines that take only one at first.
    pub(super) later: Vec<(String, EndpointSettings)>,
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
pub(super) fn body(
    wanted: &Wanted,
    service: &WantedService,
    image_id: &str,
    predecessor: &Predecessor,
    all_networks_at_once: bool,
) -> Result<Body, DockerError> {
    let typed = &service.service;
    let endpoints = endpoints(service);
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
    let mode = typed.network_mode.clone().or_else(|| endpoints.first().map(|(name, _)| name.clone()));
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
        labels: Some(labels(wanted, service, image_id, predecessor)),
        stop_signal: typed.stop_signal.clone(),
        stop_timeout: typed.stop_grace_period.as_ref().map(|_| seconds(service.grace)),
        host_config: Some(host(service, mode, predecessor)?),
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

fn exposed(service: &Service) -> Vec<String> {
    let with_protocol = |port: &str| if port.contains('/') { port.to_owned() } else { format!("{port}/tcp") };
    let mut ports: Vec<String> = service.ports.iter().map(port_key).collect();
    ports.extend(service.expose.iter().map(|port| with_protocol(port)));
    ports.sort();
    ports.dedup();
    ports
}

fn port_key(port: &service::Port) -> String {
    format!("{}/{}", port.target, port.protocol.as_deref().unwrap_or("tcp"))
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

fn labels(
    wanted: &Wanted,
    service: &WantedService,
    image_id: &str,
    predecessor: &Predecessor,
) -> HashMap<String, String> {
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
        ("config-hash", service.hash.clone()),
        ("depends_on", depends_on.join(",")),
        ("image", image_id.to_owned()),
        ("project.working_dir", wanted.folder.display().to_string()),
        ("project.config_files", files.join(",")),
        ("version", MAKER.to_owned()),
    ] {
        labels.insert(format!("{LABEL}{key}"), value);
    }
    if let Some(replaced) = &predecessor.replaces {
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

/// By priority, then by name: the first one is the container's own.
fn endpoints(service: &WantedService) -> Vec<(String, EndpointSettings)> {
    if service.service.network_mode.is_some() {
        return Vec::new();
    }
    let mut networks: Vec<(&String, Option<&service::ServiceNetwork>)> =
        service.service.networks.iter().map(|(key, network)| (key, network.as_ref())).collect();
    networks.sort_by_key(|(key, network)| (std::cmp::Reverse(network.map_or(0, |network| network.priority)), *key));
    networks
        .into_iter()
        .map(|(key, network)| {
            let mut aliases = vec![service.container.clone(), service.name.clone()];
            let mut settings = EndpointSettings::default();
            if let Some(network) = network {
                aliases.extend(network.aliases.iter().cloned());
                settings.mac_address.clone_from(&network.mac_address);
                settings.driver_opts = (!network.driver_opts.is_empty())
                    .then(|| network.driver_opts.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
                let addressed = network.ipv4_address.is_some()
                    || network.ipv6_address.is_some()
                    || !network.link_local_ips.is_empty();
                settings.ipam_config = addressed.then(|| EndpointIpamConfig {
                    ipv4_address: network.ipv4_address.clone(),
                    ipv6_address: network.ipv6_address.clone(),
                    link_local_ips: (!network.link_local_ips.is_empty()).then(|| network.link_local_ips.clone()),
                });
            }
            settings.aliases = Some(aliases);
            let name = service.network_names.get(key).cloned().unwrap_or_else(|| key.clone());
            (name, settings)
        })
        .collect()
}

fn host(service: &WantedService, mode: Option<String>, predecessor: &Predecessor) -> Result<HostConfig, DockerError> {
    let typed = &service.service;
    let wrong = |key: &str, problem: &str| DockerError::Value {
        service: service.name.clone(),
        key: key.to_owned(),
        problem: problem.to_owned(),
    };
    let bytes = |key: &str, text: &Option<String>| -> Result<Option<i64>, DockerError> {
        text.as_ref().map(|text| text.parse::<i64>().map_err(|_no_size| wrong(key, "is no size"))).transpose()
    };
    let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let map = |map: &BTreeMap<String, String>| {
        (!map.is_empty())
            .then(|| map.iter().map(|(key, value)| (key.clone(), value.clone())).collect::<HashMap<_, _>>())
    };
    let resources = typed.deploy.as_ref().map(|deploy| &deploy.resources);
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let reservations = resources.and_then(|resources| resources.reservations.as_ref());
    let (binds, mounts) = volumes(service, predecessor)?;
    Ok(HostConfig {
        binds: Some(binds),
        mounts: (!mounts.is_empty()).then_some(mounts),
        network_mode: mode,
        port_bindings: Some(bindings(typed)),
        restart_policy: Some(restart(service)?),
        cap_add: some(&typed.cap_add),
        cap_drop: some(&typed.cap_drop),
        cgroupns_mode: match typed.cgroup.as_deref() {
            None => None,
            Some("host") => Some(HostConfigCgroupnsModeEnum::HOST),
            Some("private") => Some(HostConfigCgroupnsModeEnum::PRIVATE),
            Some(_) => return Err(wrong("cgroup", "takes host and private")),
        },
        cgroup_parent: typed.cgroup_parent.clone(),
        cpu_period: typed.cpu_period,
        cpu_quota: typed.cpu_quota,
        cpu_shares: typed.cpu_shares,
        cpuset_cpus: typed.cpuset.clone(),
        nano_cpus: limits.and_then(|limits| limits.cpus).or(typed.cpus).map(nano),
        memory: match limits.and_then(|limits| limits.memory.clone()) {
            Some(limit) => bytes("deploy.resources.limits.memory", &Some(limit))?,
            None => bytes("mem_limit", &typed.mem_limit)?,
        },
        memory_reservation: match reservations.and_then(|reservations| reservations.memory.clone()) {
            Some(reservation) => bytes("deploy.resources.reservations.memory", &Some(reservation))?,
            None => bytes("mem_reservation", &typed.mem_reservation)?,
        },
        memory_swap: bytes("memswap_limit", &typed.memswap_limit)?,
        pids_limit: limits.and_then(|limits| limits.pids).or(typed.pids_limit),
        devices: (!typed.devices.is_empty()).then(|| typed.devices.iter().map(device).collect()),
        device_cgroup_rules: some(&typed.device_cgroup_rules),
        dns: some(&typed.dns),
        dns_options: some(&typed.dns_opt),
        dns_search: some(&typed.dns_search),
        extra_hosts: some(&typed.extra_hosts.iter().map(|host| host.replacen('=', ":", 1)).collect::<Vec<_>>()),
        group_add: some(&typed.group_add),
        init: typed.init,
        ipc_mode: typed.ipc.clone(),
        log_config: typed
            .logging
            .as_ref()
            .map(|logging| HostConfigLogConfig { typ: logging.driver.clone(), config: map(&logging.options) }),
        oom_kill_disable: typed.oom_kill_disable.then_some(true),
        oom_score_adj: typed.oom_score_adj,
        pid_mode: typed.pid.clone(),
        privileged: typed.privileged.then_some(true),
        readonly_rootfs: typed.read_only.then_some(true),
        runtime: typed.runtime.clone(),
        security_opt: some(&typed.security_opt),
        shm_size: bytes("shm_size", &typed.shm_size)?,
        storage_opt: map(&typed.storage_opt),
        sysctls: map(&typed.sysctls),
        tmpfs: (!typed.tmpfs.is_empty()).then(|| {
            typed
                .tmpfs
                .iter()
                .map(|entry| {
                    let (path, options) = entry.split_once(':').unwrap_or((entry, ""));
                    (path.to_owned(), options.to_owned())
                })
                .collect()
        }),
        ulimits: (!typed.ulimits.is_empty()).then(|| {
            typed
                .ulimits
                .iter()
                .map(|(name, limit)| {
                    let (soft, hard) = match limit {
                        Limit::Both(both) => (*both, *both),
                        Limit::Each { soft, hard } => (*soft, *hard),
                    };
                    ResourcesUlimits { name: Some(name.clone()), soft: Some(soft), hard: Some(hard) }
                })
                .collect()
        }),
        userns_mode: typed.userns_mode.clone(),
        uts_mode: typed.uts.clone(),
        ..HostConfig::default()
    })
}

/// Billionths of a processor.
#[expect(clippy::cast_possible_truncation, reason = "nobody has a billion processors; what does not fit is cut off")]
fn nano(cpus: f64) -> i64 {
    (cpus * 1e9).round() as i64
}

fn device(device: &service::Device) -> DeviceMapping {
    DeviceMapping {
        path_on_host: Some(device.source.clone()),
        path_in_container: Some(device.target.clone().unwrap_or_else(|| device.source.clone())),
        cgroup_permissions: Some(device.permissions.clone().unwrap_or_else(|| "rwm".to_owned())),
    }
}

fn bindings(service: &Service) -> HashMap<String, Option<Vec<PortBinding>>> {
    let mut bindings: HashMap<String, Option<Vec<PortBinding>>> = HashMap::new();
    for port in &service.ports {
        let binding = PortBinding {
            host_ip: Some(port.host_ip.clone().unwrap_or_default()),
            host_port: Some(port.published.clone().unwrap_or_default()),
        };
        bindings.entry(port_key(port)).or_default().get_or_insert_default().push(binding);
    }
    bindings
}

fn restart(service: &WantedService) -> Result<RestartPolicy, DockerError> {
    let word = service.service.restart.as_deref().unwrap_or("no");
    let wrong = || DockerError::Value {
        service: service.name.clone(),
        key: "restart".to_owned(),
        problem: "takes no, always, unless-stopped and on-failure with a count".to_owned(),
    };
    let (name, count) = match word.split_once(':') {
        Some((name, count)) => (name, Some(count.parse::<i64>().map_err(|_no_count| wrong())?)),
        None => (word, None),
    };
    let name = match name {
        "no" => RestartPolicyNameEnum::NO,
        "always" => RestartPolicyNameEnum::ALWAYS,
        "unless-stopped" => RestartPolicyNameEnum::UNLESS_STOPPED,
        "on-failure" => RestartPolicyNameEnum::ON_FAILURE,
        _ => return Err(wrong()),
    };
    Ok(RestartPolicy { name: Some(name), maximum_retry_count: count })
}

/// Plain mounts in the old form, all others in the new one, as Docker Compose writes them.
fn volumes(service: &WantedService, predecessor: &Predecessor) -> Result<(Vec<String>, Vec<Mount>), DockerError> {
    let typed = &service.service;
    let mut binds = Vec::new();
    let mut mounts = Vec::new();
    for (index, mount) in typed.volumes.iter().enumerate() {
        let access = if mount.read_only { "ro" } else { "rw" };
        let volume = mount.volume.clone().unwrap_or_default();
        let bind = mount.bind.clone().unwrap_or_default();
        match (mount.kind.as_str(), &mount.source) {
            ("volume", Some(key)) if volume.labels.is_empty() => {
                let name = service.volume_names.get(key).unwrap_or(key);
                let copy = if volume.nocopy { ",nocopy" } else { "" };
                binds.push(format!("{name}:{}:{access}{copy}", mount.target));
            }
            ("volume", None) => {}
            ("bind", Some(source)) if bind.create_host_path => {
                let mut options = vec![access.to_owned()];
                options.extend(bind.propagation.clone());
                options.extend(bind.selinux.clone());
                binds.push(format!("{source}:{}:{}", mount.target, options.join(",")));
            }
            _ => mounts.push(new_form(service, index, mount)?),
        }
    }
    let own: Vec<&str> =
        typed.volumes.iter().filter(|mount| mount.source.is_some()).map(|mount| mount.target.as_str()).collect();
    for (path, name) in &predecessor.volumes {
        if !own.contains(&path.as_str()) {
            binds.push(format!("{name}:{path}:rw"));
        }
    }
    Ok((binds, mounts))
}

fn new_form(service: &WantedService, index: usize, mount: &service::Mount) -> Result<Mount, DockerError> {
    let wrong = |problem: &str| DockerError::Value {
        service: service.name.clone(),
        key: format!("volumes[{index}]"),
        problem: problem.to_owned(),
    };
    let mut new = Mount {
        target: Some(mount.target.clone()),
        source: mount.source.clone(),
        read_only: mount.read_only.then_some(true),
        consistency: mount.consistency.clone(),
        ..Mount::default()
    };
    match mount.kind.as_str() {
        "volume" => {
            let volume = mount.volume.clone().unwrap_or_default();
            new.typ = Some(MountType::VOLUME);
            new.source = mount.source.as_ref().map(|key| service.volume_names.get(key).unwrap_or(key).clone());
            new.volume_options = Some(MountVolumeOptions {
                no_copy: Some(volume.nocopy),
                labels: (!volume.labels.is_empty()).then(|| volume.labels.into_iter().collect()),
                ..MountVolumeOptions::default()
            });
        }
        "bind" => {
            let bind = mount.bind.clone().unwrap_or_default();
            new.typ = Some(MountType::BIND);
            if bind.selinux.is_some() {
                return Err(wrong("has `selinux` without `create_host_path`, which the engine cannot do"));
            }
            new.bind_options = bind
                .propagation
                .map(|propagation| {
                    let propagation = propagation.parse().map_err(|_word| wrong("has an unknown propagation"))?;
                    Ok::<_, DockerError>(MountBindOptions {
                        propagation: Some(propagation),
                        ..MountBindOptions::default()
                    })
                })
                .transpose()?;
        }
        "tmpfs" => {
            let tmpfs = mount.tmpfs.clone().unwrap_or_default();
            new.typ = Some(MountType::TMPFS);
            let size =
                tmpfs.size.map(|size| size.parse().map_err(|_no_size| wrong("has no proper size"))).transpose()?;
            new.tmpfs_options =
                Some(MountTmpfsOptions { size_bytes: size, mode: tmpfs.mode, ..MountTmpfsOptions::default() });
        }
        _ => return Err(wrong("is of a kind that is not applied")),
    }
    Ok(new)
}
