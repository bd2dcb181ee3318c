//! What runs inside a sandbox: its first process, which serves commands and files.
//!
//! Where sandboxes are namespaces, the program of the host is started once more, in two stages. The first (`enter`) joins the control
//! groups, leaves the namespaces of the host and starts the second as process 1 of the new ones. The second (`init`) mounts the sandbox's
//! root, gives up what a sandbox must not be able to do, and then answers the host over a socket that it inherited. Where sandboxes are
//! containers, the program is process 1 of one (`contained`).
//!
//! Everything that a stranger's words decide (paths, users, commands) is looked up in here, where the host's files do not exist. The agent
//! itself holds no secret of the host and no right that root of the sandbox does not have: taking it over gains nothing.

mod boot;
mod contained;
mod enter;
mod entry;
mod failure;
mod files;
mod filesystem;
mod init;
mod kernel;
mod loopback;
mod paths;
mod ports;
mod privileges;
mod process;
mod root;
mod rpc;
mod runtime;
mod serve;
mod state;
mod upload;
mod users;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

pub(crate) use boot::{AgentSpec, BootSpec, Report, with_causes};
pub(crate) use ports::PROTOCOL as PORT_PROTOCOL;
pub(crate) use privileges::kept_names;

/// The words that start the agent: `ambientctl` and these, then what [`Stage`] holds.
pub const AGENT_WORD: &str = "sandboxd-agent";

/// In the folder where the host and the agent of a container meet: what the host wants, and where the agent answers.
pub(crate) const DOOR_SPEC: &str = "spec.json";
pub(crate) const DOOR_SOCKET: &str = "agent";

/// Which stage a process is.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Leaves the namespaces of the host.
    Enter {
        /// Whether to leave its network too.
        own_network: bool,
        /// The files to write `0` into, which moves a process into a control group.
        control_groups: Vec<PathBuf>,
    },
    /// Is process 1 of the sandbox.
    Init,
    /// Is process 1 of a container.
    Contained {
        /// The folder where it meets the host.
        door: PathBuf,
    },
}

/// Runs a stage until it ends. Called by the program's `main` before any thread starts.
pub fn main(stage: Stage) -> ExitCode {
    let ended = match stage {
        Stage::Enter { own_network, control_groups } => enter::run(own_network, &control_groups),
        Stage::Init => init::run(),
        Stage::Contained { door } => contained::run(&door),
    };
    match ended {
        Ok(code) => code,
        Err(error) => {
            boot::report(&Report::Failed { error: with_causes(&error) });
            ExitCode::FAILURE
        }
    }
}
