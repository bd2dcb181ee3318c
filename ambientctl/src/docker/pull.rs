//! Getting images before anything is touched.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bollard::auth::DockerCredentials;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::TryStreamExt;
use futures::future::try_join_all;
use serde_json::Value;

use super::error::is_absent;
use super::{Connection, DockerError, PullPolicy, Wanted, WantedService};
use crate::environment::Environment;
use crate::output::Progress;

/// Where images without a registry in their name come from.
const USUAL_REGISTRY: &str = "https://index.docker.io/v1/";

/// Pulls what is missing, and with `anew` also what is there.
///
/// # Errors
/// When an image cannot be had; then nothing was touched but images.
pub async fn pull(
    connection: &Connection,
    wanted: &Wanted,
    anew: bool,
    environment: &Environment,
    progress: &Progress,
) -> Result<(), DockerError> {
    let mut services: Vec<&WantedService> = Vec::new();
    for service in &wanted.services {
        if services.iter().all(|known| known.image != service.image) {
            services.push(service);
        }
    }
    try_join_all(services.into_iter().map(|service| one(connection, service, anew, environment, progress))).await?;
    Ok(())
}

async fn one(
    connection: &Connection,
    service: &WantedService,
    anew: bool,
    environment: &Environment,
    progress: &Progress,
) -> Result<(), DockerError> {
    let failed =
        |problem: String| DockerError::Image { image: service.image.clone(), service: service.name.clone(), problem };
    let is_there = match connection.docker.inspect_image(&service.image).await {
        Ok(_) => true,
        Err(error) if is_absent(&error) => false,
        Err(error) => return Err(DockerError::call(format!("look at the image `{}`", service.image))(error)),
    };
    match service.pull {
        PullPolicy::Never if is_there => return Ok(()),
        PullPolicy::Never => return Err(failed("it is not there, and is not to be pulled; build it first".to_owned())),
        PullPolicy::Missing if is_there && !anew => return Ok(()),
        PullPolicy::Missing | PullPolicy::Always => {}
    }
    let subject = format!("image {}", service.image);
    progress.say(&subject, "pulling");
    let options = CreateImageOptionsBuilder::default().from_image(&with_tag(&service.image)).build();
    let mut steps = connection.docker.create_image(Some(options), None, credentials(&service.image, environment));
    loop {
        let step = match steps.try_next().await {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(error) => {
                progress.say(&subject, "not pulled");
                return Err(failed(error.to_string()));
            }
        };
        if let Some(problem) = step.error_detail.and_then(|detail| detail.message) {
            progress.say(&subject, "not pulled");
            return Err(failed(problem));
        }
        if let (Some(layer), Some(status)) = (step.id, step.status) {
            let amount = step.progress_detail.unwrap_or_default();
            progress.layer(&layer, &status, positive(amount.current), positive(amount.total));
        }
    }
    progress.say(&subject, "pulled");
    Ok(())
}

fn positive(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// Without a tag the engine would pull all that there are.
fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains(':') || image.contains('@') { image.to_owned() } else { format!("{image}:latest") }
}

/// The registry of an image, as the docker configuration names it.
fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => USUAL_REGISTRY,
    }
}

/// What `docker login` left for the registry of an image. Helpers that keep secrets elsewhere are programs, and not asked.
fn credentials(image: &str, environment: &Environment) -> Option<DockerCredentials> {
    let set = |name| environment.variable(name).filter(|value| !value.is_empty());
    let folder =
        set("DOCKER_CONFIG").map(PathBuf::from).or_else(|| Some(PathBuf::from(set("HOME")?).join(".docker")))?;
    let text = std::fs::read_to_string(folder.join("config.json")).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    let registry = registry(image);
    let entry = config["auths"].get(registry)?;
    let decoded = STANDARD.decode(entry["auth"].as_str()?).ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (username, password) = decoded.split_once(':')?;
    Some(DockerCredentials {
        username: Some(username.to_owned()),
        password: Some(password.trim_end_matches('\0').to_owned()),
        serveraddress: Some(registry.to_owned()),
        ..DockerCredentials::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_tag_is_pulled() {
        for (image, expected) in [
            ("redis", "redis:latest"),
            ("host:5000/redis", "host:5000/redis:latest"),
            ("redis:7", "redis:7"),
            ("host:5000/a/b:c", "host:5000/a/b:c"),
            ("redis@sha256:00", "redis@sha256:00"),
        ] {
            assert_eq!(with_tag(image), expected);
        }
    }

    #[test]
    fn credentials_are_those_of_the_registry() {
        let home = tempfile::tempdir().unwrap();
        let auth = STANDARD.encode("ann:pass:word");
        std::fs::write(home.path().join("config.json"), format!(r#"{{"auths":{{"ghcr.io":{{"auth":"{auth}"}}}}}}"#))
            .unwrap();
        let environment = Environment { variables: vec![("DOCKER_CONFIG".into(), home.path().into())], env_file: None };
        let found = credentials("ghcr.io/a/b:1", &environment).unwrap();
        assert_eq!((found.username.as_deref(), found.password.as_deref()), (Some("ann"), Some("pass:word")));
        assert!(credentials("redis:7", &environment).is_none());
        assert_eq!(registry("localhost/x"), "localhost");
        assert_eq!(registry("library/redis"), USUAL_REGISTRY);
    }
}
