//! `ambientctl logs`: what the services say.

use super::place::{Place, docker_failure};
use super::stack::{Texts, wanted};
use crate::docker::{FoundContainer, LogWishes, Tail, containers_of, follow};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl logs`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The services [default: all]
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    /// Go on with what is said from now on
    #[arg(long, short)]
    follow: bool,
    /// How many of the last lines of each service, or `all`
    #[arg(long, short = 'n', value_name = "N", default_value = "200", value_parser = tail)]
    tail: Tail,
    /// Show when each line was said
    #[arg(long, short)]
    timestamps: bool,
    #[command(flatten)]
    place: Place,
}

fn tail(word: &str) -> Result<Tail, String> {
    match word {
        "all" => Ok(Tail::All),
        number => number.parse().map(Tail::Lines).map_err(|_no_number| "write a number, or `all`".to_owned()),
    }
}

/// Prints the lines of the services as they come, each with its service when there are several.
///
/// # Errors
/// When the files give no stack, a service is not part of it, or the engine does not answer.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.place.dir.path(environment)?;
    let wanted = wanted(&folder, &Texts::new(), environment, printer.quietly())?;
    let chosen = wanted.chosen(&args.services).map_err(docker_failure)?;
    let connection = args.place.engine.connect(environment).await.map_err(docker_failure)?;
    let all = containers_of(&connection, &wanted.project).await.map_err(docker_failure)?;
    let containers: Vec<FoundContainer> =
        all.into_iter().filter(|container| chosen.contains(&container.service) && !container.one_off).collect();
    if containers.is_empty() {
        printer.warning("none of the services has a container; `ambientctl start` makes them");
        return Ok(Exit::Ok);
    }
    let width = containers.iter().map(|container| container.service.len()).max().unwrap_or(0);
    let is_several = containers.len() > 1;
    let wishes = LogWishes { follow: args.follow, timestamps: args.timestamps, tail: args.tail };
    let mut print = |service: &str, line: &str| {
        if printer.json {
            printer.line(&serde_json::json!({ "service": service, "line": line }).to_string())
        } else if is_several {
            printer.line(&format!("{service:<width$} | {line}"))
        } else {
            printer.line(line)
        }
    };
    tokio::select! {
        () = follow(&connection, &containers, wishes, &mut print) => Ok(Exit::Ok),
        _ = tokio::signal::ctrl_c() => Ok(Exit::Ok),
    }
}
