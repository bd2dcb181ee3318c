//! One sandbox as a container.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, KillContainerOptionsBuilder, LogsOptionsBuilder, StatsOptionsBuilder,
    WaitContainerOptionsBuilder,
};
use camino::Utf8Path;
use futures::StreamExt as _;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use super::engine::{Containers, is_missing, is_so_already};
use crate::agent::{AGENT_WORD, DOOR_SOCKET, DOOR_SPEC, Report, kept_names};
use crate::driver::{Dial, HOSTNAME, Launch, LaunchFailure, PROCESSES, START, Usage};

/// Where the program is in a container, and the folder in which host and agent meet.
pub(super) const PROGRAM: &str = "/.sandboxd/ambientctl";
const DOOR: &str = "/.sandboxd/door";

/// How often a starting agent is knocked at, and after how many knocks it is looked whether its container is still there.
const KNOCK_AGAIN: Duration = Duration::from_millis(5);
const KNOCKS_A_LOOK: u32 = 20;

/// How long a killed container may take to be gone.
const END: Duration = Duration::from_secs(20);

/// Lines of a container's log in which an agent that did not start says why.
const LAST_WORDS: &str = "5";

const NANOS: i64 = 1_000_000_000;

/// A running or paused sandbox. Its container stays until [`Containers::remove_files`].
#[derive(Debug)]
pub(crate) struct Machine {
    name: String,
    dial: Dial,
    containers: Arc<Containers>,
    /// The agent ends when this does.
    _life: UnixStream,
}

impl Containers {
    /// Starts a sandbox. A container that an earlier start left is started again with all that it had written.
    pub(crate) async fn start(self: &Arc<Self>, launch: Launch) -> Result<Machine, LaunchFailure> {
        let name = self.container(&launch.id);
        let door = self.folders.sandboxes().join(&launch.id).join("door");
        prepare(&door, &launch).map_err(LaunchFailure::Folders)?;
        let body = self.body(&launch, &door);
        let image = body.image.clone().unwrap_or_default();
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        match self.docker.create_container(Some(options), body).await {
            Err(error) if is_missing(&error) => return Err(LaunchFailure::ImageGone(image)),
            Err(error) if !is_so_already(&error) => return Err(LaunchFailure::Docker(error)),
            _ => {}
        }
        let dial = Dial::to_door(door.join(DOOR_SOCKET), self.tasks.clone());
        let started = async {
            self.docker.start_container(&name, None).await?;
            self.wait_for_agent(&name, &dial).await
        };
        match tokio::time::timeout(START, started).await.unwrap_or(Err(LaunchFailure::TooLate)) {
            Ok(life) => Ok(Machine { name, dial, containers: Arc::clone(self), _life: life }),
            Err(failure) => {
                // A sandbox that sleeps may still be started once more, with its files: its container stays.
                let _does_not_run = self.kill(&name).await;
                Err(failure)
            }
        }
    }

    /// This program, as the engine mounts it.
    pub(super) fn program_mount(&self) -> String {
        format!("{}:{PROGRAM}:ro", self.program)
    }

