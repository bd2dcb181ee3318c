//! One sandbox and what may become of it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ambient_e2b::protocol::{
    Lifecycle, ListedSandbox, LogEntry, LogLevel, Network as NetworkRules, OnTimeout, PauseMode, SandboxDetail,
    SandboxInstance, SandboxState, Token,
};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use super::meter::{Meter, Sample};
use super::registry::Variables;
use crate::ENVD_VERSION;
use crate::clock::now;
use crate::config::Team;
use crate::driver::{LaunchFailure, Machine};
use crate::templates::Image;

/// Lines of a sandbox's log that are kept.
const LOG_LINES: usize = 1000;

/// Of old; clients want some text.
const CLIENT_ID: &str = "6532622b";

/// The longest life, counted from a start.
pub(crate) const LONGEST: Duration = Duration::from_hours(24);

/// What its maker chose once and for all.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own in the protocol")]
pub(crate) struct Behaviour {
    pub(crate) pause_at_end: bool,
    pub(crate) pause_with_memory: bool,
    pub(crate) wakes_on_traffic: bool,
    pub(crate) timeout: Duration,
    pub(crate) allow_internet_access: Option<bool>,
    pub(crate) internet: bool,
    pub(crate) network: Option<NetworkRules>,
}

/// A sandbox.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) team: Team,
    pub(crate) template_id: String,
    pub(crate) alias: Option<String>,
    pub(crate) image: Arc<Image>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) token: Option<Token>,
    pub(crate) traffic_token: Option<Token>,
    pub(crate) behaviour: Behaviour,
    pub(super) variables: Variables,
    state: Mutex<State>,
    /// Held by whoever changes what it is: pause, resume and end never meet.
    pub(super) change: tokio::sync::Mutex<()>,
    log: Mutex<VecDeque<LogEntry>>,
    pub(super) meter: Mutex<Meter>,
}

/// Where a sandbox stands. Invariant: `Gone` never changes again.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Its processes run.
    Running(Alive),
    /// Its processes are frozen, or gone while its files stay.
    Paused {
        /// With its processes, or without.
        machine: Option<Arc<Machine>>,
        started_at: Timestamp,
        paused_at: Timestamp,
    },
    /// It is no more.
    Gone,
}

/// A running sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Alive {
    pub(crate) machine: Arc<Machine>,
    /// Cancelled when it stops running: open streams are cut then.
    pub(crate) cut: CancellationToken,
    pub(crate) started_at: Timestamp,
    pub(crate) end_at: Timestamp,
}

