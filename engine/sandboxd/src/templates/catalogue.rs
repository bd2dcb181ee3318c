//! All templates and builds, kept in one file that is rewritten at each change.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ambient_e2b::protocol::template::{
    AssignedTags, BuildProgress, BuildReason, BuildStatus, CreateTemplate, CreatedTemplate, ListedTemplate,
    TemplateAlias, TemplateBuild, TemplateDetail, TemplateTag,
};
use ambient_e2b::protocol::{LogEntry, LogLevel};
use camino::Utf8PathBuf;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::DISK_MB;
use super::image::Image;
use super::names::{DEFAULT_TAG, parse, parse_tag};
use crate::ENVD_VERSION;
use crate::clock::now;
use crate::config::Team;
use crate::names::random_name;

/// The template that is there from the start, for every team.
const BASE_ID: &str = "base0000000000000000";
pub(super) const BASE_ALIAS: &str = "base";

/// Lines of a build's log that are kept.
const LOG_LINES: usize = 20_000;

/// Processors that a template may ask for.
const MOST_CPUS: u32 = 32;
const LEAST_MEMORY_MB: u64 = 128;

/// Builds of one host that wait or run at once.
const MOST_BUILDS: usize = 20;

/// Why a call about templates fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TemplateFailure {
    #[error("{0}")]
    BadName(String),
    #[error("{0}")]
    BadSize(String),
    #[error("template '{0}' not found")]
    Unknown(String),
    #[error("tag '{tag}' does not exist for template '{template}'")]
    NoTag { tag: String, template: String },
    #[error("You don't have access to this template")]
    Foreign,
    #[error("namespace '{named}' must match your team '{own}'")]
    ForeignNamespace { named: String, own: String },
    #[error("Build '{0}' not found")]
    NoBuild(String),
    #[error("build is not in waiting state")]
    NotWaiting,
    #[error("Cannot delete the 'default' tag")]
    DefaultTag,
    #[error("template '{0}' is used by sandboxes; end them first")]
    InUse(String),
    #[error("you have reached the maximum number of concurrent template builds ({MOST_BUILDS})")]
    TooManyBuilds,
    #[error("the catalogue of templates cannot be written")]
    Io(#[from] io::Error),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Template {
    id: String,
    team: Team,
    alias: String,
    tags: BTreeMap<String, Tag>,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default)]
    spawn_count: u64,
    #[serde(default)]
    last_spawned_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Tag {
    build_id: String,
    created_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Build {
    id: String,
    template_id: String,
    tags: Vec<String>,
    status: BuildStatus,
    cpu_count: u32,
    memory_mb: u64,
    created_at: Timestamp,
    updated_at: Timestamp,
    finished_at: Option<Timestamp>,
    image: Option<Arc<Image>>,
    reason: Option<BuildReason>,
    #[serde(skip)]
    log: Vec<LogEntry>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Contents {
    templates: BTreeMap<String, Template>,
    builds: BTreeMap<String, Build>,
}

/// What a name stands for.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) template_id: String,
    pub(crate) alias: String,
    pub(crate) image: Arc<Image>,
}

/// The catalogue.
#[derive(Debug)]
pub(crate) struct Catalogue {
    file: Utf8PathBuf,
    base: Arc<Image>,
    started_at: Timestamp,
    contents: Mutex<Contents>,
}

impl Catalogue {
    /// Reads the file. Builds that a host left unfinished have failed; of those that no tag names any more nothing can be made, so their roots are
    /// not kept.
    pub(crate) fn open(file: Utf8PathBuf, base: Image) -> io::Result<Self> {
        let mut contents: Contents = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(error),
        };
        let tagged: HashSet<String> = contents
            .templates
            .values()
            .flat_map(|template| template.tags.values())
            .map(|tag| tag.build_id.clone())
            .collect();
        for build in contents.builds.values_mut() {
            if !tagged.contains(&build.id) {
                build.image = None;
            }
            if matches!(build.status, BuildStatus::Waiting | BuildStatus::Building) {
                build.end(Err(("the host stopped while the template was built".to_owned(), None)));
            }
        }
        Ok(Self { file, base: Arc::new(base), started_at: now(), contents: Mutex::new(contents) })
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn save(&self, contents: &Contents) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(&self.file);
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        serde_json::to_writer(&mut file, contents)?;
        file.flush()?;
        file.as_file().sync_all()?;
        file.persist(&self.file).map_err(|error| error.error)?;
        Ok(())
    }

    /// The root that every image of a registry is mapped to, and that `base` is.
    pub(crate) fn base(&self) -> Arc<Image> {
        Arc::clone(&self.base)
    }

    /// Every layer that an image stands on.
    pub(crate) fn layers(&self) -> Vec<String> {
        let contents = self.contents();
        let images = contents.builds.values().filter_map(|build| build.image.as_ref()).chain([&self.base]);
        images.flat_map(|image| image.layers.iter().cloned()).collect()
    }

    /// What a sandbox of this name is made of.
    pub(crate) fn resolve(&self, team: &Team, name: &str) -> Result<Resolved, TemplateFailure> {
        let parsed = parse(name)?;
        let tag = parsed.tag().unwrap_or(DEFAULT_TAG);
        let contents = self.contents();
        let Some(template) = contents.find(team, parsed.team(), parsed.alias()) else {
            let is_base = parsed.alias() == BASE_ALIAS || parsed.alias() == BASE_ID;
            if !is_base || parsed.team().is_some() {
                return Err(TemplateFailure::Unknown(name.to_owned()));
            }
            if tag != DEFAULT_TAG {
                return Err(TemplateFailure::NoTag { tag: tag.to_owned(), template: name.to_owned() });
            }
            let alias = BASE_ALIAS.to_owned();
            return Ok(Resolved { template_id: BASE_ID.to_owned(), alias, image: self.base() });
        };
        let image = template.tags.get(tag).and_then(|tag| contents.builds.get(&tag.build_id)?.image.clone());
        let image = image.ok_or_else(|| TemplateFailure::NoTag { tag: tag.to_owned(), template: name.to_owned() })?;
        Ok(Resolved { template_id: template.id.clone(), alias: template.alias.clone(), image })
    }

    /// The id that lists are filtered by; `None` for a name that stands for nothing.
    pub(crate) fn id_of(&self, team: &Team, name: &str) -> Result<Option<String>, TemplateFailure> {
        match self.resolve(team, name) {
            Ok(resolved) => Ok(Some(resolved.template_id)),
            Err(TemplateFailure::Unknown(_)) => Ok(None),
            Err(TemplateFailure::NoTag { .. }) => {
                let parsed = parse(name)?;
                Ok(self.contents().find(team, parsed.team(), parsed.alias()).map(|template| template.id.clone()))
            }
            Err(other) => Err(other),
        }
    }

    /// A sandbox was made of it.
    pub(crate) fn spawned(&self, template_id: &str) {
        if let Some(template) = self.contents().templates.get_mut(template_id) {
            template.spawn_count += 1;
            template.last_spawned_at = Some(now());
        }
    }

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
        let busy = |build: &&Build| matches!(build.status, BuildStatus::Waiting | BuildStatus::Building);
        if contents.builds.values().filter(busy).count() >= MOST_BUILDS {
            return Err(TemplateFailure::TooManyBuilds);
        }
        let at = now();
        let template_id = match contents.find(team, None, name.alias()) {
            Some(known) => known.id.clone(),
            None => random_name(20),
        };
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
        };
        contents.builds.insert(build_id.clone(), build);
        self.save(&contents)?;
        let alias = name.alias().to_owned();
        let names = vec![format!("{}/{alias}", team.name())];
        Ok(CreatedTemplate { template_id, build_id, public: false, names, tags, aliases: vec![alias] })
    }

    /// An error unless the template is the team's own.
    pub(crate) fn check_own(&self, team: &Team, template: &str) -> Result<(), TemplateFailure> {
        self.contents().own(team, template).map(drop)
    }

    /// Takes a build out of its waiting. Gives its processors and memory.
    pub(crate) fn start_build(
        &self,
        team: &Team,
        template: &str,
        build_id: &str,
    ) -> Result<(u32, u64), TemplateFailure> {
        let mut contents = self.contents();
        let template_id = contents.own(team, template)?.id.clone();
        let build = contents.builds.get_mut(build_id).filter(|build| build.template_id == template_id);
        let build = build.ok_or_else(|| TemplateFailure::NoBuild(build_id.to_owned()))?;
        if build.status != BuildStatus::Waiting {
            return Err(TemplateFailure::NotWaiting);
        }
        build.status = BuildStatus::Building;
        build.updated_at = now();
        Ok((build.cpu_count, build.memory_mb))
    }

    /// Adds a line to a build's log.
    pub(crate) fn log(&self, build_id: &str, step: &str, level: LogLevel, message: String) {
        if let Some(build) = self.contents().builds.get_mut(build_id)
            && build.log.len() < LOG_LINES
        {
            let fields = BTreeMap::new();
            build.log.push(LogEntry { timestamp: now(), message, level, fields, step: Some(step.to_owned()) });
        }
    }

    /// Ends a build, well or with what went wrong in which step. A good one gets its tags.
    pub(crate) fn end_build(&self, build_id: &str, ended: Result<Image, (String, Option<String>)>) {
        let mut contents = self.contents();
        let Some(build) = contents.builds.get_mut(build_id) else { return };
        build.end(ended);
        if build.status == BuildStatus::Ready {
            let (template_id, tags) = (build.template_id.clone(), build.tags.clone());
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

    /// `Template.exists`: who may use a name that is another's is told so.
    pub(crate) fn alias(&self, team: &Team, name: &str) -> Result<TemplateAlias, TemplateFailure> {
        let parsed = parse(name)?;
        let contents = self.contents();
        if let Some(named) = parsed.team().filter(|named| *named != team.name()) {
            return Err(TemplateFailure::ForeignNamespace { named: named.to_owned(), own: team.name().to_owned() });
        }
        let Some(template) = contents.find(team, parsed.team(), parsed.alias()) else {
            let is_others = parsed.alias() == BASE_ALIAS
                || parsed.alias() == BASE_ID
                || contents.templates.contains_key(parsed.alias());
            return Err(if is_others { TemplateFailure::Foreign } else { TemplateFailure::Unknown(name.to_owned()) });
        };
        match parsed.tag() {
            Some(tag) if !template.tags.contains_key(tag) => {
                Err(TemplateFailure::NoTag { tag: tag.to_owned(), template: name.to_owned() })
            }
            _ => Ok(TemplateAlias { template_id: template.id.clone(), public: false }),
        }
    }

    /// The team's templates.
    pub(crate) fn list(&self, team: &Team) -> Vec<ListedTemplate> {
        let contents = self.contents();
        let own = contents.templates.values().filter(|template| template.team == *team);
        own.filter_map(|template| {
            let builds = || contents.builds.values().filter(|build| build.template_id == template.id);
            let latest = builds().max_by_key(|build| build.created_at)?;
            let tagged = template.tags.get(DEFAULT_TAG).and_then(|tag| contents.builds.get(&tag.build_id));
            let current = tagged.unwrap_or(latest);
            Some(ListedTemplate {
                template_id: template.id.clone(),
                build_id: current.id.clone(),
                cpu_count: current.cpu_count,
                memory_mb: current.memory_mb,
                disk_size_mb: DISK_MB,
                public: false,
                aliases: vec![template.alias.clone()],
                names: template.names(),
                created_at: template.created_at,
                updated_at: template.updated_at,
                created_by: None,
                last_spawned_at: template.last_spawned_at,
                spawn_count: template.spawn_count,
                build_count: builds().count() as u64,
                envd_version: ENVD_VERSION.to_owned(),
                build_status: latest.status,
            })
        })
        .collect()
    }

    /// One of the team's templates.
    pub(crate) fn detail(&self, team: &Team, template: &str) -> Result<TemplateDetail, TemplateFailure> {
        let contents = self.contents();
        let template = contents.own(team, template)?;
        let mut builds: Vec<_> =
            contents.builds.values().filter(|build| build.template_id == template.id).map(Build::told).collect();
        builds.sort_by_key(|build| std::cmp::Reverse(build.created_at));
        Ok(TemplateDetail {
            template_id: template.id.clone(),
            public: false,
            aliases: vec![template.alias.clone()],
            names: template.names(),
            created_at: template.created_at,
            updated_at: template.updated_at,
            last_spawned_at: template.last_spawned_at,
            spawn_count: template.spawn_count,
            builds,
        })
    }

    /// Removes a template with its builds, unless sandboxes use it.
    pub(crate) fn remove(
        &self,
        team: &Team,
        template: &str,
        is_used: impl FnOnce(&str) -> bool,
    ) -> Result<(), TemplateFailure> {
        let mut contents = self.contents();
        let id = contents.own(team, template)?.id.clone();
        if is_used(&id) {
            return Err(TemplateFailure::InUse(template.to_owned()));
        }
        contents.templates.remove(&id);
        contents.builds.retain(|_id, build| build.template_id != id);
        self.save(&contents)?;
        Ok(())
    }

    /// Gives tags to the build that a name stands for.
    pub(crate) fn assign_tags(
        &self,
        team: &Team,
        target: &str,
        tags: &[String],
    ) -> Result<AssignedTags, TemplateFailure> {
        let tags = tags.iter().map(|tag| parse_tag(tag)).collect::<Result<Vec<_>, _>>()?;
        let parsed = parse(target)?;
        let tag = parsed.tag().unwrap_or(DEFAULT_TAG);
        let mut contents = self.contents();
        let id = contents.named(team, target, &parsed)?.id.clone();
        let template = contents.templates.get_mut(&id).expect("it was found a moment ago, under the same lock");
        let build_id = template.tags.get(tag).map(|tag| tag.build_id.clone());
        let build_id =
            build_id.ok_or_else(|| TemplateFailure::NoTag { tag: tag.to_owned(), template: target.to_owned() })?;
        for tag in &tags {
            template.tags.insert(tag.clone(), Tag { build_id: build_id.clone(), created_at: now() });
        }
        template.updated_at = now();
        self.save(&contents)?;
        Ok(AssignedTags { tags, build_id })
    }

    /// Takes tags away. Those that are not there are no error.
    pub(crate) fn remove_tags(&self, team: &Team, name: &str, tags: &[String]) -> Result<(), TemplateFailure> {
        let tags = tags.iter().map(|tag| parse_tag(tag)).collect::<Result<Vec<_>, _>>()?;
        let parsed = parse(name)?;
        let mut contents = self.contents();
        let id = contents.named(team, name, &parsed)?.id.clone();
        if tags.iter().any(|tag| tag == DEFAULT_TAG) {
            return Err(TemplateFailure::DefaultTag);
        }
        let template = contents.templates.get_mut(&id).expect("it was found a moment ago, under the same lock");
        template.tags.retain(|name, _tag| !tags.contains(name));
        self.save(&contents)?;
        Ok(())
    }

    /// The tags of a template.
    pub(crate) fn tags(&self, team: &Team, name: &str) -> Result<Vec<TemplateTag>, TemplateFailure> {
        let parsed = parse(name)?;
        let contents = self.contents();
        if contents.find(team, parsed.team(), parsed.alias()).is_none() && parsed.alias() == BASE_ALIAS {
            let tag = DEFAULT_TAG.to_owned();
            return Ok(vec![TemplateTag { tag, build_id: BASE_ID.to_owned(), created_at: self.started_at }]);
        }
        let template = contents.named(team, name, &parsed)?;
        let told = |(name, tag): (&String, &Tag)| TemplateTag {
            tag: name.clone(),
            build_id: tag.build_id.clone(),
            created_at: tag.created_at,
        };
        Ok(template.tags.iter().map(told).collect())
    }
}

impl Contents {
    /// The team's template of this alias or id.
    fn find(&self, team: &Team, named: Option<&str>, alias: &str) -> Option<&Template> {
        if named.is_some_and(|named| named != team.name()) {
            return None;
        }
        let by_id = self.templates.get(alias).filter(|template| template.team == *team);
        by_id.or_else(|| self.templates.values().find(|known| known.team == *team && known.alias == alias))
    }

    fn own(&self, team: &Team, template: &str) -> Result<&Template, TemplateFailure> {
        match self.find(team, None, template) {
            Some(template) => Ok(template),
            None if self.templates.contains_key(template) || [BASE_ID, BASE_ALIAS].contains(&template) => {
                Err(TemplateFailure::Foreign)
            }
            None => Err(TemplateFailure::Unknown(template.to_owned())),
        }
    }

    fn named(
        &self,
        team: &Team,
        text: &str,
        name: &ambient_e2b::protocol::TemplateName,
    ) -> Result<&Template, TemplateFailure> {
        match self.find(team, name.team(), name.alias()) {
            Some(template) => Ok(template),
            None if self.templates.contains_key(name.alias()) || name.alias() == BASE_ALIAS => {
                Err(TemplateFailure::Foreign)
            }
            None => Err(TemplateFailure::Unknown(text.to_owned())),
        }
    }
}

impl Template {
    fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.team.name(), self.alias)]
    }
}

