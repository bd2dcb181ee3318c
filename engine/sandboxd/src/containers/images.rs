//! Layers of templates as images of the Docker engine. Each has an empty folder among the layers, by which the rest of the host knows it.

use std::collections::{HashMap, HashSet};
use std::process::Stdio;

use bollard::errors::Error;
use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptionsBuilder, CreateImageOptionsBuilder, ListImagesOptionsBuilder,
    RemoveImageOptionsBuilder, WaitContainerOptionsBuilder,
};
use camino::Utf8Path;
use futures::{StreamExt as _, TryStreamExt as _};
use tokio::io::{AsyncRead, AsyncWriteExt as _};
use tokio_util::io::ReaderStream;

use super::engine::{Containers, is_missing, is_no_name};
use super::machine::PROGRAM;
use crate::names::random_name;
use crate::templates::{Layers, PROVISION, layer_of_image};

/// How much of an archive is on its way at once.
const CHUNK_BYTES: usize = 1 << 20;

/// How a container that is provisioned ends when this program does not run in it.
const DOES_NOT_RUN: i64 = 97;

/// Why an image did not become a layer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageFailure {
    #[error("the Docker engine refused")]
    Docker(#[from] Error),
    #[error("the root cannot be packed")]
    Pack(#[source] std::io::Error),
    #[error("`tar` ended with {0}")]
    Tar(std::process::ExitStatus),
    #[error("the image cannot be made a root for sandboxes: its shell ended with {0}")]
    Provision(i64),
    #[error(
        "this host's program does not run in the image: its C library is another than glibc, or older than this machine's"
    )]
    OtherLibrary,
    #[error("the layer cannot be kept")]
    Keep(#[source] std::io::Error),
}

