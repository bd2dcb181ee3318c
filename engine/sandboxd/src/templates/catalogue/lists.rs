//! What a team is told about its templates, and their end.

use ambient_e2b::protocol::template::{ListedTemplate, TemplateAlias, TemplateDetail};

use super::contents::Build;
use super::{BASE_ALIAS, BASE_ID, Catalogue, TemplateFailure};
use crate::ENVD_VERSION;
use crate::config::Team;
use crate::templates::DISK_MB;
use crate::templates::names::{DEFAULT_TAG, parse};

impl Catalogue {
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
        contents.builds.retain(|_id, build| {
            let is_kept = build.template_id != id;
            if !is_kept {
                build.stop.cancel();
            }
            is_kept
        });
        self.save(&contents)?;
        Ok(())
    }
}
