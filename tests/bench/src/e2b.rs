//! Sandboxes of `ambientctl sandboxd`, as our client and the official Python SDK use them, with the shipped template.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use ambient_e2b::{Client, Command, Config, Error, NewSandbox, Sandbox};
use tokio::io::AsyncWrite;

use crate::figure::{milliseconds, number, print, quantile};
use crate::process::{Server, command};
use crate::{BenchError, Figure, RunArgs};

/// A key of nobody but this host.
pub(crate) const KEY: &str = "e2b_0123456789abcdef0123456789abcdef01234567";
/// The shipped template's name.
pub(crate) const TEMPLATE: &str = "video-analysis-v1";
/// Round trips of each client in a turn, and turns of each: side by side, so that what the machine does meanwhile is the same for both.
const ROUNDS: usize = 40;
const TURNS: usize = 3;
const CREATES: usize = 15;
const CROWD: usize = 50;
const FILE_BYTES: usize = 100_000_000;
const FILE_ROUNDS: usize = 5;
const PROBES: usize = 15;
/// Where a program's words are that a sandbox has from its template.
const PROGRAM: &str = "/app/ambientctl";
/// A sandbox here never ends by itself while it is measured.
const LIFE: Duration = Duration::from_hours(1);

struct Place {
    client: Client,
    sandbox: Sandbox,
}

/// A host of sandboxes that knows [`KEY`].
pub(crate) async fn host(args: &RunArgs, data: &Path) -> Result<Server, BenchError> {
    let mut host = command(&args.binary);
    host.args(["sandboxd", "--listen", "127.0.0.1:0", "--network", "host", "--key", KEY, "--data-dir"]).arg(data);
    Server::start(host.stderr(Stdio::null())).await
}

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let missing = |word: &str| BenchError::Unexpected(format!("the figures of `e2b` need `{word}`"));
    let data = args.sandboxd_data.as_deref().ok_or_else(|| missing("--sandboxd-data"))?;
    let python = args.e2b_python.as_deref().ok_or_else(|| missing("--e2b-python"))?;
    let host = host(args, data).await?;
    let figures = Box::pin(figures(args, &host, python)).await;
    host.stop().await?;
    figures
}

async fn figures(args: &RunArgs, host: &Server, python: &Path) -> Result<Vec<Figure>, BenchError> {
    build(args, host).await?;
    let config = Config::from_lookup(|name| match name {
        "E2B_API_URL" | "E2B_SANDBOX_URL" => Some(host.url.clone()),
        "E2B_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    });
    let client = Client::new(config.map_err(Error::from)?)?;
    let sandbox = client.create(&NewSandbox::new(TEMPLATE).timeout(LIFE)).await?;
    let place = Place { client, sandbox };
    let mut figures = round_trips(&place, host, python).await?;
    figures.push(first_command(&place).await?);
    figures.extend(files(&place).await?);
    figures.push(probe(args, &place).await?);
    figures.push(crowd(&place).await?);
    place.sandbox.kill().await?;
    Ok(figures)
}

/// The shipped template with the measured binary in it; nothing is done that an earlier run did.
pub(crate) async fn build(args: &RunArgs, host: &Server) -> Result<(), BenchError> {
    let folder = tempfile::tempdir()?;
    let mut build = command(&args.binary);
    build.args(["template", "build", "--without-youtube", "--name", TEMPLATE]).current_dir(folder.path());
    let done = surroundings(&mut build, host).env("HOME", folder.path()).output().await?;
    if done.status.success() {
        return Ok(());
    }
    Err(BenchError::Unexpected(String::from_utf8_lossy(&done.stderr).into_owned()))
}

fn surroundings<'a>(command: &'a mut tokio::process::Command, host: &Server) -> &'a mut tokio::process::Command {
    command
        .env("E2B_API_KEY", KEY)
        .env("E2B_API_URL", &host.url)
        .env("E2B_SANDBOX_URL", &host.url)
        .env("NO_PROXY", "127.0.0.1,localhost")
}

