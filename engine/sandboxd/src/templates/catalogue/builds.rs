//! Builds, from the wish to the end.

use std::collections::{BTreeMap, BTreeSet};

use ambient_e2b::protocol::template::{BuildProgress, BuildStatus, CreateTemplate, CreatedTemplate};
use ambient_e2b::protocol::{LogEntry, LogLevel};
use tokio_util::sync::CancellationToken;

use super::contents::{Build, Contents, Tag, Template};
use super::{Catalogue, TemplateFailure};
use crate::clock::now;
use crate::config::Team;
use crate::names::random_name;
use crate::templates::image::Image;
use crate::templates::names::{DEFAULT_TAG, parse, parse_tag};

/// What is kept of a build's log.
const LOG_LINES: usize = 20_000;
const LOG_BYTES: usize = 16 << 20;

/// Processors that a template may ask for.
const MOST_CPUS: u32 = 32;
const LEAST_MEMORY_MB: u64 = 128;
/// More than any machine has: what is larger is a mistake.
const MOST_MEMORY_MB: u64 = 16 << 20;

/// Builds of one team that run at once.
pub(super) const MOST_BUILDS: usize = 20;

/// Builds of one team that wait for their start. A client that is cut off before it never starts them, so the oldest make room.
const MOST_WAITING: usize = 100;

/// Ended builds of one team whose logs are kept, and failed ones that are known: the newest.
pub(super) const MOST_LOGS: usize = 20;
pub(super) const MOST_FAILED: usize = 100;

impl Catalogue {
    /// `POST /v3/templates`: a new template, or a new build of one.
    pub(crate) fn create(&self, team: &Team, wish: &CreateTemplate) -> Result<CreatedTemplate, TemplateFailure> {
        let name = parse(&wish.name)?;
        if let Some(named) = name.team().filter(|named| *named != team.name()) {
            return Err(TemplateFailure::ForeignNamespace { named: named.to_owned(), own: team.name().to_owned() });
        }
        let mut tags = Vec::new();
        for tag in name.tag().into_iter().chain(wish.tags.iter().map(String::as_str)) {
            let tag = parse_tag(tag)?;
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        if tags.is_empty() {
            tags.push(DEFAULT_TAG.to_owned());
        }
        let (cpu_count, memory_mb) = sizes(wish)?;
        let mut contents = self.contents();
        contents.check_running(team)?;
        contents.make_room_for_waiting(team);
        let at = now();
        let template_id = match contents.find(team, None, name.alias()) {
            Some(known) => known.id.clone(),
            None => random_name(20),
        };
        let is_new = !contents.templates.contains_key(&template_id);
        let template = contents.templates.entry(template_id.clone()).or_insert_with(|| Template {
            id: template_id.clone(),
            team: team.clone(),
            alias: name.alias().to_owned(),
            tags: BTreeMap::new(),
            created_at: at,
            updated_at: at,
            spawn_count: 0,
            last_spawned_at: None,
        });
        template.updated_at = at;
        let build_id = uuid::Uuid::new_v4().to_string();
        let build = Build {
            id: build_id.clone(),
            template_id: template_id.clone(),
            tags: tags.clone(),
            status: BuildStatus::Waiting,
            cpu_count,
            memory_mb,
            created_at: at,
            updated_at: at,
            finished_at: None,
            image: None,
            reason: None,
            log: Vec::new(),
            log_bytes: 0,
            stop: CancellationToken::new(),
        };
        contents.builds.insert(build_id.clone(), build);
        if let Err(error) = self.save(&contents) {
            contents.builds.remove(&build_id);
            if is_new {
                contents.templates.remove(&template_id);
            }
            return Err(error.into());
        }
        let alias = name.alias().to_owned();
        let names = vec![format!("{}/{alias}", team.name())];
        Ok(CreatedTemplate { template_id, build_id, public: false, names, tags, aliases: vec![alias] })
    }

    /// Takes a build out of its waiting. Gives its processors and memory, and what is cancelled when nobody wants it any more.
    pub(crate) fn start_build(
        &self,
        team: &Team,
        template: &str,
        build_id: &str,
    ) -> Result<((u32, u64), CancellationToken), TemplateFailure> {
        let mut contents = self.contents();
        let template_id = contents.own(team, template)?.id.clone();
        contents.check_running(team)?;
        let build = contents.builds.get_mut(build_id).filter(|build| build.template_id == template_id);
        let build = build.ok_or_else(|| TemplateFailure::NoBuild(build_id.to_owned()))?;
        if build.status != BuildStatus::Waiting {
            return Err(TemplateFailure::NotWaiting);
        }
        build.status = BuildStatus::Building;
        build.updated_at = now();
        Ok(((build.cpu_count, build.memory_mb), build.stop.clone()))
    }

    /// Adds a line to a build's log.
    pub(crate) fn log(&self, build_id: &str, step: &str, level: LogLevel, message: String) {
        if let Some(build) = self.contents().builds.get_mut(build_id)
            && build.log.len() < LOG_LINES
            && build.log_bytes < LOG_BYTES
        {
            let fields = BTreeMap::new();
            build.log_bytes += message.len();
            let is_last = build.log.len() + 1 == LOG_LINES || build.log_bytes >= LOG_BYTES;
            let message =
                if is_last { format!("{message}\nthe log is full: what follows is not kept") } else { message };
            build.log.push(LogEntry { timestamp: now(), message, level, fields, step: Some(step.to_owned()) });
        }
    }

    /// Ends a build, well or with what went wrong in which step. A good one gets its tags.
    pub(crate) fn end_build(&self, build_id: &str, ended: Result<Image, (String, Option<String>)>) {
        let mut contents = self.contents();
        let Some(build) = contents.builds.get_mut(build_id) else { return };
        build.end(ended);
        let template_id = build.template_id.clone();
        if build.status == BuildStatus::Ready {
            let tags = build.tags.clone();
            if let Some(template) = contents.templates.get_mut(&template_id) {
                let at = now();
                let tag = Tag { build_id: build_id.to_owned(), created_at: at };
                for name in tags {
                    template.tags.insert(name, tag.clone());
                }
                template.tags.entry(DEFAULT_TAG.to_owned()).or_insert(tag);
                template.updated_at = at;
            }
        }
        if let Some(team) = contents.templates.get(&template_id).map(|template| template.team.clone()) {
            contents.forget_old(&team);
        }
        if let Err(error) = self.save(&contents) {
            tracing::error!(%error, "the catalogue of templates cannot be written");
        }
    }

    /// Where a build stands, and a page of its log.
    pub(crate) fn progress(
        &self,
        team: &Team,
        build_id: &str,
        offset: usize,
        limit: usize,
    ) -> Result<BuildProgress, TemplateFailure> {
        let contents = self.contents();
        let build = contents.builds.get(build_id).ok_or_else(|| TemplateFailure::NoBuild(build_id.to_owned()))?;
        contents.own(team, &build.template_id)?;
        Ok(BuildProgress {
            logs: Vec::new(),
            log_entries: build.log.iter().skip(offset).take(limit).cloned().collect(),
            template_id: build.template_id.clone(),
            build_id: build.id.clone(),
            status: build.status,
            reason: build.reason.clone(),
        })
    }
}

impl Contents {
    fn builds_of(&self, team: &Team) -> impl Iterator<Item = &Build> {
        let is_own =
            |build: &&Build| self.templates.get(&build.template_id).is_some_and(|template| template.team == *team);
        self.builds.values().filter(is_own)
    }

