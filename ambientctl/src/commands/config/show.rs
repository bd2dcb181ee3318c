//! `ambientctl config show`: what is set, and where; secrets hidden.

use ambient_settings::catalogue;
use serde_json::json;

use super::assignments::is_secret;
use super::stack::Stack;
use super::{Dir, diff, evaluated_env, files_failure, variable};
use crate::environment::Environment;
use crate::files::{EditedFile, Folder};
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config show`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Settings that nobody set too, with what counts for them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    dir: Dir,
}

/// A key, its value as it may be shown, and where that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) origin: String,
}

pub(super) fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.dir.folder(environment)?;
    let rows = rows(&folder, args.all, environment)?;
    if printer.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({ "key": row.key, "value": row.value, "secret": is_secret(&row.key), "origin": row.origin }))
            .collect();
        printer.data(&json!({ "settings": rows }).to_string());
    } else {
        for Row { key, value, origin } in rows {
            printer.data(&format!("{key}={}  ({origin})", value.replace('\n', "\\n")));
        }
    }
    Ok(Exit::Ok)
}

pub(super) fn rows(folder: &Folder, all: bool, environment: &Environment) -> Result<Vec<Row>, Failure> {
    let evaluated = evaluated_env(folder, environment)?;
    let over = folder.read(EditedFile::Override).map_err(files_failure)?;
    let stack = Stack::read(folder.path()).map_err(files_failure)?;
    let literal = |key: &str| stack.literal(over.as_deref(), key).ok().flatten();

    let mut rows = Vec::new();
    for (key, found) in &evaluated.variables {
        let in_env = format!("`.env` line {}", found.line);
        let shell = variable(environment, key).filter(|value| *value != found.value);
        let (value, origin) = match (literal(key), shell) {
            (Some((file, value)), _) => (value, format!("`{file}`, which hides {in_env}")),
            (None, Some(value)) if stack.mentions(over.as_deref(), key) => {
                (value, format!("this shell, which hides {in_env}"))
            }
            (None, _) => (found.value.clone(), in_env),
        };
        rows.push(Row { key: key.clone(), value: diff::shown(key, &value), origin });
    }
    for setting in catalogue().filter(|setting| !evaluated.variables.contains_key(setting.name)) {
        match literal(setting.name) {
            Some((file, value)) => rows.push(Row {
                key: setting.name.to_owned(),
                value: diff::shown(setting.name, &value),
                origin: format!("`{file}`"),
            }),
            None if all => rows.push(Row {
                key: setting.name.to_owned(),
                value: String::new(),
                origin: format!("default: {}", setting.preset),
            }),
            None => {}
        }
    }
    rows.sort_by(|one, other| one.key.cmp(&other.key));
    Ok(rows)
}
