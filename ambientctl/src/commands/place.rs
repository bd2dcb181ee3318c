//! Which installation a command is about, and which Docker engine it is on.

use std::path::PathBuf;
use std::time::Duration;

use crate::docker::{Connection, DockerError, addresses};
use crate::environment::Environment;
use crate::files::{FilesError, Folder, Lock, Tightened};
use crate::output::{Exit, Failure, Printer};

/// Which installation.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Dir {
    /// The installation's folder [default: `AMBIENT_DIR`, else ~/.ambient]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
}

/// Which Docker engine.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Engine {
    /// The Docker engine's address [default: `DOCKER_HOST`, the current docker context, then the known sockets]
    #[arg(long, value_name = "URL")]
    docker: Option<String>,
}

/// How long to wait for a stack to become healthy.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Timeout {
    /// Seconds to wait until everything is healthy
    #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Which installation, on which Docker engine.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct Place {
    #[command(flatten)]
    pub(super) dir: Dir,
    #[command(flatten)]
    pub(super) engine: Engine,
}

/// The same, and how long it may take until everything there is healthy.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct TimedPlace {
    #[command(flatten)]
    pub(super) timeout: Timeout,
    #[command(flatten)]
    pub(super) place: Place,
}

#[derive(Debug, thiserror::Error)]
enum PlaceError {
    #[error("there is no home folder in the environment, so `~/.ambient` cannot be found")]
    NoHome,
}

impl Dir {
    pub(super) fn path(&self, environment: &Environment) -> Result<PathBuf, Failure> {
        let set = |name| environment.variable(name).filter(|value| !value.is_empty());
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        if let Some(dir) = set("AMBIENT_DIR") {
            return Ok(PathBuf::from(dir));
        }
        match set("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(".ambient")),
            None => Err(Failure::new(Exit::Usage, PlaceError::NoHome).hint("name the folder with `--dir DIR`")),
        }
    }

    pub(super) fn folder(&self, environment: &Environment) -> Result<Folder, Failure> {
        Folder::open(&self.path(environment)?).map_err(files_failure)
    }
}

impl Engine {
    /// # Errors
    /// In three different words when there is none, when it refuses, and when it is silent.
    pub(super) async fn connect(&self, environment: &Environment) -> Result<Connection, DockerError> {
        Connection::open(&addresses(self.docker.as_deref(), environment)?, environment).await
    }
}

impl Timeout {
    pub(super) fn limit(self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// The lock of an installation, saying so when somebody else has it.
pub(super) fn lock(folder: &Folder, printer: Printer) -> Result<Lock, Failure> {
    folder
        .lock(|| printer.warning("another ambientctl is changing this installation; waiting for it"))
        .map_err(files_failure)
}

/// A failure of the files, with what mends it.
pub(super) fn files_failure(error: FilesError) -> Failure {
    let hint = match &error {
        FilesError::NoFolder(_) => {
            "name the installation's folder with `--dir DIR`, or install with `ambientctl install`".to_owned()
        }
        FilesError::Read { path, .. } | FilesError::Write { path, .. } | FilesError::Lock { path, .. } => {
            format!("check who may read and write `{}`, and whether its disk is full", path.display())
        }
        FilesError::NotUtf8 { path, .. } | FilesError::Dotenv { path, .. } => {
            format!("mend that line of `{}`, or take an old one from `backups`", path.display())
        }
        FilesError::Owner { path, .. } => format!("run this as the owner of `{}`, or as root", path.display()),
        FilesError::Key(_) => "keys look like `LLM_API_KEY`".to_owned(),
        FilesError::Value { key, .. } => format!("choose another value for `{key}`"),
        FilesError::Entangled { .. } => "change that line by hand, with `ambientctl config edit`".to_owned(),
    };
    let exit = match error {
        FilesError::Write { .. } | FilesError::Lock { .. } => Exit::Unhealthy,
        _ => Exit::Usage,
    };
    Failure::new(exit, error).hint(hint)
}

pub(super) fn tell_tightened(tightened: &[Tightened], printer: Printer) {
    for file in tightened {
        printer.warning(&format!(
            "`{}` could be read by others (mode {:o}); it is private now (mode 600)",
            file.path.display(),
            file.from
        ));
    }
}

/// A failure of Docker or of the stack, with what mends it.
pub fn docker_failure(error: DockerError) -> Failure {
    let (exit, hint) = match &error {
        DockerError::Missing(_) => (
            Exit::Unreachable,
            "install Docker (https://docs.docker.com/engine/install), or name an engine elsewhere with `--docker URL` or `DOCKER_HOST`".to_owned(),
        ),
        DockerError::Refused { .. } => (
            Exit::Unreachable,
            "`sudo usermod -aG docker $USER` and a new login, or run this as root".to_owned(),
        ),
        DockerError::Silent { .. } => (
            Exit::Unreachable,
            "start it: `sudo systemctl start docker`, or Docker Desktop".to_owned(),
        ),
        DockerError::Address { .. } => {
            (Exit::Usage, "`docker context ls` shows addresses that work on this machine".to_owned())
        }
        DockerError::Tls { .. } => (
            Exit::Unreachable,
            "`DOCKER_TLS_VERIFY=1` with `DOCKER_CERT_PATH` naming the folder of `ca.pem`, `cert.pem` and `key.pem`".to_owned(),
        ),
        DockerError::Ssh { address, .. } => (
            Exit::Unreachable,
            format!("`docker --host {address} version` has to work, without a password: `ssh-add`, or a key in `~/.ssh/config`"),
        ),
        DockerError::Context { .. } => (Exit::Usage, "`docker context ls` lists them; `docker context use default` goes back".to_owned()),
        DockerError::Compose(_) => (Exit::Usage, "`ambientctl config render` shows what the files say".to_owned()),
        DockerError::NotApplied { .. } => (
            Exit::Usage,
            "remove that key, or run the stack with `docker compose up -d`, whose containers ambientctl takes as its own".to_owned(),
        ),
        DockerError::Value { .. } => (Exit::Usage, "mend it in the compose file".to_owned()),
        DockerError::Call { .. } => (Exit::Unhealthy, "the engine's own log says more".to_owned()),
        DockerError::Image { image, .. } => (
            Exit::Unhealthy,
            format!("`docker pull {image}` tries it alone; a private registry needs `docker login` first"),
        ),
        DockerError::External { kind, name } => (Exit::Unhealthy, format!("`docker {kind} create {name}` makes it")),
        DockerError::Network(name) => (
            Exit::Unhealthy,
            format!("`ambientctl stop`, `docker network rm {name}`, `ambientctl start`: it is made anew"),
        ),
        DockerError::Port { .. } => (
            Exit::Unhealthy,
            "stop what has it, or choose another: `ambientctl config set AMBIENT_ENGINE_PORT PORT`".to_owned(),
        ),
        DockerError::Unwell { service, .. } => (Exit::Unhealthy, format!("`ambientctl logs {service}` shows more")),
        DockerError::TimedOut { .. } => (Exit::Unhealthy, "`--timeout SECONDS` waits longer".to_owned()),
        DockerError::NoService { .. } => (Exit::Usage, "`ambientctl status` lists them".to_owned()),
    };
    Failure::new(exit, error).hint(hint)
}
