//! A change of the files and what comes of it: shown, written, applied, or taken back.
//!
//! The new texts are understood as a stack before they are written, and the engine is asked whether a stack runs before
//! anything changes. A stack that does not become healthy with them gets its old files and its old containers back.

use super::super::place::docker_failure;
use super::super::stack::{Converged, Convergence, Texts, is_up, wanted};
use super::change::{Change, Scope, change};
use super::stack::MAIN;
use super::{Reach, diff, files_failure, lock, tell_tightened};
use crate::docker::{Connection, DockerError, Wanted, look};
use crate::environment::Environment;
use crate::files::dotenv::Wish;
use crate::files::{Edit, Folder, Lock};
use crate::output::{Exit, Failure, Printer};
use crate::plan::Plan;

/// Works out what the wishes change, and does it as far as `reach` says.
pub(super) async fn change_and_apply(
    folder: &Folder,
    wishes: &[(&str, Wish<'_>)],
    scope: Scope,
    reach: &Reach,
    environment: &Environment,
    printer: Printer,
) -> Result<Exit, Failure> {
    let keys: Vec<String> = wishes.iter().map(|(key, _)| (*key).to_owned()).collect();
    let held = if reach.dry_run { None } else { Some(lock(folder, printer)?) };
    let change = change(folder, wishes, scope)?;
    apply_change(folder, held.as_ref(), change, &keys, reach, environment, printer).await
}

/// What became of the running stack.
enum Outcome {
    /// No stack is here, or it was not to be touched.
    NotAsked,
    /// It does not run.
    NotRunning,
    /// It is what the files say already.
    AsItIs,
    /// These services were touched.
    Applied(Vec<String>),
}

/// Shows or does a change. Without the lock nothing is written.
pub(super) async fn apply_change(
    folder: &Folder,
    held: Option<&Lock>,
    change: Change,
    keys: &[String],
    reach: &Reach,
    environment: &Environment,
    printer: Printer,
) -> Result<Exit, Failure> {
    let Change { edits, notes } = change;
    for note in &notes {
        printer.warning(note);
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let lines = diff::lines(&edits, &keys);
    let Some(held) = held else {
        let plan = planned(folder, &edits, reach, environment, printer).await?;
        show(&edits, &lines, &plan, printer);
        return Ok(Exit::Ok);
    };
    let is_stack = folder.path().join(MAIN).is_file();
    if reach.no_apply || !is_stack {
        let written = write(folder, held, &edits, printer);
        written?;
        told(&edits, &lines, &Outcome::NotAsked, printer);
        return Ok(Exit::Ok);
    }
    let wanted = wanted(
        folder.path(),
        &texts(folder, &edits),
        environment,
        if edits.is_empty() { printer.quietly() } else { printer },
    )?;
    let connection = match reach.at.place.engine.connect(environment).await {
        Ok(connection) => connection,
        // What is so already needs no engine.
        Err(error) if edits.is_empty() => {
            printer.warning(&format!("{error}; whether the stack runs is not known"));
            told(&edits, &lines, &Outcome::NotAsked, printer);
            return Ok(Exit::Ok);
        }
        Err(error) => {
            return Err(docker_failure(error)
                .hint("nothing was written; `--no-apply` writes the files and leaves the stack alone"));
        }
    };
    if !is_up(&connection, &wanted.project).await? {
        write(folder, held, &edits, printer)?;
        told(&edits, &lines, &Outcome::NotRunning, printer);
        return Ok(Exit::Ok);
    }
    write(folder, held, &edits, printer)?;
    let convergence = Convergence {
        environment,
        printer,
        limit: reach.at.timeout.limit(),
        rollback: !reach.no_rollback,
        pull_anew: false,
    };
    match convergence.run(&connection, &wanted).await {
        Ok(Converged::Already) => told(&edits, &lines, &Outcome::AsItIs, printer),
        Ok(Converged::Done(services)) => told(&edits, &lines, &Outcome::Applied(services), printer),
        Err(unconverged) if reach.no_rollback => {
            return Err(unconverged.failure.hint("the new files stand, as `--no-rollback` says"));
        }
        Err(unconverged) => {
            let restored = folder.restore(held, &edits);
            let what = match (&restored, unconverged.taken_back) {
                (Ok(()), true) => "the old files and the old containers are back".to_owned(),
                (Ok(()), false) => {
                    "the old files are back; `ambientctl start` brings the old containers back".to_owned()
                }
                (Err(error), _) => format!("the old files are in `backups`: {error}"),
            };
            return Err(unconverged.failure.hint(what));
        }
    }
    Ok(Exit::Ok)
}

fn write(folder: &Folder, held: &Lock, edits: &[Edit], printer: Printer) -> Result<(), Failure> {
    tell_tightened(&folder.write(held, edits).map_err(files_failure)?, printer);
    Ok(())
}

/// The new texts in the place of the files.
fn texts(folder: &Folder, edits: &[Edit]) -> Texts {
    // The loader names files from the root on.
    let root = std::path::absolute(folder.path()).unwrap_or_else(|_no_working_folder| folder.path().to_owned());
    edits.iter().map(|edit| (root.join(edit.file.name()), edit.new.clone())).collect()
}

/// What would happen to the containers, as far as that can be known.
async fn planned(
    folder: &Folder,
    edits: &[Edit],
    reach: &Reach,
    environment: &Environment,
    printer: Printer,
) -> Result<Vec<String>, Failure> {
    if !folder.path().join(MAIN).is_file() || reach.no_apply {
        return Ok(Vec::new());
    }
    let wanted = wanted(folder.path(), &texts(folder, edits), environment, printer)?;
    let connection = match reach.at.place.engine.connect(environment).await {
        Ok(connection) => connection,
        Err(error) => {
            printer.warning(&format!("{error}; which containers would be made anew is not known"));
            return Ok(Vec::new());
        }
    };
    lines_of(&connection, &wanted).await.map_err(docker_failure)
}

async fn lines_of(connection: &Connection, wanted: &Wanted) -> Result<Vec<String>, DockerError> {
    let found = look(connection, wanted).await?;
    if !found.containers.iter().any(|container| container.state.is_up()) {
        return Ok(Vec::new());
    }
    Ok(Plan::make(wanted, &found)?.lines())
}

/// A dry run.
fn show(edits: &[Edit], lines: &[String], plan: &[String], printer: Printer) {
    if printer.json {
        let document = serde_json::json!({
            "changed": !edits.is_empty(), "written": false, "files": names(edits), "diff": lines, "plan": plan,
        });
        printer.data(&document.to_string());
        return;
    }
    if edits.is_empty() {
        printer.data("nothing to change: it is so already");
    }
    for line in lines.iter().chain(plan) {
        printer.data(line);
    }
}

fn names(edits: &[Edit]) -> Vec<&'static str> {
    edits.iter().map(|edit| edit.file.name()).collect()
}

/// What was done.
fn told(edits: &[Edit], lines: &[String], outcome: &Outcome, printer: Printer) {
    let (word, services): (&str, &[String]) = match outcome {
        Outcome::NotAsked => ("left alone", &[]),
        Outcome::NotRunning => ("not running", &[]),
        Outcome::AsItIs => ("unchanged", &[]),
        Outcome::Applied(services) => ("healthy", services),
    };
    if printer.json {
        let document = serde_json::json!({
            "changed": !edits.is_empty(), "written": !edits.is_empty(), "files": names(edits), "diff": lines,
            "stack": word, "services": services,
        });
        printer.data(&document.to_string());
        return;
    }
    for line in lines {
        printer.data(line);
    }
    let files = names(edits).join(", ");
    let sentence = match (edits.is_empty(), outcome) {
        (true, Outcome::Applied(services)) => {
            format!("nothing to write: it is so already; brought back to it and healthy: {}", services.join(", "))
        }
        (true, _) => "nothing to change: it is so already".to_owned(),
        (false, Outcome::NotAsked) => format!("written: {files}; a running stack is as it was"),
        (false, Outcome::NotRunning) => format!("written: {files}; no stack runs here, `ambientctl start` starts it"),
        (false, Outcome::AsItIs) => format!("written: {files}; no container is affected"),
        (false, Outcome::Applied(services)) => {
            format!("written: {files}; applied and healthy: {}", services.join(", "))
        }
    };
    printer.data(&sentence);
}
