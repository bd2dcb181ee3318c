//! What every call of the agent works with.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::AgentSpec;
use super::process::{Processes, Starters};
use super::watch::Watchers;

/// Shared by all calls.
pub(super) type Shared = Arc<Agent>;

/// The agent. Holds the sandbox's variables, so it has no `Debug`.
pub(super) struct Agent {
    pub(super) variables: BTreeMap<String, String>,
    pub(super) default_user: String,
    pub(super) default_workdir: Option<String>,
    pub(super) processes: Processes,
    pub(super) starters: Starters,
    pub(super) watchers: Watchers,
    pub(super) tasks: TaskTracker,
}

impl Agent {
    /// Must be called within the runtime.
    pub(super) fn new(spec: AgentSpec) -> io::Result<Shared> {
        let tasks = TaskTracker::new();
        Ok(Arc::new(Self {
            variables: spec.variables,
            default_user: spec.default_user,
            default_workdir: spec.default_workdir,
            processes: Processes::new(tasks.clone())?,
            starters: Starters::new()?,
            watchers: Watchers::default(),
            tasks,
        }))
    }
}
