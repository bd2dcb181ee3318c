//! How long the smallest command takes through this client: the median of many, alone and three at once.
//!
//! Needs `E2B_API_KEY`; for a server of one's own `E2B_API_URL` and `E2B_SANDBOX_URL` too.

use std::io::Write as _;
use std::time::{Duration, Instant};

use ambient_e2b::{Client, Command, Config, Error, NewSandbox, Sandbox};

const ROUNDS: usize = 40;

async fn once(sandbox: &Sandbox) -> Result<Duration, Error> {
    let begun = Instant::now();
    sandbox.commands().run(&Command::shell("true")).await?;
    Ok(begun.elapsed())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "an example has no settings but its environment")]
    let config = Config::from_lookup(|name| std::env::var(name).ok())?;
    let sandbox = Client::new(config)?.create(&NewSandbox::new("base")).await?;
    let mut alone = Vec::new();
    let mut together = Vec::new();
    for _ in 0..ROUNDS {
        alone.push(once(&sandbox).await?);
    }
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        tokio::try_join!(once(&sandbox), once(&sandbox), once(&sandbox))?;
        together.push(begun.elapsed());
    }
    sandbox.kill().await?;
    let mut out = std::io::stdout();
    writeln!(out, "alone {:?}, three at once {:?}", median(alone), median(together))?;
    Ok(())
}
