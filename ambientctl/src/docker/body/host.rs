//! What a container gets of its machine: limits, rights, devices, namespaces.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{
    DeviceMapping, DeviceRequest, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, ResourcesUlimits,
    RestartPolicy, RestartPolicyNameEnum,
};

use super::super::service::{self, Limit, Service};
use super::super::{DockerError, WantedService};
use super::Surroundings;
use super::mounts::volumes;
use super::networks::bindings;

/// # Errors
/// Names a value that the engine would not take.
pub(super) fn host(
    service: &WantedService,
    mode: Option<String>,
    around: Surroundings<'_>,
) -> Result<HostConfig, DockerError> {
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
    let (binds, mounts) = volumes(service, around.predecessor)?;
    Ok(HostConfig {
        binds: Some(binds),
        mounts: (!mounts.is_empty()).then_some(mounts),
        network_mode: mode,
        volumes_from: volumes_from(typed, around.containers),
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
        memory_swappiness: bytes("mem_swappiness", &typed.mem_swappiness)?,
        pids_limit: limits.and_then(|limits| limits.pids).or(typed.pids_limit),
        devices: (!typed.devices.is_empty()).then(|| typed.devices.iter().map(device).collect()),
        device_requests: device_requests(typed),
        device_cgroup_rules: some(&typed.device_cgroup_rules),
        dns: some(&typed.dns),
        dns_options: some(&typed.dns_opt),
        dns_search: some(&typed.dns_search),
        extra_hosts: some(&typed.extra_hosts.iter().map(|host| host.replacen('=', ":", 1)).collect::<Vec<_>>()),
        group_add: some(&typed.group_add),
        init: typed.init,
        ipc_mode: shared(typed.ipc.as_ref(), around.containers),
        log_config: typed
            .logging
            .as_ref()
            .map(|logging| HostConfigLogConfig { typ: logging.driver.clone(), config: map(&logging.options) }),
        oom_kill_disable: typed.oom_kill_disable.then_some(true),
        oom_score_adj: typed.oom_score_adj,
        pid_mode: shared(typed.pid.as_ref(), around.containers),
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

/// The namespace of another service's container, by the container's id.
pub(super) fn shared(mode: Option<&String>, containers: &BTreeMap<String, String>) -> Option<String> {
    let mode = mode?;
    let id = mode.strip_prefix("service:").and_then(|service| containers.get(service));
    Some(id.map_or_else(|| mode.clone(), |id| format!("container:{id}")))
}

/// Containers whose volumes this one has too, by their ids.
fn volumes_from(service: &Service, containers: &BTreeMap<String, String>) -> Option<Vec<String>> {
    let all = service.volumes_from.iter().map(|from| {
        let from = from.strip_prefix("container:").unwrap_or(from);
        let (name, access) =
            from.split_once(':').map_or((from, String::new()), |(name, access)| (name, format!(":{access}")));
        format!("{}{access}", containers.get(name).map_or(name, String::as_str))
    });
    (!service.volumes_from.is_empty()).then(|| all.collect())
}

/// Graphics processors are asked for by `gpus`, and like other devices by a reservation.
fn device_requests(service: &Service) -> Option<Vec<DeviceRequest>> {
    let reserved = service.deploy.as_ref().and_then(|deploy| deploy.resources.reservations.as_ref());
    let reserved = reserved.map(|reserved| reserved.devices.as_slice()).unwrap_or_default();
    let request = |request: &service::DeviceRequest, capability: Option<&str>| {
        let mut capabilities = request.capabilities.clone();
        capabilities.extend(
            capability.filter(|word| !request.capabilities.iter().any(|known| known == word)).map(str::to_owned),
        );
        DeviceRequest {
            driver: request.driver.clone(),
            // All of them, when neither a number nor names were said.
            count: request.count.or_else(|| request.device_ids.is_empty().then_some(-1)),
            device_ids: (!request.device_ids.is_empty()).then(|| request.device_ids.clone()),
            capabilities: Some(vec![capabilities]),
            options: Some(request.options.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
        }
    };
    let all: Vec<DeviceRequest> = service
        .gpus
        .iter()
        .map(|gpu| request(gpu, Some("gpu")))
        .chain(reserved.iter().map(|device| request(device, None)))
        .collect();
    (!all.is_empty()).then_some(all)
}