/// Why a sandbox did not become what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransitionFailure {
    #[error("it is gone")]
    Gone,
    #[error("it is paused already")]
    Paused,
    #[error("it is running already")]
    Running,
    #[error("its processes cannot be stopped or continued")]
    Signal(#[source] std::io::Error),
    #[error("it did not start again")]
    Launch(#[source] LaunchFailure),
}

/// What a request to the data plane finds.
pub(crate) enum Reached {
    Running(Alive),
    Asleep,
    Nothing,
}

impl Sandbox {
    #[expect(clippy::too_many_arguments, reason = "the facts of a sandbox, each of another kind")]
    pub(super) fn new(
        id: String,
        team: Team,
        template_id: String,
        alias: Option<String>,
        image: Arc<Image>,
        metadata: BTreeMap<String, String>,
        token: Option<Token>,
        traffic_token: Option<Token>,
        behaviour: Behaviour,
        variables: Variables,
        machine: Machine,
    ) -> Self {
        let started_at = now();
        let alive = Alive {
            machine: Arc::new(machine),
            cut: CancellationToken::new(),
            started_at,
            end_at: later(started_at, behaviour.timeout),
        };
        Self {
            id,
            team,
            template_id,
            alias,
            image,
            metadata,
            token,
            traffic_token,
            behaviour,
            variables,
            state: Mutex::new(State::Running(alive)),
            change: tokio::sync::Mutex::new(()),
            log: Mutex::default(),
            meter: Mutex::default(),
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> State {
        self.locked().clone()
    }

    /// What it was before. Nothing becomes of one that is gone.
    pub(super) fn become_(&self, state: State) -> State {
        let mut current = self.locked();
        if matches!(*current, State::Gone) {
            return State::Gone;
        }
        std::mem::replace(&mut *current, state)
    }

    pub(crate) fn reach(&self) -> Reached {
        match self.state() {
            State::Running(alive) if alive.end_at > now() => Reached::Running(alive),
            State::Running(_ending) if self.wakes() => Reached::Asleep,
            State::Paused { machine, .. }
                if self.wakes() && (machine.is_some() || self.behaviour.pause_with_memory) =>
            {
                Reached::Asleep
            }
            State::Running(_) | State::Paused { .. } | State::Gone => Reached::Nothing,
        }
    }

    fn wakes(&self) -> bool {
        self.behaviour.wakes_on_traffic
    }

    /// When it ends, if it runs.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        match &*self.locked() {
            State::Running(alive) => Some(alive.end_at),
            State::Paused { .. } | State::Gone => None,
        }
    }

    /// Moves its end. `false`: it does not run.
    pub(crate) fn end_in(&self, time: Duration, only_later: bool) -> bool {
        match &mut *self.locked() {
            State::Running(alive) => {
                let latest = later(alive.started_at, LONGEST);
                let wanted = later(now(), time).min(latest);
                if !only_later || wanted > alive.end_at {
                    alive.end_at = wanted;
                }
                true
            }
            State::Paused { .. } | State::Gone => false,
        }
    }

    /// Writes a line of its log.
    pub(crate) fn note(&self, level: LogLevel, message: impl Into<String>) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.len() == LOG_LINES {
            log.pop_front();
        }
        let fields = BTreeMap::from([("sandboxID".to_owned(), self.id.clone())]);
        log.push_back(LogEntry { timestamp: now(), message: message.into(), level, fields, step: None });
    }

    pub(crate) fn log(&self) -> Vec<LogEntry> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(crate) fn samples(&self) -> Vec<Sample> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).samples()
    }

    /// What create, connect and resume answer.
    pub(crate) fn instance(&self) -> SandboxInstance {
        SandboxInstance {
            template_id: self.template_id.clone(),
            sandbox_id: self.id.clone(),
            client_id: CLIENT_ID.to_owned(),
            envd_version: ENVD_VERSION.to_owned(),
            alias: self.alias.clone(),
            envd_access_token: self.token.clone(),
            traffic_access_token: self.traffic_token.clone(),
            domain: None,
        }
    }

    /// As lists show it; `None` when it is gone.
    pub(crate) fn listed(&self) -> Option<ListedSandbox> {
        let (state, started_at, end_at) = match self.state() {
            State::Running(alive) => (SandboxState::Running, alive.started_at, alive.end_at),
            State::Paused { started_at, paused_at, .. } => (SandboxState::Paused, started_at, paused_at),
            State::Gone => return None,
        };
        Some(ListedSandbox {
            template_id: self.template_id.clone(),
            sandbox_id: self.id.clone(),
            client_id: CLIENT_ID.to_owned(),
            started_at,
            end_at,
            envd_version: ENVD_VERSION.to_owned(),
            cpu_count: self.image.cpu_count,
            memory_mb: self.image.memory_mb,
            disk_size_mb: crate::templates::DISK_MB,
            state,
            alias: self.alias.clone(),
            metadata: self.metadata.clone(),
            volume_mounts: Vec::new(),
        })
    }

    /// Everything about it; `None` when it is gone.
    pub(crate) fn detail(&self) -> Option<SandboxDetail> {
        let listed = self.listed()?;
        let pause_mode = match self.state() {
            State::Paused { machine: Some(_), .. } => Some(PauseMode::Full),
            State::Paused { machine: None, .. } => Some(PauseMode::Filesystem),
            State::Running(_) | State::Gone => None,
        };
        Some(SandboxDetail {
            template_id: listed.template_id,
            sandbox_id: listed.sandbox_id,
            client_id: listed.client_id,
            started_at: listed.started_at,
            end_at: listed.end_at,
            envd_version: listed.envd_version,
            cpu_count: listed.cpu_count,
            memory_mb: listed.memory_mb,
            disk_size_mb: listed.disk_size_mb,
            state: listed.state,
            alias: listed.alias,
            envd_access_token: self.token.clone(),
            allow_internet_access: self.behaviour.allow_internet_access,
            domain: None,
            metadata: listed.metadata,
            network: self.behaviour.network.clone(),
            lifecycle: Some(Lifecycle {
                auto_resume: self.behaviour.wakes_on_traffic,
                on_timeout: if self.behaviour.pause_at_end { OnTimeout::Pause } else { OnTimeout::Kill },
            }),
            volume_mounts: Vec::new(),
            pause_mode,
            envd_unresponsive_at_pause: None,
        })
    }
}

/// This much later, and never past the calendar's end.
pub(super) fn later(from: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    from.saturating_add(time).unwrap_or(Timestamp::MAX)
}
