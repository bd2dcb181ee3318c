//! What else `doctor` wants to know of an engine: what it is, and where an image comes from.

use bollard::models::ImageInspect;

use super::found::present;
use super::{Connection, DockerError};

/// What an engine says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineFacts {
    /// Its version, such as `27.3.1`.
    pub version: String,
    /// The folder of images, containers and volumes, on the engine's machine.
    pub root: Option<String>,
}

/// What an image says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFacts {
    /// When it was built, as RFC 3339.
    pub created: Option<String>,
    /// The version in its label `org.opencontainers.image.version`.
    pub version: Option<String>,
}

/// Asks an engine what it is.
///
/// # Errors
/// When the engine does not answer.
pub async fn engine_facts(connection: &Connection) -> Result<EngineFacts, DockerError> {
    let (version, info) = futures::join!(connection.docker.version(), connection.docker.info());
    let version = version.map_err(DockerError::call("ask for the version"))?;
    let info = info.map_err(DockerError::call("ask for the folder of volumes"))?;
    Ok(EngineFacts { version: version.version.unwrap_or_default(), root: info.docker_root_dir })
}

/// Asks what an image is; `None` when it is not there.
///
/// # Errors
/// When the engine does not answer.
pub async fn image_facts(connection: &Connection, name: &str) -> Result<Option<ImageFacts>, DockerError> {
    let answer = connection.docker.inspect_image(name).await;
    Ok(present(answer, || format!("look at the image `{name}`"))?.map(|image: ImageInspect| ImageFacts {
        created: image.created,
        version: image
            .config
            .and_then(|config| config.labels)
            .and_then(|labels| labels.get("org.opencontainers.image.version").cloned()),
    }))
}
