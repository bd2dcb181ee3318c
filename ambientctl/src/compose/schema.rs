//! What each key of a compose file takes, in the order in which Compose prints it.
//!
//! A key that is not here is refused by name. What [`config render`](super::render) prints, what the hash is made of and
//! what is applied all come from these rows.

/// What a value may be and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// Text.
    Text,
    /// Text or a number, as text.
    Printed,
    /// What a container is called.
    ContainerName,
    /// When an image is pulled.
    PullPolicy,
    /// True or false, or one of the words for it.
    Switch,
    /// A whole number.
    Whole,
    /// `all`, or a whole number.
    Count,
    /// A number of single precision.
    Decimal,
    /// `1m30s`.
    Duration,
    /// `64m`, as a text of bytes.
    Size,
    /// A file mode, as octal text.
    Mode,
    /// A command: words, or one string of them; nothing is something else than no words.
    Words,
    /// A health check: a command for the shell, or words.
    Test,
    /// Texts; numbers among them are printed.
    Texts,
    /// Texts of which none may stand there twice, not even once in either file.
    TextsOnce,
    /// One text or several.
    TextOrTexts,
    /// `{K: V}` or `[K=V]`; a key without a value has none.
    Environment,
    /// The same; a key without a value has an empty one.
    Pairs,
    /// `{host: address}` or `[host=address]`.
    Hosts,
    /// A number, or `soft` and `hard`.
    Limit,
    /// True, or `{name}` in old files.
    External,
    /// Keys of their own.
    Struct(&'static [Field]),
    /// Any keys.
    MapOf(&'static Self),
    /// Any number.
    ListOf(&'static Self),
}

/// When a key is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// When it says something: not false, not 0, not empty.
    Meaningful,
    /// When somebody gave it.
    Given,
    /// In JSON always; in YAML when it says something.
    JsonAlways,
    /// In JSON always, also when nobody gave it, and in YAML when somebody did.
    JsonNull,
}

/// A key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) printed: Printed,
}

const fn key(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, printed: Printed::Meaningful }
}

const fn given(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, printed: Printed::Given }
}

use Shape::{
    ContainerName, Count, Decimal, Duration, Environment, External, Hosts, Limit, ListOf, MapOf, Mode, Pairs,
    PullPolicy, Size, Struct, Switch, Test, Text, TextOrTexts, Texts, TextsOnce, Whole, Words,
};

const TEXT_OR_NUMBER: Shape = Shape::Printed;

/// A service.
pub(super) const SERVICE: &[Field] = &[
    key("profiles", Texts),
    key("annotations", Pairs),
    given("attach", Switch),
    given("build", Struct(BUILD)),
    key("cap_add", Texts),
    key("cap_drop", Texts),
    key("cgroup_parent", Text),
    key("cgroup", Text),
    key("cpu_count", Whole),
    key("cpu_percent", Decimal),
    key("cpu_period", Whole),
    key("cpu_quota", Whole),
    key("cpu_rt_period", Whole),
    key("cpu_rt_runtime", Whole),
    key("cpus", Decimal),
    key("cpuset", Text),
    key("cpu_shares", Whole),
    Field { name: "command", shape: Words, printed: Printed::JsonNull },
    key("configs", ListOf(&Struct(GRANT))),
    key("container_name", ContainerName),
    key("depends_on", MapOf(&Struct(DEPENDENCY))),
    given("deploy", Struct(DEPLOY)),
    key("device_cgroup_rules", TextsOnce),
    key("devices", ListOf(&Struct(DEVICE))),
    key("dns", TextOrTexts),
    key("dns_opt", Texts),
    key("dns_search", TextOrTexts),
    key("domainname", Text),
    Field { name: "entrypoint", shape: Words, printed: Printed::JsonNull },
    key("environment", Environment),
    key("env_file", ListOf(&Struct(ENV_FILE))),
    key("expose", Texts),
    key("external_links", TextsOnce),
    key("extra_hosts", Hosts),
    key("group_add", TextsOnce),
    key("gpus", ListOf(&Struct(DEVICE_REQUEST))),
    key("hostname", Text),
    given("healthcheck", Struct(HEALTH)),
    key("image", Text),
    given("init", Switch),
    key("ipc", Text),
    key("isolation", Text),
    key("labels", Pairs),
    key("links", Texts),
    given("logging", Struct(LOGGING)),
    key("mem_limit", Size),
    key("mem_reservation", Size),
    key("memswap_limit", Size),
    key("mem_swappiness", Size),
    key("mac_address", Text),
    key("network_mode", Text),
    key("networks", MapOf(&Struct(SERVICE_NETWORK))),
    key("oom_kill_disable", Switch),
    key("oom_score_adj", Whole),
    key("pid", Text),
    key("pids_limit", Whole),
    key("platform", Text),
    key("ports", ListOf(&Struct(PORT))),
    key("privileged", Switch),
    key("pull_policy", PullPolicy),
    key("read_only", Switch),
    key("restart", Text),
    key("runtime", Text),
    given("scale", Whole),
    key("secrets", ListOf(&Struct(GRANT))),
    key("security_opt", TextsOnce),
    key("shm_size", Size),
    key("stdin_open", Switch),
    given("stop_grace_period", Duration),
    key("stop_signal", Text),
    key("storage_opt", Pairs),
    key("sysctls", Pairs),
    key("tmpfs", TextOrTexts),
    key("tty", Switch),
    key("ulimits", MapOf(&Limit)),
    key("user", Text),
    key("userns_mode", Text),
    key("uts", Text),
    key("volumes", ListOf(&Struct(MOUNT))),
    key("volumes_from", TextsOnce),
    key("working_dir", Text),
    key("post_start", ListOf(&Struct(HOOK))),
    key("pre_stop", ListOf(&Struct(HOOK))),
];

