//! What the engine has of a stack.

use std::collections::{BTreeMap, HashMap};

use bollard::errors::Error;
use bollard::models::{ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::{ListContainersOptionsBuilder, ListNetworksOptionsBuilder};
use futures::future::{join_all, try_join_all};

use super::error::is_absent;
use super::{Connection, DockerError, GRANTED, LABEL, Wanted};

/// What is there.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// All containers of the project.
    pub containers: Vec<FoundContainer>,
    /// Networks that have the names of wanted ones.
    pub networks: Vec<FoundNetwork>,
    /// Volumes that have the names of wanted ones, with the hash that they carry.
    pub volumes: BTreeMap<String, Option<String>>,
    /// Ids of images by the names by which they are wanted.
    pub images: BTreeMap<String, String>,
}

/// A container.
#[derive(Clone, Debug, Default)]
pub struct FoundContainer {
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its service.
    pub service: String,
    /// Its number in the service.
    pub number: u32,
    /// Whether somebody made it for one command only.
    pub one_off: bool,
    /// What it does.
    pub state: State,
    /// The engine's words for that, such as `Up 2 minutes (healthy)`.
    pub status: String,
    /// The hash that it was made with.
    pub hash: Option<String>,
    /// The hash of the secrets and configs that were put into it.
    pub granted: Option<String>,
    /// The id of the image that it was made from, by its label.
    pub image: Option<String>,
    /// The name of that image.
    pub image_name: String,
    /// Ids of its networks by their names.
    pub networks: BTreeMap<String, String>,
    /// Names of its volumes by the paths where they are mounted.
    pub volumes: BTreeMap<String, String>,
    /// What it publishes, as `127.0.0.1:8080->8080/tcp`.
    pub ports: Vec<String>,
}

/// A network.
#[derive(Clone, Debug, Default)]
pub struct FoundNetwork {
    /// The engine's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The project that made it.
    pub project: Option<String>,
    /// The hash that it was made with.
    pub hash: Option<String>,
}

/// What a container does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It was made and never started.
    #[default]
    Created,
    /// It runs.
    Running,
    /// It is held.
    Paused,
    /// It ended and is about to start again.
    Restarting,
    /// It ended.
    Exited,
    /// It is on its way out, or beyond help.
    Dead,
}

impl State {
    /// Whether it has a process.
    pub fn is_up(self) -> bool {
        matches!(self, Self::Running | Self::Paused | Self::Restarting)
    }
}