async fn timed<T>(work: impl Future<Output = Result<T, Error>>) -> Result<f64, BenchError> {
    let began = Instant::now();
    work.await?;
    Ok(milliseconds(began.elapsed()))
}

async fn round_trips(place: &Place, host: &Server, python: &Path) -> Result<Vec<Figure>, BenchError> {
    let commands = place.sandbox.commands();
    // Each client's own way to run a line: a login shell is what the official one starts, and what ours starts when it is asked to.
    let (smallest, login) = (Command::shell("true"), Command::login_shell("true"));
    let (mut ours, mut theirs, mut like_theirs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut together, mut each_of_three) = (Vec::new(), Vec::new());
    let (mut bare, mut bare_together) = (Vec::new(), Vec::new());
    for _turn in 0..TURNS {
        for _round in 0..ROUNDS {
            like_theirs.push(timed(commands.run(&login)).await?);
        }
        for _round in 0..ROUNDS {
            ours.push(timed(commands.run(&smallest)).await?);
        }
        for _round in 0..ROUNDS {
            let one = || timed(commands.run(&smallest));
            let began = Instant::now();
            let (first, second, third) = Box::pin(async { tokio::try_join!(one(), one(), one()) }).await?;
            together.push(milliseconds(began.elapsed()));
            each_of_three.extend([first, second, third]);
        }
        theirs.extend(official(place, host, python).await?);
        for _round in 0..ROUNDS {
            bare.push(shells(1).await?);
            bare_together.push(shells(3).await?);
        }
    }
    let (ours, together) = (quantile(&mut ours, 0.5), quantile(&mut together, 0.5));
    let theirs = quantile(&mut theirs, 0.5);
    let (like_theirs, each_of_three) = (quantile(&mut like_theirs, 0.5), quantile(&mut each_of_three, 0.5));
    print(&format!(
        "     `true`: {ours:.1} ms, three at once {together:.1} ms (each of them {each_of_three:.1} ms), with the official SDK \
         {theirs:.1} ms, in a login shell {like_theirs:.1} ms"
    ));
    let (bare, bare_together) = (quantile(&mut bare, 0.5), quantile(&mut bare_together, 0.5));
    print(&format!(
        "     the same shell on this machine, without any sandbox: {bare:.1} ms, three at once {bare_together:.1} ms, {:.2} x",
        bare_together / bare
    ));
    Ok(vec![
        Figure::at_most("a command's round trip against the official Python SDK", ours / theirs, 0.5, "x"),
        Figure::at_most("three commands at once against one", together / ours, 1.5, "x"),
    ])
}

/// The time of so many shells at once, as a program of this machine starts them.
async fn shells(number: usize) -> Result<f64, BenchError> {
    let began = Instant::now();
    let started = (0..number).map(|_| command(Path::new("/bin/bash")).args(["-c", "true"]).env_clear().spawn());
    for mut shell in started.collect::<Result<Vec<_>, _>>()? {
        shell.wait().await?;
    }
    Ok(milliseconds(began.elapsed()))
}

async fn official(place: &Place, host: &Server, python: &Path) -> Result<Vec<f64>, BenchError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2b_round_trip.py");
    let mut run = command(python);
    run.arg(script).args([place.sandbox.id(), &ROUNDS.to_string()]);
    let done = surroundings(&mut run, host).output().await?;
    let times: Vec<f64> = String::from_utf8_lossy(&done.stdout).lines().filter_map(|line| line.parse().ok()).collect();
    if times.len() == ROUNDS {
        return Ok(times.into_iter().map(|seconds| seconds * 1000.0).collect());
    }
    Err(BenchError::Unexpected(String::from_utf8_lossy(&done.stderr).into_owned()))
}

async fn first_command(place: &Place) -> Result<Figure, BenchError> {
    let mut times = Vec::new();
    for _ in 0..CREATES {
        let began = Instant::now();
        let sandbox = place.client.create(&NewSandbox::new(TEMPLATE)).await?;
        sandbox.commands().run(&Command::shell("true")).await?;
        times.push(milliseconds(began.elapsed()));
        sandbox.kill().await?;
    }
    Ok(Figure::below(
        "a sandbox of the shipped template, made to its first command",
        quantile(&mut times, 0.5),
        400.0,
        "ms",
    ))
}

