//! `ambientctl open`: the engine's page in a browser.

use std::process::{Command, Stdio};

use super::place::Dir;
use super::stack::{Texts, wanted};
use crate::docker::Wanted;
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl open`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Print the address, and open nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Debug, thiserror::Error)]
enum OpenError {
    #[error("the engine publishes no port, so it has no address here")]
    NoAddress,
}

/// Programs that open an address, the first that is there.
const OPENERS: [&str; 3] =
    if cfg!(target_os = "macos") { ["open", "xdg-open", "wslview"] } else { ["xdg-open", "wslview", "open"] };

/// Opens the engine's address, and prints it in any case.
///
/// # Errors
/// When the files give no stack or the engine publishes no port.
pub fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.dir.path(environment)?;
    let wanted = wanted(&folder, &Texts::new(), environment, printer.quietly())?;
    let url = address(&wanted).ok_or_else(|| {
        Failure::new(Exit::Unhealthy, OpenError::NoAddress)
            .hint("see `ports` of the service `engine`: `ambientctl config render`")
    })?;
    if printer.json {
        printer.data(&serde_json::json!({ "url": url }).to_string());
    } else {
        printer.data(&url);
    }
    if !args.print && !open(&url) {
        printer.note("no browser could be started here; open the address yourself");
    }
    Ok(Exit::Ok)
}

/// Where the engine is reached from this machine.
pub(super) fn address(wanted: &Wanted) -> Option<String> {
    let service = wanted.service("engine").or_else(|| wanted.service("api"))?;
    service.address()
}

#[expect(clippy::disallowed_methods, reason = "a browser is the operator's own program")]
pub(super) fn open(url: &str) -> bool {
    OPENERS.iter().any(|program| {
        let started =
            Command::new(program).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        started.is_ok_and(|status| status.success())
    })
}
