//! Bodies of the calls that make a sandbox and move its end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::json::null_as_default;
use super::{AutoResume, Network, Token, VolumeMount};

/// `POST /v2/sandboxes` and `POST /sandboxes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateSandbox {
    /// Id, alias, `alias:tag` or `team/alias:tag` of a template.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// Seconds to live; absent means 300, on the old path 15.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether the timeout pauses the sandbox rather than killing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// `false`: that pause keeps the disk only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause_memory: Option<bool>,
    /// Whether traffic wakes a paused sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<AutoResume>,
    /// Old path only: whether the sandbox has an access token. The new path always gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure: Option<bool>,
    /// Whether the sandbox may reach the internet; absent means yes. The one field with underscores.
    #[serde(rename = "allow_internet_access", default, skip_serializing_if = "Option::is_none")]
    pub allow_internet_access: Option<bool>,
    /// Network rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// The caller's own words about the sandbox, by which it can be found in the list.
    #[serde(default, deserialize_with = "null_as_default")]
    pub metadata: BTreeMap<String, String>,
    /// Variables that every command in the sandbox gets. They often hold keys, so they do not show in `Debug`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub env_vars: BTreeMap<String, Token>,
    /// Volumes to mount.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
}

/// `POST /v2/sandboxes/{id}/connect` and the same under `/sandboxes`. Only lengthens the life of a running sandbox; sets that of a paused one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectSandbox {
    /// Seconds to live from now; absent means 300. The old path requires it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// `false`: boot a paused sandbox from its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// `POST /sandboxes/{id}/resume`, which only the oldest clients send.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeSandbox {
    /// Seconds to live from now; absent means 15.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether the timeout pauses the sandbox rather than killing it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_pause: Option<bool>,
    /// `false`: boot from the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// `POST /sandboxes/{id}/timeout`: the end becomes now and this long, earlier or later than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimeout {
    /// Seconds from now; a negative number counts as 0.
    pub timeout: i64,
}

/// `POST /sandboxes/{id}/refreshes`: only lengthens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefreshSandbox {
    /// Seconds from now, 0 to 3600; a server takes at least 15.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<u64>,
}

/// `POST /sandboxes/{id}/pause`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PauseSandbox {
    /// `false`: keep the disk only, not the processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// `true`: refuse when the agent in the sandbox does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_healthy_guest: Option<bool>,
}

/// The answer of create, connect and resume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxInstance {
    /// The template's real id, whatever name was asked for.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// `i` and 20 of `a-z0-9`.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Of old; any text.
    #[serde(rename = "clientID", default)]
    pub client_id: String,
    /// Version of the agent, which tells what it can do.
    pub envd_version: String,
    /// Name of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Token of the data plane; absent on a sandbox that takes everyone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<Token>,
    /// Token of the sandbox's own ports, where they are not public.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic_access_token: Option<Token>,
    /// Domain of this sandbox's data plane, where it differs from the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::{CreateSandbox, SandboxInstance, SetTimeout};

    #[test]
    fn the_smallest_create_has_three_fields() {
        let body = CreateSandbox { template_id: "base".into(), ..CreateSandbox::default() };
        assert_eq!(serde_json::to_string(&body).unwrap(), r#"{"templateID":"base","metadata":{},"envVars":{}}"#);
    }

    #[test]
    fn create_takes_nulls_and_fields_it_does_not_know() {
        let body: CreateSandbox = serde_json::from_str(
            r#"{"templateID":"base","mcp":null,"network":{"egressProxy":null,"allowOut":null},"metadata":null,"allow_internet_access":false,"novel":1}"#,
        )
        .unwrap();
        assert_eq!(body.allow_internet_access, Some(false));
        assert!(body.metadata.is_empty());
        assert!(serde_json::from_str::<CreateSandbox>(r#"{"templateID":"base","timeout":-1}"#).is_err());
        assert!(serde_json::from_str::<CreateSandbox>("{}").is_err());
    }

    #[test]
    fn an_answer_without_tokens_is_read() {
        let answer: SandboxInstance = serde_json::from_str(
            r#"{"templateID":"t","sandboxID":"i1","clientID":"c","envdVersion":"0.6.13","domain":null,"trafficAccessToken":null}"#,
        )
        .unwrap();
        assert_eq!(answer.envd_access_token, None);
        assert_eq!(answer.domain, None);
    }

    #[test]
    fn a_timeout_may_be_negative() {
        assert_eq!(serde_json::from_str::<SetTimeout>(r#"{"timeout":-5}"#).unwrap().timeout, -5);
    }
}
