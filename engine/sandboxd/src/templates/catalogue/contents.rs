//! What the file of the catalogue holds, and what is found in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use ambient_e2b::protocol::template::{BuildReason, BuildStatus, TemplateBuild};
use ambient_e2b::protocol::{LogEntry, TemplateName};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::{BASE_ALIAS, BASE_ID, TemplateFailure};
use crate::ENVD_VERSION;
use crate::clock::now;
use crate::config::Team;
use crate::templates::DISK_MB;
use crate::templates::image::Image;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Template {
    pub(super) id: String,
    pub(super) team: Team,
    pub(super) alias: String,
    pub(super) tags: BTreeMap<String, Tag>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(default)]
    pub(super) spawn_count: u64,
    #[serde(default)]
    pub(super) last_spawned_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Tag {
    pub(super) build_id: String,
    pub(super) created_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Build {
    pub(super) id: String,
    pub(super) template_id: String,
    pub(super) tags: Vec<String>,
    pub(super) status: BuildStatus,
    pub(super) cpu_count: u32,
    pub(super) memory_mb: u64,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) image: Option<Arc<Image>>,
    pub(super) reason: Option<BuildReason>,
    #[serde(skip)]
    pub(super) log: Vec<LogEntry>,
    /// Bytes of all lines of the log.
    #[serde(skip)]
    pub(super) log_bytes: usize,
    /// Cancelled when nobody wants it any more.
    #[serde(skip)]
    pub(super) stop: CancellationToken,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Contents {
    pub(super) templates: BTreeMap<String, Template>,
    pub(super) builds: BTreeMap<String, Build>,
}

impl Contents {
    /// The team's template of this alias or id.
    pub(super) fn find(&self, team: &Team, named: Option<&str>, alias: &str) -> Option<&Template> {
        if named.is_some_and(|named| named != team.name()) {
            return None;
        }
        let by_id = self.templates.get(alias).filter(|template| template.team == *team);
        by_id.or_else(|| self.templates.values().find(|known| known.team == *team && known.alias == alias))
    }

    pub(super) fn own(&self, team: &Team, template: &str) -> Result<&Template, TemplateFailure> {
        match self.find(team, None, template) {
            Some(template) => Ok(template),
            None if self.templates.contains_key(template) || [BASE_ID, BASE_ALIAS].contains(&template) => {
                Err(TemplateFailure::Foreign)
            }
            None => Err(TemplateFailure::Unknown(template.to_owned())),
        }
    }

    pub(super) fn named(&self, team: &Team, text: &str, name: &TemplateName) -> Result<&Template, TemplateFailure> {
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
    pub(super) fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.team.name(), self.alias)]
    }
}

impl Build {
    pub(super) fn end(&mut self, ended: Result<Image, (String, Option<String>)>) {
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

    pub(super) fn told(&self) -> TemplateBuild {
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
