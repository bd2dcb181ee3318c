//! One sandbox as a container.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, LogsOptionsBuilder, StatsOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use futures::StreamExt as _;

use super::engine::{Containers, is_missing, is_so_already};
use crate::agent::{AGENT_WORD, AgentSpec, DOOR_SOCKET, DOOR_SPEC};
use crate::namespace::{Dial, Launch, LaunchFailure, START, Usage};

/// Where the program is in a container, and the folder in which host and agent meet.
const PROGRAM: &str = "/.sandboxd/ambientctl";
const DOOR: &str = "/.sandboxd/door";

/// Most processes and threads of one sandbox. What one process may take the agent limits itself.
const PROCESSES: i64 = 4096;

/// Of the rights that Docker gives, those that sandboxes do not need: making devices, and forging packets.
const TAKEN_RIGHTS: [&str; 2] = ["MKNOD", "NET_RAW"];

/// How often a starting agent is knocked at, and after how many knocks it is looked whether its container is still there.
const KNOCK_AGAIN: Duration = Duration::from_millis(5);
const KNOCKS_A_LOOK: u32 = 20;

/// How long a killed container may take to be gone.
const END: Duration = Duration::from_secs(20);

const NANOS: i64 = 1_000_000_000;

/// A running or paused sandbox. Its container stays until [`Containers::remove_files`].
#[derive(Debug)]
pub(crate) struct Machine {
    name: String,
    dial: Dial,
    containers: Arc<Containers>,
}

impl Containers {
    /// Starts a sandbox. A container that an earlier start left is started again with all that it had written.
    pub(crate) async fn start(self: &Arc<Self>, launch: Launch) -> Result<Machine, LaunchFailure> {
        let name = self.container(&launch.id);
        let door = self.folders.sandboxes().join(&launch.id).join("door");
        let spec = AgentSpec {
            variables: launch.variables.clone(),
            default_user: launch.default_user.clone(),
            default_workdir: launch.default_workdir.clone(),
        };
        let prepare = || {
            std::fs::create_dir_all(&door)?;
            std::fs::set_permissions(&door, std::fs::Permissions::from_mode(0o700))?;
            let _none_of_an_earlier_start = std::fs::remove_file(door.join(DOOR_SOCKET));
            std::fs::write(door.join(DOOR_SPEC), serde_json::to_vec(&spec)?)
        };
        prepare().map_err(LaunchFailure::Folders)?;
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        match self.docker.create_container(Some(options), self.body(&launch, door.as_str())).await {
            Err(error) if !is_so_already(&error) => return Err(LaunchFailure::Docker(error)),
            _ => {}
        }
        let dial = Dial::to_door(door.join(DOOR_SOCKET), self.tasks.clone());
        let started = async {
            self.docker.start_container(&name, None).await.map_err(LaunchFailure::Docker)?;
            self.wait_for_agent(&name, &dial).await
        };
        match tokio::time::timeout(START, started).await.unwrap_or(Err(LaunchFailure::TooLate)) {
            Ok(()) => Ok(Machine { name, dial, containers: Arc::clone(self) }),
            Err(failure) => {
                if let Err(error) = self.remove(&name).await {
                    tracing::error!(%error, container = name, "a container that did not start stays until the next start");
                }
                Err(failure)
            }
        }
    }

    fn body(&self, launch: &Launch, door: &str) -> ContainerCreateBody {
        let memory = i64::try_from(launch.limits.memory_bytes()).unwrap_or(i64::MAX);
        let network = if launch.internet { self.network.clone() } else { "none".to_owned() };
        let host_config = HostConfig {
            binds: Some(vec![format!("{}:{PROGRAM}:ro", self.program), format!("{door}:{DOOR}")]),
            memory: Some(memory),
            memory_swap: Some(memory),
            nano_cpus: Some(i64::from(launch.limits.cpu_count.min(self.processors)) * NANOS),
            pids_limit: Some(PROCESSES),
            network_mode: Some(network),
            cap_drop: Some(TAKEN_RIGHTS.map(str::to_owned).to_vec()),
            ..HostConfig::default()
        };
        let top = launch.layers.first().map(String::as_str).unwrap_or_default();
        ContainerCreateBody {
            image: Some(self.image(top)),
            hostname: Some(crate::namespace::HOSTNAME.to_owned()),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            entrypoint: Some(vec![PROGRAM.to_owned()]),
            cmd: Some([AGENT_WORD, "contained", "--door", DOOR].map(str::to_owned).to_vec()),
            labels: Some(self.labels()),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        }
    }

