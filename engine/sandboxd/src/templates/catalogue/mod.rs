//! All templates and builds, kept in one file that is rewritten at each change.
//!
//! `contents` is what the file holds; what is done with it stands in a file a resource: looking names up here, builds, lists and tags beside.

mod builds;
mod contents;
mod lists;
mod tags;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ambient_e2b::protocol::template::BuildStatus;
use camino::Utf8PathBuf;
use jiff::Timestamp;

use self::builds::MOST_BUILDS;
use self::contents::Contents;
use super::image::Image;
use super::names::{DEFAULT_TAG, parse};
use crate::clock::now;
use crate::config::Team;

/// The template that is there from the start, for every team.
const BASE_ID: &str = "base0000000000000000";
pub(super) const BASE_ALIAS: &str = "base";

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

    /// An error unless the template is the team's own.
    pub(crate) fn check_own(&self, team: &Team, template: &str) -> Result<(), TemplateFailure> {
        self.contents().own(team, template).map(drop)
    }
}
