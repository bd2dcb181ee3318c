//! What a sandbox may reach and who may reach it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::json::null_as_default;

/// Network rules of a sandbox; an empty value asks for the server's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Whether the sandbox's ports are open to everyone; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_public_traffic: Option<bool>,
    /// Addresses, networks or hosts that may be reached in spite of `deny_out`.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub allow_out: Vec<String>,
    /// Addresses or networks that may not be reached.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub deny_out: Vec<String>,
    /// The `Host` that programs in the sandbox see in requests from outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask_request_host: Option<String>,
    /// Rules for each host that is reached.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<String, Vec<NetworkRule>>,
    /// A proxy for what leaves the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_proxy: Option<EgressProxy>,
    /// Name servers of the sandbox.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub dns_servers: Vec<String>,
    /// Ports that speak TLS themselves.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub https_ports: Vec<u16>,
}

/// One rule for a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRule {
    /// What is changed in requests to the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transform: Option<NetworkTransform>,
}

/// A change to requests that leave the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkTransform {
    /// Headers that are set.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
}

/// A proxy that carries what leaves the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressProxy {
    /// Host and port.
    pub address: String,
    /// User name, if the proxy asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Password, if the proxy asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<super::Token>,
    /// Whether the proxy is reached over TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<bool>,
}
