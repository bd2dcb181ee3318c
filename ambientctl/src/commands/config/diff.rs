//! What a change does, in words that show no secret.

use ambient_settings::Redactor;

use super::assignments::is_secret;
use super::stack::ENGINE;
use crate::files::dotenv::value_of;
use crate::files::override_file::{Found, found};
use crate::files::{Edit, EditedFile};

/// What stands in place of a secret.
pub(super) const HIDDEN: &str = "[redacted]";

/// A value as it may be shown.
pub(super) fn shown(key: &str, value: &str) -> String {
    if is_secret(key) && !value.is_empty() { HIDDEN.to_owned() } else { Redactor::of([]).scrub(value) }
}

/// Lines of a difference: of each file, the keys that change, as they were and as they shall be.
pub(super) fn lines(edits: &[Edit], keys: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for edit in edits.iter().filter(|edit| edit.is_change()) {
        lines.push(format!("--- {}", edit.file.name()));
        for key in keys {
            let old = written(edit.file, edit.old.as_deref().unwrap_or_default(), key);
            let new = written(edit.file, &edit.new, key);
            // Two secrets look the same; the values do not.
            if old.as_ref().map(|(_, value)| value) != new.as_ref().map(|(_, value)| value) {
                lines.extend(old.map(|(line, _)| format!("- {line}")));
                lines.extend(new.map(|(line, _)| format!("+ {line}")));
            }
        }
    }
    lines
}

/// What a file says of a key: as a line, and the bare value.
fn written(file: EditedFile, text: &str, key: &str) -> Option<(String, String)> {
    match file {
        EditedFile::Env => {
            let value = value_of(text, key).ok().flatten()?;
            Some((format!("{key}={}", shown(key, &value)), value))
        }
        // Written by the installer alone.
        EditedFile::Main => None,
        EditedFile::Override => {
            let value = match found(text, ENGINE, key).ok()? {
                Found::Nothing => return None,
                Found::NameAlone => String::new(),
                Found::Text(value) => value,
            };
            let shown = if value.starts_with("${") { value.clone() } else { shown(key, &value) };
            Some((format!("services.{ENGINE}.environment.{key}: {shown}"), value))
        }
    }
}
