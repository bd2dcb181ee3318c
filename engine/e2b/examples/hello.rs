//! Makes a sandbox, runs a command in it, moves a file, ends it.
//!
//! Needs `E2B_API_KEY`; for a server of one's own `E2B_API_URL` and `E2B_SANDBOX_URL` too.

use std::io::Write as _;
use std::time::Duration;

use ambient_e2b::{Client, Command, Config, NewSandbox, ProcessOutput, Utf8Decoder};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "an example has no settings but its environment")]
    let config = Config::from_lookup(|name| std::env::var(name).ok())?;
    let client = Client::new(config)?;
    let new = NewSandbox::new("base").timeout(Duration::from_mins(2)).metadata("made-by", "hello");
    let sandbox = client.create(&new).await?;
    let mut out = std::io::stdout();
    writeln!(out, "sandbox {}", sandbox.id())?;

    sandbox.files().write("greeting.txt", "hello from the file\n").await?;
    let output = sandbox.commands().run(&Command::shell("cat greeting.txt; uname -sr")).await?;
    write!(out, "{}", output.stdout.text())?;

    // What a command writes can be read while it runs.
    let mut process = sandbox.commands().start(&Command::shell("for i in 1 2 3; do echo $i; sleep 0.2; done")).await?;
    let mut decoder = Utf8Decoder::new();
    while let Some(told) = process.next().await? {
        match told {
            ProcessOutput::Stdout(bytes) => write!(out, "{}", decoder.push(&bytes))?,
            ProcessOutput::Stderr(_) | ProcessOutput::Terminal(_) => {}
            ProcessOutput::Exit(exit) => writeln!(out, "{}", exit.status)?,
        }
    }
    sandbox.kill().await?;
    Ok(())
}
