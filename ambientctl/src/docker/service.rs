//! A service of the merged model as types: what we apply, and nothing that we would pass over.
//!
//! A key that is not here is refused by name before anything is touched: a container without it would not be what the file
//! asks for.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::DockerError;

/// A service; every key in the form in which the model prints it.
#[expect(clippy::struct_excessive_bools, reason = "the format has them")]
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Service {
    /// Only says whose output `docker compose up` shows.
    #[serde(rename = "attach")]
    _attach: Option<bool>,
    pub(super) build: Option<Value>,
    pub(super) cap_add: Vec<String>,
    pub(super) cap_drop: Vec<String>,
    pub(super) cgroup: Option<String>,
    pub(super) cgroup_parent: Option<String>,
    pub(super) command: Option<Vec<String>>,
    pub(super) configs: Vec<Grant>,
    pub(super) container_name: Option<String>,
    pub(super) cpu_period: Option<i64>,
    pub(super) cpu_quota: Option<i64>,
    pub(super) cpu_shares: Option<i64>,
    pub(super) cpus: Option<f64>,
    pub(super) cpuset: Option<String>,
    pub(super) depends_on: BTreeMap<String, Dependency>,
    pub(super) deploy: Option<Deploy>,
    pub(super) device_cgroup_rules: Vec<String>,
    pub(super) devices: Vec<Device>,
    pub(super) dns: Vec<String>,
    pub(super) dns_opt: Vec<String>,
    pub(super) dns_search: Vec<String>,
    pub(super) domainname: Option<String>,
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) environment: BTreeMap<String, Option<String>>,
    pub(super) expose: Vec<String>,
    pub(super) external_links: Vec<String>,
    pub(super) extra_hosts: Vec<String>,
    pub(super) gpus: Vec<DeviceRequest>,
    pub(super) group_add: Vec<String>,
    pub(super) healthcheck: Option<HealthCheck>,
    pub(super) hostname: Option<String>,
    pub(super) image: Option<String>,
    pub(super) init: Option<bool>,
    pub(super) ipc: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) links: Vec<String>,
    pub(super) logging: Option<Logging>,
    pub(super) mac_address: Option<String>,
    pub(super) mem_limit: Option<String>,
    pub(super) mem_reservation: Option<String>,
    pub(super) mem_swappiness: Option<String>,
    pub(super) memswap_limit: Option<String>,
    pub(super) network_mode: Option<String>,
    pub(super) networks: BTreeMap<String, Option<ServiceNetwork>>,
    pub(super) oom_kill_disable: bool,
    pub(super) oom_score_adj: Option<i64>,
    pub(super) pid: Option<String>,
    pub(super) pids_limit: Option<i64>,
    pub(super) platform: Option<String>,
    pub(super) ports: Vec<Port>,
    pub(super) privileged: bool,
    pub(super) profiles: Vec<String>,
    pub(super) pull_policy: Option<String>,
    pub(super) read_only: bool,
    pub(super) restart: Option<String>,
    pub(super) runtime: Option<String>,
    pub(super) scale: Option<u64>,
    pub(super) secrets: Vec<Grant>,
    pub(super) security_opt: Vec<String>,
    pub(super) shm_size: Option<String>,
    pub(super) stdin_open: bool,
    pub(super) stop_grace_period: Option<String>,
    pub(super) stop_signal: Option<String>,
    pub(super) storage_opt: BTreeMap<String, String>,
    pub(super) sysctls: BTreeMap<String, String>,
    pub(super) tmpfs: Vec<String>,
    pub(super) tty: bool,
    pub(super) ulimits: BTreeMap<String, Limit>,
    pub(super) user: Option<String>,
    pub(super) userns_mode: Option<String>,
    pub(super) uts: Option<String>,
    pub(super) volumes: Vec<Mount>,
    pub(super) volumes_from: Vec<String>,
    pub(super) working_dir: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Dependency {
    pub(super) condition: String,
    #[serde(default)]
    pub(super) restart: bool,
    #[serde(default = "yes")]
    pub(super) required: bool,
}

fn yes() -> bool {
    true
}

/// Of a deployment only what is about one container on one machine.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Deploy {
    pub(super) replicas: Option<u64>,
    pub(super) resources: Resources,
    pub(super) placement: BTreeMap<String, Value>,
    /// Labels of a swarm's service; no container has them.
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Resources {
    pub(super) limits: Option<Resource>,
    pub(super) reservations: Option<Resource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Resource {
    pub(super) cpus: Option<f64>,
    pub(super) memory: Option<String>,
    pub(super) pids: Option<i64>,
    pub(super) devices: Vec<DeviceRequest>,
}

/// Devices by what they can do, such as graphics processors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct DeviceRequest {
    pub(super) capabilities: Vec<String>,
    pub(super) driver: Option<String>,
    pub(super) count: Option<i64>,
    pub(super) device_ids: Vec<String>,
    pub(super) options: BTreeMap<String, String>,
}

