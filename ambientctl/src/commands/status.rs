//! `ambientctl status`: what runs, whether it is well, and whether it is what the files say.

use serde_json::json;

use super::place::{Place, docker_failure};
use super::stack::{Texts, wanted};
use crate::docker::{FoundContainer, look};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer};
use crate::plan::{Plan, Verdict};

/// Words of `ambientctl status`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    place: Place,
}

struct Row {
    service: String,
    container: Option<FoundContainer>,
    /// What `ambientctl start` would do about it; nothing when it is right.
    pending: Option<String>,
}

impl Row {
    fn state(&self) -> String {
        self.container.as_ref().map_or_else(|| "missing".to_owned(), |container| container.status.clone())
    }

    fn is_well(&self) -> bool {
        self.container.as_ref().is_some_and(|container| {
            container.state.is_up()
                && !container.status.contains("unhealthy")
                && !container.status.contains("Restarting")
        })
    }
}

/// Prints a row for each service.
///
/// # Errors
/// When the files give no stack or the engine does not answer. A service that is not well is no error, but exit code 1.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.place.dir.path(environment)?;
    let wanted = wanted(&folder, &Texts::new(), environment, printer.quietly())?;
    let connection = args.place.engine.connect(environment).await.map_err(docker_failure)?;
    let found = look(&connection, &wanted).await.map_err(docker_failure)?;
    let plan = Plan::make(&wanted, &found).map_err(docker_failure)?;
    let rows: Vec<Row> = plan
        .steps
        .iter()
        .map(|step| Row {
            service: step.service.clone(),
            container: step.container.clone(),
            pending: match &step.verdict {
                Verdict::Keep => None,
                Verdict::Create => Some("not created".to_owned()),
                Verdict::Start => Some("stopped".to_owned()),
                Verdict::Restart(other) => Some(format!("to be started again with `{other}`")),
                Verdict::Recreate(reasons) => {
                    Some(reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
                }
            },
        })
        .collect();
    let all_well = rows.iter().all(Row::is_well);
    if printer.json {
        let services: Vec<_> = rows
            .iter()
            .map(|row| {
                json!({
                    "service": row.service,
                    "container": row.container.as_ref().map(|container| &container.name),
                    "image": row.container.as_ref().map(|container| &container.image_name),
                    "state": row.state(),
                    "well": row.is_well(),
                    "ports": row.container.as_ref().map(|container| container.ports.clone()).unwrap_or_default(),
                    "pending": row.pending,
                })
            })
            .collect();
        let document = json!({
            "project": wanted.project, "folder": wanted.folder, "docker": connection.place(), "well": all_well,
            "services": services, "orphans": plan.orphans,
        });
        printer.data(&document.to_string());
    } else {
        printer.data(&format!("{} in {}, on {}", wanted.project, wanted.folder.display(), connection.place()));
        for line in table(&rows) {
            printer.data(&line);
        }
        for orphan in &plan.orphans {
            printer.warning(&format!("`{orphan}` is there, and no file asks for it any more"));
        }
        if rows.iter().any(|row| row.pending.is_some()) {
            printer.note("hint: `ambientctl start` makes the stack what the files say");
        }
    }
    Ok(if all_well { Exit::Ok } else { Exit::Unhealthy })
}

fn table(rows: &[Row]) -> Vec<String> {
    let cells: Vec<[String; 4]> = std::iter::once(["SERVICE", "STATE", "PORTS", "PENDING"].map(str::to_owned))
        .chain(rows.iter().map(|row| {
            let ports = row.container.as_ref().map(|container| container.ports.join(", ")).unwrap_or_default();
            [row.service.clone(), row.state(), ports, row.pending.clone().unwrap_or_default()]
        }))
        .collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2), 0];
    let line = |row: &[String; 4]| {
        let padded: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docker::State;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let container = FoundContainer {
            state: State::Running,
            status: "Up 2 minutes (healthy)".to_owned(),
            ports: vec!["127.0.0.1:8080->8080/tcp".to_owned()],
            ..FoundContainer::default()
        };
        let sick = FoundContainer { status: "Up 2 minutes (unhealthy)".to_owned(), ..container.clone() };
        let row = |service: &str, container: Option<FoundContainer>, pending: Option<&str>| Row {
            service: service.to_owned(),
            container,
            pending: pending.map(str::to_owned),
        };
        let rows =
            [row("engine", Some(container), None), row("redis", None, Some("not created")), row("x", Some(sick), None)];
        assert_eq!(
            table(&rows),
            [
                "SERVICE  STATE                     PORTS                     PENDING",
                "engine   Up 2 minutes (healthy)    127.0.0.1:8080->8080/tcp",
                "redis    missing                                             not created",
                "x        Up 2 minutes (unhealthy)  127.0.0.1:8080->8080/tcp",
            ]
        );
        assert_eq!(rows.iter().map(Row::is_well).collect::<Vec<_>>(), [true, false, false]);
    }
}
