//! `.env` into the process environment, before any thread starts.
//!
//! Libraries and child processes that read the environment by themselves then see what stands in the file too. This and
//! [`crate::initial_block`] are the only places that change the environment, and they run while the process has one thread.

use std::path::Path;

use ambient_ctl::environment::Environment;
use ambient_ctl::output::Failure;

/// The environment as it was, and the file that goes with it; the file's variables are in the process environment from
/// here on, where the environment did not have them already.
///
/// # Errors
/// When a file that was named is missing. One that cannot be read is told with all other faults, when settings are loaded.
pub(crate) fn take(named: Option<&Path>) -> Result<Environment, Failure> {
    let env_file = Environment::file(named)?;
    let variables: Vec<_> = std::env::vars_os().collect();
    let exports = ambient_settings::dotenv_exports(variables.iter().cloned(), &env_file).unwrap_or_default();
    for (name, value) in exports {
        export(&name, &value);
    }
    crate::initial_block::hide(&variables);
    Ok(Environment { variables, env_file: Some(env_file) })
}

/// The environment as it is, for commands whose files are those of an installation: `.env` of the working directory is no
/// matter of theirs.
pub(crate) fn without_file() -> Environment {
    Environment { variables: std::env::vars_os().collect(), env_file: None }
}

#[expect(unsafe_code, reason = "`set_var` is unsound beside threads; `main` calls this before it starts any")]
#[expect(clippy::disallowed_methods, reason = "the one place that changes the environment, first of all")]
fn export(name: &str, value: &str) {
    // SAFETY: the process has one thread: no runtime, no logger and no child was started before `main` came here.
    unsafe { std::env::set_var(name, value) };
}
