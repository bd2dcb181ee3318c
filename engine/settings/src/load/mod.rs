//! Loading: sources, strongest first, through the catalogue's kinds into one [`Settings`] value.
//!
//! Everything that is wrong is reported at once. A value that was refused is replaced by the default while the rest is
//! read, so that one mistake does not hide or cause another.

mod assemble;
mod checks;
mod sources;
mod values;

use std::ffi::OsString;
use std::path::Path;

use crate::report::{Fault, Faults, Warning};
use crate::settings::Settings;
use sources::Sources;
use values::Values;

/// Settings, and what an operator should hear about them.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// Misspelt names, typos that select something unexpected, parts that are set halfway.
    pub warnings: Vec<Warning>,
}

impl Settings {
    /// Loads the settings from the process environment, then from a `.env` file where there is one, then from the
    /// defaults. Names are matched in any case, the exact spelling first. An empty value counts as not set, but still
    /// hides one in `.env`.
    ///
    /// # Errors
    /// [`Faults`] holds every value that cannot be used, and says where it stands and what is accepted.
    pub fn load(
        process_environment: impl IntoIterator<Item = (OsString, OsString)>,
        dotenv: Option<&Path>,
    ) -> Result<Loaded, Faults> {
        let (sources, mut faults) = Sources::gather(process_environment, dotenv);
        let mut values = Values::new(&sources);
        let mut settings = assemble::assemble(&mut values);
        let (value_faults, written) = values.finish();
        faults.extend(value_faults);
        settings.written = written;
        let mut warnings = sources.warnings();
        faults.extend(checks::faults(&settings));
        faults.sort_by_key(Fault::place);
        warnings.extend(checks::warnings(&settings, &sources));
        if faults.is_empty() { Ok(Loaded { settings, warnings }) } else { Err(Faults { faults, warnings }) }
    }
}

/// The variables of a `.env` file that the process environment does not have yet, for `main` to put there before any thread
/// starts: other programs' libraries then see `E2B_API_KEY` and the like too. A file that is not there has none.
///
/// [`Settings::load`] wants the environment from before, so that it can tell the two sources apart.
///
/// # Errors
/// [`Fault::Dotenv`] when the file is there and cannot be read.
pub fn dotenv_exports(
    process_environment: impl IntoIterator<Item = (OsString, OsString)>,
    dotenv: &Path,
) -> Result<Vec<(String, String)>, Fault> {
    let (sources, faults) = Sources::gather(process_environment, Some(dotenv));
    match faults.into_iter().next() {
        Some(fault) => Err(fault),
        None => Ok(sources.exports()),
    }
}
