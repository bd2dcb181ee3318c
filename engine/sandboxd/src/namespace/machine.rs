//! One sandbox as processes of this machine.
//!
//! A [`Machine`] is the first stage of the agent (a child of this process) and process 1 below it. Both follow the host into its end: the
//! socket between host and process 1 closes, whatever the host died of. So nothing has to be mounted or unmounted out here.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ambient_files::remove_tree_if_there;
use camino::Utf8PathBuf;
use nix::sys::signal::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr};
use tokio_util::task::TaskTracker;

use super::control_groups::{ControlGroups, Group};
use super::network::{Lease, Network};
use super::stop;
use crate::agent::{AGENT_WORD, BootSpec, Report};
use crate::driver::{Dial, HOSTNAME, Launch, LaunchFailure, START, Usage};
use crate::folders::Folders;

/// How long the processes of a sandbox may take to be gone once they were killed.
const END: Duration = Duration::from_secs(10);

/// How often a process that was killed is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Starts sandboxes.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) folders: Arc<Folders>,
    pub(crate) groups: ControlGroups,
    pub(crate) network: Network,
    /// The program that knows the agent's word.
    pub(crate) program: PathBuf,
    pub(crate) tasks: TaskTracker,
}

impl Launcher {
    /// Starts one. Its folder is made if it is not there, and what an earlier start wrote in it is kept.
    pub(crate) async fn start(&self, launch: Launch) -> Result<Machine, LaunchFailure> {
        let group = self.groups.make(&launch.id, launch.limits).map_err(LaunchFailure::Groups)?;
        let started = tokio::time::timeout(START, self.start_in(&launch, &group)).await;
        match started.unwrap_or(Err(LaunchFailure::TooLate)) {
            Ok(Running { child, control, lease, member }) => Ok(Machine {
                id: launch.id.clone(),
                dial: Dial::to_own_socket(Arc::clone(&self.folders), launch.id, self.tasks.clone()),
                folders: Arc::clone(&self.folders),
                group,
                member,
                held: Mutex::new(Some(Held { child, control, _lease: lease })),
            }),
            Err(failure) => {
                group.remove().await;
                Err(failure)
            }
        }
    }

    async fn start_in(&self, launch: &Launch, group: &Group) -> Result<Running, LaunchFailure> {
        let folder = self.folders.sandboxes().join(&launch.id);
        prepare(&folder).map_err(LaunchFailure::Folders)?;
        let socket = self.folders.socket(&launch.id);
        let _none_of_an_earlier_start = fs::remove_file(&socket);
        let listener = UnixListener::bind(socket).map_err(LaunchFailure::Start)?;
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(LaunchFailure::Start)?;
        let words = self.words(group);
        #[expect(clippy::disallowed_methods, reason = "sandboxes are started here and nowhere else")]
        let mut command = tokio::process::Command::new(&self.program);
        command.arg0("ambientctl").args(words).env_clear().current_dir("/").kill_on_drop(true).process_group(0);
        command.stdin(OwnedFd::from(listener)).stdout(OwnedFd::from(theirs)).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(LaunchFailure::Start)?;
        // It holds the agent's ends, whose closing is to tell that the agent is gone.
        drop(command);
        let stderr = child.stderr.take();
        let talked = async {
            ours.set_nonblocking(true).map_err(LaunchFailure::Start)?;
            let mut control = UnixStream::from_std(ours).map_err(LaunchFailure::Start)?;
            let (lease, member) = self.talk(launch, &folder, &mut control).await?;
            Ok((control, lease, member))
        };
        match talked.await {
            Ok((control, lease, member)) => {
                if let Some(stderr) = stderr {
                    self.tasks.spawn(log(launch.id.clone(), stderr));
                }
                if let Some(process) = child.id() {
                    note_process(&folder, process).map_err(LaunchFailure::Folders)?;
                }
                Ok(Running { child, control, lease, member })
            }
            Err(LaunchFailure::Silent(source)) => {
                let _ends_it = child.start_kill();
                let mut said = String::new();
                if let Some(mut stderr) = stderr {
                    let _nothing_more_to_say = stderr.read_to_string(&mut said).await;
                }
                let said = said.trim();
                Err(if said.is_empty() { LaunchFailure::Silent(source) } else { LaunchFailure::Ended(said.to_owned()) })
            }
            Err(failure) => Err(failure),
        }
    }

    fn words(&self, group: &Group) -> Vec<OsString> {
        let mut words = vec![OsString::from(AGENT_WORD), OsString::from("enter")];
        if self.network.is_own() {
            words.push(OsString::from("--own-network"));
        }
        for entrance in group.entrances() {
            words.push(OsString::from("--control-group"));
            words.push(entrance.into_os_string());
        }
        words
    }

    /// The agent's start, as told over the socket. Gives a process that is in the sandbox's namespaces, too.
    async fn talk(
        &self,
        launch: &Launch,
        folder: &Utf8PathBuf,
        control: &mut UnixStream,
    ) -> Result<(Option<Lease>, i32), LaunchFailure> {
        let (reader, mut writer) = control.split();
        let mut lines = BufReader::new(reader).lines();
        let Report::Entered { pid } = report(&mut lines).await? else {
            return Err(LaunchFailure::Refused("the agent is of another version".to_owned()));
        };
        let spec = BootSpec {
            folder: self.folders.root().to_owned(),
            lower: launch.layers.iter().map(|layer| format!("l/{layer}")).collect(),
            upper: format!("s/{}/u", launch.id),
            work: format!("s/{}/w", launch.id),
            root: folder.join("r").to_string(),
            hostname: HOSTNAME.to_owned(),
            resolv_conf: self.network.resolv_conf(),
            own_network: self.network.is_own(),
            data_limit_bytes: (!self.groups.limits_memory()).then(|| launch.limits.memory_bytes()),
            agent: launch.agent(),
        };
        let mut line = serde_json::to_vec(&spec).expect("a specification is plain JSON");
        line.push(b'\n');
        writer.write_all(&line).await.map_err(LaunchFailure::Silent)?;
        let connected = async { if launch.internet { Ok(self.network.connect(pid).await?) } else { Ok(None) } };
        let (lease, ready) = tokio::try_join!(connected, report(&mut lines))?;
        match ready {
            Report::Ready { pid: member } => Ok((lease, member)),
            Report::Entered { .. } | Report::Failed { .. } => {
                Err(LaunchFailure::Refused("the agent is of another version".to_owned()))
            }
        }
    }

