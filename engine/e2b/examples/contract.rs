//! Tells the client's contract to a server: every story, with its outcome.
//!
//! `E2B_API_URL`, `E2B_SANDBOX_URL`, `E2B_API_KEY` and `E2B_API_KEY_2` (of another team) lead to it. Words on the command line choose the stories whose name
//! holds one of them. Exits with 1 when one fails.

#[path = "../tests/contract/mod.rs"]
mod contract;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context as _;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    #[expect(clippy::disallowed_methods, reason = "an example has no settings but its environment")]
    let variable = |name| std::env::var(name).with_context(|| format!("`{name}` is not set"));
    let server = contract::Server::at(
        &variable("E2B_API_URL")?,
        &variable("E2B_SANDBOX_URL")?,
        &variable("E2B_API_KEY")?,
        &variable("E2B_API_KEY_2")?,
    )?;
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    let mut failures = 0;
    for story in contract::stories() {
        if !chosen.is_empty() && !chosen.iter().any(|word| story.name.contains(word.as_str())) {
            continue;
        }
        let begun = Instant::now();
        let outcome = (story.run)(&server).await;
        let took = begun.elapsed().as_millis();
        match outcome {
            Ok(()) => writeln!(out, "ok     {:>6} ms  {}", took, story.name)?,
            Err(error) => {
                failures += 1;
                writeln!(out, "FAILED {:>6} ms  {}: {error:?}", took, story.name)?;
            }
        }
    }
    writeln!(out, "{failures} failed")?;
    Ok(if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
