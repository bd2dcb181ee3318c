//! Measures the shipped binary from outside, as a client and the operating system see it.
//!
//! Each figure has a bound; what depends on the machine is compared with something plain that runs beside it (a bare
//! handler, a server that only stores, Docker Compose). No figure is part of a timed test. The plain servers and the model run as processes
//! of their own, so that they do not share threads with the readers that measure.

mod clips;
mod doctor;
mod e2b;
mod figure;
mod frames;
mod media;
mod operator;
mod process;
mod reader;
mod requests;
mod servers;
mod sessions;
mod start;
mod streams;
mod tiles;
mod turn;
mod upload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use crate::figure::{Figure, Report};

/// Measures the engine
#[derive(Debug, clap::Parser)]
enum Command {
    /// Measures and prints the figures
    Run(RunArgs),
    /// A model that answers at once
    Model,
    /// A handler that only answers
    Bare {
        /// Length of its answer
        bytes: usize,
    },
    /// A bucket that checks signatures
    Bucket,
    /// A server that only stores
    Store {
        /// Where it stores
        folder: PathBuf,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct RunArgs {
    /// The release binary
    #[arg(long)]
    binary: PathBuf,
    /// A short video
    #[arg(long)]
    clip: PathBuf,
    /// The figures to measure
    #[arg(long, value_delimiter = ',', default_values = ["start", "turn", "sessions", "requests", "streams", "upload", "operator", "clips", "tiles", "frames", "e2b", "doctor"])]
    only: Vec<String>,
    /// Size of the upload
    #[arg(long, default_value_t = 2_000_000_000)]
    upload_bytes: u64,
    /// The socket of a Docker engine with the images of tests/installer/images.sh, for the figures of `operator` and `doctor`
    #[arg(long)]
    docker: Option<PathBuf>,
    /// The Docker Compose that the operator's tool is compared with
    #[arg(long)]
    compose: Option<PathBuf>,
    /// The data folder of a host of sandboxes, for the figures of `e2b` and `doctor`; what is built there is kept
    #[arg(long)]
    sandboxd_data: Option<PathBuf>,
    /// A Python with the official E2B SDK, which our client is compared with
    #[arg(long)]
    e2b_python: Option<PathBuf>,
    /// The URL of a PostgreSQL database, for the figures of `doctor`
    #[arg(long)]
    postgres: Option<String>,
    /// The URL of a Redis, for the figures of `doctor`
    #[arg(long)]
    redis: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("{0}")]
    Unexpected(String),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error(transparent)]
    Sandbox(#[from] ambient_e2b::Error),
}

fn main() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.into()),
    };
    let done = runtime.block_on(async {
        match Command::parse() {
            Command::Run(args) => run(&args).await,
            Command::Model => servers::model().await.map(|()| true),
            Command::Bare { bytes } => servers::bare(bytes).await.map(|()| true),
            Command::Bucket => servers::bucket().await.map(|()| true),
            Command::Store { folder } => servers::store(folder).await.map(|()| true),
        }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failed(&error),
    }
}

fn failed(error: &BenchError) -> ExitCode {
    figure::print(&format!("the measurement failed: {error}"));
    ExitCode::from(70)
}

async fn run(args: &RunArgs) -> Result<bool, BenchError> {
    let mut report = Report::default();
    for name in &args.only {
        let figures: Vec<Figure> = match name.as_str() {
            "start" => start::measure(args).await?,
            "turn" => turn::measure(args).await?,
            "sessions" => sessions::measure(args).await?,
            "requests" => requests::measure(args).await?,
            "streams" => streams::measure(args).await?,
            "upload" => upload::measure(args).await?,
            "operator" => operator::measure(args).await?,
            "clips" => clips::measure(args).await?,
            "tiles" => tiles::measure(args).await?,
            "frames" => frames::measure(args).await?,
            "e2b" => e2b::measure(args).await?,
            "doctor" => doctor::measure(args).await?,
            other => return Err(BenchError::Unexpected(format!("there is no figure `{other}`"))),
        };
        report.add(figures);
    }
    Ok(report.print_verdict())
}
