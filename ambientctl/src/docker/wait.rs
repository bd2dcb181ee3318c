//! Waiting until a container is well, or sure not to become it.
//!
//! A container with a health check is well when that says so. One without is well when it has run for a while without a
//! restart: Docker Compose takes a look of one moment for an answer, and a crash loop for health. What is seen is judged by
//! a pure function.

use std::time::Duration;

use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum, HealthStatusEnum, RestartPolicyNameEnum};
use futures::future::try_join_all;
use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use super::error::is_absent;
use super::{Condition, Connection, DockerError, last_lines};
use crate::output::Progress;

/// How often the engine is asked.
const PACE: Duration = Duration::from_millis(100);

/// How long a container without a health check has to run to count as well.
const STEADY: Duration = Duration::from_secs(2);

/// Lines of a log that explain a failure.
const LOG_LINES: usize = 20;

/// How long is waited, at most.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    limit: Duration,
    until: Instant,
}

impl Patience {
    /// From now on.
    pub fn new(limit: Duration) -> Self {
        Self { limit, until: Instant::now() + limit }
    }

    fn is_over(self) -> bool {
        Instant::now() >= self.until
    }
}

/// A moment of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sample {
    status: ContainerStateStatusEnum,
    exit_code: i64,
    started_at: String,
    restarts: i64,
    health: Health,
    /// Whether the engine starts it again when it ends well.
    comes_back: bool,
    error: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Nobody checks.
    Unchecked,
    Starting,
    Healthy,
    Unhealthy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Judgement {
    Well,
    /// What it is for now.
    NotYet(&'static str),
    /// What it will stay.
    Unwell(String),
}

/// Judges what is seen. `first` is the sample at the start of the wait, `steady` how long nothing was different from it.
fn judge(condition: Condition, first: &Sample, now: &Sample, steady: Duration) -> Judgement {
    use ContainerStateStatusEnum as Status;
    let ended = || {
        let because = if now.error.is_empty() { String::new() } else { format!(": {}", now.error) };
        Judgement::Unwell(format!("ended with exit code {}{because}", now.exit_code))
    };
    let has_restarted =
        now.restarts != first.restarts || (now.started_at != first.started_at && first.status == Status::RUNNING);
    match (condition, now.status) {
        (Condition::Completed, Status::EXITED) if now.exit_code == 0 => Judgement::Well,
        (Condition::Completed, Status::EXITED | Status::DEAD) => ended(),
        (Condition::Completed, _) => Judgement::NotYet("running to its end"),
        (Condition::Started, Status::RUNNING) => Judgement::Well,
        (Condition::Healthy, Status::RUNNING) if has_restarted => {
            Judgement::Unwell("restarts again and again".to_owned())
        }
        (Condition::Healthy, Status::RUNNING) => match now.health {
            Health::Healthy => Judgement::Well,
            Health::Unhealthy => Judgement::Unwell("is unhealthy".to_owned()),
            Health::Starting => Judgement::NotYet("starting"),
            Health::Unchecked if steady >= STEADY => Judgement::Well,
            Health::Unchecked => Judgement::NotYet("running, for how long is not known yet"),
        },
        (_, Status::RESTARTING) => Judgement::Unwell(format!("ended with exit code {} and restarts", now.exit_code)),
        (Condition::Started | Condition::Healthy, Status::EXITED) if now.exit_code == 0 && !now.comes_back => {
            Judgement::Well
        }
        (Condition::Started | Condition::Healthy, Status::EXITED | Status::DEAD) => ended(),
        (_, Status::PAUSED) => Judgement::Unwell("is paused".to_owned()),
        (_, Status::CREATED | Status::REMOVING | Status::EMPTY | Status::STOPPING) => {
            Judgement::NotYet("not started yet")
        }
    }
}

fn sample(found: ContainerInspectResponse) -> Sample {
    let state = found.state.unwrap_or_default();
    let started_at = state.started_at.unwrap_or_default();
    let health = state.health.as_ref().map_or(Health::Unchecked, |health| match health.status {
        Some(HealthStatusEnum::HEALTHY) => Health::Healthy,
        Some(HealthStatusEnum::STARTING) => Health::Starting,
        Some(HealthStatusEnum::UNHEALTHY) => {
            // Some engines show what was before a restart until the first check after it.
            let last = health.log.as_ref().and_then(|log| log.last()).and_then(|entry| entry.start.as_deref());
            let is_stale = last.is_some_and(|last| is_before(last, &started_at));
            if is_stale { Health::Starting } else { Health::Unhealthy }
        }
        Some(HealthStatusEnum::NONE | HealthStatusEnum::EMPTY) | None => Health::Unchecked,
    });
    let policy = found.host_config.and_then(|host| host.restart_policy).and_then(|policy| policy.name);
    Sample {
        status: state.status.unwrap_or(ContainerStateStatusEnum::EMPTY),
        exit_code: state.exit_code.unwrap_or(0),
        started_at,
        restarts: found.restart_count.unwrap_or(0),
        health,
        comes_back: matches!(policy, Some(RestartPolicyNameEnum::ALWAYS | RestartPolicyNameEnum::UNLESS_STOPPED)),
        error: state.error.unwrap_or_default(),
    }
}

fn is_before(one: &str, other: &str) -> bool {
    match (one.parse::<Timestamp>(), other.parse::<Timestamp>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => false,
    }
}

/// Waits for several containers at once: service, id, and what is awaited of it.
///
/// # Errors
/// [`DockerError::Unwell`] as soon as one is sure not to get there, [`DockerError::TimedOut`] at the deadline.
pub async fn wait(
    connection: &Connection,
    targets: &[(String, String, Condition)],
    patience: Patience,
    progress: &Progress,
) -> Result<(), DockerError> {
    let waits =
        targets.iter().map(|(service, id, condition)| one(connection, service, id, *condition, patience, progress));
    match try_join_all(waits).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}

async fn one(
    connection: &Connection,
    service: &str,
    id: &str,
    condition: Condition,
    patience: Patience,
    progress: &Progress,
) -> Result<(), DockerError> {
    let mut first: Option<(Sample, Instant)> = None;
    loop {
        let now = match connection.docker.inspect_container(id, None).await {
            Ok(found) => sample(found),
            Err(error) if is_absent(&error) => {
                let problem = "was removed by somebody else".to_owned();
                return Err(DockerError::Unwell { service: service.to_owned(), problem, lines: Vec::new() });
            }
            Err(error) => return Err(DockerError::call(format!("look at the container of `{service}`"))(error)),
        };
        let (begin, since) = first.get_or_insert_with(|| (now.clone(), Instant::now()));
        match judge(condition, begin, &now, since.elapsed()) {
            Judgement::Well => {
                let word = match condition {
                    Condition::Completed => "completed",
                    Condition::Started => "started",
                    Condition::Healthy if now.health == Health::Healthy => "healthy",
                    Condition::Healthy => "running",
                };
                progress.say(service, word);
                return Ok(());
            }
            Judgement::NotYet(what) => {
                progress.say(service, what);
                if patience.is_over() {
                    return Err(DockerError::TimedOut {
                        limit: patience.limit,
                        services: vec![format!("{service}: {what}")],
                        lines: explained(connection, id).await,
                    });
                }
            }
            Judgement::Unwell(problem) => {
                progress.say(service, &problem);
                let lines = explained(connection, id).await;
                return Err(DockerError::Unwell { service: service.to_owned(), problem, lines });
            }
        }
        sleep(PACE).await;
    }
}

/// The last health check's output, then the end of the log.
async fn explained(connection: &Connection, id: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Ok(found) = connection.docker.inspect_container(id, None).await {
        let log = found.state.and_then(|state| state.health).and_then(|health| health.log).unwrap_or_default();
        if let Some(output) = log.last().and_then(|last| last.output.as_deref()) {
            lines.extend(output.lines().map(|line| format!("health check: {line}")));
        }
    }
    lines.extend(last_lines(connection, id, LOG_LINES).await);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(health: Health) -> Sample {
        Sample {
            status: ContainerStateStatusEnum::RUNNING,
            exit_code: 0,
            started_at: "2026-11-30T03:00:00Z".to_owned(),
            restarts: 0,
            health,
            comes_back: true,
            error: String::new(),
        }
    }

    fn exited(exit_code: i64, comes_back: bool) -> Sample {
        Sample { status: ContainerStateStatusEnum::EXITED, exit_code, comes_back, ..running(Health::Unchecked) }
    }

    fn judged(now: &Sample, steady: u64) -> Judgement {
        judge(Condition::Healthy, &running(now.health), now, Duration::from_secs(steady))
    }

    #[test]
    fn a_health_check_decides_where_there_is_one() {
        assert_eq!(judged(&running(Health::Healthy), 0), Judgement::Well);
        assert!(matches!(judged(&running(Health::Starting), 100), Judgement::NotYet(_)));
        assert_eq!(judged(&running(Health::Unhealthy), 0), Judgement::Unwell("is unhealthy".to_owned()));
    }

    #[test]
    fn without_one_only_steady_running_counts() {
        assert!(matches!(judged(&running(Health::Unchecked), 1), Judgement::NotYet(_)));
        assert_eq!(judged(&running(Health::Unchecked), 2), Judgement::Well);
        let again = Sample { restarts: 1, ..running(Health::Unchecked) };
        assert!(matches!(judged(&again, 100), Judgement::Unwell(_)));
        let again = Sample { started_at: "2026-11-30T03:00:01Z".to_owned(), ..running(Health::Unchecked) };
        assert!(matches!(judged(&again, 100), Judgement::Unwell(_)));
        let backoff =
            Sample { status: ContainerStateStatusEnum::RESTARTING, exit_code: 1, ..running(Health::Unchecked) };
        assert!(matches!(judged(&backoff, 0), Judgement::Unwell(_)));
    }

    #[test]
    fn an_end_is_well_only_where_it_was_meant_and_went_well() {
        assert_eq!(judged(&exited(0, false), 0), Judgement::Well);
        assert!(matches!(judged(&exited(0, true), 0), Judgement::Unwell(_)));
        assert!(matches!(judged(&exited(3, false), 0), Judgement::Unwell(_)));
        let completed = |now: &Sample| judge(Condition::Completed, now, now, Duration::ZERO);
        assert_eq!(completed(&exited(0, true)), Judgement::Well);
        assert!(matches!(completed(&exited(4, false)), Judgement::Unwell(_)));
        assert!(matches!(completed(&running(Health::Healthy)), Judgement::NotYet(_)));
    }

    #[test]
    fn what_was_seen_before_a_restart_does_not_count() {
        assert!(is_before("2026-11-30T03:59:59.5+01:00", "2026-11-30T03:00:00Z"));
        assert!(!is_before("2026-11-30T03:00:01Z", "2026-11-30T03:00:00Z"));
        assert!(!is_before("nonsense", "2026-11-30T03:00:00Z"));
    }
}