impl Build {
    fn end(&mut self, ended: Result<Image, (String, Option<String>)>) {
        let at = now();
        self.updated_at = at;
        self.finished_at = Some(at);
        match ended {
            Ok(image) => {
                self.status = BuildStatus::Ready;
                self.image = Some(Arc::new(image));
            }
            Err((message, step)) => {
                self.status = BuildStatus::Error;
                self.reason = Some(BuildReason { message, step, log_entries: Vec::new() });
            }
        }
    }

    fn told(&self) -> TemplateBuild {
        TemplateBuild {
            build_id: self.id.clone(),
            status: self.status,
            created_at: self.created_at,
            updated_at: self.updated_at,
            finished_at: self.finished_at,
            cpu_count: self.cpu_count,
            memory_mb: self.memory_mb,
            disk_size_mb: Some(DISK_MB),
            envd_version: Some(ENVD_VERSION.to_owned()),
        }
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
    if memory_mb < LEAST_MEMORY_MB || !memory_mb.is_multiple_of(2) {
        let message = format!("Memory must be even and at least {LEAST_MEMORY_MB} MiB; it is {memory_mb}");
        return Err(TemplateFailure::BadSize(message));
    }
    Ok((cpu_count, memory_mb))
}

#[cfg(test)]
mod tests {
    use ambient_e2b::protocol::template::{BuildStatus, CreateTemplate};
    use camino::Utf8PathBuf;
    use secrecy::SecretString;