    fn body(&self, launch: &Launch, door: &Utf8Path) -> ContainerCreateBody {
        let memory = i64::try_from(launch.limits.memory_bytes()).unwrap_or(i64::MAX);
        let log = [("max-size", "1m"), ("max-file", "1")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let host_config = HostConfig {
            binds: Some(vec![self.program_mount(), format!("{door}:{DOOR}")]),
            memory: Some(memory),
            // Both together: no swap beyond it.
            memory_swap: Some(memory),
            // It is memory of the sandbox, and counted as that.
            shm_size: Some(memory),
            nano_cpus: Some(i64::from(launch.limits.cpu_count).clamp(1, self.processors) * NANOS),
            pids_limit: Some(i64::from(PROCESSES)),
            network_mode: Some(self.network.of(launch.internet).to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            cap_add: Some(kept_names()),
            // Whatever the engine's usual log is, this one can be read back.
            log_config: Some(HostConfigLogConfig { typ: Some("json-file".to_owned()), config: Some(log.into()) }),
            ..HostConfig::default()
        };
        let top = launch.layers.first().map(String::as_str).unwrap_or_default();
        ContainerCreateBody {
            image: Some(self.image(top)),
            hostname: Some(HOSTNAME.to_owned()),
            user: Some("0:0".to_owned()),
            working_dir: Some("/".to_owned()),
            entrypoint: Some(vec![PROGRAM.to_owned()]),
            cmd: Some([AGENT_WORD, "contained", "--door", DOOR].map(str::to_owned).to_vec()),
            labels: Some(self.labels()),
            host_config: Some(host_config),
            ..ContainerCreateBody::default()
        }
    }

    /// Waits until the agent is ready, or its container has ended. Gives the connection that keeps it alive.
    async fn wait_for_agent(&self, name: &str, dial: &Dial) -> Result<UnixStream, LaunchFailure> {
        let mut knocks = 0_u32;
        let mut life = loop {
            if let Ok(connection) = dial.connect().await {
                break connection;
            }
            knocks += 1;
            if knocks.is_multiple_of(KNOCKS_A_LOOK) {
                let seen = self.docker.inspect_container(name, None).await?;
                if seen.state.and_then(|state| state.running) == Some(false) {
                    return Err(LaunchFailure::Ended(self.last_words(name).await));
                }
            }
            tokio::time::sleep(KNOCK_AGAIN).await;
        };
        match life.read_u8().await {
            Ok(_ready) => Ok(life),
            Err(_ended) => Err(LaunchFailure::Ended(self.last_words(name).await)),
        }
    }

    /// What an agent that did not start says about that.
    async fn last_words(&self, name: &str) -> String {
        let options = LogsOptionsBuilder::default().stdout(true).stderr(true).tail(LAST_WORDS).build();
        let mut lines = self.docker.logs(name, Some(options));
        let mut words = String::new();
        while let Some(Ok(line)) = lines.next().await {
            words.push_str(&line.to_string());
        }
        reason(&words)
    }

    /// Kills every process of a container and waits until they are gone.
    async fn kill(&self, name: &str) -> Result<(), Error> {
        // A frozen one is not killed before it is thawed.
        let _runs_already = self.docker.unpause_container(name).await;
        let options = KillContainerOptionsBuilder::default().signal("SIGKILL").build();
        match self.docker.kill_container(name, Some(options)).await {
            Err(error) if !is_so_already(&error) && !is_missing(&error) => return Err(error),
            _ => {}
        }
        let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
        match self.docker.wait_container(name, Some(options)).next().await {
            Some(Err(error)) if !is_the_exit_code(&error) && !is_missing(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Makes the folder where host and agent meet, and leaves in it what the agent serves with.
fn prepare(door: &Utf8Path, launch: &Launch) -> std::io::Result<()> {
    std::fs::create_dir_all(door)?;
    std::fs::set_permissions(door, std::fs::Permissions::from_mode(0o700))?;
    // Of an earlier start, in which root of the sandbox may have put anything there.
    let _may_be_there = std::fs::remove_file(door.join(DOOR_SOCKET));
    let _may_be_there = std::fs::remove_file(door.join(DOOR_SPEC));
    let spec = std::fs::File::create_new(door.join(DOOR_SPEC))?;
    Ok(serde_json::to_writer(spec, &launch.agent())?)
}

/// The agent's own report of its failure, else all that was said.
fn reason(words: &str) -> String {
    let report = words.lines().find_map(|line| match serde_json::from_str(line) {
        Ok(Report::Failed { error }) => Some(error),
        _ => None,
    });
    report.unwrap_or_else(|| words.trim().to_owned())
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
        // By their names in the unified hierarchy of control groups, and in the old one.
        let cache = memory.stats.as_ref().and_then(|stats| stats.get("file").or_else(|| stats.get("cache")));
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
        match tokio::time::timeout(END, self.containers.kill(&self.name)).await {
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

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_agent_says_why_it_did_not_start() {
        assert_eq!(reason("noise\n{\"failed\":{\"error\":\"cannot do it\"}}\n"), "cannot do it");
        assert_eq!(reason("exec format error\n"), "exec format error");
        assert_eq!(reason(""), "");
    }
}
