//! `ambientctl config …`: what an installation is set to, and changing it.
//!
//! The files are those of one folder, `--dir`. Reading needs nothing but them; no command here talks to Docker.

mod assignments;
mod change;
mod diff;
mod edit;
mod get;
mod render;
mod set;
mod show;
mod stack;
#[cfg(test)]
mod tests;
mod unset;

use std::path::PathBuf;

use crate::environment::Environment;
use crate::files::{FilesError, Folder, Lock, Tightened};
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

/// Which installation.
#[derive(Clone, Debug, Default, clap::Args)]
struct Dir {
    /// The installation's folder [default: `AMBIENT_DIR`, else ~/.ambient]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// How far a change goes.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
struct Reach {
    /// Write the files, and leave the running stack as it is
    #[arg(long)]
    no_apply: bool,
    /// Show what would change, and write nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, thiserror::Error)]
enum ConfigError {
    #[error("this version of ambientctl cannot apply a change to the running stack; nothing was written")]
    NoApply,
    #[error("there is no home folder in the environment, so `~/.ambient` cannot be found")]
    NoHome,
}

/// Runs a `config` command.
///
/// # Errors
/// What is wrong with the words, the files or the values. Files are then as they were.
pub fn run(args: &Args, environment: &Environment, printer: &Printer) -> Result<Exit, Failure> {
    let printer = *printer;
    match &args.command {
        Command::Show(args) => show::run(args, environment, printer),
        Command::Get(args) => get::run(args, environment, printer),
        Command::Set(args) => set::run(args, environment, printer),
        Command::Unset(args) => unset::run(args, environment, printer),
        Command::Render(args) => render::run(args, environment, printer),
        Command::Edit(args) => edit::run(args, environment, printer),
    }
}

impl Dir {
    fn path(&self, environment: &Environment) -> Result<PathBuf, Failure> {
        let set = |name| variable(environment, name).filter(|value| !value.is_empty());
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        if let Some(dir) = set("AMBIENT_DIR") {
            return Ok(PathBuf::from(dir));
        }
        match set("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(".ambient")),
            None => Err(Failure::new(Exit::Usage, ConfigError::NoHome).hint("name the folder with `--dir DIR`")),
        }
    }

    fn folder(&self, environment: &Environment) -> Result<Folder, Failure> {
        Folder::open(&self.path(environment)?).map_err(files_failure)
    }
}

impl Reach {
    /// Refuses what this version cannot do, before anything is touched.
    fn check(self) -> Result<(), Failure> {
        if self.no_apply || self.dry_run {
            return Ok(());
        }
        Err(Failure::new(Exit::Usage, ConfigError::NoApply)
            .hint("`--no-apply` writes the files; then `docker compose up -d --wait` in the installation's folder applies them")
            .hint("`--dry-run` shows what would be written"))
    }
}

fn variable(environment: &Environment, name: &str) -> Option<String> {
    environment
        .variables
        .iter()
        .find(|(found, _)| found.to_str() == Some(name))
        .and_then(|(_, value)| value.to_str())
        .map(str::to_owned)
}

fn lock(folder: &Folder, printer: Printer) -> Result<Lock, Failure> {
    folder
        .lock(|| printer.warning("another ambientctl is changing this installation; waiting for it"))
        .map_err(files_failure)
}

/// A failure of the files, with what mends it.
fn files_failure(error: FilesError) -> Failure {
    let hint = match &error {
        FilesError::NoFolder(_) => {
            "name the installation's folder with `--dir DIR`, or install with `ambientctl install`".to_owned()
        }
        FilesError::Read { path, .. } | FilesError::Write { path, .. } | FilesError::Lock { path, .. } => {
            format!("check who may read and write `{}`, and whether its disk is full", path.display())
        }
        FilesError::NotUtf8 { path, .. } | FilesError::Dotenv { path, .. } => {
            format!("mend that line of `{}`, or take an old one from `backups`", path.display())
        }
        FilesError::Owner { path, .. } => format!("run this as the owner of `{}`, or as root", path.display()),
        FilesError::Key(_) => "keys look like `LLM_API_KEY`".to_owned(),
        FilesError::Value { key, .. } => format!("choose another value for `{key}`"),
        FilesError::Entangled { .. } => "change that line by hand, with `ambientctl config edit`".to_owned(),
    };
    let exit = match error {
        FilesError::Write { .. } | FilesError::Lock { .. } => Exit::Unhealthy,
        _ => Exit::Usage,
    };
    Failure::new(exit, error).hint(hint)
}

fn tell_tightened(tightened: &[Tightened], printer: Printer) {
    for file in tightened {
        printer.warning(&format!(
            "`{}` could be read by others (mode {:o}); it is private now (mode 600)",
            file.path.display(),
            file.from
        ));
    }
}
