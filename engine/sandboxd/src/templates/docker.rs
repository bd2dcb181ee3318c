//! Images of registries, from what this machine's Docker has.

use std::process::Stdio;

use sha2::{Digest as _, Sha256};

use super::base::{BaseFailure, output, provision, run};
use super::layers::Layers;
use crate::names::hex;

/// What names of layers that were images begin with.
const LAYER_PREFIX: &str = "image-";

/// The layer of the image with this id.
pub(crate) fn layer_of_image(id: &str) -> String {
    format!("{LAYER_PREFIX}{}", hex(&Sha256::digest(id)[..8]))
}

/// Whether a layer was an image.
pub(super) fn was_image(layer: &str) -> bool {
    layer.starts_with(LAYER_PREFIX)
}

/// Whether a text can name an image. It becomes a word of a command line, or a part of a path: it must not be taken for an option or lead elsewhere.
pub(crate) fn is_reference(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    let is_name = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric());
    text.bytes().all(is_plain) && text.split('/').all(is_name)
}

/// The layer of a local image; `None` when there is no Docker, or it has no such image.
pub(crate) async fn local_image(layers: &Layers, reference: &str) -> Result<Option<String>, BaseFailure> {
    let Ok(id) = output("docker", &["image", "inspect", "--format", "{{.Id}}", reference]).await else {
        return Ok(None);
    };
    let id = String::from_utf8_lossy(&id).trim().to_owned();
    let name = layer_of_image(&id);
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

#[cfg(test)]
mod tests {
    use super::{is_reference, layer_of_image, was_image};

    #[test]
    fn references_are_names_and_nothing_else() {
        for good in ["debian", "debian:bookworm-slim", "r.example:5000/a/b@sha256:0a1b", "sha256:00ff", "a_b/c.d-e"] {
            assert!(is_reference(good), "{good}");
        }
        for bad in ["", "-v", "a/../b", "../a", "/a", "a//b", "a/", "a b", "a?b", "a#b", "a%2fb", "a/-b"] {
            assert!(!is_reference(bad), "{bad}");
        }
    }

    #[test]
    fn a_layer_is_known_by_the_id_of_its_image() {
        assert_eq!(layer_of_image("sha256:1"), layer_of_image("sha256:1"));
        assert_ne!(layer_of_image("sha256:1"), layer_of_image("sha256:2"));
        assert!(was_image(&layer_of_image("sha256:1")));
    }
}
