//! `bash`: a shell command in the session's workspace.

use std::time::Duration;

use serde_json::json;

use super::call::{Call, Failure, told};
use super::input::Input;
use super::toolbox::Spec;
use super::{Arguments, ToolOutput, prompts, schema};
use crate::backend::{ShellDone, ShellWish};

pub(crate) const NAME: &str = "bash";
/// What a call says when the operator turned the tool off.
pub(crate) const DISABLED: &str = "bash tool is disabled. Set ENABLE_BASH_TOOL=true to enable it.";
/// A model may ask for so many times the usual limit.
const MOST_TIMES_USUAL: u32 = 10;
/// And for no more than this, unless the usual limit itself is longer.
const LONGEST: Duration = Duration::from_hours(1);

pub(crate) fn spec() -> Spec {
    let properties = json!({
        "command": schema::text("The command, as for `/bin/sh -c`."),
        "timeout": {"type": "integer", "minimum": 1, "description": "Seconds after which it is ended."},
    });
    Spec { name: NAME, description: prompts::BASH, parameters: schema::object(properties, &["command"]) }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let command = input.text("command");
    let wanted = input.optional_count("timeout").map(Duration::from_secs);
    let command = input.finish(command)?;
    let (timeout, is_cut) = limit(wanted, call.config.bash_timeout);
    let wish = ShellWish { command, timeout, max_output_bytes: call.config.bash_max_output_bytes };
    let done = call.context.backend.shell(&call.target(None), &wish, &call.context.stop).await;
    let done = done.map_err(|error| told(error, "running command", "command"))?;
    let mut text = shown(&done);
    if is_cut && done.timed_out {
        text.push_str(
            "\n(longer timeouts are not allowed on this engine; leave long work in the background and look after it)",
        );
    }
    Ok(ToolOutput::text(text))
}

/// The limit of a command, and whether it is less than what was asked for.
fn limit(wanted: Option<Duration>, usual: Duration) -> (Duration, bool) {
    let longest = usual.saturating_mul(MOST_TIMES_USUAL).min(LONGEST).max(usual);
    let wanted = wanted.unwrap_or(usual);
    (wanted.min(longest), wanted > longest)
}

fn shown(done: &ShellDone) -> String {
    let mut text = format!("exit_code: {}", done.exit_code);
    let streams = [("stdout", &done.stdout, done.stdout_cut), ("stderr", &done.stderr, done.stderr_cut)];
    for (name, stream, cut) in streams.into_iter().filter(|(_, stream, _)| !stream.is_empty()) {
        text.push('\n');
        text.push_str(name);
        if cut > 0 {
            text.push_str(" (truncated, ");
            text.push_str(&cut.to_string());
            text.push_str(" bytes left out of the middle)");
        }
        text.push_str(":\n");
        text.push_str(stream.strip_suffix('\n').unwrap_or(stream));
    }
    if done.stdout.is_empty() && done.stderr.is_empty() {
        text.push_str("\n(no output)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(stdout: &str, stderr: &str, stdout_cut: u64) -> ShellDone {
        ShellDone {
            exit_code: 3,
            stdout: stdout.into(),
            stderr: stderr.into(),
            stdout_cut,
            stderr_cut: 0,
            timed_out: false,
        }
    }

    #[test]
    fn output_is_shown_by_stream() {
        assert_eq!(shown(&done("a\nb\n", "", 0)), "exit_code: 3\nstdout:\na\nb");
        assert_eq!(shown(&done("a", "b\n", 0)), "exit_code: 3\nstdout:\na\nstderr:\nb");
        assert_eq!(shown(&done("", "", 0)), "exit_code: 3\n(no output)");
        assert_eq!(shown(&done("a", "", 7)), "exit_code: 3\nstdout (truncated, 7 bytes left out of the middle):\na");
    }

    #[test]
    fn a_model_cannot_ask_for_ever() {
        let seconds = Duration::from_secs;
        for (wanted, usual, limited) in [
            (None, seconds(120), (seconds(120), false)),
            (Some(seconds(5)), seconds(120), (seconds(5), false)),
            (Some(seconds(1200)), seconds(120), (seconds(1200), false)),
            (Some(seconds(1201)), seconds(120), (seconds(1200), true)),
            (Some(seconds(90_000)), seconds(3000), (LONGEST, true)),
            (Some(seconds(90_000)), seconds(7200), (seconds(7200), true)),
        ] {
            assert_eq!(limit(wanted, usual), limited, "{wanted:?} {usual:?}");
        }
    }
}
