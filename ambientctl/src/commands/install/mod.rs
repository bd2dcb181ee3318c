//! `ambientctl install`: from nothing to a running stack, and from an older installation to this one.
//!
//! Everything that is there is kept: keys, secrets, comments, the override. What is new is asked for on a terminal, taken
//! from `AMBIENT_*` variables, or filled with its usual value. The generated compose file is written anew; edits of it by
//! hand are saved aside with a word.

mod answers;
mod binary;
mod generated;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use ambient_settings::dotenv::Document;
use serde_json::json;

use self::answers::{Answers, Context};
use super::open;
use super::place::{TimedPlace, docker_failure, files_failure, lock, tell_tightened};
use super::stack::{Converged, Convergence, Texts, wanted};
use crate::compose::SHIPPED;
use crate::docker::{Connection, containers_of, volume_exists};
use crate::environment::Environment;
use crate::files::dotenv::{EditError, Wish, edited};
use crate::files::{Edit, EditedFile, FilesError, Folder};
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl install`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Ask nothing: take what the environment says, and the usual values
    #[arg(long, short)]
    yes: bool,
    /// The version of the engine's image [default: `AMBIENT_VERSION`, else what is installed, else latest]
    #[arg(long, value_name = "TAG")]
    version: Option<String>,
    /// Write the files, and start nothing
    #[arg(long)]
    no_start: bool,
    /// Open no browser afterwards
    #[arg(long)]
    no_open: bool,
    #[command(flatten)]
    place: TimedPlace,
}

/// Variables of earlier installers, about a part that we do not have.
const OF_A_STUDIO: [&str; 2] = ["AMBIENT_STUDIO_PORT", "AMBIENT_STUDIO_IMAGE"];

#[derive(Debug, thiserror::Error)]
enum InstallError {
    #[error("could not make the folder `{path}`")]
    Folder {
        path: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "the database of an earlier installation is there (volume `{volume}`), and its password is not: `{env}` has no `POSTGRES_PASSWORD`"
    )]
    LostPassword { volume: String, env: String },
}

/// Installs, or brings an installation up to date.
///
/// # Errors
/// When Docker cannot be reached, a port or a password is in the way, or the stack does not become healthy.
pub async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let path = args.place.place.dir.path(environment)?;
    let connection = if args.no_start {
        None
    } else {
        // Before anything is written: without Docker there is nothing to install for.
        Some(args.place.place.engine.connect(environment).await.map_err(docker_failure)?)
    };
    if let Some(connection) = &connection {
        printer.note(&format!(
            "docker answers at {}; neither its command nor its compose plugin is needed",
            connection.place()
        ));
    }
    for name in OF_A_STUDIO {
        if environment.variable(name).is_some_and(|value| !value.is_empty()) {
            printer.warning(&format!("`{name}` is passed over: no Studio is part of this installation"));
        }
    }
    make_folder(&path)?;
    let path = fs::canonicalize(&path).map_err(|source| folder_failure(&path, source))?;
    let folder = Folder::open(&path).map_err(files_failure)?;
    let held = lock(&folder, printer)?;

    let old_env = folder.read(EditedFile::Env).map_err(files_failure)?;
    let known = variables(&folder, old_env.as_deref().unwrap_or_default())?;
    let is_interactive = !args.yes && io::stdin().is_terminal() && io::stderr().is_terminal();
    let context = Context {
        known: &known,
        environment,
        version: args.version.as_deref(),
        own_ports: own_ports(connection.as_ref(), &known, environment).await?,
    };
    let answers = Answers::gather(&context, is_interactive)?;
    if let Some(connection) = &connection {
        password_is_known(connection, &known, &answers, &folder).await?;
    }

    let wishes: Vec<(&str, Wish<'_>)> =
        answers.new.iter().map(|(key, value)| (key.as_str(), Wish::Set(value))).collect();
    let new_env = edited(old_env.as_deref().unwrap_or(answers::HEADER), &wishes).map_err(|error| match error {
        EditError::Unreadable(error) => files_failure(FilesError::Dotenv { path: folder.file(EditedFile::Env), error }),
        EditError::Refused(error) => files_failure(error),
    })?;
    let old_main = folder.read(EditedFile::Main).map_err(files_failure)?;
    let is_upgrade = old_main.is_some();
    let texts = Texts::from([
        (folder.file(EditedFile::Env), new_env.clone()),
        (folder.file(EditedFile::Main), SHIPPED.to_owned()),
    ]);
    // What will not give a stack is not written.
    let wanted = wanted(folder.path(), &texts, environment, printer)?;
    generated::keep_edits(&folder, old_main.as_deref(), printer).map_err(files_failure)?;
    let edits = [
        Edit { file: EditedFile::Main, old: old_main, new: SHIPPED.to_owned() },
        Edit { file: EditedFile::Env, old: old_env, new: new_env },
    ];
    tell_tightened(&folder.write(&held, &edits).map_err(files_failure)?, printer);
    generated::remember(&folder, SHIPPED).map_err(files_failure)?;
    let linked = binary::install(folder.path(), environment)?;
    for warning in linked.warnings {
        printer.warning(&warning);
    }

    let Some(connection) = connection else {
        finish(&path, None, is_upgrade, &answers, printer);
        return Ok(Exit::Ok);
    };
    let skips_pull =
        environment.variable("AMBIENT_SKIP_PULL").is_some_and(|word| !matches!(word.as_str(), "" | "0" | "false"));
    let convergence = Convergence {
        environment,
        printer,
        limit: args.place.timeout.limit(),
        rollback: is_upgrade,
        pull_anew: !skips_pull,
    };
    match convergence.run(&connection, &wanted).await {
        Ok(Converged::Already | Converged::Done(_)) => {}
        Err(unconverged) => {
            let what = format!("the files are in `{}`; `ambientctl start` tries again", path.display());
            return Err(unconverged.failure.hint(what));
        }
    }
    let url = open::address(&wanted);
    finish(&path, url.as_deref(), is_upgrade, &answers, printer);
    if let Some(url) = url.filter(|_| is_interactive && !args.no_open) {
        open::open(&url);
    }
    Ok(Exit::Ok)
}

fn finish(path: &Path, url: Option<&str>, is_upgrade: bool, answers: &Answers, printer: Printer) {
    if printer.json {
        let keys: Vec<&str> = answers.new.iter().map(|(key, _)| key.as_str()).collect();
        let document = json!({
            "folder": path, "url": url, "upgraded": is_upgrade, "started": url.is_some(), "new_keys": keys,
            "needs_llm_key": answers.needs_llm_key,
        });
        printer.data(&document.to_string());
        return;
    }
    printer.data(&format!("{} in {}", if is_upgrade { "up to date" } else { "installed" }, path.display()));
    if let Some(url) = url {
        printer.data(&format!("engine: {url}"));
    } else {
        printer.data("next: `ambientctl start`");
    }
    if answers.needs_llm_key {
        printer.data("next: `ambientctl config set LLM_API_KEY` (it asks for the key without showing it)");
    } else if url.is_some() {
        printer.data("next: `ambientctl status`; the engine's key: `ambientctl config get ENGINE_API_KEY`");
    }
}

/// Only its owner looks into it: it holds keys.
fn make_folder(path: &Path) -> Result<(), Failure> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| folder_failure(path, source))?;
    let owner = fs::metadata(path).map_err(|source| folder_failure(path, source))?.uid();
    let own = nix::unistd::geteuid();
    if owner != own.as_raw() && !own.is_root() {
        return Err(files_failure(FilesError::Owner { path: path.to_owned(), owner }));
    }
    Ok(())
}

fn folder_failure(path: &Path, source: io::Error) -> Failure {
    let error = InstallError::Folder { path: path.display().to_string(), source };
    Failure::new(Exit::Unhealthy, error).hint("name another folder with `--dir DIR`")
}

/// What `.env` sets.
fn variables(folder: &Folder, text: &str) -> Result<BTreeMap<String, String>, Failure> {
    let failed = |error| files_failure(FilesError::Dotenv { path: folder.file(EditedFile::Env), error });
    let evaluated = Document::parse(text).and_then(|document| document.evaluate(&|_: &str| None)).map_err(failed)?;
    Ok(evaluated.variables.into_iter().map(|(name, variable)| (name, variable.value)).collect())
}

/// Ports that containers of this very installation have: for it they are free.
async fn own_ports(
    connection: Option<&Connection>,
    known: &BTreeMap<String, String>,
    environment: &Environment,
) -> Result<Vec<u16>, Failure> {
    let Some(connection) = connection else { return Ok(Vec::new()) };
    let all = containers_of(connection, &answers::project(known, environment)).await.map_err(docker_failure)?;
    let port = |text: &String| text.rsplit_once("->")?.0.rsplit_once(':')?.1.parse().ok();
    Ok(all.iter().flat_map(|container| &container.ports).filter_map(port).collect())
}

/// A new password would not open an old database.
async fn password_is_known(
    connection: &Connection,
    known: &BTreeMap<String, String>,
    answers: &Answers,
    folder: &Folder,
) -> Result<(), Failure> {
    if known.get("POSTGRES_PASSWORD").is_some_and(|password| !password.is_empty()) {
        return Ok(());
    }
    let volume = format!("{}_postgres-data", answers.project);
    if !volume_exists(connection, &volume).await.map_err(docker_failure)? {
        return Ok(());
    }
    let env = folder.file(EditedFile::Env);
    let error = InstallError::LostPassword { volume: volume.clone(), env: env.display().to_string() };
    Err(Failure::new(Exit::Usage, error)
        .hint(format!(
            "put the old password back: `POSTGRES_PASSWORD=…` in `{}` (an old `.env` is in `backups`)",
            env.display()
        ))
        .hint(format!("or give up the old data: `docker volume rm {volume}`, then install again")))
}
