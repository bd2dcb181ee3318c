//! `ambientctl template`: the sandbox template in the team that owns the E2B key.

mod build;
pub(crate) mod check;
mod failure;
mod list;
mod service;

use std::path::Path;

use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};
use service::Service;

/// Words of `ambientctl template`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Builds the sandbox template, with this program in it
    #[command(after_help = "Examples:\n  ambientctl template build\n  ambientctl template build --dev --no-cache\n\n\
        A name that the team has already gets a new build. Sessions use the template that E2B_TEMPLATE names.")]
    Build(build::Args),
    /// Lists the templates of the team
    #[command(after_help = "Examples:\n  ambientctl template list\n  ambientctl template list --json")]
    List(list::Args),
    /// Tells whether the sandbox template in use can be used by this version
    #[command(
        after_help = "Example:\n  ambientctl template check\n\nExit code: 0 it can, 1 it cannot, 3 E2B does not answer."
    )]
    Check(check::Args),
}

/// Runs one of them.
///
/// # Errors
/// When the settings are wrong, the service does not do it, or the build fails.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    match &args.command {
        Command::Build(args) => build::run(args, environment, printer).await,
        Command::List(args) => list::run(args, environment, printer).await,
        Command::Check(args) => check::run(args, environment, printer).await,
    }
}

/// Builds the template of this name, with or without what imports from YouTube need, with the settings of a file or of an
/// installation.
///
/// # Errors
/// When the settings are wrong, the service does not do it, or the build fails.
pub(crate) async fn build(
    name: &str,
    with_youtube: bool,
    (env_file, dir): (Option<&Path>, Option<&Path>),
    environment: &Environment,
    printer: Printer,
) -> Result<(), Failure> {
    let service = Service::of(env_file.map(Path::to_owned), dir.map(Path::to_owned));
    build::build(&build::Args::named(name.to_owned(), with_youtube, service), environment, printer).await.map(drop)
}

/// The tag that says which version of this program is in a build.
pub(crate) fn version_tag() -> String {
    format!("v{}", env!("CARGO_PKG_VERSION"))
}
