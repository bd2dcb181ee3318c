//! `ambientctl doctor`: the troubleshooting list, run live.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use strsim::damerau_levenshtein;

use super::place::Dir;
use crate::doctor::{Context, Fix, Look, Report, Target, Wishes, apply, ids, json, run as run_checks, text};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Mend what can be mended safely, then look again: the rights of `.env`, settings that stop at the override, links that
    /// lead nowhere; a template is built anew after a question
    #[arg(long)]
    fix: bool,
    /// With --fix: build a template without deno and yt-dlp, which only imports from YouTube need
    #[arg(long, requires = "fix")]
    without_youtube: bool,
    /// Look only at these checks, such as `bucket`; several with commas or by repeating it
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Look at the engine that reads this file, instead of `.env` here or the installation
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    env_file: Option<PathBuf>,
    /// Seconds that each check may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Ask the models and boot a sandbox too; that costs a little, and what is said first
    #[arg(long)]
    deep: bool,
    /// The Docker engine's address [default: `DOCKER_HOST`, the current docker context, then the known sockets]
    #[arg(long, value_name = "URL")]
    docker: Option<String>,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Debug, thiserror::Error)]
enum DoctorError {
    #[error("there is no check `{word}`{hint}")]
    NoCheck { word: String, hint: String },
    #[error("there is no file `{}`, which `--env-file` names", .0.display())]
    NoFile(PathBuf),
    #[error("could not set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

/// Looks at everything, or at what `--only` names, and prints what was seen.
///
/// # Errors
/// When a word is wrong. What is wrong with the target is no error, but exit code 1.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    for word in &args.only {
        known(word)?;
    }
    if let Some(file) = args.env_file.as_ref().filter(|file| !file.exists() && !file.is_symlink()) {
        return Err(Failure::new(Exit::Usage, DoctorError::NoFile(file.clone()))
            .hint("leave `--env-file` out to look at `.env` here, or at the installation"));
    }
    let mut report = look(args, environment, printer).await?;
    if args.fix {
        let fixed = mend(args, &report, environment, printer).await;
        if fixed > 0 {
            report = look(args, environment, printer.quietly()).await?;
        }
    }
    if printer.json {
        printer.data(&json(&report).to_string());
    } else {
        printer.data(&text(&report, appearance(environment, printer)));
    }
    Ok(if report.is_clean() { Exit::Ok } else { Exit::Unhealthy })
}

async fn look(args: &Args, environment: &Environment, printer: Printer) -> Result<Report, Failure> {
    let usual = Dir::default().path(environment).ok();
    let target = Target::find(args.env_file.as_deref(), args.dir.dir.as_deref(), usual.as_deref(), environment);
    if args.deep {
        costs(args, &target, printer);
    }
    let wishes =
        Wishes { limit: Duration::from_secs(args.timeout), deep: args.deep, docker: args.docker.clone(), engine: None };
    let context = Context::new(target, wishes, environment.clone())
        .map_err(|error| Failure::new(Exit::Internal, DoctorError::Client(error)))?;
    Ok(run_checks(&context, &args.only).await)
}

/// Says what `--deep` costs, before it does.
fn costs(args: &Args, target: &Target, printer: Printer) {
    let asks = |check: &str| args.only.is_empty() || args.only.iter().any(|word| word.split('.').next() == Some(check));
    let settings = &target.settings;
    if asks("llm") && settings.llm.endpoint.is_some() {
        printer.note(&format!(
            "--deep asks `{}` one short question and `{}` two, with a small picture and two seconds of video: some \
             thousand tokens in all",
            settings.agent.model, settings.llm.model
        ));
    }
    if asks("e2b-boot") && target.is_on_e2b() {
        printer.note(&format!(
            "--deep boots one sandbox of `{}` and ends it: about a minute of its price",
            settings.e2b.template
        ));
    }
}

/// Does what can be done safely, and says how many things that were.
async fn mend(args: &Args, report: &Report, environment: &Environment, printer: Printer) -> usize {
    let mut done: Vec<&Fix> = Vec::new();
    for fix in report.findings.iter().filter_map(|finding| finding.fix.as_ref()) {
        // Two checks may have found the same.
        if done.contains(&fix) {
            continue;
        }
        let outcome = match fix {
            Fix::BuildTemplate { name } => {
                if !confirmed(&fix.words()) {
                    printer.note(&format!("not done without a yes on a terminal: {}", fix.words()));
                    continue;
                }
                build(name, args, environment, printer).await.map_err(|failure| failure.summary())
            }
            _ => apply(fix).map_err(|error| Failure::new(Exit::Unhealthy, error).summary()),
        };
        match outcome {
            Ok(()) => {
                printer.note(&format!("done: {}", fix.words()));
                done.push(fix);
            }
            Err(reason) => printer.warning(&format!("could not {}: {reason}", fix.words())),
        }
    }
    done.len()
}

async fn build(name: &str, args: &Args, environment: &Environment, printer: Printer) -> Result<(), Failure> {
    // The report is the command's one document.
    let printer = Printer { json: false, quiet: printer.quiet || printer.json };
    let place = (args.env_file.as_deref(), args.dir.dir.as_deref());
    super::template::build(name, !args.without_youtube, place, environment, printer).await
}

fn confirmed(words: &str) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    let question =
        dialoguer::Confirm::new().with_prompt(format!("{words}? It takes minutes, and E2B's time")).default(false);
    question.interact().unwrap_or(false)
}

/// A word of `--only` that names a check, or a finding of one.
fn known(word: &str) -> Result<(), Failure> {
    let check = word.split('.').next().unwrap_or(word);
    if ids().any(|id| id == check) {
        return Ok(());
    }
    let close = ids().map(|id| (damerau_levenshtein(id, check), id)).filter(|(slips, _)| *slips <= 3).min();
    let hint = close.map(|(_, id)| format!("; did you mean `{id}`?")).unwrap_or_default();
    let error = DoctorError::NoCheck { word: word.to_owned(), hint };
    Err(Failure::new(Exit::Usage, error).hint(format!("the checks are {}", ids().collect::<Vec<_>>().join(", "))))
}

fn appearance(environment: &Environment, printer: Printer) -> Look {
    let is_terminal = io::stdout().is_terminal();
    let is_set = |name: &str| environment.variable(name).is_some_and(|value| !value.is_empty());
    let width = rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| usize::from(size.ws_col));
    Look {
        is_coloured: is_terminal && !is_set("NO_COLOR") && !printer.quiet,
        width: width.filter(|columns| is_terminal && *columns > 0),
        is_quiet: printer.quiet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_is_none_is_refused_with_the_one_that_was_meant() {
        known("bucket").unwrap();
        known("bucket.put").unwrap();
        let refused = known("buckt").unwrap_err();
        assert_eq!(refused.exit(), Exit::Usage);
        assert!(refused.text().contains("there is no check `buckt`; did you mean `bucket`?"), "{}", refused.text());
        assert!(known("nonsense").unwrap_err().text().contains("the checks are env-file, settings"));
    }
}
