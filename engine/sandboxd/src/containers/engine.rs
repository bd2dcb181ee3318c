//! The Docker engine, and what of it is this host's: containers and images by their names and labels, and a network.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bollard::errors::Error;
use bollard::models::NetworkCreateRequest;
use bollard::query_parameters::{ListContainersOptionsBuilder, RemoveContainerOptionsBuilder};
use bollard::{API_DEFAULT_VERSION, Docker};
use sha2::{Digest as _, Sha256};
use tokio_util::task::TaskTracker;

use crate::folders::Folders;
use crate::names::hex;
use crate::namespace::NetworkMode;

/// The label of everything that is this host's, with the host's name as its value.
pub(super) const LABEL: &str = "io.ambient.sandboxd";

/// How long one request may take, in seconds: committing a large layer takes a while.
const REQUEST_SECONDS: u64 = 600;

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
    #[error("the network of sandboxes cannot be made")]
    Network(#[source] Error),
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
    /// The name of the network of sandboxes that have a way out.
    pub(super) network: String,
    /// Docker refuses to give more processors than there are.
    pub(super) processors: u32,
}

/// A failure that says that there is none of what was asked for.
pub(super) fn is_missing(error: &Error) -> bool {
    is_status(error, NOT_FOUND)
}

/// One that says that it is so already.
pub(super) fn is_so_already(error: &Error) -> bool {
    is_status(error, CONFLICT) || is_status(error, NOT_MODIFIED)
}

fn is_status(error: &Error, wanted: u16) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code, .. } if *status_code == wanted)
}

impl Containers {
    /// Finds the engine at this address, a path of a socket.
    pub(crate) async fn open(
        address: &str,
        mode: NetworkMode,
        folders: Arc<Folders>,
        program: &Path,
        tasks: TaskTracker,
    ) -> Result<Self, EngineFailure> {
        let silent = |source| EngineFailure::Silent { address: address.to_owned(), source };
        let docker = Docker::connect_with_unix(address, REQUEST_SECONDS, API_DEFAULT_VERSION).map_err(silent)?;
        let docker = docker.negotiate_version().await.map_err(silent)?;
        docker.ping().await.map_err(silent)?;
        // `/proc/self/exe` is another program to the engine than to this process.
        let program = std::fs::canonicalize(program).map_err(EngineFailure::Program)?;
        let name = hex(&Sha256::digest(folders.root().as_str())[..4]);
        let processors =
            std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
        let mut containers = Self {
            docker,
            folders,
            tasks,
            program: program.to_string_lossy().into_owned(),
            network: format!("ambient-sandboxd-{name}"),
            name,
            processors,
        };
        match mode {
            NetworkMode::Host => "host".clone_into(&mut containers.network),
            NetworkMode::Private => containers.make_network().await.map_err(EngineFailure::Network)?,
        }
        Ok(containers)
    }

    /// A bridge on which sandboxes do not see each other.
    async fn make_network(&self) -> Result<(), Error> {
        let request = NetworkCreateRequest {
            name: self.network.clone(),
            driver: Some("bridge".to_owned()),
            options: Some([("com.docker.network.bridge.enable_icc".to_owned(), "false".to_owned())].into()),
            labels: Some(self.labels()),
            ..NetworkCreateRequest::default()
        };
        match self.docker.create_network(request).await {
            Err(error) if !is_so_already(&error) => Err(error),
            _ => Ok(()),
        }
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

    /// Removes containers of an earlier host, and what it left on the disk.
    pub(crate) async fn clean_up(&self) -> std::io::Result<()> {
        let filters = HashMap::from([("label".to_owned(), vec![format!("{LABEL}={}", self.name)])]);
        let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
        let left = self.docker.list_containers(Some(options)).await.map_err(std::io::Error::other)?;
        for container in left {
            let Some(id) = container.id else { continue };
            tracing::info!(container = id, "removing a sandbox that an earlier host left");
            self.remove(&id).await.map_err(std::io::Error::other)?;
        }
        for folder in [self.folders.sandboxes(), self.folders.unfinished()] {
            std::fs::remove_dir_all(&folder)?;
            std::fs::create_dir(&folder)?;
        }
        Ok(())
    }

    pub(super) async fn remove(&self, container: &str) -> Result<(), Error> {
        let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
        match self.docker.remove_container(container, Some(options)).await {
            Err(error) if !is_missing(&error) => Err(error),
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
            if let Err(error) = tokio::fs::remove_dir_all(&folder).await
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::error!(%error, %folder, "files of a sandbox stay until the next start");
            }
        });
    }

    /// Removes what a host has on the engine besides images.
    pub(crate) async fn tear_down(&self) {
        if self.network == "host" {
            return;
        }
        if let Err(error) = self.docker.remove_network(&self.network).await
            && !is_missing(&error)
        {
            tracing::warn!(%error, network = self.network, "the network of sandboxes stays");
        }
    }
}
