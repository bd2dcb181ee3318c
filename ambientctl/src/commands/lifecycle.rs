//! `ambientctl start`, `stop`, `restart` and `update`: the stack as a whole or some of its services.

use serde_json::json;

use super::place::{Place, TimedPlace, docker_failure, lock};
use super::stack::{Converged, Convergence, Texts, wanted};
use crate::docker::{Wanted, containers_of, stop as stop_container};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer, Progress};

/// Words of `ambientctl start`.
#[derive(Clone, Debug, clap::Args)]
pub struct StartArgs {
    #[command(flatten)]
    place: TimedPlace,
}

/// Words of `ambientctl stop`.
#[derive(Clone, Debug, clap::Args)]
pub struct StopArgs {
    /// The services [default: all]
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// Words of `ambientctl restart`.
#[derive(Clone, Debug, clap::Args)]
pub struct RestartArgs {
    /// The services [default: all]
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    place: TimedPlace,
}

/// Words of `ambientctl update`.
#[derive(Clone, Debug, clap::Args)]
pub struct UpdateArgs {
    /// Leave the new containers as they are when they do not become healthy, instead of going back
    #[arg(long)]
    no_rollback: bool,
    #[command(flatten)]
    place: TimedPlace,
}

/// How a stack is brought to what its files say.
#[derive(Clone, Copy, Debug, Default)]
struct Manner<'a> {
    /// Services that are stopped first, and those that want to be started again with them.
    stopping: Option<&'a [String]>,
    /// Whether images that are there are pulled anew.
    pull_anew: bool,
    /// Whether a failure is taken back.
    rollback: bool,
}

/// Makes the stack what the files say, and waits until it is healthy.
///
/// # Errors
/// When it does not become so. What was started then stays, so that it can be looked at.
pub async fn start(args: &StartArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    converge(&args.place, Manner::default(), environment, printer).await
}

/// Pulls the images anew and makes what changed anew.
///
/// # Errors
/// When an image cannot be had or the stack does not become healthy; the old containers are then back.
pub async fn update(args: &UpdateArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let manner = Manner { pull_anew: true, rollback: !args.no_rollback, stopping: None };
    converge(&args.place, manner, environment, printer).await
}

/// Stops services and starts them again as the files say, then waits until they are healthy. What wants to be started again
/// with one of them (`depends_on`, `restart: true`) is.
///
/// # Errors
/// When the engine does not do it, or they do not become healthy.
pub async fn restart(args: &RestartArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let manner = Manner { stopping: Some(&args.services), ..Manner::default() };
    converge(&args.place, manner, environment, printer).await
}

async fn converge(
    at: &TimedPlace,
    manner: Manner<'_>,
    environment: &Environment,
    printer: Printer,
) -> Result<Exit, Failure> {
    let folder = at.place.dir.folder(environment)?;
    let _held = lock(&folder, printer)?;
    let wanted = wanted(folder.path(), &Texts::new(), environment, printer)?;
    let stopping = manner.stopping.map(|services| wanted.chosen(services)).transpose().map_err(docker_failure)?;
    let connection = at.place.engine.connect(environment).await.map_err(docker_failure)?;
    if let Some(services) = stopping {
        halt(&connection, &wanted, &wanted.with_restarted(services), printer).await?;
    }
    let convergence = Convergence {
        environment,
        printer,
        limit: at.timeout.limit(),
        rollback: manner.rollback,
        pull_anew: manner.pull_anew,
    };
    match convergence.run(&connection, &wanted).await {
        Ok(Converged::Already) => say(printer, "unchanged", &[], "everything runs already, as the files say"),
        Ok(Converged::Done(services)) => {
            say(printer, "healthy", &services, &format!("healthy: {}", services.join(", ")));
        }
        Err(unconverged) if manner.rollback && unconverged.taken_back => {
            return Err(unconverged.failure.hint("the old containers are back"));
        }
        Err(unconverged) => return Err(unconverged.failure),
    }
    Ok(Exit::Ok)
}

fn say(printer: Printer, stack: &str, services: &[String], text: &str) {
    if printer.json {
        printer.data(&json!({ "stack": stack, "services": services }).to_string());
    } else {
        printer.data(text);
    }
}

/// Stops services, those that depend on others first. Containers and data stay.
///
/// # Errors
/// When the engine does not do it.
pub async fn stop(args: &StopArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.place.dir.folder(environment)?;
    let _held = lock(&folder, printer)?;
    let wanted = wanted(folder.path(), &Texts::new(), environment, printer.quietly())?;
    let chosen = wanted.chosen(&args.services).map_err(docker_failure)?;
    let connection = args.place.engine.connect(environment).await.map_err(docker_failure)?;
    let stopped = halt(&connection, &wanted, &chosen, printer).await?;
    let text = if stopped.is_empty() { "nothing runs".to_owned() } else { format!("stopped: {}", stopped.join(", ")) };
    say(printer, "stopped", &stopped, &text);
    Ok(Exit::Ok)
}

/// Stops the containers of these services, dependents first; gives the services that ran.
pub(super) async fn halt(
    connection: &crate::docker::Connection,
    wanted: &Wanted,
    services: &[String],
    printer: Printer,
) -> Result<Vec<String>, Failure> {
    let found = containers_of(connection, &wanted.project).await.map_err(docker_failure)?;
    let progress = Progress::new(printer);
    let mut stopped = Vec::new();
    for service in wanted.services.iter().rev().filter(|service| services.contains(&service.name)) {
        for container in found.iter().filter(|found| found.service == service.name && found.state.is_up()) {
            progress.say(&service.name, "stopping");
            stop_container(connection, &container.id, &service.name, service.grace).await.map_err(docker_failure)?;
            progress.say(&service.name, "stopped");
            stopped.push(service.name.clone());
        }
    }
    progress.finish();
    stopped.dedup();
    Ok(stopped)
}