const BUILD: &[Field] = &[
    key("context", Text),
    key("dockerfile", Text),
    key("dockerfile_inline", Text),
    key("entitlements", Texts),
    key("args", Environment),
    key("labels", Pairs),
    key("cache_from", Texts),
    key("cache_to", Texts),
    key("no_cache", Switch),
    key("additional_contexts", Pairs),
    key("pull", Switch),
    key("extra_hosts", Hosts),
    key("isolation", Text),
    key("network", Text),
    key("target", Text),
    key("secrets", ListOf(&Struct(GRANT))),
    key("shm_size", Size),
    key("tags", Texts),
    key("ulimits", MapOf(&Limit)),
    key("platforms", Texts),
    key("privileged", Switch),
];

const GRANT: &[Field] = &[
    key("source", Text),
    key("target", Text),
    key("uid", TEXT_OR_NUMBER),
    key("gid", TEXT_OR_NUMBER),
    given("mode", Mode),
];

const DEPENDENCY: &[Field] = &[key("condition", Text), key("restart", Switch), given("required", Switch)];

const DEPLOY: &[Field] = &[
    key("mode", Text),
    given("replicas", Whole),
    key("labels", Pairs),
    given("update_config", Struct(UPDATE)),
    given("rollback_config", Struct(UPDATE)),
    Field { name: "resources", shape: Struct(RESOURCES), printed: Printed::JsonAlways },
    given("restart_policy", Struct(RESTART_POLICY)),
    Field { name: "placement", shape: Struct(PLACEMENT), printed: Printed::JsonAlways },
    key("endpoint_mode", Text),
];

const UPDATE: &[Field] = &[
    given("parallelism", Whole),
    key("delay", Duration),
    key("failure_action", Text),
    key("monitor", Duration),
    key("max_failure_ratio", Decimal),
    key("order", Text),
];

const RESOURCES: &[Field] = &[given("limits", Struct(RESOURCE)), given("reservations", Struct(RESOURCE))];

const RESOURCE: &[Field] =
    &[key("cpus", Decimal), key("memory", Size), key("pids", Whole), key("devices", ListOf(&Struct(DEVICE_REQUEST)))];

const DEVICE_REQUEST: &[Field] = &[
    key("capabilities", TextsOnce),
    key("driver", Text),
    key("count", Count),
    key("device_ids", TextsOnce),
    key("options", Pairs),
];

const RESTART_POLICY: &[Field] =
    &[key("condition", Text), given("delay", Duration), given("max_attempts", Whole), given("window", Duration)];

const PLACEMENT: &[Field] =
    &[key("constraints", Texts), key("preferences", ListOf(&Struct(PREFERENCE))), key("max_replicas_per_node", Whole)];

