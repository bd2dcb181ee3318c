//! Networks and volumes of a project, for looking at them and for removing them when that was asked for.

use std::collections::HashMap;

use bollard::query_parameters::{ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions};

use super::error::is_absent;
use super::{Connection, DockerError, LABEL};

fn of_project(project: &str) -> HashMap<String, Vec<String>> {
    HashMap::from([("label".to_owned(), vec![format!("{LABEL}project={project}")])])
}

/// Names of the networks that were made for a project.
///
/// # Errors
/// When the engine does not answer.
pub async fn networks_of(connection: &Connection, project: &str) -> Result<Vec<String>, DockerError> {
    let options = ListNetworksOptionsBuilder::default().filters(&of_project(project)).build();
    let all = connection.docker.list_networks(Some(options)).await.map_err(DockerError::call("list the networks"))?;
    let mut names: Vec<String> = all.into_iter().filter_map(|network| network.name).collect();
    names.sort();
    Ok(names)
}

/// Names of the volumes that were made for a project.
///
/// # Errors
/// When the engine does not answer.
pub async fn volumes_of(connection: &Connection, project: &str) -> Result<Vec<String>, DockerError> {
    let options = ListVolumesOptionsBuilder::default().filters(&of_project(project)).build();
    let all = connection.docker.list_volumes(Some(options)).await.map_err(DockerError::call("list the volumes"))?;
    let mut names: Vec<String> = all.volumes.unwrap_or_default().into_iter().map(|volume| volume.name).collect();
    names.sort();
    Ok(names)
}

/// Whether there is a volume of that name.
///
/// # Errors
/// When the engine does not answer.
pub async fn volume_exists(connection: &Connection, name: &str) -> Result<bool, DockerError> {
    match connection.docker.inspect_volume(name).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(DockerError::call(format!("look at the volume `{name}`"))(error)),
    }
}

/// Removes a network.
///
/// # Errors
/// When somebody still uses it.
pub async fn remove_network(connection: &Connection, name: &str) -> Result<(), DockerError> {
    match connection.docker.remove_network(name).await {
        Err(error) if !is_absent(&error) => Err(DockerError::call(format!("remove the network `{name}`"))(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a volume with its data.
///
/// # Errors
/// When somebody still uses it.
pub async fn remove_volume(connection: &Connection, name: &str) -> Result<(), DockerError> {
    match connection.docker.remove_volume(name, None::<RemoveVolumeOptions>).await {
        Err(error) if !is_absent(&error) => Err(DockerError::call(format!("remove the volume `{name}`"))(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
