//! Images of registries, from what this machine's Docker has.

use std::process::Stdio;

use sha2::{Digest as _, Sha256};

use super::base::{BaseFailure, output, provision, run};
use super::layers::Layers;
use crate::names::hex;

/// Names of layers that were images.
pub(crate) const LAYER_PREFIX: &str = "image-";

/// The layer of a local image; `None` when there is no Docker, or it has no such image.
pub(crate) async fn local_image(layers: &Layers, reference: &str) -> Result<Option<String>, BaseFailure> {
    // A reference is a word of a command line: it must not be taken for an option.
    if reference.starts_with('-') {
        return Ok(None);
    }
    let Ok(id) = output("docker", &["image", "inspect", "--format", "{{.Id}}", reference]).await else {
        return Ok(None);
    };
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    let digest = Sha256::digest(&id);
    let name = format!("{LAYER_PREFIX}{}", hex(&digest[..8]));
    if layers.has(&name) {
        return Ok(Some(name));
    }
    let container = output("docker", &["create", &id, "/bin/true"]).await?;
    let container = String::from_utf8_lossy(&container).trim().to_owned();
    let made = unpack(layers, &container, &name).await;
    if let Err(error) = run("docker", &["rm", "--force", &container]).await {
        tracing::warn!(error = crate::with_causes(&error), container, "a container that was only unpacked stays");
    }
    made.map(|()| Some(name))
}

async fn unpack(layers: &Layers, container: &str, name: &str) -> Result<(), BaseFailure> {
    let folder = layers.begin().map_err(BaseFailure::Keep)?;
    #[expect(clippy::disallowed_methods, reason = "the system's own tools for making roots")]
    let mut docker = std::process::Command::new("docker");
    let failed = |source| BaseFailure::Start { program: "docker", source };
    let mut docker =
        docker.args(["export", container]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let archive = docker.stdout.take().expect("its standard output was asked for");
    #[expect(clippy::disallowed_methods, reason = "the system's own tools for making roots")]
    let mut tar = tokio::process::Command::new("tar");
    tar.args(["--extract", "--numeric-owner", "--same-permissions", "--directory", folder.as_str()]);
    tar.stdin(archive).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let unpacked = tar.output().await.map_err(|source| BaseFailure::Start { program: "tar", source })?;
    let exported = tokio::task::spawn_blocking(move || docker.wait()).await;
    let exported = exported.map_err(std::io::Error::other).flatten().map_err(failed)?;
    for (program, status) in [("docker", exported), ("tar", unpacked.status)] {
        if !status.success() {
            let said = String::from_utf8_lossy(&unpacked.stderr).trim().to_owned();
            return Err(BaseFailure::Failed { program, status, said });
        }
    }
    provision(&folder).await?;
    layers.finish(&folder, name).map_err(BaseFailure::Keep)
}
