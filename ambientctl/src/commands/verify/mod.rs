//! `ambientctl verify`: the journey of a client through a running engine, with a word for each step.
//!
//! Health, upload, session, its sandbox, a question, the end of the session. What fails is told with the session's own errors
//! and with what `doctor` says about it.

mod journey;

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::json;
use url::Url;

use self::journey::{Ended, Journey};
use super::place::Dir;
use crate::doctor::{Context, Level, Look, Target, Wishes, run as run_checks, text};
use crate::engine_client::EngineClient;
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer, Progress};

/// How long each of doctor's checks may take afterwards.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// What is asked where nobody says.
const QUESTION: &str = "What is to be seen in this video? Answer in one sentence.";

/// Words of `ambientctl verify`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The video to ask about [default: a small sample, two seconds long]
    video: Option<PathBuf>,
    /// What to ask
    #[arg(long, default_value = QUESTION)]
    question: String,
    /// The engine's base URL [default: that of `.env` here, or of the installation]
    #[arg(long, value_name = "URL")]
    url: Option<Url>,
    /// The engine's API key; `-` reads it from stdin [default: that of `.env` here, or of the installation]
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Seconds until the sandbox has to be up, and again until the answer has to be there
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Debug, thiserror::Error)]
enum VerifyError {
    #[error("the API key could not be read from stdin")]
    Stdin(#[source] io::Error),
    #[error("the engine publishes no port, so it has no address here")]
    NoAddress,
    #[error("could not set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Goes through all steps, and prints what came of each.
///
/// # Errors
/// When nobody answers, or a word is wrong. A step that fails is no error, but exit code 1.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let usual = Dir::default().path(environment).ok();
    let target = Target::find(None, args.dir.dir.as_deref(), usual.as_deref(), environment);
    let key = match args.api_key.as_deref() {
        Some("-") => SecretString::from(from_stdin()?),
        Some(key) => SecretString::from(key),
        None => target.settings.server.api_key.clone(),
    };
    let url = args.url.clone().or_else(|| target.engine_url()).ok_or_else(|| {
        Failure::new(Exit::Usage, VerifyError::NoAddress).hint("name it with `--url http://HOST:PORT`")
    })?;
    let redactor = target.redactor.with([key.clone()]);
    let engine = EngineClient::new(&url, &key)?;
    let progress = Progress::new(printer);
    let mut journey = Journey::new(&engine, &progress, printer, Duration::from_secs(args.timeout));
    let ended = tokio::select! {
        ended = journey.run(args.video.as_deref(), &args.question) => ended,
        _ = tokio::signal::ctrl_c() => Ended::failed("interrupted", &[]),
    };
    journey.end().await;
    progress.finish();
    let mut document = journey.document;
    let Some(problem) = ended.problem else {
        if printer.json {
            document.insert("ok".to_owned(), json!(true));
            printer.data(&serde_json::Value::Object(document).to_string());
        } else {
            printer.data("everything works");
        }
        return Ok(Exit::Ok);
    };
    let problem = redactor.scrub(&problem);
    let wishes = Wishes { limit: CHECK_LIMIT, deep: false, docker: None, engine: Some(url) };
    let context = Context::new(target, wishes, environment.clone())
        .map_err(|error| Failure::new(Exit::Internal, VerifyError::Client(error)))?;
    let only: Vec<String> = ended.checks.iter().map(|check| (*check).to_owned()).collect();
    let mut report = run_checks(&context, &only).await;
    report.findings.retain(|finding| finding.level >= Level::Warning);
    if printer.json {
        document.insert("ok".to_owned(), json!(false));
        document.insert("error".to_owned(), json!(problem));
        document.insert("doctor".to_owned(), crate::doctor::json(&report));
        printer.data(&serde_json::Value::Object(document).to_string());
    } else {
        printer.data(&format!("failed: {problem}"));
        if report.findings.is_empty() {
            printer.data(&format!("`ambientctl doctor --only {}` finds nothing wrong", only.join(",")));
        } else {
            printer.data(&text(&report, Look::default()));
        }
    }
    Ok(if ended.is_silent { Exit::Unreachable } else { Exit::Unhealthy })
}

fn from_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text).map_err(|error| Failure::new(Exit::Usage, VerifyError::Stdin(error)))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}
