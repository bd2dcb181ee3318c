//! Tags: names of builds within a template.

use ambient_e2b::protocol::template::{AssignedTags, TemplateTag};

use super::contents::Tag;
use super::{BASE_ALIAS, BASE_ID, Catalogue, TemplateFailure};
use crate::clock::now;
use crate::config::Team;
use crate::templates::names::{DEFAULT_TAG, parse, parse_tag};

impl Catalogue {
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
