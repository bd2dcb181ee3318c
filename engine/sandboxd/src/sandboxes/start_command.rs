//! A template's start command, in a new sandbox and at the end of a build.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::driver::{Dial, RunFailure, ShellCommand};
use crate::templates::Image;

/// By this tag the start command is found among a sandbox's processes.
const TAG: &str = "start_cmd";

/// What a template without a ready command of its own waits, in a build, for its start command.
const UNSAID: &str = "sleep 20";

/// Starts the command, and waits until the ready command succeeds or the time is over. `false`: it did not.
pub(crate) async fn start(
    dial: &Dial,
    image: &Image,
    every: Duration,
    patience: Duration,
    is_build: bool,
) -> Result<bool, RunFailure> {
    let none = BTreeMap::new();
    let command =
        |line, tag| ShellCommand { line, user: &image.user, variables: &none, folder: None, tag, limit: None };
    if let Some(line) = &image.start_command {
        dial.leave_running(command(line, Some(TAG))).await?;
    }
    let unsaid = (is_build && image.start_command.is_some()).then_some(UNSAID);
    let Some(line) = image.ready_command.as_deref().or(unsaid) else { return Ok(true) };
    let until = Instant::now() + patience;
    loop {
        let limit = Some(until.saturating_duration_since(Instant::now()).max(every));
        match dial.run(ShellCommand { limit, ..command(line, None) }, |_from, _bytes| {}).await {
            Ok(end) if end.exit_code == 0 => return Ok(true),
            // A command of the template that hangs is one that does not succeed.
            Ok(_) | Err(RunFailure::Refused(_)) => {}
            Err(failure) => return Err(failure),
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        tokio::time::sleep(every).await;
    }
}