    /// Waits until the agent answers, or its container has ended.
    async fn wait_for_agent(&self, name: &str, dial: &Dial) -> Result<(), LaunchFailure> {
        for knock in 1_u32.. {
            if dial.is_open().await {
                return Ok(());
            }
            if knock.is_multiple_of(KNOCKS_A_LOOK) {
                let seen = self.docker.inspect_container(name, None).await.map_err(LaunchFailure::Docker)?;
                if seen.state.and_then(|state| state.running) == Some(false) {
                    return Err(LaunchFailure::Ended(self.last_words(name).await));
                }
            }
            tokio::time::sleep(KNOCK_AGAIN).await;
        }
        Err(LaunchFailure::TooLate)
    }

    async fn last_words(&self, name: &str) -> String {
        let options = LogsOptionsBuilder::default().stdout(true).stderr(true).tail("5").build();
        let mut lines = self.docker.logs(name, Some(options));
        let mut words = String::new();
        while let Some(Ok(line)) = lines.next().await {
            words.push_str(&line.to_string());
        }
        words.trim().to_owned()
    }
}

impl Machine {
    pub(crate) fn dial(&self) -> &Dial {
        &self.dial
    }

    /// What it takes now; nothing while Docker does not say.
    pub(crate) async fn usage(&self) -> Usage {
        let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
        let told = self.containers.docker.stats(&self.name, Some(options)).next().await;
        let Some(Ok(told)) = told else { return Usage::default() };
        let cpu = told.cpu_stats.and_then(|cpu| cpu.cpu_usage).and_then(|usage| usage.total_usage);
        let memory = told.memory_stats.unwrap_or_default();
        let cache = memory.stats.as_ref().and_then(|stats| stats.get("inactive_file").or_else(|| stats.get("cache")));
        Usage {
            cpu: Duration::from_nanos(cpu.unwrap_or_default()),
            memory_bytes: memory.usage.unwrap_or_default(),
            cache_bytes: cache.copied().unwrap_or_default(),
        }
    }

    pub(crate) async fn freeze(&self) -> std::io::Result<()> {
        self.containers.docker.pause_container(&self.name).await.map_err(std::io::Error::other)
    }

    pub(crate) async fn thaw(&self) -> std::io::Result<()> {
        self.containers.docker.unpause_container(&self.name).await.map_err(std::io::Error::other)
    }

    /// Kills every process and waits until they are gone. The sandbox's files stay.
    pub(crate) async fn end(&self) {
        let docker = &self.containers.docker;
        let ended = async {
            // A frozen one is not killed before it is thawed.
            let _runs_already = docker.unpause_container(&self.name).await;
            let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
            match docker.kill_container(&self.name, Some(options)).await {
                Err(error) if !is_so_already(&error) && !is_missing(&error) => return Err(error),
                _ => {}
            }
            let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
            match docker.wait_container(&self.name, Some(options)).next().await {
                Some(Err(error)) if !is_the_exit_code(&error) && !is_missing(&error) => Err(error),
                _ => Ok(()),
            }
        };
        match tokio::time::timeout(END, ended).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, container = self.name, "a container does not end"),
            Err(_elapsed) => tracing::error!(container = self.name, "a container does not end"),
        }
    }
}

/// What waiting for a container tells of one that did not end with 0.
fn is_the_exit_code(error: &Error) -> bool {
    matches!(error, Error::DockerContainerWaitError { .. })
}
