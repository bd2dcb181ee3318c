//! From wishes to new texts of the files: pure, so that a dry run and a real one cannot differ.

use std::path::Path;

use ambient_settings::{UnknownName, find, unknown_name};

use super::assignments::is_secret;
use super::files_failure;
use super::stack::{ENGINE, Need, Stack};
use crate::files::dotenv::{self, EditError, Wish, value_of};
use crate::files::override_file::{self, Entry, OverrideError};
use crate::files::{Edit, EditedFile, FilesError, Folder};
use crate::output::{Exit, Failure};

#[derive(Debug, thiserror::Error)]
enum ChangeError {
    #[error("`{key}` {what}")]
    Unknown { key: String, what: UnknownName },
    #[error("`{key}` is not how the setting is written; it is `{name}`")]
    Spelling { key: String, name: &'static str },
    #[error("the value for `{key}` {problem}; it takes {accepted}")]
    Value { key: String, problem: String, accepted: String },
    #[error("`{}` {error}", path.display())]
    Override { path: std::path::PathBuf, error: OverrideError },
}

/// The new texts, and what should be said.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) edits: Vec<Edit>,
    pub(super) notes: Vec<String>,
}

/// How much is done besides `.env`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// The override is left as it is.
    pub(super) no_override: bool,
}

/// Checks a key and a value against the catalogue.
pub(super) fn check(key: &str, value: &str) -> Result<(), Failure> {
    let forced = "`--force` writes it anyway";
    if let Some(setting) = find(key) {
        if setting.name != key {
            let error = ChangeError::Spelling { key: key.to_owned(), name: setting.name };
            return Err(Failure::new(Exit::Usage, error).hint(forced));
        }
        if value.is_empty() {
            return Ok(());
        }
        return setting.parse(value).map(|_| ()).map_err(|problem| {
            let error = ChangeError::Value {
                key: key.to_owned(),
                problem: problem.to_string(),
                accepted: setting.kind.to_string(),
            };
            Failure::new(Exit::Usage, error).hint(forced)
        });
    }
    if is_port(key) && !value.is_empty() && value.parse::<u16>().ok().is_none_or(|port| port == 0) {
        let error = ChangeError::Value {
            key: key.to_owned(),
            problem: "is no port".to_owned(),
            accepted: "a whole number from 1 to 65535".to_owned(),
        };
        return Err(Failure::new(Exit::Usage, error).hint(forced));
    }
    match unknown_name(key) {
        Some(what) => Err(Failure::new(Exit::Usage, ChangeError::Unknown { key: key.to_owned(), what }).hint(forced)),
        None => Ok(()),
    }
}

/// Ports of the host, which the compose file takes from `.env`.
fn is_port(key: &str) -> bool {
    matches!(key, "AMBIENT_ENGINE_PORT" | "AMBIENT_STUDIO_PORT")
}

/// The new texts of the files for these wishes.
pub(super) fn change(folder: &Folder, wishes: &[(&str, Wish<'_>)], scope: Scope) -> Result<Change, Failure> {
    let old_env = folder.read(EditedFile::Env).map_err(files_failure)?;
    let old_override = folder.read(EditedFile::Override).map_err(files_failure)?;
    let stack = Stack::read(folder.path()).map_err(files_failure)?;
    let env_path = folder.file(EditedFile::Env);
    let mut notes = Vec::new();

    let text = old_env.as_deref().unwrap_or_default();
    let new_env = dotenv::edited(text, wishes).map_err(|error| match error {
        EditError::Unreadable(error) => files_failure(FilesError::Dotenv { path: env_path, error }),
        EditError::Refused(error) => files_failure(error),
    })?;

    let mut new_override = old_override.clone().unwrap_or_default();
    for (key, wish) in wishes {
        if scope.no_override {
            break;
        }
        let path = folder.file(EditedFile::Override);
        let refused = |error: OverrideError| override_failure(&path, error);
        let need = stack.need(Some(&new_override), key).map_err(refused)?;
        let entry = match (wish, need) {
            (_, Need::Nothing) | (Wish::Unset, Need::PassOn) => None,
            (Wish::Set(value), Need::ChangeLiteral) if !is_secret(key) => Some(Entry::Literal(value)),
            (Wish::Set(_), Need::ChangeLiteral | Need::PassOn) => Some(Entry::PassedOn),
            (Wish::Unset, Need::ChangeLiteral) => Some(Entry::Gone),
        };
        if let Some(entry) = entry {
            new_override = override_file::edited(&new_override, ENGINE, key, entry).map_err(refused)?;
        }
    }
    for (key, wish) in wishes {
        let is_new = matches!(wish, Wish::Set(_)) && find(key).is_none() && !stack.mentions(Some(&new_override), key);
        if is_new && value_of(text, key).ok().flatten().is_none() {
            notes.push(format!("`{key}` is stored, but no setting has that name and no compose file refers to it"));
        }
        if key.starts_with("POSTGRES_") && text != new_env {
            notes.push(format!(
                "`{key}` only counts when the database is made; one that is there keeps what it was made with"
            ));
        }
    }
    for name in Stack::stray_overrides(folder.path()) {
        notes.push(format!(
            "`{name}` hides `docker-compose.override.yml` from Compose; move what it says there and remove it"
        ));
    }
    let mut edits = vec![Edit { file: EditedFile::Env, old: old_env, new: new_env }];
    if old_override.is_some() || !new_override.is_empty() {
        edits.push(Edit { file: EditedFile::Override, old: old_override, new: new_override });
    }
    edits.retain(|edit| edit.is_change() && !(edit.old.is_none() && edit.new.is_empty()));
    Ok(Change { edits, notes })
}

fn override_failure(path: &Path, error: OverrideError) -> Failure {
    let by_hand = match &error {
        OverrideError::ByHand { lines, .. } => Some(lines.clone()),
        OverrideError::Unreadable { .. } => None,
    };
    let failure = Failure::new(Exit::Usage, ChangeError::Override { path: path.to_owned(), error });
    match by_hand {
        Some(lines) => failure
            .hint(format!("add this to `{}` by hand, then run the command again:\n{lines}", path.display()))
            .hint("or leave that file alone with `--no-override`"),
        None => failure.hint(format!("mend that line of `{}`", path.display())),
    }
}
