//! From the files of an installation to running containers: what `start`, `update`, `install` and `config set` share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ambient_settings::Redactor;
use secrecy::SecretString;

use super::config::is_secret;
use super::place::docker_failure;
use crate::compose::{ComposeError, Loaded, Loader};
use crate::docker::{Connection, DockerError, Found, Journal, Patience, Wanted, apply, check_ports, look, pull};
use crate::environment::Environment;
use crate::output::{Exit, Failure, Printer, Progress};
use crate::plan::{Plan, Verdict};

/// Texts that count in place of what stands in files.
pub(super) type Texts = BTreeMap<PathBuf, String>;

/// A stack that is to be brought about.
#[derive(Debug)]
pub(super) struct Convergence<'a> {
    pub(super) environment: &'a Environment,
    pub(super) printer: Printer,
    /// How long until everything has to be healthy.
    pub(super) limit: Duration,
    /// Whether a failure is taken back.
    pub(super) rollback: bool,
    /// Whether images that are there are pulled anew.
    pub(super) pull_anew: bool,
}

/// How it went.
#[derive(Debug)]
pub(super) enum Converged {
    /// Everything was right already.
    Already,
    /// It was done, and these services were touched.
    Done(Vec<String>),
}

/// Why it did not go.
#[derive(Debug)]
pub(super) struct Unconverged {
    pub(super) failure: Failure,
    /// Whether the containers are what they were before.
    pub(super) taken_back: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
struct Interrupted;

/// What the files ask for. Warnings are told.
pub(super) fn wanted(
    folder: &Path,
    texts: &Texts,
    environment: &Environment,
    printer: Printer,
) -> Result<Wanted, Failure> {
    let loader = Loader { folder, environment: &environment.variables, interpolate: true, texts };
    let Loaded { project, warnings } = loader.load().map_err(compose_failure)?;
    for warning in &warnings {
        printer.warning(warning);
    }
    Wanted::of(&project).map_err(docker_failure)
}

/// A failure of the compose files, with what mends it.
pub(super) fn compose_failure(error: ComposeError) -> Failure {
    let hint = match &error {
        ComposeError::NoFile(_) => {
            "name the installation's folder with `--dir DIR`, or run `ambientctl install`".to_owned()
        }
        ComposeError::File(_) => "check that the file is there and that you may read it".to_owned(),
        ComposeError::Dotenv { path, .. } | ComposeError::At { file: path, .. } => {
            format!("mend that line of `{}`", path.display())
        }
        ComposeError::Name(_) => "set `COMPOSE_PROJECT_NAME` in `.env`".to_owned(),
        ComposeError::Inconsistent(_) => "the compose files have to declare what they use".to_owned(),
    };
    Failure::new(Exit::Usage, error).hint(hint)
}

impl Convergence<'_> {
    /// Pulls, plans, applies, waits; and takes back what did not get well.
    pub(super) async fn run(&self, connection: &Connection, wanted: &Wanted) -> Result<Converged, Unconverged> {
        let untouched = |error| Unconverged { failure: docker_failure(error), taken_back: true };
        let progress = Progress::new(self.printer);
        let mut found = look(connection, wanted).await.map_err(untouched)?;
        let lacks_images = wanted.services.iter().any(|service| !found.images.contains_key(&service.image));
        if lacks_images || self.pull_anew {
            // Nobody should wait for a download to learn this.
            check_ports(connection, wanted, &found).await.map_err(untouched)?;
            let pulled = pull(connection, wanted, self.pull_anew, self.environment, &progress).await;
            progress.finish();
            pulled.map_err(untouched)?;
            found = look(connection, wanted).await.map_err(untouched)?;
        }
        let plan = Plan::make(wanted, &found).map_err(untouched)?;
        for warning in &plan.warnings {
            self.printer.warning(warning);
        }
        if !plan.orphans.is_empty() {
            let orphans = plan.orphans.join("`, `");
            self.printer
                .warning(&format!("no file asks for `{orphans}` any more; `docker rm -f` removes what is not needed"));
        }
        if plan.is_done() {
            return Ok(Converged::Already);
        }
        self.carry_out(connection, wanted, &found, &plan, &progress).await?;
        let touched = plan.steps.iter().filter(|step| step.verdict != Verdict::Keep);
        Ok(Converged::Done(touched.map(|step| step.service.clone()).collect()))
    }

    async fn carry_out(
        &self,
        connection: &Connection,
        wanted: &Wanted,
        found: &Found,
        plan: &Plan,
        progress: &Progress,
    ) -> Result<(), Unconverged> {
        let journal = Journal::default();
        let patience = Patience::new(self.limit);
        let result = tokio::select! {
            result = apply(connection, (wanted, found, plan), patience, progress, &journal) => {
                result.map_err(|error| explained(error, wanted))
            }
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, Interrupted)),
        };
        let Err(failure) = result else {
            if let Err(error) = journal.settle(connection).await {
                self.printer.warning(&format!("{error}; the stack is well all the same"));
            }
            progress.finish();
            return Ok(());
        };
        if !self.rollback {
            progress.finish();
            if let Err(error) = journal.settle(connection).await {
                self.printer.warning(&error.to_string());
            }
            return Err(Unconverged { failure, taken_back: false });
        }
        let back = journal.take_back(connection, progress).await;
        progress.finish();
        match back {
            Ok(()) => Err(Unconverged { failure, taken_back: true }),
            Err(error) => {
                let failure = failure.hint(format!("and {error}; `ambientctl start` tries again"));
                Err(Unconverged { failure, taken_back: false })
            }
        }
    }
}

/// The failure, with what the container said last, without its secrets.
fn explained(error: DockerError, wanted: &Wanted) -> Failure {
    let secrets = wanted.services.iter().flat_map(crate::docker::WantedService::variables);
    let secrets = secrets.filter(|(name, _)| is_secret(name)).flat_map(|(_, value)| {
        let password = url::Url::parse(value).ok().and_then(|url| url.password().map(str::to_owned));
        [Some(value.to_owned()), password].into_iter().flatten()
    });
    let redactor = Redactor::of(secrets.map(SecretString::from));
    let lines: Vec<String> = error.lines().iter().map(|line| redactor.scrub(line)).collect();
    let failure = docker_failure(error);
    if lines.is_empty() { failure } else { failure.detail(lines) }
}

/// Whether any container of the project runs.
pub(super) async fn is_up(connection: &Connection, project: &str) -> Result<bool, Failure> {
    let all = crate::docker::containers_of(connection, project).await.map_err(docker_failure)?;
    Ok(all.iter().any(|container| container.state.is_up() && !container.one_off))
}
