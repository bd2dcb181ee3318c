//! `ambientctl config set`: new values for keys, all of them or none.

use std::io::{self, IsTerminal, Read};

use ambient_settings::find;

use super::assignments::{Ask, parse, values};
use super::change::{Scope, check};
use super::{Reach, apply, variable};
use crate::environment::Environment;
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

pub(super) async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.reach.at.place.dir.folder(environment)?;
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
        if variable(environment, key).is_some_and(|other| other != *value) {
            printer.warning(&format!(
                "`{key}` is also set in this shell, to another value, which counts before `.env`; `unset {key}`"
            ));
        }
        if value.is_empty() && find(key).is_some_and(|setting| !setting.empty_is_a_value()) {
            printer.warning(&format!("an empty `{key}` counts as not set"));
        }
    }
    apply::change_and_apply(&folder, &wishes, scope, &args.reach, environment, printer).await
}