impl Containers {
    /// Gives the engine a root that lies in this folder, if it does not have it.
    pub(crate) async fn import_root(&self, root: &Utf8Path, layers: &Layers, layer: &str) -> Result<(), ImageFailure> {
        match self.docker.inspect_image(&self.image(layer)).await {
            Ok(_there) => return mark(layers, layer),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        tracing::info!(layer, "giving the root to the Docker engine, once");
        #[expect(clippy::disallowed_methods, reason = "the system's own tools for making roots")]
        let mut tar = tokio::process::Command::new("tar");
        tar.args(["--create", "--numeric-owner", "--directory", root.as_str(), "."]);
        let mut tar = tar
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .kill_on_drop(true)
            .spawn()
            .map_err(ImageFailure::Pack)?;
        let archive = tar.stdout.take().expect("its standard output was asked for");
        self.import(archive, layer).await?;
        let status = tar.wait().await.map_err(ImageFailure::Pack)?;
        if status.success() {
            return mark(layers, layer);
        }
        self.forget(layer).await;
        Err(ImageFailure::Tar(status))
    }

    /// Makes an image of an archive of a root: one layer, and no words of its own about users, volumes or programs.
    async fn import(&self, archive: impl AsyncRead + Send + Sync + 'static, layer: &str) -> Result<(), ImageFailure> {
        let options = CreateImageOptionsBuilder::default().from_src("-").repo(&self.repository()).tag(layer).build();
        let body = bollard::body_try_stream(ReaderStream::with_capacity(archive, CHUNK_BYTES));
        let told = self.docker.create_image(Some(options), Some(body), None);
        Ok(told.try_for_each(|_progress| std::future::ready(Ok(()))).await?)
    }

    /// Makes a layer of what a sandbox has written. The sandbox must have ended.
    pub(crate) async fn keep(&self, id: &str, layers: &Layers, layer: &str) -> Result<(), ImageFailure> {
        let options = CommitContainerOptionsBuilder::default()
            .container(&self.container(id))
            .repo(&self.repository())
            .tag(layer)
            .pause(false)
            .build();
        self.docker.commit_container(options, ContainerConfig::default()).await?;
        mark(layers, layer)
    }

    /// The layer of an image that the engine has, made a root for sandboxes; `None` when it has none of that name.
    pub(crate) async fn local_image(&self, layers: &Layers, reference: &str) -> Result<Option<String>, ImageFailure> {
        let id = match self.docker.inspect_image(reference).await {
            Ok(image) => image.id.unwrap_or_default(),
            Err(error) if is_missing(&error) || is_no_name(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let layer = layer_of_image(&id);
        if layers.has(&layer) {
            return Ok(Some(layer));
        }
        let container = self.container(&format!("p{}", random_name(20)));
        let made = self.provision(&container, &id, &layer).await;
        if let Err(error) = self.remove(&container).await {
            tracing::warn!(%error, container, "a container that was only provisioned stays until the next start");
        }
        made?;
        mark(layers, &layer)?;
        Ok(Some(layer))
    }

    async fn provision(&self, container: &str, image: &str, layer: &str) -> Result<(), ImageFailure> {
        let script = format!("{PROVISION}\n{PROGRAM} --version >/dev/null 2>&1 || exit {DOES_NOT_RUN}\n");
        let host_config = HostConfig {
            binds: Some(vec![self.program_mount()]),
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        };
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            entrypoint: Some(vec!["/bin/sh".to_owned()]),
            cmd: Some(vec!["-c".to_owned(), script]),
            labels: Some(self.labels()),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        };
        let options = CreateContainerOptionsBuilder::default().name(container).build();
        self.docker.create_container(Some(options), body).await?;
        self.docker.start_container(container, None).await?;
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        match self.docker.wait_container(container, Some(options)).next().await {
            Some(Ok(_)) | None => {}
            Some(Err(Error::DockerContainerWaitError { code: DOES_NOT_RUN, .. })) => {
                return Err(ImageFailure::OtherLibrary);
            }
            Some(Err(Error::DockerContainerWaitError { code, .. })) => return Err(ImageFailure::Provision(code)),
            Some(Err(error)) => return Err(error.into()),
        }
        // A layer of the image with its volumes and checks of health would lose files and start programs behind the agent's back.
        let (archive, exported) = tokio::io::duplex(CHUNK_BYTES);
        let (docker, container) = (self.docker.clone(), container.to_owned());
        let exporting = async move {
            let mut exported = exported;
            let mut chunks = std::pin::pin!(docker.export_container(&container));
            while let Some(chunk) = chunks.try_next().await? {
                exported.write_all(&chunk).await.map_err(ImageFailure::Pack)?;
            }
            Ok::<_, ImageFailure>(())
        };
        let importing = self.import(archive, layer);
        tokio::try_join!(exporting, importing).map(|_both| ())
    }

    /// Removes images that no layer stands for, and layers whose images are gone.
    pub(crate) async fn reconcile(&self, layers: &Layers) -> std::io::Result<()> {
        let filters = HashMap::from([("reference".to_owned(), vec![self.repository()])]);
        let options = ListImagesOptionsBuilder::default().filters(&filters).build();
        let images = self.docker.list_images(Some(options)).await.map_err(std::io::Error::other)?;
        let prefix = self.image("");
        let tags = images.iter().flat_map(|image| &image.repo_tags).filter_map(|tag| tag.strip_prefix(&prefix));
        let tags: HashSet<&str> = tags.collect();
        for layer in layers.names()? {
            if !tags.contains(layer.as_str()) {
                tracing::warn!(
                    layer,
                    "the Docker engine has no image of this layer any more: templates of it have to be built again"
                );
                layers.remove(&layer)?;
            }
        }
        for layer in tags {
            if !layers.has(layer) {
                self.forget(layer).await;
            }
        }
        Ok(())
    }

    /// Removes the image of a layer. One that cannot go only takes room.
    async fn forget(&self, layer: &str) {
        let image = self.image(layer);
        let options = RemoveImageOptionsBuilder::default().build();
        if let Err(error) = self.docker.remove_image(&image, Some(options), None).await
            && !is_missing(&error)
        {
            tracing::debug!(%error, image, "the image of a layer that nobody uses stays");
        }
    }
}

/// Lets the rest of the host know that there is an image of this layer.
fn mark(layers: &Layers, layer: &str) -> Result<(), ImageFailure> {
    if layers.has(layer) {
        return Ok(());
    }
    let folder = layers.begin().map_err(ImageFailure::Keep)?;
    layers.finish(&folder, layer).map_err(ImageFailure::Keep)
}