const PREFERENCE: &[Field] = &[key("spread", Text)];

const DEVICE: &[Field] = &[key("source", Text), key("target", Text), key("permissions", Text)];

const ENV_FILE: &[Field] = &[key("path", Text), given("required", Switch)];

const HEALTH: &[Field] = &[
    key("test", Test),
    given("timeout", Duration),
    given("interval", Duration),
    given("retries", Whole),
    given("start_period", Duration),
    given("start_interval", Duration),
    key("disable", Switch),
];

const LOGGING: &[Field] = &[key("driver", Text), key("options", Pairs)];

const SERVICE_NETWORK: &[Field] = &[
    key("aliases", Texts),
    key("driver_opts", Pairs),
    key("gw_priority", Whole),
    key("interface_name", Text),
    key("ipv4_address", Text),
    key("ipv6_address", Text),
    key("link_local_ips", Texts),
    key("mac_address", Text),
    key("priority", Whole),
];

const PORT: &[Field] = &[
    key("name", Text),
    key("mode", Text),
    key("host_ip", Text),
    key("target", Whole),
    key("published", TEXT_OR_NUMBER),
    key("protocol", Text),
    key("app_protocol", Text),
];

const MOUNT: &[Field] = &[
    key("type", Text),
    key("source", Text),
    key("target", Text),
    key("read_only", Switch),
    key("consistency", Text),
    given("bind", Struct(BIND)),
    given("volume", Struct(MOUNT_VOLUME)),
    given("tmpfs", Struct(MOUNT_TMPFS)),
    given("image", Struct(MOUNT_IMAGE)),
];

const BIND: &[Field] =
    &[key("selinux", Text), key("propagation", Text), key("create_host_path", Switch), key("recursive", Text)];

const MOUNT_VOLUME: &[Field] = &[key("labels", Pairs), key("nocopy", Switch), key("subpath", Text)];

const MOUNT_TMPFS: &[Field] = &[key("size", Size), key("mode", Whole)];

const MOUNT_IMAGE: &[Field] = &[key("subpath", Text)];

const HOOK: &[Field] = &[
    key("command", Words),
    key("user", Text),
    key("privileged", Switch),
    key("working_dir", Text),
    key("environment", Environment),
];

/// A network.
pub(super) const NETWORK: &[Field] = &[
    key("name", Text),
    key("driver", Text),
    key("driver_opts", Pairs),
    Field { name: "ipam", shape: Struct(IPAM), printed: Printed::JsonAlways },
    key("external", External),
    key("internal", Switch),
    key("attachable", Switch),
    key("labels", Pairs),
    given("enable_ipv4", Switch),
    given("enable_ipv6", Switch),
];

const IPAM: &[Field] = &[key("driver", Text), key("config", ListOf(&Struct(POOL)))];

const POOL: &[Field] = &[key("subnet", Text), key("gateway", Text), key("ip_range", Text), key("aux_addresses", Pairs)];

/// A volume.
pub(super) const VOLUME: &[Field] = &[
    key("name", Text),
    key("driver", Text),
    key("driver_opts", Pairs),
    key("external", External),
    key("labels", Pairs),
];

/// A secret or a config.
pub(super) const FILE_OBJECT: &[Field] = &[
    key("name", Text),
    key("file", Text),
    key("environment", Text),
    key("content", Text),
    key("external", External),
    key("labels", Pairs),
    key("driver", Text),
    key("driver_opts", Pairs),
    key("template_driver", Text),
];

/// Why a key that Compose has is refused here; `None` for a key that nobody knows.
pub(super) fn refused(key: &str) -> Option<&'static str> {
    Some(match key {
        "include" | "extends" => "is not applied by ambientctl; write what it brings in into this file",
        "profiles" => {
            "is not applied by ambientctl, which runs every service; remove it, or set `COMPOSE_PROFILES=*` to mean just that"
        }
        "develop" | "models" | "provider" | "credential_spec" | "label_file" | "use_api_socket" | "blkio_config"
        | "ssh" | "provenance" | "sbom" | "generic_resources" | "format" | "volume_driver" => {
            "is not applied by ambientctl; remove it, or run the stack with `docker compose`"
        }
        _ => return None,
    })
}
