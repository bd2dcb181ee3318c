//! Networks and volumes as the compose files ask for them.

use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest, VolumeCreateRequest};
use serde_json::{Map, Value};

use super::LABEL;
use crate::compose::hash;

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

fn texts(value: Option<&Value>) -> std::collections::HashMap<String, String> {
    let map = value.and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn label(key: &str) -> String {
    format!("{LABEL}{key}")
}

/// Who made it: the label `com.docker.compose.version`.
pub(super) const MAKER: &str = concat!("ambientctl-", env!("CARGO_PKG_VERSION"));

pub(super) fn network(key: &str, value: &Value, project: &str) -> WantedNetwork {
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

pub(super) fn volume(key: &str, value: &Value, project: &str) -> WantedVolume {
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
