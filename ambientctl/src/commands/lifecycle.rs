//! `ambientctl start`, `stop`, `restart` and `update`: the stack as a whole or some of its services.

use serde_json::json;

use super::place::{Dir, Engine, Timeout, docker_failure, lock};
use super::stack::{Converged, Convergence, Texts, wanted};
use crate::docker::{Wanted, containers_of, stop as stop_container};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer, Progress};

/// Words of `ambientctl start`.
#[derive(Clone, Debug, clap::Args)]
pub struct StartArgs {
    #[command(flatten)]
    timeout: Timeout,
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    engine: Engine,
}

/// Words of `ambientctl stop`.
#[derive(Clone, Debug, clap::Args)]
pub struct StopArgs {
    /// The services [default: all]
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    engine: Engine,
}

/// Words of `ambientctl restart`.
#[derive(Clone, Debug, clap::Args)]
pub struct RestartArgs {
    /// The services [default: all]
    #[arg(value_name = "SERVICE")]
    services: Vec<String>,
    #[command(flatten)]
    timeout: Timeout,
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    engine: Engine,
}

/// Words of `ambientctl update`.
#[derive(Clone, Debug, clap::Args)]
pub struct UpdateArgs {
    /// Leave the new containers as they are when they do not become healthy, instead of going back
    #[arg(long)]
    no_rollback: bool,
    #[command(flatten)]
    timeout: Timeout,
    #[command(flatten)]
    dir: Dir,
    #[command(flatten)]
    engine: Engine,
}

/// Makes the stack what the files say, and waits until it is healthy.
///
/// # Errors
/// When it does not become so. What was started then stays, so that it can be looked at.
pub async fn start(args: &StartArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let convergence = Convergence {
        environment,
        printer,
        limit: args.timeout.limit(),
        rollback: false,
        pull_anew: false,
        anew: Vec::new(),
    };
    converge(&args.dir, &args.engine, &convergence).await
}

/// Pulls the images anew and makes what changed anew.
///
/// # Errors
/// When an image cannot be had or the stack does not become healthy; the old containers are then back.
pub async fn update(args: &UpdateArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let convergence = Convergence {
        environment,
        printer,
        limit: args.timeout.limit(),
        rollback: !args.no_rollback,
        pull_anew: true,
        anew: Vec::new(),
    };
    converge(&args.dir, &args.engine, &convergence).await
}

async fn converge(dir: &Dir, engine: &Engine, convergence: &Convergence<'_>) -> Result<Exit, Failure> {
    let printer = convergence.printer;
    let folder = dir.folder(convergence.environment)?;
    let _held = lock(&folder, printer)?;
    let wanted = wanted(folder.path(), &Texts::new(), convergence.environment, printer)?;
    let connection = engine.connect(convergence.environment).await.map_err(docker_failure)?;
    match convergence.run(&connection, &wanted).await {
        Ok(Converged::Already) => say(printer, "unchanged", &[], "everything runs already, as the files say"),
        Ok(Converged::Done(services)) => {
            say(printer, "healthy", &services, &format!("healthy: {}", services.join(", ")));
        }
        Err(unconverged) if convergence.rollback && unconverged.taken_back => {
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
    let folder = args.dir.folder(environment)?;
    let _held = lock(&folder, printer)?;
    let wanted = wanted(folder.path(), &Texts::new(), environment, printer)?;
    let chosen = wanted.chosen(&args.services).map_err(docker_failure)?;
    let connection = args.engine.connect(environment).await.map_err(docker_failure)?;
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

/// Stops services and starts them again as the files say, then waits until they are healthy.
///
/// # Errors
/// When the engine does not do it, or they do not become healthy.
pub async fn restart(args: &RestartArgs, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.dir.folder(environment)?;
    let _held = lock(&folder, printer)?;
    let wanted = wanted(folder.path(), &Texts::new(), environment, printer)?;
    let chosen = wanted.chosen(&args.services).map_err(docker_failure)?;
    let connection = args.engine.connect(environment).await.map_err(docker_failure)?;
    halt(&connection, &wanted, &chosen, printer).await?;
    let convergence = Convergence {
        environment,
        printer,
        limit: args.timeout.limit(),
        rollback: false,
        pull_anew: false,
        anew: Vec::new(),
    };
    match convergence.run(&connection, &wanted).await {
        Ok(Converged::Already) => say(printer, "unchanged", &[], "everything runs already, as the files say"),
        Ok(Converged::Done(services)) => {
            say(printer, "healthy", &services, &format!("healthy: {}", services.join(", ")));
        }
        Err(unconverged) => return Err(unconverged.failure),
    }
    Ok(Exit::Ok)
}
