//! Which E2B service, and who asks.

use std::path::PathBuf;

use ambient_e2b::{Client, Config};
use ambient_settings::Settings;

use super::failure::told;
use crate::commands::place::Dir;
use crate::environment::Environment;
use crate::output::{Failure, Printer};

/// Where the key and the service's address stand.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Service {
    /// The file to read E2B's settings from [default: `.env` of `--dir`, else `.env` here, else that of the installation]
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    #[command(flatten)]
    dir: Dir,
}

impl Service {
    /// The one whose settings stand there.
    pub(super) fn of(env_file: Option<PathBuf>, dir: Option<PathBuf>) -> Self {
        Self { env_file, dir: Dir { dir } }
    }

    /// A client with the key, and the template that sessions use.
    pub(super) fn open(&self, environment: &Environment, printer: Printer) -> Result<(Client, String), Failure> {
        let settings = self.settings(environment, printer)?;
        let e2b = &settings.e2b;
        let config = Config::from_lookup(|name| e2b.variable(name));
        let client = config.map_err(Into::into).and_then(Client::new).map_err(|error| told(error, &e2b.template))?;
        Ok((client, e2b.template.clone()))
    }

    fn settings(&self, environment: &Environment, printer: Printer) -> Result<Settings, Failure> {
        let here = Environment::file(self.env_file.as_deref())?;
        let is_of_folder = self.env_file.is_none() && self.dir.dir.is_some();
        let file = if here.is_file() && !is_of_folder { here } else { self.dir.path(environment)?.join(".env") };
        let environment = Environment { variables: environment.variables.clone(), env_file: Some(file) };
        environment.settings(&[], &printer.quietly())
    }
}
