//! What a build leaves: layers, and how sandboxes of them begin.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::driver::Limits;

/// The user that images and builds begin with.
pub(crate) const USUAL_USER: &str = "user";

/// A root and its ways. Never changes; what a sandbox writes goes elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Image {
    /// Names of layers, the topmost first.
    pub(crate) layers: Vec<String>,
    /// The last `USER`.
    pub(crate) user: String,
    /// The last `WORKDIR`, if there was one.
    pub(crate) workdir: Option<String>,
    /// For later steps of builds, and for nothing else: the protocol gives a template's variables to no sandbox.
    pub(crate) variables: BTreeMap<String, String>,
    /// What runs in every sandbox from its start.
    pub(crate) start_command: Option<String>,
    /// What succeeds once that is ready.
    pub(crate) ready_command: Option<String>,
    pub(crate) cpu_count: u32,
    pub(crate) memory_mb: u64,
}

impl Image {
    /// A root as it comes.
    pub(crate) fn of_layer(layer: String) -> Self {
        Self {
            layers: vec![layer],
            user: USUAL_USER.to_owned(),
            workdir: None,
            variables: BTreeMap::new(),
            start_command: None,
            ready_command: None,
            cpu_count: 2,
            memory_mb: 1024,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { cpu_count: self.cpu_count, memory_mb: self.memory_mb }
    }
}
