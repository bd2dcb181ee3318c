//! The process environment as it was when the program started, and the `.env` file that goes with it.
//!
//! `main` takes this once, before anything else runs; all commands load their settings from it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ambient_settings::{Loaded, Settings};

use crate::output::{Exit, Failure, Printer};

/// Where settings come from.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The variables from before `.env` was added, so that a fault can name the place of a value.
    pub variables: Vec<(OsString, OsString)>,
    /// The file to read, if there is one.
    pub env_file: Option<PathBuf>,
}

impl Environment {
    /// The settings, with warnings told on the way. `overrides` are words of the command line; they count before the
    /// environment, in whatever letters that spells the name.
    ///
    /// # Errors
    /// All faults of the configuration at once.
    pub fn settings(&self, overrides: &[(&str, String)], printer: &Printer) -> Result<Settings, Failure> {
        let overridden = |name: &OsString| {
            name.to_str().is_some_and(|name| overrides.iter().any(|(setting, _)| setting.eq_ignore_ascii_case(name)))
        };
        let variables = self
            .variables
            .iter()
            .filter(|(name, _)| !overridden(name))
            .cloned()
            .chain(overrides.iter().map(|(name, value)| (OsString::from(*name), OsString::from(value))));
        match Settings::load(variables, self.env_file.as_deref()) {
            Ok(Loaded { settings, warnings }) => {
                for warning in &warnings {
                    printer.warning(&warning.to_string());
                }
                Ok(settings)
            }
            Err(faults) => {
                for warning in &faults.warnings {
                    printer.warning(&warning.to_string());
                }
                Err(Failure::new(Exit::Usage, faults)
                    .hint("every setting stands in docs/configuration.md; change it in the environment or in `.env`"))
            }
        }
    }

    /// A variable of the process, if it is set and is text.
    pub fn variable(&self, name: &str) -> Option<String> {
        let found = self.variables.iter().find(|(found, _)| found.to_str() == Some(name));
        found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
    }

    /// The file to read settings from: the one that was named, which has to be there, else `.env` of the working directory.
    ///
    /// # Errors
    /// When a named file is missing.
    pub fn file(named: Option<&Path>) -> Result<PathBuf, Failure> {
        match named {
            None => Ok(PathBuf::from(".env")),
            Some(path) if path.is_file() => Ok(path.to_owned()),
            Some(path) => Err(Failure::new(Exit::Usage, NoSuchFile(path.to_owned()))
                .hint("leave `--env-file` out to read `.env` of the working directory, where there is one")),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no file `{}`, which `--env-file` names", .0.display())]
struct NoSuchFile(PathBuf);
