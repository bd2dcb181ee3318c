//! A host of sandboxes in a program of one's own.
//!
//!     cargo build -p ambient-sandboxd --example host
//!     sudo target/debug/examples/host 127.0.0.1:3000 /var/lib/sandboxes e2b_0000000000000000000000000000000000000000
//!
//! The same program is the agent in each sandbox: `main` has to hand it the words that the host starts it with.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use ambient_sandboxd::agent::{self, AGENT_WORD, Stage};
use ambient_sandboxd::{Config, Host};
use secrecy::SecretString;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.split_first() {
        Some((word, rest)) if word == AGENT_WORD => Ok(agent::main(stage(rest)?)),
        _ => serve(&words),
    }
}

/// `enter [--own-network] [--control-group FILE]…`, `init`, or `contained --door FOLDER`.
fn stage(words: &[String]) -> Result<Stage, Box<dyn Error>> {
    let mut words = words.iter();
    match words.next().map(String::as_str) {
        Some("init") => return Ok(Stage::Init),
        Some("contained") => return Ok(Stage::Contained { door: words.nth(1).ok_or("a folder is missing")?.into() }),
        _ => {}
    }
    let (mut own_network, mut control_groups) = (false, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--own-network" => own_network = true,
            "--control-group" => control_groups.push(PathBuf::from(words.next().ok_or("a file is missing")?)),
            other => return Err(format!("unknown word `{other}`").into()),
        }
    }
    Ok(Stage::Enter { own_network, control_groups })
}

fn serve(words: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let [address, folder, keys @ ..] = words else { return Err("usage: host ADDRESS FOLDER KEY…".into()) };
    let keys = keys.iter().map(|key| SecretString::from(key.as_str())).collect();
    let config = Config::new(address.parse()?, keys, folder.into());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        let host = Host::start(config).await?;
        writeln!(std::io::stdout(), "sandboxd listening on http://{}", host.address())?;
        stop.recv().await;
        host.shut_down().await;
        Ok(ExitCode::SUCCESS)
    })
}
