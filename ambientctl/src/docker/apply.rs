//! Doing what a plan says, so that it can be taken back.
//!
//! A container that is replaced is stopped and set aside under another name, and goes only when the whole stack is well;
//! until then [`Journal::take_back`] brings it back as it was. Nothing that runs is stopped before what it waits for is
//! there. A run that is cut off anywhere leaves containers that the next plan recognises: it removes or takes up each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bollard::models::NetworkConnectRequest;
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RenameContainerOptionsBuilder,
    StopContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};
use futures::future::join_all;

use super::body::{Predecessor, Surroundings, body, seconds};
use super::error::is_absent;
use super::grants;
use super::{
    Condition, Connection, Dependency, DockerError, Found, FoundContainer, Patience, Wanted, WantedService, ports, wait,
};
use crate::output::Progress;
use crate::plan::{Plan, Step, Verdict};

/// Digits of an id that make a name its own.
const SHORT_ID: usize = 12;

/// What was done. It is written down as it happens, so that it can be taken back also when the run was dropped on its way.
#[derive(Debug, Default)]
pub struct Journal {
    done: Mutex<Vec<Done>>,
}

/// One thing that was done.
#[derive(Clone, Debug)]
enum Done {
    /// A container was made.
    Made { id: String },
    /// A container that stood still was started.
    Started { id: String },
    /// A container was stopped. `place` is that of its service in the order of the dependencies.
    Stopped { id: String, service: String, place: usize },
    /// A container was renamed.
    Renamed { id: String, from: String },
    /// A container was set aside for another one.
    Aside { id: String },
}

/// The tools of one run.
struct Run<'a> {
    connection: &'a Connection,
    wanted: &'a Wanted,
    found: &'a Found,
    patience: Patience,
    progress: &'a Progress,
    journal: &'a Journal,
    /// Ids of the containers by their services, as far as they are there.
    containers: Mutex<BTreeMap<String, String>>,
    /// The engine gives out ports one start at a time.
    start: tokio::sync::Mutex<()>,
    /// Ids of the containers that were stopped. Held while one stops, so that nobody goes on before it has.
    stopped: tokio::sync::Mutex<BTreeSet<String>>,
}

/// Does what the plan says and waits until every service that it touches is well.
///
/// # Errors
/// What went wrong; the journal has what was done before.
pub async fn apply(
    connection: &Connection,
    (wanted, found, plan): (&Wanted, &Found, &Plan),
    patience: Patience,
    progress: &Progress,
    journal: &Journal,
) -> Result<(), DockerError> {
    let run = Run {
        connection,
        wanted,
        found,
        patience,
        progress,
        journal,
        containers: Mutex::default(),
        start: tokio::sync::Mutex::default(),
        stopped: tokio::sync::Mutex::default(),
    };
    run.all(plan).await
}

