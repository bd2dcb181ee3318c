//! `ambientctl version`: this binary's version, and that of the installation.

use serde_json::json;

use super::place::Dir;
use crate::compose::Loader;
use crate::docker::Wanted;
use crate::environment::Environment;
use crate::output::{Exit, Printer};

/// Words of `ambientctl version`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    dir: Dir,
}

/// Prints the versions. An installation that is not there or cannot be read has none.
pub fn run(args: &Args, environment: &Environment, printer: Printer) -> Exit {
    let own = env!("CARGO_PKG_VERSION");
    let image = args.dir.path(environment).ok().and_then(|folder| {
        let loaded = Loader::new(&folder, &environment.variables).load().ok()?;
        Wanted::of(&loaded.project).ok()?.service("engine").map(|engine| engine.image.clone())
    });
    if printer.json {
        printer.data(&json!({ "ambientctl": own, "engine_image": image }).to_string());
    } else {
        printer.data(&format!("ambientctl {own}"));
        if let Some(image) = image {
            printer.data(&format!("engine image {image}"));
        }
    }
    Exit::Ok
}
