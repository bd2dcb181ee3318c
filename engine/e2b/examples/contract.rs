//! Tells the client's contract to a server: every story, with its outcome.
//!
//! `E2B_API_URL`, `E2B_SANDBOX_URL`, `E2B_API_KEY` and `E2B_API_KEY_2` (of another team) lead to it. Words on the command line choose the stories whose name
//! holds one of them; `--list` prints their names instead. Exits with 1 when one fails.

#[path = "../tests/contract/mod.rs"]
mod contract;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    if chosen.iter().any(|word| word == "--list") {
        for story in contract::stories() {
            writeln!(out, "{}", story.name)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    #[expect(clippy::disallowed_methods, reason = "an example has no settings but its environment")]
    let variable = |name| std::env::var(name).with_context(|| format!("`{name}` is not set"));
    let server = contract::Server::at(
        &variable("E2B_API_URL")?,
        &variable("E2B_SANDBOX_URL")?,
        &variable("E2B_API_KEY")?,
        &variable("E2B_API_KEY_2")?,
    )?;
    let (mut passes, mut failures) = (0, 0);
    for story in contract::stories() {
        if !chosen.is_empty() && !chosen.iter().any(|word| story.name.contains(word.as_str())) {
            continue;
        }
        let begun = Instant::now();
        let outcome = (story.run)(&server).await;
        let took = begun.elapsed().as_millis();
        match outcome {
            Ok(()) => {
                passes += 1;
                writeln!(out, "ok     {:>6} ms  {}", took, story.name)?;
            }
            Err(error) => {
                failures += 1;
                writeln!(out, "FAILED {:>6} ms  {}: {error:?}", took, story.name)?;
            }
        }
    }
    writeln!(out, "{passes} passed, {failures} failed")?;
    Ok(if failures == 0 && passes > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
