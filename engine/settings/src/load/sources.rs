//! The two places where values come from, and the names in them that mean nothing to us.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use camino::Utf8PathBuf;

use crate::dotenv::{Document, Evaluated};
use crate::hints;
use crate::report::{Fault, Origin, Warning};

/// The process environment and the evaluated `.env`.
pub(super) struct Sources {
    environment: BTreeMap<String, OsString>,
    dotenv: Evaluated,
}

/// A value as found; text that is not UTF-8 is a fault of the setting, not of the process.
pub(super) enum Found {
    Text(String),
    NotUtf8,
}

impl Sources {
    /// Reads `.env`. A file that is not there is no fault; one that cannot be read or understood is.
    pub(super) fn gather(
        process_environment: impl IntoIterator<Item = (OsString, OsString)>,
        dotenv: Option<&Path>,
    ) -> (Self, Vec<Fault>) {
        let environment: BTreeMap<String, OsString> = process_environment
            .into_iter()
            .filter_map(|(name, value)| name.into_string().ok().map(|name| (name, value)))
            .collect();
        let mut faults = Vec::new();
        let dotenv = dotenv
            .and_then(|path| {
                evaluate(path, &environment).unwrap_or_else(|fault| {
                    faults.push(fault);
                    None
                })
            })
            .unwrap_or_default();
        (Self { environment, dotenv }, faults)
    }

    /// The value of a setting and where it stands. The exact spelling counts before others.
    pub(super) fn find(&self, name: &str) -> Option<(Found, Origin)> {
        if let Some(value) = spelling(&self.environment, name) {
            let found = value.clone().into_string().map_or(Found::NotUtf8, Found::Text);
            return Some((found, Origin::Environment));
        }
        spelling(&self.dotenv.variables, name)
            .map(|variable| (Found::Text(variable.value.clone()), Origin::Dotenv { line: variable.line }))
    }

    /// A variable of the process environment that is no setting of ours, such as `HOME`.
    pub(super) fn foreign(&self, name: &str) -> Option<&str> {
        self.environment.get(name).and_then(|value| value.to_str()).filter(|value| !value.is_empty())
    }

    /// What in `.env` the process environment does not have. Names and values that no process environment can hold are left out.
    pub(super) fn exports(&self) -> Vec<(String, String)> {
        self.dotenv
            .variables
            .iter()
            .filter(|(name, variable)| {
                !name.is_empty() && !name.contains(['=', '\0']) && !variable.value.contains('\0')
            })
            .filter(|(name, _)| !self.environment.contains_key(*name))
            .map(|(name, variable)| (name.clone(), variable.value.clone()))
            .collect()
    }

    /// Names that nothing reads, and references that became empty.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for name in self.environment.keys() {
            if let Some(hint) = hints::unknown_in_environment(name) {
                warnings.push(Warning { name: name.clone(), origin: Origin::Environment, message: hint.to_string() });
            }
        }
        for (name, variable) in &self.dotenv.variables {
            let origin = Origin::Dotenv { line: variable.line };
            if name.is_empty() {
                let message = "is a last line without `=`, so nothing reads it".to_owned();
                warnings.push(Warning { name: String::new(), origin, message });
            } else if let Some(hint) = hints::unknown_name(name) {
                warnings.push(Warning { name: name.clone(), origin, message: hint.to_string() });
            }
        }
        for (name, line) in &self.dotenv.unset {
            let message = format!(
                "is not set, so `${name}` is empty there; write `$$` or single quotes for a dollar sign that is data"
            );
            warnings.push(Warning { name: name.clone(), origin: Origin::Dotenv { line: *line }, message });
        }
        warnings
    }
}

/// The entry with exactly this name, else the one with it in other letters.
fn spelling<'a, T>(entries: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    entries
        .get(name)
        .or_else(|| entries.iter().find(|(written, _)| written.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

fn evaluate(path: &Path, environment: &BTreeMap<String, OsString>) -> Result<Option<Evaluated>, Fault> {
    let failed =
        |line, reason| Fault::Dotenv { path: Utf8PathBuf::from(path.to_string_lossy().into_owned()), line, reason };
    let text = match std::fs::read(path) {
        Ok(bytes) => String::from_utf8(bytes).map_err(|error| {
            let before = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let line = 1 + before.matches('\n').count();
            failed(Some(line), "is not UTF-8 text".to_owned())
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(None, format!("cannot be read: {error}"))),
    };
    let lookup = |name: &str| environment.get(name).and_then(|value| value.to_str()).map(str::to_owned);
    Document::parse(&text)
        .and_then(|document| document.evaluate(&lookup))
        .map(Some)
        .map_err(|error| failed(Some(error.line), error.problem.to_string()))
}
