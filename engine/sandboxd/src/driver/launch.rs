//! What a sandbox is started from, what it may take and takes, and why it did not start: the same for every driver.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::firewall::ToolFailure;
use crate::agent::AgentSpec;

/// How long a sandbox may take to start. A machine under load takes seconds; more means that it hangs.
pub(crate) const START: Duration = Duration::from_secs(30);

/// What the host says in a sandbox's list of processes and in its errors.
pub(crate) const HOSTNAME: &str = "e2b.local";

/// Most processes and threads of one sandbox.
pub(crate) const PROCESSES: u32 = 4096;

/// What a sandbox is started from. Holds the variables of the sandbox, so it has no `Debug`.
pub(crate) struct Launch {
    /// The name of its folder, socket, control groups and container.
    pub(crate) id: String,
    /// Layers of its root, the topmost first.
    pub(crate) layers: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) default_user: String,
    pub(crate) default_workdir: Option<String>,
    /// Whether it gets a way out, where there is one.
    pub(crate) internet: bool,
}

impl Launch {
    /// What its agent serves with.
    pub(crate) fn agent(&self) -> AgentSpec {
        AgentSpec {
            variables: self.variables.clone(),
            default_user: self.default_user.clone(),
            default_workdir: self.default_workdir.clone(),
        }
    }
}

/// What a sandbox may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) cpu_count: u32,
    pub(crate) memory_mb: u64,
}

impl Limits {
    pub(crate) fn memory_bytes(self) -> u64 {
        self.memory_mb.saturating_mul(1 << 20)
    }
}

/// What a sandbox took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Since its start.
    pub(crate) cpu: Duration,
    pub(crate) memory_bytes: u64,
    pub(crate) cache_bytes: u64,
}

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchFailure {
    #[error("cannot make the folders of the sandbox")]
    Folders(#[source] io::Error),
    #[error("cannot make the control groups of the sandbox")]
    Groups(#[source] io::Error),
    #[error("cannot start the agent")]
    Start(#[source] io::Error),
    #[error("cannot connect the network of the sandbox")]
    Network(#[from] NetworkFailure),
    #[error("the Docker engine refused")]
    Docker(#[from] bollard::errors::Error),
    #[error("the Docker engine has no image `{0}` any more: build the template again")]
    ImageGone(String),
    #[error("the agent does not answer")]
    Silent(#[source] io::Error),
    #[error("the agent ended: {0}")]
    Ended(String),
    #[error("the sandbox did not start: {0}")]
    Refused(String),
    #[error("the sandbox did not start within {START:?}")]
    TooLate,
}

/// Why sandboxes, or one of them, have no way out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkFailure {
    #[error(transparent)]
    Tool(#[from] ToolFailure),
    #[error("no free block of addresses in 10.233.0.0/16 ({0} hosts on this machine have one)")]
    NoBlock(u8),
    #[error("no free addresses: {0} sandboxes have them")]
    NoSlot(u16),
    #[error("the Docker engine refused")]
    Docker(#[from] bollard::errors::Error),
}

/// Says why sandboxes have no way out, once, when the host starts.
pub(crate) fn tell_closed(failure: &NetworkFailure) {
    tracing::warn!(
        error = crate::with_causes(failure),
        "sandboxes have no way out to other machines; they get one where `ip` and `iptables` work"
    );
}
