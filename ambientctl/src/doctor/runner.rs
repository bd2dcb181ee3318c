//! Runs the checks side by side, each with a time limit of its own, and scrubs what they say.

use futures::future::{LocalBoxFuture, join_all};
use tokio::time::timeout;

use super::checks::CHECKS;
use super::context::Context;
use super::finding::{Finding, Remedy, Sink};
use super::report::Report;

/// How much longer a check may take that boots a sandbox or asks models.
const DEEP_FACTOR: u32 = 24;

/// One side of the target.
#[derive(Clone, Copy)]
pub(super) struct Check {
    /// Its name on the command line, and the beginning of the ids of its findings.
    pub(super) id: &'static str,
    /// The id of the finding that it was cut off.
    pub(super) cut_off: &'static str,
    /// Whether `--deep` makes it wait for work that takes long.
    pub(super) is_long_when_deep: bool,
    /// Looks.
    pub(super) run: for<'a> fn(&'a Context, &'a Sink) -> LocalBoxFuture<'a, ()>,
}

/// The names of all checks, in the order in which they are shown.
pub fn ids() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.id)
}

/// Runs these checks, or all when none is named.
pub async fn run(context: &Context, only: &[String]) -> Report {
    let is_chosen = |check: &&Check| only.is_empty() || only.iter().any(|id| names(id, check.id));
    let findings = join_all(CHECKS.iter().filter(is_chosen).map(|check| run_one(context, check))).await;
    let scrub = |text: &str| context.target.redactor.scrub(text);
    Report {
        subject: scrub(&context.target.subject()),
        findings: findings.into_iter().flatten().map(|finding| finding.map(scrub)).collect(),
    }
}

/// Whether a word of `--only` names a check: its own name, or that of one of its findings.
pub(super) fn names(word: &str, check: &str) -> bool {
    word == check || word.strip_prefix(check).is_some_and(|rest| rest.starts_with('.'))
}

async fn run_one(context: &Context, check: &Check) -> Vec<Finding> {
    let sink = Sink::default();
    let is_long = check.is_long_when_deep && context.wishes.deep;
    let limit = if is_long { context.wishes.limit * DEEP_FACTOR } else { context.wishes.limit };
    let ended = timeout(limit, (check.run)(context, &sink)).await;
    let (mut findings, step) = sink.take();
    if ended.is_err() {
        let waited_for = if step.is_empty() { "an answer".to_owned() } else { step };
        findings.push(Finding::failure(
            check.cut_off,
            format!("no answer within {} s: {waited_for}", limit.as_secs_f64()),
            "what does not answer cannot be used either; the other checks did not wait for it",
            Remedy::run(format!(
                "ambientctl doctor --only {} --timeout {}",
                check.id,
                (context.wishes.limit * 6).as_secs().max(1)
            )),
        ));
    }
    findings
}
