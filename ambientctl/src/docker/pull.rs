//! Getting images before anything is touched.

use bollard::errors::Error;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures::TryStreamExt;
use futures::future::try_join_all;

use super::credentials::{self, Credentials};
use super::error::is_absent;
use super::{Connection, DockerError, PullPolicy, Wanted, WantedService};
use crate::environment::Environment;
use crate::output::Progress;

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
    let mut options = CreateImageOptionsBuilder::default().from_image(&with_tag(&service.image));
    if let Some(platform) = service.platform() {
        options = options.platform(platform);
    }
    let Credentials { found, trouble } = credentials::of(&service.image, environment).await;
    // A registry that wants none does not mind that there are none; only a refusal makes the trouble worth a word.
    let failed = |problem: String| {
        failed(match &trouble {
            Some(trouble) => format!("{problem}; {trouble}"),
            None => problem,
        })
    };
    let mut steps = connection.docker.create_image(Some(options.build()), None, found);
    loop {
        let step = match steps.try_next().await {
            Ok(Some(step)) => step,
            Ok(None) => break,
            Err(error) => {
                progress.say(&subject, "not pulled");
                return Err(failed(words(&error)));
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

/// The engine's or the registry's own words.
fn words(error: &Error) -> String {
    match error {
        Error::DockerResponseServerError { message, .. } => message.clone(),
        Error::DockerStreamError { error } => error.clone(),
        other => other.to_string(),
    }
}

fn positive(number: Option<i64>) -> u64 {
    number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
}

/// Without a tag the engine would pull all that there are.
fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains(':') || image.contains('@') { image.to_owned() } else { format!("{image}:latest") }
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
}
