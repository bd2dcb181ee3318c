//! `ambientctl config …`: what an installation is set to, and changing it.
//!
//! The files are those of one folder, `--dir`. Reading needs nothing but them; changing talks to Docker when a stack runs.

mod apply;
mod assignments;
mod change;
mod diff;
mod edit;
mod get;
mod render;
mod set;
mod show;
pub(crate) mod stack;
#[cfg(test)]
mod tests;
mod unset;

use ambient_settings::dotenv::{Document, Evaluated};
pub(crate) use assignments::is_secret;

use super::place::{Dir, TimedPlace, files_failure, lock, tell_tightened};
use crate::environment::Environment;
use crate::files::{EditedFile, FilesError, Folder};
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Show what is set and where; secrets are hidden
    Show(show::Args),
    /// Print the value of one key, and nothing else
    Get(get::Args),
    /// Set keys: KEY VALUE, KEY=VALUE, KEY - (from stdin), or KEY alone (asks without showing what is typed)
    Set(set::Args),
    /// Remove keys
    Unset(unset::Args),
    /// Print the stack as `docker compose config` would
    Render(render::Args),
    /// Open `.env` in an editor, and take what it says if it can be read
    Edit(edit::Args),
}

/// How far a change goes.
#[derive(Clone, Debug, clap::Args)]
struct Reach {
    /// Write the files, and leave the running stack as it is
    #[arg(long)]
    no_apply: bool,
    /// Show what would change and which containers would be made anew, and touch nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave everything as it is when the stack does not become healthy, instead of going back
    #[arg(long)]
    no_rollback: bool,
    #[command(flatten)]
    at: TimedPlace,
}

/// Runs a `config` command.
///
/// # Errors
/// What is wrong with the words, the files or the values. Files are then as they were.
pub async fn run(args: &Args, environment: &Environment, printer: &Printer) -> Result<Exit, Failure> {
    let printer = *printer;
    match &args.command {
        Command::Show(args) => show::run(args, environment, printer),
        Command::Get(args) => get::run(args, environment, printer),
        Command::Set(args) => set::run(args, environment, printer).await,
        Command::Unset(args) => unset::run(args, environment, printer).await,
        Command::Render(args) => render::run(args, environment, printer),
        Command::Edit(args) => edit::run(args, environment, printer).await,
    }
}

/// What `.env` says, with its references looked up as Compose would; nothing where there is none.
fn evaluated_env(folder: &Folder, environment: &Environment) -> Result<Evaluated, Failure> {
    let text = folder.read(EditedFile::Env).map_err(files_failure)?.unwrap_or_default();
    Document::parse(&text)
        .and_then(|document| document.evaluate(&|name: &str| variable(environment, name)))
        .map_err(|error| files_failure(FilesError::Dotenv { path: folder.file(EditedFile::Env), error }))
}

fn variable(environment: &Environment, name: &str) -> Option<String> {
    environment.variable(name)
}