    use super::{Catalogue, Image, TemplateFailure};
    use crate::config::{Team, Teams};

    fn teams() -> (Team, Team) {
        let teams = Teams::new(&[SecretString::from("e2b_a"), SecretString::from("e2b_b")]);
        (teams.find("e2b_a").unwrap(), teams.find("e2b_b").unwrap())
    }

    fn open(folder: &tempfile::TempDir) -> Catalogue {
        let file = Utf8PathBuf::from_path_buf(folder.path().join("templates.json")).unwrap();
        Catalogue::open(file, Image::of_layer("base".to_owned())).unwrap()
    }

    fn wish(name: &str) -> CreateTemplate {
        CreateTemplate { name: name.to_owned(), ..CreateTemplate::default() }
    }

    #[test]
    fn a_build_is_found_by_its_tags_and_by_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = teams();
        let catalogue = open(&folder);
        let created = catalogue.create(&ours, &wish("My-App:v1")).unwrap();
        assert_eq!((created.aliases, created.tags), (vec!["my-app".to_owned()], vec!["v1".to_owned()]));
        assert!(matches!(catalogue.resolve(&ours, "my-app"), Err(TemplateFailure::NoTag { .. })));
        assert_eq!(catalogue.start_build(&ours, &created.template_id, &created.build_id).unwrap(), (2, 1024));
        let twice = catalogue.start_build(&ours, &created.template_id, &created.build_id);
        assert!(matches!(twice, Err(TemplateFailure::NotWaiting)));
        catalogue.end_build(&created.build_id, Ok(Image::of_layer("one".to_owned())));
        for name in ["my-app", "my-app:v1", "my-app:default", &created.template_id] {
            assert_eq!(catalogue.resolve(&ours, name).unwrap().image.layers, ["one"], "{name}");
            assert!(matches!(catalogue.resolve(&theirs, name), Err(TemplateFailure::Unknown(_))), "{name}");
        }
        assert!(matches!(catalogue.alias(&theirs, &created.template_id), Err(TemplateFailure::Foreign)));
        assert!(matches!(catalogue.alias(&theirs, "base"), Err(TemplateFailure::Foreign)));
        assert!(matches!(catalogue.alias(&theirs, "my-app"), Err(TemplateFailure::Unknown(_))));

