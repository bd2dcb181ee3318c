//! Layers of templates as images of the Docker engine. Each has an empty folder among the layers, by which the rest of the host knows it.

use std::process::Stdio;

use bollard::errors::Error;
use bollard::models::{ContainerConfig, ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateImageOptionsBuilder, RemoveImageOptions, WaitContainerOptionsBuilder,
};
use futures::{StreamExt as _, TryStreamExt as _};
use sha2::{Digest as _, Sha256};
use tokio_util::io::ReaderStream;

use super::engine::{Containers, is_missing};
use crate::names::{hex, random_name};
use crate::templates::{IMAGE_PREFIX, Layers, PROVISION};

/// Why an image did not become a layer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageFailure {
    #[error("the Docker engine refused")]
    Docker(#[from] Error),
    #[error("the root cannot be packed")]
    Pack(#[source] std::io::Error),
    #[error("the image cannot be made a root for sandboxes: its shell ended with {0}")]
    Provision(i64),
    #[error("the layer cannot be kept")]
    Keep(#[source] std::io::Error),
}

impl Containers {
    /// Gives the engine a root that lies among the layers as a folder, if it does not have it.
    pub(crate) async fn import(&self, layer: &str) -> Result<(), ImageFailure> {
        match self.docker.inspect_image(&self.image(layer)).await {
            Ok(_there) => return Ok(()),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(error.into()),
        }
        tracing::info!(layer, "giving the root to the Docker engine, once");
        #[expect(clippy::disallowed_methods, reason = "the system's own tools for making roots")]
        let mut tar = tokio::process::Command::new("tar");
        tar.args(["--create", "--numeric-owner", "--directory", self.folders.layer(layer).as_str(), "."]);
        let mut tar = tar
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(ImageFailure::Pack)?;
        let archive = tar.stdout.take().expect("its standard output was asked for");
        let options = CreateImageOptionsBuilder::default().from_src("-").repo(&self.repository()).tag(layer).build();
        let body = bollard::body_try_stream(ReaderStream::with_capacity(archive, 1 << 20));
        let told = self.docker.create_image(Some(options), Some(body), None);
        told.try_for_each(|_progress| std::future::ready(Ok(()))).await?;
        let status = tar.wait().await.map_err(ImageFailure::Pack)?;
        if status.success() { Ok(()) } else { Err(ImageFailure::Pack(std::io::Error::other(status.to_string()))) }
    }

    /// Makes a layer of what a sandbox has written. The sandbox must have ended.
    pub(crate) async fn keep(&self, id: &str, layers: &Layers, layer: &str) -> Result<(), ImageFailure> {
        self.commit(&self.container(id), layers, layer).await
    }

    async fn commit(&self, container: &str, layers: &Layers, layer: &str) -> Result<(), ImageFailure> {
        let options = CommitContainerOptionsBuilder::default()
            .container(container)
            .repo(&self.repository())
            .tag(layer)
            .pause(false)
            .build();
        self.docker.commit_container(options, ContainerConfig::default()).await?;
        let mark = layers.begin().map_err(ImageFailure::Keep)?;
        layers.finish(&mark, layer).map_err(ImageFailure::Keep)
    }

    /// The layer of a local image, made a root for sandboxes; `None` when the engine has no such image.
    pub(crate) async fn local_image(&self, layers: &Layers, reference: &str) -> Result<Option<String>, ImageFailure> {
        let id = match self.docker.inspect_image(reference).await {
            Ok(image) => image.id.unwrap_or_default(),
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let layer = format!("{IMAGE_PREFIX}{}", hex(&Sha256::digest(&id)[..8]));
        if layers.has(&layer) {
            return Ok(Some(layer));
        }
        let container = self.container(&format!("p{}", random_name(20)));
        let made = self.provision(&container, &id, layers, &layer).await;
        if let Err(error) = self.remove(&container).await {
            tracing::warn!(%error, container, "a container that was only provisioned stays until the next start");
        }
        made.map(|()| Some(layer))
    }

    async fn provision(&self, container: &str, image: &str, layers: &Layers, layer: &str) -> Result<(), ImageFailure> {
        let options = bollard::query_parameters::CreateContainerOptionsBuilder::default().name(container).build();
        let body = ContainerCreateBody {
            image: Some(image.to_owned()),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            entrypoint: Some(vec!["/bin/sh".to_owned()]),
            cmd: Some(vec!["-c".to_owned(), PROVISION.to_owned()]),
            labels: Some(self.labels()),
            host_config: Some(HostConfig { network_mode: Some("none".to_owned()), ..HostConfig::default() }),
            ..ContainerCreateBody::default()
        };
        self.docker.create_container(Some(options), body).await?;
        self.docker.start_container(container, None).await?;
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        let code = match self.docker.wait_container(container, Some(options)).next().await {
            Some(Ok(ended)) => ended.status_code,
            Some(Err(Error::DockerContainerWaitError { code, .. })) => code,
            Some(Err(error)) => return Err(error.into()),
            None => 0,
        };
        if code != 0 {
            return Err(ImageFailure::Provision(code));
        }
        self.commit(container, layers, layer).await
    }

    /// Removes images of layers that are gone. One that cannot go only takes room.
    pub(crate) async fn forget(&self, layers: &[String]) {
        for layer in layers {
            let image = self.image(layer);
            if let Err(error) = self.docker.remove_image(&image, None::<RemoveImageOptions>, None).await
                && !is_missing(&error)
            {
                tracing::debug!(%error, image, "the image of a layer that nobody uses stays");
            }
        }
    }
}
