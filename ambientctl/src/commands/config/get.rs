//! `ambientctl config get KEY`: the value and a line break, for scripts.

use std::path::Path;

use ambient_settings::find;

use super::stack::Stack;
use super::{Dir, evaluated_env, files_failure};
use crate::environment::Environment;
use crate::files::{EditedFile, Folder};
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config get`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The key
    key: String,
    #[command(flatten)]
    dir: Dir,
}

#[derive(Debug, thiserror::Error)]
#[error("`{key}` is not set in `{}`", folder.display())]
struct NotSet {
    key: String,
    folder: std::path::PathBuf,
}

pub(super) fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.dir.folder(environment)?;
    let Some(value) = value(&folder, &args.key, environment)? else {
        let error = NotSet { key: args.key.clone(), folder: folder.path().to_owned() };
        let hint = match find(&args.key) {
            Some(setting) => format!("what counts without it: {}", setting.preset),
            None => "`ambientctl config show` lists what is set".to_owned(),
        };
        return Err(Failure::new(Exit::Unhealthy, error).hint(hint));
    };
    if printer.json {
        printer.data(&serde_json::json!({ "key": args.key, "value": value }).to_string());
    } else {
        printer.data(&value);
    }
    Ok(Exit::Ok)
}

/// What `.env` says, with its references looked up as Compose would; else what a compose file says in so many words.
pub(super) fn value(folder: &Folder, key: &str, environment: &Environment) -> Result<Option<String>, Failure> {
    if let Some(found) = evaluated_env(folder, environment)?.variables.get(key) {
        return Ok(Some(found.value.clone()));
    }
    literal(folder.path(), folder.read(EditedFile::Override).map_err(files_failure)?.as_deref(), key)
}

fn literal(folder: &Path, over: Option<&str>, key: &str) -> Result<Option<String>, Failure> {
    let stack = Stack::read(folder).map_err(files_failure)?;
    // A compose file that cannot be read says nothing about the key; `config render` says what is wrong with it.
    Ok(stack.literal(over, key).ok().flatten().map(|(_, value)| value))
}
