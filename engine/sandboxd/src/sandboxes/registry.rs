//! All sandboxes of this host, and every change of one.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ambient_e2b::protocol::{LogLevel, Token};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::sandbox::{Alive, Behaviour, Sandbox, State, TransitionFailure, later};
use super::start_command;
use crate::clock::now;
use crate::config::Team;
use crate::driver::{Launch, LaunchFailure, Launcher, Machine};
use crate::names;
use crate::templates::Image;

/// How long a new sandbox waits for its start command to be ready before it is handed out all the same.
const READY: Duration = Duration::from_secs(20);

/// How often it asks.
const READY_EVERY: Duration = Duration::from_millis(100);

/// The sandboxes. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    launcher: Arc<Launcher>,
    most: usize,
    known: Mutex<HashMap<String, Arc<Sandbox>>>,
    /// Those that are being made.
    starting: AtomicUsize,
    /// Rings when an end has moved.
    moved: Notify,
}

/// What a client wants.
pub(crate) struct Wish {
    pub(crate) team: Team,
    pub(crate) template_id: String,
    pub(crate) alias: Option<String>,
    pub(crate) image: Arc<Image>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) variables: BTreeMap<String, Token>,
    /// Whether its data plane asks for a token.
    pub(crate) is_secure: bool,
    /// Whether its ports ask for one.
    pub(crate) has_private_ports: bool,
    pub(crate) behaviour: Behaviour,
}

