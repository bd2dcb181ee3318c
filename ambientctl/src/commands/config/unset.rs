//! `ambientctl config unset`: keys that shall not be there.

use super::change::Scope;
use super::{Reach, apply, files_failure};
use crate::environment::Environment;
use crate::files::FilesError;
use crate::files::dotenv::{Wish, is_key};
use crate::output::{Exit, Failure, Printer};

/// Words of `ambientctl config unset`.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Leave `docker-compose.override.yml` as it is
    #[arg(long)]
    no_override: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) async fn run(args: &Args, environment: &Environment, printer: Printer) -> Result<Exit, Failure> {
    let folder = args.reach.at.place.dir.folder(environment)?;
    if let Some(key) = args.keys.iter().find(|key| !is_key(key)) {
        return Err(files_failure(FilesError::Key(key.clone())));
    }
    let wishes: Vec<(&str, Wish<'_>)> = args.keys.iter().map(|key| (key.as_str(), Wish::Unset)).collect();
    let scope = Scope { no_override: args.no_override };
    apply::change_and_apply(&folder, &wishes, scope, &args.reach, environment, printer).await
}