async fn files(place: &Place) -> Result<Vec<Figure>, BenchError> {
    const PATH: &str = "/tmp/large";
    // Bytes that no layer in between could leave out.
    let content: bytes::Bytes =
        (0..FILE_BYTES / 8).flat_map(|number| mixed(number as u64).to_le_bytes()).collect::<Vec<u8>>().into();
    let files = place.sandbox.files();
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for _ in 0..FILE_ROUNDS {
        written.push(timed(files.write(PATH, content.clone())).await?);
        let mut sink = Counted::default();
        read.push(timed(files.download_to(PATH, &mut sink)).await?);
        if sink.bytes != content.len() {
            return Err(BenchError::Unexpected(format!("{} bytes of {} came back", sink.bytes, content.len())));
        }
    }
    let rate = |times: &mut Vec<f64>| number(content.len()) / 1e6 / (quantile(times, 0.5) / 1000.0);
    Ok(vec![
        Figure::at_least("a file of 100 MB written into a sandbox", rate(&mut written), 200.0, "MB/s"),
        Figure::at_least("a file of 100 MB read out of a sandbox", rate(&mut read), 200.0, "MB/s"),
    ])
}

/// Another number for each number.
const fn mixed(number: u64) -> u64 {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ (spread >> 29)
}

/// Takes everything in and keeps nothing.
#[derive(Debug, Default)]
struct Counted {
    bytes: usize,
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.bytes += bytes.len();
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

/// `media probe` of one file, there and here, in turns.
async fn probe(args: &RunArgs, place: &Place) -> Result<Figure, BenchError> {
    const CLIP: &str = "/tmp/clip.mp4";
    place.sandbox.files().write(CLIP, std::fs::read(&args.clip)?).await?;
    let words = ["media", "probe", "--source-path"];
    let inside = Command::program(PROGRAM).args(words).args([CLIP]);
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for _ in 0..PROBES {
        let began = Instant::now();
        let done = place.sandbox.commands().run(&inside).await?;
        there.push(milliseconds(began.elapsed()));
        let mut outside = command(&args.binary);
        let began = Instant::now();
        let told = outside.args(words).arg(&args.clip).output().await?;
        here.push(milliseconds(began.elapsed()));
        if !done.is_success() || !told.status.success() {
            let said = String::from_utf8_lossy(&told.stderr).into_owned();
            return Err(BenchError::Unexpected(format!("a probe failed: {} {said}", done.stderr.text())));
        }
    }
    let (there, here) = (quantile(&mut there, 0.5), quantile(&mut here, 0.5));
    print(&format!("     `media probe`: {there:.0} ms in a sandbox, {here:.0} ms on the host"));
    Ok(Figure::below("`media probe` in a sandbox, beyond the host's", there - here, 60.0, "ms"))
}

/// What many sandboxes take that do nothing: all of the memory of the machine that is gone while they live.
async fn crowd(place: &Place) -> Result<Figure, BenchError> {
    let before = available()?;
    let mut sandboxes = Vec::with_capacity(CROWD);
    for _ in 0..CROWD {
        let sandbox = place.client.create(&NewSandbox::new(TEMPLATE).timeout(LIFE)).await?;
        sandbox.commands().run(&Command::shell("true")).await?;
        sandboxes.push(sandbox);
    }
    let taken = (before - available()?) / 1e9;
    for sandbox in &sandboxes {
        sandbox.kill().await?;
    }
    Ok(Figure::below("memory of 50 sandboxes", taken, 1.5, "GB"))
}

/// Bytes of memory that programs could still get.
fn available() -> Result<f64, BenchError> {
    let facts = std::fs::read_to_string("/proc/meminfo")?;
    let line = facts.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: Option<f64> = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
    kib.map(|kib| kib * 1024.0).ok_or_else(|| BenchError::Unexpected("`/proc/meminfo` has no MemAvailable".to_owned()))
}