/// A secret or a config that a service gets as a file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Grant {
    pub(super) source: String,
    pub(super) target: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) gid: Option<String>,
    pub(super) mode: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    pub(super) source: String,
    pub(super) target: Option<String>,
    pub(super) permissions: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HealthCheck {
    pub(super) test: Vec<String>,
    pub(super) timeout: Option<String>,
    pub(super) interval: Option<String>,
    pub(super) retries: Option<i64>,
    pub(super) start_period: Option<String>,
    pub(super) start_interval: Option<String>,
    pub(super) disable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Logging {
    pub(super) driver: Option<String>,
    pub(super) options: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ServiceNetwork {
    pub(super) aliases: Vec<String>,
    pub(super) driver_opts: BTreeMap<String, String>,
    pub(super) ipv4_address: Option<String>,
    pub(super) ipv6_address: Option<String>,
    pub(super) link_local_ips: Vec<String>,
    pub(super) mac_address: Option<String>,
    pub(super) priority: i64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    #[serde(default, rename = "name")]
    _name: Option<String>,
    #[serde(default, rename = "mode")]
    _mode: Option<String>,
    #[serde(default)]
    pub(super) host_ip: Option<String>,
    pub(super) target: u16,
    #[serde(default)]
    pub(super) published: Option<String>,
    #[serde(default)]
    pub(super) protocol: Option<String>,
    #[serde(default, rename = "app_protocol")]
    _app_protocol: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Limit {
    Both(i64),
    Each { soft: i64, hard: i64 },
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Mount {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) source: Option<String>,
    pub(super) target: String,
    pub(super) read_only: bool,
    pub(super) consistency: Option<String>,
    pub(super) bind: Option<Bind>,
    pub(super) volume: Option<MountVolume>,
    pub(super) tmpfs: Option<MountTmpfs>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Bind {
    pub(super) selinux: Option<String>,
    pub(super) propagation: Option<String>,
    pub(super) create_host_path: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MountVolume {
    pub(super) nocopy: bool,
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct MountTmpfs {
    pub(super) size: Option<String>,
    pub(super) mode: Option<i64>,
}

impl Service {
    /// # Errors
    /// Names the key that is not applied.
    pub(super) fn parse(name: &str, model: &Value) -> Result<Self, DockerError> {
        let mut model = model.clone();
        if let Some(map) = model.as_object_mut() {
            map.retain(|key, _| !key.starts_with("x-"));
        }
        let service: Self = serde_path_to_error::deserialize(model).map_err(|error| {
            let path = error.path().to_string();
            let text = error.inner().to_string();
            // What is not known is named in the text, where it stands in the path.
            let unknown = text.strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
            let key = match (unknown, path.as_str()) {
                (Some(field), "." | "") => field.to_owned(),
                (Some(field), path) if path.ends_with(field) => path.to_owned(),
                (Some(field), path) => format!("{path}.{field}"),
                (None, path) => path.to_owned(),
            };
            DockerError::NotApplied { service: name.to_owned(), key }
        })?;
        let refuse = |key: &str| Err(DockerError::NotApplied { service: name.to_owned(), key: key.to_owned() });
        if service.scale.is_some_and(|count| count != 1) {
            return refuse("scale");
        }
        if let Some(deploy) = &service.deploy {
            if deploy.replicas.is_some_and(|count| count != 1) {
                return refuse("deploy.replicas");
            }
            if !deploy.placement.is_empty() {
                return refuse("deploy.placement");
            }
        }
        for (key, mode) in [("uts", &service.uts), ("cgroup", &service.cgroup)] {
            if mode.as_deref().is_some_and(|mode| mode.starts_with("service:")) {
                return refuse(key);
            }
        }
        let plain = |mount: &Mount| matches!(mount.kind.as_str(), "volume" | "bind" | "tmpfs");
        if !service.volumes.iter().all(plain) {
            return refuse("volumes");
        }
        Ok(service)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_applied_is_named() {
        for (model, key) in [
            (json!({"post_start": []}), "post_start"),
            (json!({"annotations": {"a": "b"}}), "annotations"),
            (json!({"deploy": {"update_config": {}}}), "deploy.update_config"),
            (json!({"deploy": {"replicas": 2}}), "deploy.replicas"),
            (json!({"scale": 3}), "scale"),
            (json!({"uts": "service:db"}), "uts"),
            (json!({"volumes": [{"type": "npipe", "target": "/x"}]}), "volumes"),
        ] {
            let error = Service::parse("engine", &model).unwrap_err().to_string();
            assert!(error.contains(&format!("`services.engine.{key}`")), "{error}");
        }
    }

    #[test]
    fn the_shipped_forms_are_taken() {
        let model = json!({"command": null, "entrypoint": null, "image": "i", "x-note": [1],
            "environment": {"A": "1", "B": null}, "networks": {"default": null},
            "ulimits": {"nofile": 5, "nproc": {"soft": 1, "hard": 2}},
            "deploy": {"resources": {"limits": {"cpus": 0.5, "memory": "1048576"}}, "placement": {}},
            "volumes": [{"type": "volume", "source": "d", "target": "/d", "volume": {}}]});
        let service = Service::parse("engine", &model).unwrap();
        assert_eq!(service.environment["B"], None);
        assert!(matches!(service.ulimits["nofile"], Limit::Both(5)));
    }
}
