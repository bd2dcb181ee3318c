//! The operator's tool on a real Docker engine, beside Docker Compose in the same folder.
//!
//! Both tools get the same edit and wait for the same containers, in turns, so that what the machine does meanwhile is the
//! same for both.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};

use crate::figure::{bytes_in, milliseconds, quantile};
use crate::process::command;
use crate::{BenchError, Figure, RunArgs};

/// The stack's name on Docker.
const PROJECT: &str = "ambient-bench";

const SHORT_RUNS: usize = 21;
const CHANGES: usize = 5;

/// How long a run of a tool took, and what it cost the processor.
#[derive(Clone, Copy, Debug)]
struct Run {
    wall: Duration,
    processor: Duration,
}

/// An installation of the shipped stack in a home of its own.
struct Installation<'a> {
    args: &'a RunArgs,
    home: tempfile::TempDir,
    socket: &'a Path,
    compose: &'a Path,
}

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let missing = |word: &str| BenchError::Unexpected(format!("the figures of `operator` need `{word}`"));
    let installation = Installation {
        args,
        home: tempfile::tempdir()?,
        socket: args.docker.as_deref().ok_or_else(|| missing("--docker"))?,
        compose: args.compose.as_deref().ok_or_else(|| missing("--compose"))?,
    };
    installation.ambientctl(&["install", "--yes", "--timeout", "300"]).await?;
    let figures = figures(&installation).await;
    installation.ambientctl(&["uninstall", "--purge", "--yes"]).await?;
    figures
}

async fn figures(installation: &Installation<'_>) -> Result<Vec<Figure>, BenchError> {
    let size = bytes_in(std::fs::metadata(&installation.args.binary)?.len(), 1_000_000);
    let mut figures = vec![Figure::below("size of the stripped release binary", size, 60.0, "MB")];

    let mut version = Vec::new();
    let (mut render, mut config) = (Vec::new(), Vec::new());
    let mut unchanged = Vec::new();
    installation.ambientctl(&["config", "set", "LLM_MODEL=first"]).await?;
    for _ in 0..SHORT_RUNS {
        version.push(milliseconds(installation.ambientctl(&["--version"]).await?.wall));
        render.push(milliseconds(installation.ambientctl(&["config", "render"]).await?.wall));
        config.push(milliseconds(installation.compose(&["config"]).await?.wall));
        unchanged.push(milliseconds(installation.ambientctl(&["config", "set", "LLM_MODEL=first"]).await?.wall));
    }
    let ratio = quantile(&mut render, 0.5) / quantile(&mut config, 0.5);
    figures.push(Figure::below("`ambientctl --version`, median", quantile(&mut version, 0.5), 10.0, "ms"));
    figures.push(Figure::below("`config render` to `docker compose config`, medians", ratio, 0.2, "x"));
    figures.push(Figure::below(
        "`config set` of an unchanged value, median",
        quantile(&mut unchanged, 0.5),
        80.0,
        "ms",
    ));

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..CHANGES {
        installation.edit("LLM_MODEL", &format!("theirs-{turn}"))?;
        theirs.push(installation.compose(&["up", "--detach", "--wait"]).await?);
        ours.push(installation.ambientctl(&["config", "set", &format!("LLM_MODEL=ours-{turn}")]).await?);
    }
    let median = |runs: &[Run], part: fn(&Run) -> Duration| {
        quantile(&mut runs.iter().map(|run| milliseconds(part(run))).collect::<Vec<_>>(), 0.5)
    };
    let wall = median(&ours, |run| run.wall) / median(&theirs, |run| run.wall);
    let processor = median(&ours, |run| run.processor) / median(&theirs, |run| run.processor);
    figures.push(Figure::below("`config set` until healthy to `compose up --wait`, medians", wall, 1.0, "x"));
    figures.push(Figure::below("its processor time to that of Compose, medians", processor, 0.5, "x"));
    Ok(figures)
}

impl Installation<'_> {
    fn folder(&self) -> PathBuf {
        self.home.path().join(".ambient")
    }

    async fn ambientctl(&self, words: &[&str]) -> Result<Run, BenchError> {
        self.run(&self.args.binary, words, self.home.path()).await
    }

    async fn compose(&self, words: &[&str]) -> Result<Run, BenchError> {
        self.run(self.compose, words, &self.folder()).await
    }

    /// Runs a tool to its end. Nothing else of ours runs meanwhile, so the children's processor time is its own.
    async fn run(&self, program: &Path, words: &[&str], folder: &Path) -> Result<Run, BenchError> {
        let mut tool = command(program);
        tool.args(words).current_dir(folder).env_clear().env("HOME", self.home.path());
        tool.env("DOCKER_HOST", format!("unix://{}", self.socket.display())).envs([
            ("AMBIENT_PROJECT", PROJECT),
            ("AMBIENT_ENGINE_IMAGE", "ambient-test-engine"),
            ("AMBIENT_SKIP_PULL", "1"),
        ]);
        let before = processor_time()?;
        let began = Instant::now();
        let output = tool.stdin(Stdio::null()).output().await?;
        let wall = began.elapsed();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Unexpected(format!("`{}` {words:?} failed:\n{said}", program.display())));
        }
        Ok(Run { wall, processor: processor_time()?.saturating_sub(before) })
    }

    /// Changes a line of `.env`, as somebody with an editor would.
    fn edit(&self, key: &str, value: &str) -> Result<(), BenchError> {
        let path = self.folder().join(".env");
        let text = std::fs::read_to_string(&path)?;
        let start = format!("{key}=");
        let edited: Vec<String> = text
            .lines()
            .map(|line| if line.starts_with(&start) { format!("{start}{value}") } else { line.to_owned() })
            .collect();
        Ok(std::fs::write(path, format!("{}\n", edited.join("\n")))?)
    }
}

/// What all children that ended have cost the processor.
fn processor_time() -> Result<Duration, BenchError> {
    let usage: Usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(std::io::Error::from)?;
    let [user, system] = [usage.user_time(), usage.system_time()];
    let microseconds = |seconds: i64, rest: i64| u64::try_from(seconds * 1_000_000 + rest).unwrap_or_default();
    let user = microseconds(user.tv_sec(), user.tv_usec());
    let system = microseconds(system.tv_sec(), system.tv_usec());
    Ok(Duration::from_micros(user + system))
}
