//! Where there is no Linux: no sandbox, and the reason.

use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};

use crate::cli::{SandboxStage, SandboxdArgs};

#[derive(Debug, thiserror::Error)]
#[error(
    "sandboxes are made of namespaces and control groups, which this system does not have: a host of them runs on Linux"
)]
struct NoLinux;

/// Tells that there is no host here.
///
/// # Errors
/// Always.
pub(crate) fn run(_args: SandboxdArgs, _environment: &Environment, _printer: Printer) -> Result<Exit, Failure> {
    Err(Failure::new(Exit::Usage, NoLinux)
        .hint("run it on a Linux machine, and point `E2B_API_URL` and `E2B_SANDBOX_URL` of the engine here at it"))
}

/// The same for the agent, which nobody starts here.
pub(crate) fn agent(_stage: SandboxStage) -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}