        let again = catalogue.create(&ours, &wish("my-app")).unwrap();
        assert_eq!(again.template_id, created.template_id);
        assert_ne!(again.build_id, created.build_id);
    }

    #[test]
    fn what_was_built_outlives_the_host_and_what_was_not_has_failed() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, _theirs) = teams();
        let catalogue = open(&folder);
        let done = catalogue.create(&ours, &wish("done")).unwrap();
        catalogue.start_build(&ours, &done.template_id, &done.build_id).unwrap();
        catalogue.end_build(&done.build_id, Ok(Image::of_layer("one".to_owned())));
        let cut_off = catalogue.create(&ours, &wish("cut-off")).unwrap();

        let catalogue = open(&folder);
        assert_eq!(catalogue.resolve(&ours, "done").unwrap().image.layers, ["one"]);
        let progress = catalogue.progress(&ours, &cut_off.build_id, 0, 100).unwrap();
        assert_eq!(progress.status, BuildStatus::Error);
        assert!(catalogue.layers().contains(&"one".to_owned()));
    }

    #[test]
    fn a_root_goes_with_its_last_tag_at_the_next_start() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, _theirs) = teams();
        let catalogue = open(&folder);
        for layer in ["old", "new"] {
            let made = catalogue.create(&ours, &wish("app")).unwrap();
            catalogue.start_build(&ours, &made.template_id, &made.build_id).unwrap();
            catalogue.end_build(&made.build_id, Ok(Image::of_layer(layer.to_owned())));
        }
        assert!(catalogue.layers().contains(&"old".to_owned()), "a sandbox may stand on it");
        let catalogue = open(&folder);
        assert_eq!(catalogue.layers(), ["new", "base"]);
        assert_eq!(catalogue.resolve(&ours, "app").unwrap().image.layers, ["new"]);
    }

    #[test]
    fn tags_move_and_the_default_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = teams();
        let catalogue = open(&folder);
        let created = catalogue.create(&ours, &wish("app")).unwrap();
        catalogue.start_build(&ours, &created.template_id, &created.build_id).unwrap();
        catalogue.end_build(&created.build_id, Ok(Image::of_layer("one".to_owned())));
        catalogue.assign_tags(&ours, "app:default", &["stable".to_owned()]).unwrap();
        assert_eq!(catalogue.tags(&ours, "app").unwrap().len(), 2);
        assert!(catalogue.resolve(&ours, "app:stable").is_ok());
        catalogue.remove_tags(&ours, "app", &["stable".to_owned(), "never-there".to_owned()]).unwrap();
        assert!(matches!(catalogue.resolve(&ours, "app:stable"), Err(TemplateFailure::NoTag { .. })));
        let default = catalogue.remove_tags(&ours, "app", &["default".to_owned()]);
        assert!(matches!(default, Err(TemplateFailure::DefaultTag)));
        assert!(catalogue.tags(&theirs, "app").is_err());
        assert!(matches!(catalogue.remove(&ours, "app", |_id| true), Err(TemplateFailure::InUse(_))));
        catalogue.remove(&ours, "app", |_id| false).unwrap();
        assert!(matches!(catalogue.resolve(&ours, "app"), Err(TemplateFailure::Unknown(_))));
    }

    #[test]
    fn odd_sizes_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, _theirs) = teams();
        let catalogue = open(&folder);
        for (cpu_count, memory_mb) in [(0, 1024), (3, 1024), (34, 1024), (2, 127), (2, 1025)] {
            let wish = CreateTemplate { cpu_count: Some(cpu_count), memory_mb: Some(memory_mb), ..wish("app") };
            assert!(
                matches!(catalogue.create(&ours, &wish), Err(TemplateFailure::BadSize(_))),
                "{cpu_count} {memory_mb}"
            );
        }
        let foreign = catalogue.create(&ours, &wish("others/app"));
        assert!(matches!(foreign, Err(TemplateFailure::ForeignNamespace { .. })));
    }
}
