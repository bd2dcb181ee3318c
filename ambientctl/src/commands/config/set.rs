//! `ambientctl config set`: new values for keys, all of them or none.

use std::io::{self, IsTerminal, Read};

use ambient_settings::find;

use super::assignments::{Ask, parse, values};
use super::change::{Change, Scope, change, check};
use super::{Dir, Reach, diff, files_failure, lock, tell_tightened, variable};
use crate::environment::Environment;
use crate::files::Folder;
use crate::files::dotenv::Wish;
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config set`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// KEY VALUE, KEY=VALUE or KEY - (value from stdin), as often as needed; a last KEY alone is asked for
    #[arg(required = true, value_name = "KEY VALUE")]
    words: Vec<String>,
    /// Write unknown keys and values that the setting does not take
    #[arg(long)]
    force: bool,
    /// Leave `docker-compose.override.yml` as it is
    #[arg(long)]
    no_override: bool,
    #[command(flatten)]
    reach: Reach,
    #[command(flatten)]
    dir: Dir,
}

/// The terminal and stdin of this process.
struct Terminal;

impl Ask for Terminal {
    fn stdin(&mut self) -> io::Result<String> {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        Ok(text)
    }

    fn hidden(&mut self, key: &str) -> io::Result<Option<String>> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Ok(None);
        }
        let prompt = dialoguer::Password::new().with_prompt(key).allow_empty_password(true);
        prompt.interact().map(Some).map_err(|dialoguer::Error::IO(error)| error)
    }
}

pub(super) fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    args.reach.check()?;
    let folder = args.dir.folder(environment)?;
    let assignments = values(parse(&args.words)?, &mut Terminal)?;
    if !args.force {
        for (key, value) in &assignments {
            check(key, value)?;
        }
    }
    let wishes: Vec<(&str, Wish<'_>)> =
        assignments.iter().map(|(key, value)| (key.as_str(), Wish::Set(value))).collect();
    let scope = Scope { no_override: args.no_override };
    for (key, value) in &assignments {
        if let Some(other) = variable(environment, key).filter(|other| other != value) {
            let _not_shown = other;
            printer.warning(&format!(
                "`{key}` is also set in this shell, to another value, which counts before `.env`; `unset {key}`"
            ));
        }
        if value.is_empty() && find(key).is_some_and(|setting| !setting.empty_is_a_value()) {
            printer.warning(&format!("an empty `{key}` counts as not set"));
        }
    }
    finish(&folder, &wishes, scope, args.reach, printer)
}

/// Works out the change and shows or writes it.
pub(super) fn finish(
    folder: &Folder,
    wishes: &[(&str, Wish<'_>)],
    scope: Scope,
    reach: Reach,
    printer: Printer,
) -> Result<Exit, Failure> {
    let keys: Vec<&str> = wishes.iter().map(|(key, _)| *key).collect();
    let held = if reach.dry_run { None } else { Some(lock(folder, printer)?) };
    let Change { edits, notes } = change(folder, wishes, scope)?;
    for note in &notes {
        printer.warning(note);
    }
    let lines = diff::lines(&edits, &keys);
    let tightened = match &held {
        Some(held) => folder.write(held, &edits).map_err(files_failure)?,
        None => Vec::new(),
    };
    tell_tightened(&tightened, printer);
    let files: Vec<&str> = edits.iter().map(|edit| edit.file.name()).collect();
    if printer.json {
        let document = serde_json::json!({
            "changed": !edits.is_empty(), "written": held.is_some() && !edits.is_empty(), "files": files, "diff": lines,
        });
        printer.data(&document.to_string());
    } else if edits.is_empty() {
        printer.data("nothing to change: it is so already");
    } else {
        for line in &lines {
            printer.data(line);
        }
        if held.is_some() {
            printer.data(&format!("written: {}; the running stack is as it was", files.join(", ")));
        }
    }
    Ok(Exit::Ok)
}
