//! `ambientctl config edit`: `.env` in the operator's own editor, taken over only if it can be read.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};

use ambient_settings::dotenv::Document;

use super::change::{Change, check};
use super::{Reach, apply, files_failure, lock, variable};
use crate::environment::Environment;
use crate::files::{Draft, Edit, EditedFile, FilesError};
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config edit`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Take unknown keys and values that a setting does not take
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, thiserror::Error)]
enum EditorError {
    #[error("there is no terminal for an editor")]
    NoTerminal,
    #[error("could not start the editor `{editor}`")]
    Start {
        editor: String,
        #[source]
        source: io::Error,
    },
    #[error("the editor `{editor}` ended with {status}, so nothing was changed")]
    Ended { editor: String, status: ExitStatus },
    #[error("`.env` was changed by somebody else in the meantime; nothing was written")]
    Raced,
}

pub(super) async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::new(Exit::Usage, EditorError::NoTerminal).hint("use `ambientctl config set` in a script"));
    }
    let folder = args.reach.at.place.dir.folder(environment)?;
    let old = folder.read(EditedFile::Env).map_err(files_failure)?;
    let draft = Draft::new(&folder, old.as_deref().unwrap_or_default()).map_err(files_failure)?;
    let editor =
        ["VISUAL", "EDITOR"].into_iter().find_map(|name| variable(environment, name).filter(|value| !value.is_empty()));
    open(&editor.unwrap_or_else(|| "vi".to_owned()), draft.path())?;
    let new = draft.text().map_err(files_failure)?;

    let failed = |path: PathBuf| move |error| files_failure(FilesError::Dotenv { path, error });
    let document = Document::parse(&new).map_err(failed(folder.file(EditedFile::Env)))?;
    let evaluated = document.evaluate(&|_: &str| Some("x".to_owned())).map_err(failed(folder.file(EditedFile::Env)))?;
    let keys: Vec<&str> = evaluated.variables.keys().map(String::as_str).collect();
    let edit = Edit { file: EditedFile::Env, old: old.clone(), new: new.clone() };
    if !args.force {
        let before = Document::parse(old.as_deref().unwrap_or_default())
            .and_then(|document| document.evaluate(&|_: &str| Some("x".to_owned())))
            .unwrap_or_default();
        for (key, found) in &evaluated.variables {
            let changed = before.variables.get(key).is_none_or(|known| known.value != found.value);
            if changed && !refers(&document, &new, key) {
                check(key, &found.value)?;
            }
        }
    }
    let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
    let held = if args.reach.dry_run { None } else { Some(lock(&folder, printer)?) };
    if held.is_some() && folder.read(EditedFile::Env).map_err(files_failure)? != old {
        return Err(Failure::new(Exit::Unhealthy, EditorError::Raced).hint("run `ambientctl config edit` again"));
    }
    let edits = if edit.is_change() { vec![edit] } else { Vec::new() };
    let change = Change { edits, notes: Vec::new() };
    apply::apply_change(&folder, held.as_ref(), change, &keys, &args.reach, environment, printer).await
}

/// Whether the value of a key has references in it, and so cannot be judged alone.
fn refers(document: &Document, text: &str, key: &str) -> bool {
    document
        .statements()
        .iter()
        .rfind(|statement| statement.name == key)
        .and_then(|statement| statement.value.as_ref())
        .is_none_or(|value| text[value.span.clone()].contains('$'))
}

#[expect(clippy::disallowed_methods, reason = "the operator's editor is a program of their own, on their terminal")]
fn open(editor: &str, path: &std::path::Path) -> Result<(), Failure> {
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(path).status().map_err(|source| {
        let error = EditorError::Start { editor: editor.to_owned(), source };
        Failure::new(Exit::Usage, error).hint("set `EDITOR` to an editor that is installed")
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(Exit::Unhealthy, EditorError::Ended { editor: editor.to_owned(), status }))
    }
}