    /// Ends what an earlier host left running in this data folder, and removes what it left behind.
    pub(crate) async fn clean_up(&self) -> io::Result<()> {
        let folders = match fs::read_dir(self.folders.sandboxes()) {
            Ok(folders) => folders.collect::<io::Result<Vec<_>>>()?,
            Err(error) => return Err(error),
        };
        for folder in folders {
            end_left_over(&folder.path()).await;
        }
        self.groups.clear();
        let folders = Arc::clone(&self.folders);
        tokio::task::spawn_blocking(move || folders.clear()).await.map_err(io::Error::other)?
    }
}

struct Running {
    child: Child,
    control: UnixStream,
    lease: Option<Lease>,
    member: i32,
}

async fn report(
    lines: &mut tokio::io::Lines<BufReader<tokio::net::unix::ReadHalf<'_>>>,
) -> Result<Report, LaunchFailure> {
    let line = lines.next_line().await.map_err(LaunchFailure::Silent)?;
    let line = line.ok_or_else(|| LaunchFailure::Silent(io::ErrorKind::UnexpectedEof.into()))?;
    match serde_json::from_str(&line).map_err(|error| LaunchFailure::Silent(error.into()))? {
        Report::Failed { error } => Err(LaunchFailure::Refused(error)),
        other => Ok(other),
    }
}

fn prepare(folder: &Utf8PathBuf) -> io::Result<()> {
    // The overlay wants its own folder empty, and refuses one of a sandbox that was not synced to the disk.
    remove_tree_if_there(folder.join("w").as_std_path())?;
    for name in ["u", "w", "r"] {
        fs::create_dir_all(folder.join(name))?;
    }
    // It becomes the sandbox's `/`, whatever this process leaves to others by its mask.
    fs::set_permissions(folder.join("u"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

/// The file by which the next host finds a sandbox that this one left frozen.
fn note_process(folder: &Utf8PathBuf, process: u32) -> io::Result<()> {
    let started = stop::started(process.cast_signed()).unwrap_or_default();
    fs::write(folder.join("process"), format!("{process} {started}"))
}

async fn end_left_over(folder: &std::path::Path) {
    let noted = fs::read_to_string(folder.join("process")).unwrap_or_default();
    let Some((process, ticks)) = noted.split_once(' ') else { return };
    let (Ok(process), Ok(ticks)) = (process.parse::<i32>(), ticks.parse::<u64>()) else { return };
    if stop::started(process) == Some(ticks) {
        tracing::info!(process, "ending a sandbox that an earlier host left");
        let _may_have_ended = nix::sys::signal::kill(nix::unistd::Pid::from_raw(process), Signal::SIGKILL);
        let gone = async {
            while stop::started(process) == Some(ticks) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        if tokio::time::timeout(END, gone).await.is_err() {
            tracing::error!(process, "it does not end");
        }
    }
}

/// What an agent says on standard error is a fault of ours, or of the machine.
async fn log(id: String, stderr: ChildStderr) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::warn!(sandbox.id = id, line, "the agent of a sandbox says");
    }
}

/// A running or frozen sandbox. Ended when it is dropped; [`Machine::end`] also waits for that.
#[derive(Debug)]
pub(crate) struct Machine {
    id: String,
    dial: Dial,
    folders: Arc<Folders>,
    group: Group,
    /// Process 1, as this host counts.
    member: i32,
    held: Mutex<Option<Held>>,
}

/// What keeps it alive.
#[derive(Debug)]
struct Held {
    child: Child,
    control: UnixStream,
    _lease: Option<Lease>,
}

impl Machine {
    pub(crate) fn dial(&self) -> &Dial {
        &self.dial
    }

    pub(crate) fn usage(&self) -> Usage {
        self.group.usage()
    }

    /// Stops every process where it is.
    pub(crate) async fn freeze(&self) -> io::Result<()> {
        if !self.group.freeze(true).await? {
            stop::signal_all(self.member, Signal::SIGSTOP);
        }
        Ok(())
    }

    /// Lets them go on.
    pub(crate) async fn thaw(&self) -> io::Result<()> {
        if !self.group.freeze(false).await? {
            stop::signal_all(self.member, Signal::SIGCONT);
        }
        Ok(())
    }

    /// Kills every process and waits until they are gone. The sandbox's files stay.
    pub(crate) async fn end(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Held { mut child, mut control, _lease }) = held else { return };
        // Process 1 dies of its parent's death, and takes all others along.
        let killed = child.start_kill();
        let gone = async {
            let _status = child.wait().await;
            // Process 1 alone has the other end: it is closed when the kernel is done with that process.
            let mut rest = Vec::new();
            let _closed = control.read_to_end(&mut rest).await;
        };
        if tokio::time::timeout(END, gone).await.is_err() {
            tracing::error!(sandbox.id = self.id, ?killed, "the processes of a sandbox do not end");
        }
        self.group.remove().await;
        let _is_gone_with_the_data = fs::remove_file(self.folders.socket(&self.id));
    }
}
