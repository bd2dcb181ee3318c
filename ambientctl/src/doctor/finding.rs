//! What a check has seen.

use std::sync::{Mutex, PoisonError};

use super::fix::Fix;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It is as it should be.
    Ok,
    /// It was not looked at, and that is right so.
    Skipped,
    /// It works, but perhaps not as meant or not for long.
    Warning,
    /// It does not work.
    Failure,
}

impl Level {
    /// The word for programs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// What mends it: one thing to paste, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What to do with it, such as `run` or "put this line into `.env`".
    pub how: String,
    /// What to paste.
    pub paste: String,
}

impl Remedy {
    /// A command for a shell.
    pub fn run(command: impl Into<String>) -> Self {
        Self { how: "run".to_owned(), paste: command.into() }
    }

    /// Something to paste elsewhere.
    pub fn paste(how: impl Into<String>, paste: impl Into<String>) -> Self {
        Self { how: how.into(), paste: paste.into() }
    }
}

/// One thing that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check, and behind a dot what it found, such as `bucket.put`. Part of the contract with scripts.
    pub id: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What was seen.
    pub seen: String,
    /// Why it matters; empty where all is well.
    pub why: String,
    /// What mends it. Every failure has one.
    pub remedy: Option<Remedy>,
    /// What `--fix` does about it.
    pub fix: Option<Fix>,
}

impl Finding {
    fn new(id: &'static str, level: Level, seen: impl Into<String>, why: impl Into<String>) -> Self {
        Self { id, level, seen: seen.into(), why: why.into(), remedy: None, fix: None }
    }

    /// All is well.
    pub fn ok(id: &'static str, seen: impl Into<String>) -> Self {
        Self::new(id, Level::Ok, seen, "")
    }

    /// There is nothing to look at, and why.
    pub fn skipped(id: &'static str, why_not: impl Into<String>) -> Self {
        Self::new(id, Level::Skipped, why_not, "")
    }

    /// Something that works, but perhaps not as meant.
    pub fn warning(id: &'static str, seen: impl Into<String>, why: impl Into<String>, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..Self::new(id, Level::Warning, seen, why) }
    }

    /// Something that does not work.
    pub fn failure(id: &'static str, seen: impl Into<String>, why: impl Into<String>, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..Self::new(id, Level::Failure, seen, why) }
    }

    /// The same with what `--fix` does about it.
    #[must_use]
    pub fn fixable(self, fix: Fix) -> Self {
        Self { fix: Some(fix), ..self }
    }

    /// The check that saw it.
    pub fn check(&self) -> &'static str {
        self.id.split('.').next().unwrap_or(self.id)
    }

    /// The same with each text put through `change`.
    pub(super) fn map(self, change: impl Fn(&str) -> String) -> Self {
        let remedy = self.remedy.map(|remedy| Remedy { how: change(&remedy.how), paste: change(&remedy.paste) });
        Self { seen: change(&self.seen), why: change(&self.why), remedy, ..self }
    }
}

/// Where a check puts what it sees, so that it is not lost when the check is cut off.
#[derive(Debug, Default)]
pub struct Sink {
    inner: Mutex<Collected>,
}

#[derive(Debug, Default)]
struct Collected {
    findings: Vec<Finding>,
    step: String,
}

impl Sink {
    /// Takes a finding.
    pub fn put(&self, finding: Finding) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).findings.push(finding);
    }

    /// Says what is waited for from here on: a check that is cut off tells it.
    pub fn step(&self, what: impl Into<String>) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).step = what.into();
    }

    /// The findings so far, and what is waited for.
    pub(super) fn take(&self) -> (Vec<Finding>, String) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut inner.findings), std::mem::take(&mut inner.step))
    }
}