/// Variables of a sandbox. They may hold keys, so they do not show in `Debug`.
#[derive(Clone, Default)]
pub(crate) struct Variables(pub(crate) BTreeMap<String, String>);

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why no sandbox was made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateFailure {
    #[error("you have reached the maximum number of concurrent sandboxes ({0})")]
    TooMany(usize),
    #[error("the sandbox did not start")]
    Launch(#[source] LaunchFailure),
}

/// A place among the sandboxes that may exist at once.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Registry {
    pub(crate) fn new(launcher: Arc<Launcher>, most: usize) -> Self {
        let inner =
            Inner { launcher, most, known: Mutex::default(), starting: AtomicUsize::new(0), moved: Notify::new() };
        Self { inner: Arc::new(inner) }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Sandbox>>> {
        self.inner.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn launcher(&self) -> &Launcher {
        &self.inner.launcher
    }

    /// The sandbox with this id.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Sandbox>> {
        self.known().get(id).cloned()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<Sandbox>> {
        self.known().values().cloned().collect()
    }

    /// Whether a sandbox stands on one of these layers.
    pub(crate) fn uses_template(&self, template_id: &str) -> bool {
        self.known().values().any(|sandbox| sandbox.template_id == template_id)
    }

    /// Waits until an end has moved. One call waits at a time.
    pub(super) async fn moved(&self) {
        self.inner.moved.notified().await;
    }

    fn place(&self) -> Result<Place<'_>, CreateFailure> {
        let starting = self.inner.starting.fetch_add(1, Ordering::AcqRel);
        let place = Place(&self.inner.starting);
        if self.known().len() + starting >= self.inner.most {
            return Err(CreateFailure::TooMany(self.inner.most));
        }
        Ok(place)
    }

    /// Makes a sandbox and starts it.
    pub(crate) async fn create(&self, wish: Wish) -> Result<Arc<Sandbox>, CreateFailure> {
        let _place = self.place()?;
        let id = names::sandbox_id();
        let mut variables: BTreeMap<_, _> =
            wish.variables.into_iter().map(|(name, value)| (name, value.expose().to_owned())).collect();
        variables.extend(
            [("E2B_SANDBOX", "true"), ("E2B_SANDBOX_ID", &id), ("E2B_TEMPLATE_ID", &wish.template_id)]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let variables = Variables(variables);
        let machine = self.launch(&id, &wish.image, &variables, wish.behaviour.internet).await;
        let machine = match machine {
            Ok(machine) => machine,
            Err(failure) => {
                self.launcher().remove_files(&id);
                return Err(CreateFailure::Launch(failure));
            }
        };
        start_template(&machine, &wish.image, &id).await;
        let token = || Token::new(names::token());
        let sandbox = Arc::new(Sandbox::new(
            id,
            wish.team,
            wish.template_id,
            wish.alias,
            wish.image,
            wish.metadata,
            wish.is_secure.then(token),
            wish.has_private_ports.then(token),
            wish.behaviour,
            variables,
            machine,
        ));
        sandbox.note(LogLevel::Info, "sandbox started");
        self.known().insert(sandbox.id.clone(), Arc::clone(&sandbox));
        self.inner.moved.notify_one();
        Ok(sandbox)
    }

    async fn launch(
        &self,
        id: &str,
        image: &Image,
        variables: &Variables,
        internet: bool,
    ) -> Result<Machine, LaunchFailure> {
        let launch = Launch {
            id: id.to_owned(),
            layers: image.layers.clone(),
            limits: image.limits(),
            variables: variables.0.clone(),
            default_user: image.user.clone(),
            default_workdir: image.workdir.clone(),
            internet,
        };
        self.launcher().start(launch).await
    }

    /// Ends a sandbox and removes what it was. `false`: it was gone already.
    ///
    /// In this order: requests find nothing, open streams break, processes die. So nobody takes the death of a process for its exit.
    pub(crate) async fn kill(&self, sandbox: &Sandbox) -> bool {
        self.end(sandbox, |_state| true).await
    }

    /// Ends it unless its end has moved away meanwhile.
    pub(super) async fn kill_if_due(&self, sandbox: &Sandbox) -> bool {
        self.end(sandbox, is_due).await
    }

    async fn end(&self, sandbox: &Sandbox, if_so: fn(&State) -> bool) -> bool {
        let _change = sandbox.change.lock().await;
        if !if_so(&sandbox.state()) {
            return false;
        }
        let before = sandbox.become_(State::Gone);
        self.known().remove(&sandbox.id);
        let machine = match before {
            State::Gone => return false,
            State::Running(Alive { machine, cut, .. }) => {
                cut.cancel();
                Some(machine)
            }
            State::Paused { machine, .. } => machine,
        };
        if let Some(machine) = machine {
            machine.end().await;
        }
        self.launcher().remove_files(&sandbox.id);
        tracing::info!(sandbox.id, "sandbox ended");
        true
    }

    /// Freezes a sandbox, or ends its processes and keeps its files.
    pub(crate) async fn pause(&self, sandbox: &Sandbox, with_memory: bool) -> Result<(), TransitionFailure> {
        self.stop(sandbox, with_memory, |_state| true).await.map(drop)
    }

    /// Pauses it unless its end has moved away meanwhile.
    pub(super) async fn pause_if_due(&self, sandbox: &Sandbox, with_memory: bool) -> Result<bool, TransitionFailure> {
        self.stop(sandbox, with_memory, is_due).await
    }

    async fn stop(
        &self,
        sandbox: &Sandbox,
        with_memory: bool,
        if_so: fn(&State) -> bool,
    ) -> Result<bool, TransitionFailure> {
        let _change = sandbox.change.lock().await;
        let state = sandbox.state();
        if !if_so(&state) {
            return Ok(false);
        }
        let alive = match state {
            State::Running(alive) => alive,
            State::Paused { .. } => return Err(TransitionFailure::Paused),
            State::Gone => return Err(TransitionFailure::Gone),
        };
        if with_memory && let Err(failure) = alive.machine.freeze().await {
            // Some of it may stand still by now, and it is still said to run.
            if let Err(error) = alive.machine.thaw().await {
                tracing::error!(sandbox.id, %error, "a sandbox that was not paused does not go on");
            }
            return Err(TransitionFailure::Signal(failure));
        }
        let machine = with_memory.then(|| Arc::clone(&alive.machine));
        sandbox.become_(State::Paused { machine, started_at: alive.started_at, paused_at: now() });
        alive.cut.cancel();
        if !with_memory {
            alive.machine.end().await;
        }
        sandbox.note(LogLevel::Info, "sandbox paused");
        Ok(true)
    }

    /// Lets a paused sandbox go on, or boots it from its files. Its life is counted anew.
    pub(crate) async fn resume(
        &self,
        sandbox: &Sandbox,
        time: Duration,
        with_memory: bool,
    ) -> Result<(), TransitionFailure> {
        let _change = sandbox.change.lock().await;
        let (frozen, started_at, paused_at) = match sandbox.state() {
            State::Running(_) => return Err(TransitionFailure::Running),
            State::Gone => return Err(TransitionFailure::Gone),
            State::Paused { machine, started_at, paused_at } => (machine, started_at, paused_at),
        };
        let machine = match frozen {
            Some(machine) if with_memory => {
                machine.thaw().await.map_err(TransitionFailure::Signal)?;
                machine
            }
            frozen => {
                if let Some(machine) = frozen {
                    // Should no other come in its place, there is none to be thawed any more.
                    sandbox.become_(State::Paused { machine: None, started_at, paused_at });
                    machine.end().await;
                }
                let started = self.launch(&sandbox.id, &sandbox.image, &sandbox.variables, sandbox.behaviour.internet);
                let machine = started.await.map_err(TransitionFailure::Launch)?;
                start_template(&machine, &sandbox.image, &sandbox.id).await;
                Arc::new(machine)
            }
        };
        let started_at = now();
        sandbox.become_(State::Running(Alive {
            machine,
            cut: CancellationToken::new(),
            started_at,
            end_at: later(started_at, time),
        }));
        sandbox.note(LogLevel::Info, "sandbox resumed");
        self.inner.moved.notify_one();
        Ok(())
    }

    /// Moves a running sandbox's end. `false`: it does not run.
    pub(crate) fn end_in(&self, sandbox: &Sandbox, time: Duration, only_later: bool) -> bool {
        let moved = sandbox.end_in(time, only_later);
        self.inner.moved.notify_one();
        moved
    }

    /// Ends all of them.
    pub(crate) async fn kill_all(&self) {
        let all = self.all();
        futures::future::join_all(all.iter().map(|sandbox| self.kill(sandbox))).await;
    }
}

fn is_due(state: &State) -> bool {
    matches!(state, State::Running(alive) if alive.end_at <= now())
}

/// A start command that fails is the template's affair: the sandbox is there all the same, as on the service.
async fn start_template(machine: &Machine, image: &Image, id: &str) {
    match start_command::start(machine.dial(), image, READY_EVERY, READY, false).await {
        Ok(true) => {}
        Ok(false) => tracing::warn!(sandbox.id = id, "the template's ready command did not succeed within {READY:?}"),
        Err(error) => {
            tracing::warn!(sandbox.id = id, error = crate::with_causes(&error), "the template's start command failed");
        }
    }
}