impl Run<'_> {
    async fn all(&self, plan: &Plan) -> Result<(), DockerError> {
        if plan.steps.iter().any(|step| step.verdict != Verdict::Keep) {
            ports::check_ports(self.connection, self.wanted, self.found).await?;
        }
        self.networks_and_volumes(plan).await?;
        for step in &plan.steps {
            for left in &step.surplus {
                self.progress.say(&left.name, "removing what was left");
                remove(self.connection, &left.id).await?;
            }
        }
        for level in levels(self.wanted) {
            let steps = level.iter().filter_map(|name| plan.steps.iter().find(|step| step.service == *name));
            // All are seen to their end before the first failure counts, so that what was done is known.
            let results = join_all(steps.map(|step| self.step(step, plan))).await;
            results.into_iter().collect::<Result<Vec<()>, DockerError>>()?;
        }
        let targets: Vec<(String, String, Condition)> = {
            let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner);
            let touched = plan.steps.iter().filter(|step| step.verdict != Verdict::Keep);
            touched
                .filter_map(|step| {
                    let id = containers.get(&step.service)?.clone();
                    Some((step.service.clone(), id, self.awaited(&step.service)))
                })
                .collect()
        };
        wait(self.connection, &targets, self.patience, self.progress).await
    }

    /// What a service has to become: its end, where another one waits for that.
    fn awaited(&self, service: &str) -> Condition {
        let all = self.wanted.services.iter().flat_map(|other| &other.depends_on);
        let mut conditions = all.filter(|other| other.service == service).map(|other| other.condition);
        if conditions.any(|condition| condition == Condition::Completed) {
            Condition::Completed
        } else {
            Condition::Healthy
        }
    }

    async fn networks_and_volumes(&self, plan: &Plan) -> Result<(), DockerError> {
        let docker = &self.connection.docker;
        for network in self.wanted.networks.iter().filter(|network| plan.networks.contains(&network.key)) {
            self.progress.say(&format!("network {}", network.name), "creating");
            docker
                .create_network(network.request.clone())
                .await
                .map_err(DockerError::call(format!("create the network `{}`", network.name)))?;
            self.progress.say(&format!("network {}", network.name), "created");
        }
        for volume in self.wanted.volumes.iter().filter(|volume| plan.volumes.contains(&volume.key)) {
            docker
                .create_volume(volume.request.clone())
                .await
                .map_err(DockerError::call(format!("create the volume `{}`", volume.name)))?;
            self.progress.say(&format!("volume {}", volume.name), "created");
        }
        Ok(())
    }

    fn did(&self, done: Done) {
        self.journal.done.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }

    fn has(&self, service: &str, id: &str) {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner).insert(service.to_owned(), id.to_owned());
    }

    async fn step(&self, step: &Step, plan: &Plan) -> Result<(), DockerError> {
        let service = self.wanted.service(&step.service).expect("a plan has the services that are wanted");
        match (&step.verdict, &step.container) {
            (Verdict::Keep, Some(container)) => {
                self.has(&service.name, &container.id);
                self.in_its_place(service, container).await
            }
            (Verdict::Start, Some(container)) => {
                self.has(&service.name, &container.id);
                self.in_its_place(service, container).await?;
                self.dependencies(service).await?;
                self.start(service, &container.id).await?;
                self.did(Done::Started { id: container.id.clone() });
                Ok(())
            }
            (Verdict::Restart(_), Some(container)) => {
                self.has(&service.name, &container.id);
                self.in_its_place(service, container).await?;
                self.stop_once(service, container).await?;
                self.dependencies(service).await?;
                self.start(service, &container.id).await?;
                self.did(Done::Started { id: container.id.clone() });
                Ok(())
            }
            (Verdict::Recreate(_), Some(old)) => self.replace(service, old, plan).await,
            (Verdict::Create | Verdict::Keep | Verdict::Start | Verdict::Restart(_) | Verdict::Recreate(_), _) => {
                let id = self.create(service, &service.container, &Predecessor::default()).await?;
                self.dependencies(service).await?;
                self.start(service, &id).await
            }
        }
    }

    /// A container that a cut-off run left under another name gets its own.
    async fn in_its_place(&self, service: &WantedService, container: &FoundContainer) -> Result<(), DockerError> {
        if container.name == service.container || container.name.is_empty() {
            return Ok(());
        }
        self.rename(&container.id, &container.name, &service.container).await
    }

    async fn replace(&self, service: &WantedService, old: &FoundContainer, plan: &Plan) -> Result<(), DockerError> {
        let short = &old.id[..SHORT_ID.min(old.id.len())];
        let own: Vec<&str> = service.volumes().collect();
        let predecessor = Predecessor {
            volumes: old
                .volumes
                .iter()
                .filter(|(_, name)| !own.contains(&name.as_str()) && !self.is_named(name))
                .map(|(path, name)| (path.clone(), name.clone()))
                .collect(),
            replaces: Some(format!("{}-1", service.name)),
        };
        let new = self.create(service, &format!("{short}_{}", service.container), &predecessor).await?;
        self.dependencies(service).await?;
        self.stop_those_that_start_with(service, plan).await?;
        self.stop_once(service, old).await?;
        self.rename(&old.id, &old.name, &format!("{short}_{}_before", service.container)).await?;
        self.did(Done::Aside { id: old.id.clone() });
        self.rename(&new, &format!("{short}_{}", service.container), &service.container).await?;
        self.start(service, &new).await
    }

    /// Stops what has to be started again when this service's container is made anew.
    async fn stop_those_that_start_with(&self, service: &WantedService, plan: &Plan) -> Result<(), DockerError> {
        for other in self.wanted.services.iter().rev() {
            let does = |dependency: &Dependency| dependency.restarts && dependency.service == service.name;
            let step = plan.steps.iter().find(|step| step.service == other.name);
            if let Some(container) = step.and_then(|step| step.container.as_ref())
                && other.depends_on.iter().any(does)
            {
                self.stop_once(other, container).await?;
            }
        }
        Ok(())
    }

    /// Stops a container that runs, unless that was done already.
    async fn stop_once(&self, service: &WantedService, container: &FoundContainer) -> Result<(), DockerError> {
        let mut stopped = self.stopped.lock().await;
        if !container.state.is_up() || !stopped.insert(container.id.clone()) {
            return Ok(());
        }
        self.progress.say(&service.name, "stopping the old container");
        let place = self.wanted.services.iter().position(|other| other.name == service.name).unwrap_or_default();
        self.did(Done::Stopped { id: container.id.clone(), service: service.name.clone(), place });
        stop(self.connection, &container.id, &service.name, service.grace).await
    }

    /// Whether a volume is one that the files name, though not for this service any more.
    fn is_named(&self, name: &str) -> bool {
        self.wanted.volumes.iter().any(|volume| volume.name == name)
            || self.found.volumes.contains_key(name)
            || name.starts_with(&format!("{}_", self.wanted.project))
    }

    async fn create(
        &self,
        service: &WantedService,
        name: &str,
        predecessor: &Predecessor,
    ) -> Result<String, DockerError> {
        self.progress.say(&service.name, "creating");
        let made = {
            let containers = self.containers.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let around = Surroundings {
                image_id: self.found.images.get(&service.image).map_or("", String::as_str),
                containers: &containers,
                predecessor,
                all_networks_at_once: self.connection.creates_with_all_networks(),
            };
            body(self.wanted, service, around)?
        };
        let archive = grants::archive(&service.granted).map_err(|path| DockerError::Value {
            service: service.name.clone(),
            key: "secrets".to_owned(),
            problem: format!("has a target that is too long: `{path}`"),
        })?;
        let mut options = CreateContainerOptionsBuilder::default().name(name);
        if let Some(platform) = service.platform() {
            options = options.platform(platform);
        }
        let options = options.build();
        let created = self
            .connection
            .docker
            .create_container(Some(options), made.body)
            .await
            .map_err(DockerError::call(format!("create the container `{name}`")))?;
        self.did(Done::Made { id: created.id.clone() });
        self.has(&service.name, &created.id);
        if let Some(archive) = archive {
            let options = UploadToContainerOptionsBuilder::default().path("/").build();
            self.connection
                .docker
                .upload_to_container(&created.id, Some(options), bollard::body_full(archive.into()))
                .await
                .map_err(DockerError::call(format!("put the secrets and configs into `{name}`")))?;
        }
        for (network, endpoint) in made.later {
            let request = NetworkConnectRequest { container: created.id.clone(), endpoint_config: Some(endpoint) };
            self.connection
                .docker
                .connect_network(&network, request)
                .await
                .map_err(DockerError::call(format!("connect `{name}` to the network `{network}`")))?;
        }
        Ok(created.id)
    }

    async fn rename(&self, id: &str, from: &str, to: &str) -> Result<(), DockerError> {
        rename(self.connection, id, to).await?;
        self.did(Done::Renamed { id: id.to_owned(), from: from.to_owned() });
        Ok(())
    }

    /// Waits for what a service depends on.
    async fn dependencies(&self, service: &WantedService) -> Result<(), DockerError> {
        for other in &service.depends_on {
            let id = self.containers.lock().unwrap_or_else(PoisonError::into_inner).get(&other.service).cloned();
            let Some(id) = id else { continue };
            // Not said of the dependency: it says so itself in the end.
            let target = [(other.service.clone(), id, other.condition)];
            match wait(self.connection, &target, self.patience, self.progress).await {
                Ok(()) => {}
                Err(_unwell) if !other.is_required => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn start(&self, service: &WantedService, id: &str) -> Result<(), DockerError> {
        let _one_at_a_time = self.start.lock().await;
        self.progress.say(&service.name, "starting");
        let is_paused = self.found.containers.iter().any(|found| found.id == id && found.state == super::State::Paused);
        let result = if is_paused {
            self.connection.docker.unpause_container(id).await
        } else {
            self.connection.docker.start_container(id, None).await
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => {
                let text = error.to_string();
                match ports::explained(self.connection, self.wanted, service, &text).await {
                    Some(port) => Err(port),
                    None => Err(DockerError::call(format!("start the container of `{}`", service.name))(error)),
                }
            }
        }
    }
}

/// Services by how many others stand before them: those of one level do not wait for each other.
fn levels(wanted: &Wanted) -> Vec<Vec<&str>> {
    let mut depth: BTreeMap<&str, usize> = BTreeMap::new();
    let mut levels: Vec<Vec<&str>> = Vec::new();
    for service in &wanted.services {
        let own = service
            .depends_on
            .iter()
            .filter_map(|other| depth.get(other.service.as_str()))
            .max()
            .map_or(0, |deepest| deepest + 1);
        depth.insert(&service.name, own);
        if levels.len() <= own {
            levels.resize_with(own + 1, Vec::new);
        }
        levels[own].push(&service.name);
    }
    levels
}

impl Journal {
    fn taken(&self) -> Vec<Done> {
        std::mem::take(&mut *self.done.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes what was set aside: the way back is closed.
    ///
    /// # Errors
    /// When the engine does not remove it; the stack is well all the same.
    pub async fn settle(&self, connection: &Connection) -> Result<(), DockerError> {
        for done in self.taken() {
            if let Done::Aside { id } = done {
                remove(connection, &id).await?;
            }
        }
        Ok(())
    }

    /// Undoes everything: what was made is removed, what was renamed gets its name back, what was stopped runs again.
    ///
    /// # Errors
    /// The first thing that could not be undone; all others were tried.
    pub async fn take_back(&self, connection: &Connection, progress: &Progress) -> Result<(), DockerError> {
        let all = self.taken();
        let mut first_failure = None;
        let mut tried = |result: Result<(), DockerError>| {
            if let Err(error) = result {
                first_failure.get_or_insert(error);
            }
        };
        // First what was made, since it has the names and the ports.
        let mut made = Vec::new();
        for done in all.iter().rev() {
            match done {
                Done::Made { id } => {
                    tried(remove(connection, id).await);
                    made.push(id.as_str());
                }
                Done::Started { id } => {
                    let stopped = connection.docker.stop_container(id, None).await;
                    tried(stopped.map_err(DockerError::call(format!("stop the container `{id}`"))));
                }
                Done::Stopped { .. } | Done::Renamed { .. } | Done::Aside { .. } => {}
            }
        }
        for done in all.iter().rev() {
            if let Done::Renamed { id, from } = done
                && !made.contains(&id.as_str())
            {
                tried(rename(connection, id, from).await);
            }
        }
        // Dependencies first.
        let mut stopped: Vec<(usize, &str, &str)> = Vec::new();
        for done in &all {
            if let Done::Stopped { id, service, place } = done {
                stopped.push((*place, id, service));
            }
        }
        stopped.sort_unstable();
        for (_, id, service) in stopped {
            progress.say(service, "starting the old container");
            let started = connection.docker.start_container(id, None).await;
            if started.is_ok() {
                progress.say(service, "the old container runs again");
            }
            tried(started.map_err(DockerError::call(format!("start the old container of `{service}`"))));
        }
        first_failure.map_or(Ok(()), Err)
    }
}

async fn rename(connection: &Connection, id: &str, to: &str) -> Result<(), DockerError> {
    let options = RenameContainerOptionsBuilder::default().name(to).build();
    let renamed = connection.docker.rename_container(id, options).await;
    renamed.map_err(DockerError::call(format!("rename a container to `{to}`")))
}

/// Removes a container. Volumes stay, also those without a name.
///
/// # Errors
/// When the engine does not do it.
pub async fn remove(connection: &Connection, id: &str) -> Result<(), DockerError> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(false).build();
    match connection.docker.remove_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(DockerError::call(format!("remove the container `{id}`"))(error)),
    }
}

/// Asks a container to stop, and gives it the time that it was promised.
///
/// # Errors
/// When the engine does not do it.
pub async fn stop(connection: &Connection, id: &str, service: &str, grace: Duration) -> Result<(), DockerError> {
    let grace = i32::try_from(seconds(grace)).unwrap_or(i32::MAX);
    let options = StopContainerOptionsBuilder::default().t(grace).build();
    match connection.docker.stop_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(DockerError::call(format!("stop the container of `{service}`"))(error)),
    }
}