    fn builds_that_are(&self, team: &Team, status: BuildStatus) -> impl Iterator<Item = &Build> {
        self.builds_of(team).filter(move |build| build.status == status)
    }

    /// Ended builds of a team for which something holds, the oldest first, without those at the end that may stay.
    fn old_builds(&self, team: &Team, most: usize, holds: impl Fn(&Build) -> bool) -> Vec<String> {
        let ended = self.builds_of(team).filter(|build| build.finished_at.is_some() && holds(build));
        let mut ended: Vec<_> = ended.map(|build| (build.finished_at, build.id.clone())).collect();
        ended.sort_unstable();
        ended.truncate(ended.len().saturating_sub(most));
        ended.into_iter().map(|(_finished_at, id)| id).collect()
    }

    /// Nothing that is built and built again grows for ever.
    fn forget_old(&mut self, team: &Team) {
        for id in self.old_builds(team, MOST_FAILED, |build| build.status == BuildStatus::Error) {
            self.builds.remove(&id);
        }
        // A template of which nothing is left would be in no list, and have its name.
        let known: BTreeSet<_> = self.builds.values().map(|build| &build.template_id).collect();
        self.templates.retain(|id, own| own.team != *team || !own.tags.is_empty() || known.contains(id));
        for id in self.old_builds(team, MOST_LOGS, |build| !build.log.is_empty()) {
            if let Some(build) = self.builds.get_mut(&id) {
                (build.log, build.log_bytes) = (Vec::new(), 0);
            }
        }
    }

    /// Refuses one more build when as many as may are running.
    fn check_running(&self, team: &Team) -> Result<(), TemplateFailure> {
        let running = self.builds_that_are(team, BuildStatus::Building).count();
        if running < MOST_BUILDS { Ok(()) } else { Err(TemplateFailure::TooManyBuilds) }
    }

    fn make_room_for_waiting(&mut self, team: &Team) {
        let mut waiting: Vec<_> = self
            .builds_that_are(team, BuildStatus::Waiting)
            .map(|build| (build.created_at, build.id.clone()))
            .collect();
        waiting.sort_unstable();
        let too_many = (waiting.len() + 1).saturating_sub(MOST_WAITING);
        for (_created_at, id) in waiting.into_iter().take(too_many) {
            if let Some(build) = self.builds.get_mut(&id) {
                build.end(Err(("it was not started, and others wait".to_owned(), None)));
            }
        }
        self.forget_old(team);
    }
}

fn sizes(wish: &CreateTemplate) -> Result<(u32, u64), TemplateFailure> {
    let cpu_count = wish.cpu_count.unwrap_or(2);
    let is_even = cpu_count == 1 || cpu_count.is_multiple_of(2);
    if cpu_count == 0 || cpu_count > MOST_CPUS || !is_even {
        let message = format!("CPU count must be 1, or even and at most {MOST_CPUS}; it is {cpu_count}");
        return Err(TemplateFailure::BadSize(message));
    }
    let memory_mb = wish.memory_mb.unwrap_or(1024);
    if !(LEAST_MEMORY_MB..=MOST_MEMORY_MB).contains(&memory_mb) || !memory_mb.is_multiple_of(2) {
        let message =
            format!("Memory must be even and from {LEAST_MEMORY_MB} to {MOST_MEMORY_MB} MiB; it is {memory_mb}");
        return Err(TemplateFailure::BadSize(message));
    }
    Ok((cpu_count, memory_mb))
}
