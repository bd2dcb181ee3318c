//! The Docker engine, and what of it is this host's: containers, images and a network, by their names and labels.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bollard::errors::Error;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use bollard::{API_DEFAULT_VERSION, Docker};
use sha2::{Digest as _, Sha256};
use tokio_util::task::TaskTracker;

use super::network::Network;
use crate::driver::{NetworkMode, remove_folder};
use crate::folders::Folders;
use crate::names::hex;

/// The label of everything that is this host's, with the host's name as its value.
pub(super) const LABEL: &str = "io.ambient.sandboxd";

/// How long one request may take, in seconds: committing a large layer takes a while.
const REQUEST_SECONDS: u64 = 600;

const BAD_REQUEST: u16 = 400;
const NOT_FOUND: u16 = 404;
const CONFLICT: u16 = 409;
const NOT_MODIFIED: u16 = 304;

/// Why the Docker engine cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EngineFailure {
    #[error("no Docker engine answers at `{address}`")]
    Silent {
        address: String,
        #[source]
        source: Error,
    },
    #[error("the program that is mounted into containers cannot be found")]
    Program(#[source] std::io::Error),
    #[error("containers of an earlier host cannot be removed")]
    LeftOver(#[source] Error),
}

/// Makes sandboxes of containers.
#[derive(Debug)]
pub(crate) struct Containers {
    pub(super) docker: Docker,
    pub(crate) folders: Arc<Folders>,
    pub(super) tasks: TaskTracker,
    /// Where this program is, as the Docker engine sees it.
    pub(super) program: String,
    /// Tells this host's things from those of others on the same engine. Made of the data folder, so that the next host finds them.
    pub(super) name: String,
    pub(super) network: Network,
    /// The engine refuses to give more processors than it has.
    pub(super) processors: i64,
}

/// A failure that says that there is none of what was asked for.
pub(super) fn is_missing(error: &Error) -> bool {
    is_status(error, NOT_FOUND)
}

/// One that says that there cannot be anything of that name.
pub(super) fn is_no_name(error: &Error) -> bool {
    is_status(error, BAD_REQUEST)
}

/// One that says that it is so already.
pub(super) fn is_so_already(error: &Error) -> bool {
    is_status(error, CONFLICT) || is_status(error, NOT_MODIFIED)
}

fn is_status(error: &Error, wanted: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == wanted)
}

/// The name of the host of a data folder.
fn name(folders: &Folders) -> String {
    hex(&Sha256::digest(folders.root().as_str())[..4])
}

impl Containers {
    /// Finds the engine at this socket, and removes containers of an earlier host of the data folder.
    pub(crate) async fn open(
        socket: &str,
        mode: NetworkMode,
        folders: Arc<Folders>,
        program: &Path,
        tasks: TaskTracker,
    ) -> Result<Self, EngineFailure> {
        let silent = |source| EngineFailure::Silent { address: socket.to_owned(), source };
        let docker = Docker::connect_with_unix(socket, REQUEST_SECONDS, API_DEFAULT_VERSION).map_err(silent)?;
        let docker = docker.negotiate_version().await.map_err(silent)?;
        let processors = docker.info().await.map_err(silent)?.ncpu.unwrap_or(1).max(1);
        // `/proc/self/exe` is another program to the engine than to this process.
        let program = std::fs::canonicalize(program).map_err(EngineFailure::Program)?;
        let mut containers = Self {
            docker,
            tasks,
            program: program.to_string_lossy().into_owned(),
            name: name(&folders),
            folders,
            network: Network::Closed,
            processors,
        };
        containers.remove_left_over().await.map_err(EngineFailure::LeftOver)?;
        containers.network = Network::set_up(&containers.docker, mode, &containers.name, containers.labels()).await;
        Ok(containers)
    }

    async fn remove_left_over(&self) -> Result<(), Error> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{LABEL}={}", self.name)])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        for container in self.docker.list_containers(Some(options)).await? {
            let Some(id) = container.id else { continue };
            tracing::info!(container = id, "removing a sandbox that an earlier host left");
            self.remove(&id).await?;
        }
        Ok(())
    }

    pub(super) fn labels(&self) -> HashMap<String, String> {
        [(LABEL.to_owned(), self.name.clone())].into()
    }

    /// The name of a sandbox's container.
    pub(super) fn container(&self, id: &str) -> String {
        format!("ambient-sandboxd-{}-{id}", self.name)
    }

    /// The repository of images that are layers of templates.
    pub(super) fn repository(&self) -> String {
        format!("ambient-sandboxd-{}", self.name)
    }

    /// The image that a layer is.
    pub(super) fn image(&self, layer: &str) -> String {
        format!("{}:{layer}", self.repository())
    }

    pub(super) async fn remove(&self, container: &str) -> Result<(), Error> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self.docker.remove_container(container, Some(options)).await {
            // Or its removal is in progress.
            Err(error) if !is_missing(&error) && !is_so_already(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes a sandbox's container and folder, in the background.
    pub(crate) fn remove_files(self: &Arc<Self>, id: &str) {
        let (containers, id) = (Arc::clone(self), id.to_owned());
        self.tasks.spawn(async move {
            if let Err(error) = containers.remove(&containers.container(&id)).await {
                tracing::error!(%error, sandbox.id = id, "the container of a sandbox stays until the next start");
            }
            let folder = containers.folders.sandboxes().join(&id);
            let _ends_by_itself = tokio::task::spawn_blocking(move || remove_folder(&folder)).await;
        });
    }

    /// Removes what a host has on the engine besides images.
    pub(crate) async fn tear_down(&self) {
        self.network.tear_down(&self.docker).await;
    }
}
