//! What a session may become.
//!
//! ```text
//! pending ──boot ok──▶ idle ⇄ running
//!    └──boot failed──▶ terminated ◀── (idle, running: never again anything else)
//! ```
//!
//! Moves are made by the store as compare-and-set, by [`super::change::apply`] alone, so that two replicas cannot both
//! take one run.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ids::RunId;

/// Where a session stands. Invariant: `Terminated` never changes again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionState {
    /// Its sandbox boots.
    Pending {
        /// Since when.
        since: Timestamp,
    },
    /// Waits for input.
    Idle,
    /// A run is under way.
    Running {
        /// Which.
        run: RunId,
        /// The fencing number of that run: a writer with another one is refused.
        fence: u64,
    },
    /// Over for good: its sandbox failed to boot.
    Terminated {
        /// Why.
        error: String,
    },
}

impl SessionState {
    /// The word for it on the wire and in the store.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pending { .. } => "pending",
            Self::Idle => "idle",
            Self::Running { .. } => "running",
            Self::Terminated { .. } => "terminated",
        }
    }

    /// Whether the move is one that the picture above allows.
    pub fn may_become(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Pending { .. } | Self::Running { .. }, Self::Idle)
            | (Self::Pending { .. } | Self::Idle, Self::Running { .. })
            | (Self::Pending { .. } | Self::Idle | Self::Running { .. }, Self::Terminated { .. }) => true,
            (Self::Pending { .. } | Self::Idle | Self::Running { .. } | Self::Terminated { .. }, _) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moves_are_those_of_the_picture() {
        let time = Timestamp::UNIX_EPOCH;
        let states = [
            SessionState::Pending { since: time },
            SessionState::Idle,
            SessionState::Running { run: RunId::generate(), fence: 1 },
            SessionState::Terminated { error: "x".to_owned() },
        ];
        let picture = [
            ("pending", "idle"),
            // A run may begin before its sandbox is up.
            ("pending", "running"),
            ("pending", "terminated"),
            ("idle", "running"),
            ("running", "idle"),
            ("idle", "terminated"),
            ("running", "terminated"),
        ];
        for from in &states {
            for to in &states {
                let drawn = picture.contains(&(from.name(), to.name()));
                assert_eq!(from.may_become(to), drawn, "{} to {}", from.name(), to.name());
            }
        }
        let another_run = SessionState::Running { run: RunId::generate(), fence: 2 };
        assert!(!states[2].may_become(&another_run), "a run ends before the next begins");
    }

    #[test]
    fn a_state_reads_back_from_its_text() {
        for state in [
            SessionState::Pending { since: Timestamp::UNIX_EPOCH },
            SessionState::Idle,
            SessionState::Running { run: RunId::generate(), fence: u64::MAX },
            SessionState::Terminated { error: "x\n\"".to_owned() },
        ] {
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<SessionState>(&text).unwrap(), state);
        }
    }
}