/// Looks for everything that a stack wants.
///
/// # Errors
/// When the engine does not answer.
pub async fn look(connection: &Connection, wanted: &Wanted) -> Result<Found, DockerError> {
    let mut names: Vec<&str> = wanted.services.iter().map(|service| service.image.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let (containers, networks, volumes, images) = futures::join!(
        containers_of(connection, &wanted.project),
        try_join_all(wanted.networks.iter().map(|network| network_named(connection, &network.name))),
        join_all(wanted.volumes.iter().map(|volume| connection.docker.inspect_volume(&volume.name))),
        join_all(names.iter().map(|name| connection.docker.inspect_image(name))),
    );
    let mut found =
        Found { containers: containers?, networks: networks?.into_iter().flatten().collect(), ..Found::default() };
    for (volume, answer) in wanted.volumes.iter().zip(volumes) {
        if let Some(there) = present(answer, || format!("look at the volume `{}`", volume.name))? {
            found.volumes.insert(volume.name.clone(), there.labels.get(&format!("{LABEL}config-hash")).cloned());
        }
    }
    for (name, answer) in names.into_iter().zip(images) {
        if let Some(image) = present(answer, || format!("look at the image `{name}`"))? {
            found.images.insert(name.to_owned(), image.id.unwrap_or_default());
        }
    }
    Ok(found)
}

/// `None` for what is not there.
pub(super) fn present<T>(answer: Result<T, Error>, what: impl FnOnce() -> String) -> Result<Option<T>, DockerError> {
    match answer {
        Ok(there) => Ok(Some(there)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(DockerError::call(what())(error)),
    }
}

/// All containers of a project, also those that Docker Compose made.
///
/// # Errors
/// When the engine does not answer.
pub async fn containers_of(connection: &Connection, project: &str) -> Result<Vec<FoundContainer>, DockerError> {
    let filters = HashMap::from([("label", vec![format!("{LABEL}project={project}")])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let all =
        connection.docker.list_containers(Some(options)).await.map_err(DockerError::call("list the containers"))?;
    let mut all: Vec<FoundContainer> = all.into_iter().map(container).collect();
    all.sort_by(|one, other| (&one.service, one.number, &one.name).cmp(&(&other.service, other.number, &other.name)));
    Ok(all)
}

fn container(summary: ContainerSummary) -> FoundContainer {
    let labels = summary.labels.unwrap_or_default();
    let label = |key: &str| labels.get(&format!("{LABEL}{key}")).cloned();
    let name = summary.names.unwrap_or_default().into_iter().next().unwrap_or_default();
    let networks = summary.network_settings.and_then(|settings| settings.networks).unwrap_or_default();
    let mut ports: Vec<String> = summary
        .ports
        .unwrap_or_default()
        .into_iter()
        .filter_map(|port| {
            let protocol = port.typ.map(|typ| typ.to_string()).unwrap_or_default();
            let host = port.ip.unwrap_or_default();
            let host = if host.contains(':') { format!("[{host}]") } else { host };
            Some(format!("{host}:{}->{}/{protocol}", port.public_port?, port.private_port))
        })
        .collect();
    ports.sort();
    FoundContainer {
        id: summary.id.unwrap_or_default(),
        name: name.trim_start_matches('/').to_owned(),
        service: label("service").unwrap_or_default(),
        number: label("container-number").and_then(|number| number.parse().ok()).unwrap_or(1),
        one_off: label("oneoff").is_some_and(|word| word.eq_ignore_ascii_case("true")),
        state: match summary.state {
            Some(ContainerSummaryStateEnum::RUNNING) => State::Running,
            Some(ContainerSummaryStateEnum::PAUSED) => State::Paused,
            Some(ContainerSummaryStateEnum::RESTARTING) => State::Restarting,
            Some(ContainerSummaryStateEnum::EXITED) => State::Exited,
            Some(ContainerSummaryStateEnum::CREATED) => State::Created,
            _ => State::Dead,
        },
        status: summary.status.unwrap_or_default(),
        hash: label("config-hash"),
        granted: labels.get(GRANTED).cloned(),
        image: label("image"),
        image_name: summary.image.unwrap_or_default(),
        networks: networks
            .into_iter()
            .map(|(name, settings)| (name, settings.network_id.unwrap_or_default()))
            .collect(),
        volumes: summary
            .mounts
            .unwrap_or_default()
            .into_iter()
            .filter(|mount| mount.typ.as_deref() == Some("volume"))
            .filter_map(|mount| Some((mount.destination?, mount.name?)))
            .collect(),
        ports,
    }
}

/// The network of exactly that name: the engine's own filter takes parts of names.
async fn network_named(connection: &Connection, name: &str) -> Result<Option<FoundNetwork>, DockerError> {
    let filters = HashMap::from([("name", vec![name])]);
    let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
    let all = connection.docker.list_networks(Some(options)).await.map_err(DockerError::call("list the networks"))?;
    Ok(all.into_iter().find(|network| network.name.as_deref() == Some(name)).map(|network| {
        let labels = network.labels.unwrap_or_default();
        let label = |key: &str| labels.get(&format!("{LABEL}{key}")).cloned();
        FoundNetwork {
            id: network.id.unwrap_or_default(),
            name: name.to_owned(),
            project: label("project"),
            hash: label("config-hash"),
        }
    }))
}
