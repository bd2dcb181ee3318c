//! What host and agent tell each other while a sandbox starts: one line of JSON each, over the socket that is the agent's standard output.
//!
//! The socket stays open for the life of the sandbox, and its end tells either side that the other is gone.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

/// The host's one line. Holds the variables of the sandbox, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(crate) struct BootSpec {
    /// The folder that the four names below are relative to.
    pub(crate) folder: Utf8PathBuf,
    /// Layers of the root, the topmost first.
    pub(crate) lower: Vec<String>,
    /// Takes what the sandbox writes.
    pub(crate) upper: String,
    /// The overlay's own working folder, empty.
    pub(crate) work: String,
    /// Where the root is mounted.
    pub(crate) root: String,
    /// The sandbox's name for itself.
    pub(crate) hostname: String,
    /// Content of `/etc/resolv.conf`.
    pub(crate) resolv_conf: String,
    /// Whether the sandbox has a network of its own, whose loopback has to be switched on.
    pub(crate) own_network: bool,
    /// Most bytes that one process may take, where no control group says so.
    pub(crate) data_limit_bytes: Option<u64>,
    /// What it serves with.
    pub(crate) agent: AgentSpec,
}

/// What an agent serves with, however its sandbox came about. Holds the variables of the sandbox, so it has no `Debug`.
#[derive(Serialize, Deserialize)]
pub(crate) struct AgentSpec {
    /// Variables of every command.
    pub(crate) variables: BTreeMap<String, String>,
    /// The user of calls that name none.
    pub(crate) default_user: String,
    /// The folder of commands that name none.
    pub(crate) default_workdir: Option<String>,
}

/// The agent's lines.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Report {
    /// The first stage left the host's namespaces; `pid` is its own.
    Entered {
        /// As the host counts.
        pid: i32,
    },
    /// Process 1 answers from now on.
    Ready {
        /// Its number, as the host counts.
        pid: i32,
    },
    /// It does not come to that.
    Failed {
        /// What failed, and its causes.
        error: String,
    },
}

/// Tells the host. When nobody listens there is nobody to tell.
pub(super) fn report(report: &Report) {
    let mut line = serde_json::to_vec(report).expect("a report is plain JSON");
    line.push(b'\n');
    let mut out = io::stdout().lock();
    let _host_may_be_gone = out.write_all(&line).and_then(|()| out.flush());
}

/// An error and what caused it, on one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _never_fails = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
