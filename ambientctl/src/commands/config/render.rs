//! `ambientctl config render`: the merged stack, as `docker compose config` prints it.

use super::super::stack::compose_failure as failure;
use super::Dir;
use crate::compose::{Loaded, Loader};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config render`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Yaml)]
    format: Format,
    /// Leave variables as they stand
    #[arg(long)]
    no_interpolate: bool,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
    Yaml,
}

pub(super) fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.dir.path(environment)?;
    let loader = Loader { interpolate: !args.no_interpolate, ..Loader::new(&folder, &environment.variables) };
    let Loaded { project, warnings } = loader.load().map_err(failure)?;
    for warning in &warnings {
        printer.warning(warning);
    }
    let text = match args.format {
        Format::Json => project.json(),
        Format::Yaml => project.yaml(),
    };
    let text = text.map_err(failure)?;
    printer.data(text.strip_suffix('\n').unwrap_or(&text));
    Ok(Exit::Ok)
}
