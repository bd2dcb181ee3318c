//! Templates of a team: what there is, and what may be done with it.

use reqwest::Method;

use crate::api_error::{Subject, is_about_route};
use crate::client::{Client, done, parse};
use crate::error::Error;
use crate::protocol::header;
use crate::protocol::template::{
    AssignTags, AssignedTags, ListedTemplate, RemoveTags, TemplateAlias, TemplateDetail, TemplateTag,
};
use crate::transport::{ApiRequest, segment};

/// Templates of the key's team.
#[derive(Clone, Copy, Debug)]
pub struct Templates<'a> {
    pub(crate) client: &'a Client,
}

impl<'a> Templates<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// What a name stands for, or `None` when it is free. `alias:tag` asks for the tag too.
    ///
    /// # Errors
    /// [`Error::TemplateOfAnotherTeam`] when the name is taken by one that is not this team's.
    pub async fn find(&self, name: &str) -> Result<Option<TemplateAlias>, Error> {
        let request = ApiRequest::new(Method::GET, format!("/templates/aliases/{}", segment(name)));
        let answer = self.client.api(&request).await?;
        match answer.status {
            404 => Ok(None),
            400 if name.contains('/') => match done(&answer, Subject::Template(name)) {
                Err(Error::InvalidArgument { message }) => {
                    Err(Error::TemplateOfAnotherTeam { template: name.to_owned(), message })
                }
                outcome => outcome.map(|()| None),
            },
            _ => parse(&answer, Subject::Template(name), "a template's alias").map(Some),
        }
    }

    /// Whether a name is taken, by this team or another.
    ///
    /// # Errors
    /// When that is not known.
    pub async fn exists(&self, name: &str) -> Result<bool, Error> {
        match self.find(name).await {
            Ok(found) => Ok(found.is_some()),
            Err(Error::TemplateOfAnotherTeam { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// All templates of the team, from every page.
    ///
    /// # Errors
    /// When any page cannot be read.
    pub async fn list(&self) -> Result<Vec<ListedTemplate>, Error> {
        let mut all = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let request = ApiRequest::new(Method::GET, "/v2/templates").query("nextToken", token.as_ref());
            let mut answer = self.client.api(&request).await?;
            if token.is_none() && is_about_route(&answer) {
                answer = self.client.api(&ApiRequest::new(Method::GET, "/templates")).await?;
            }
            all.extend(parse::<Vec<ListedTemplate>>(&answer, Subject::Nothing, "a list of templates")?);
            let next = answer.headers.get(header::NEXT_TOKEN).and_then(|value| value.to_str().ok());
            let next = next.filter(|text| !text.is_empty()).map(str::to_owned);
            if next.is_none() {
                return Ok(all);
            }
            if next == token {
                return Err(Error::Protocol { message: "a page of a list that leads to itself".to_owned() });
            }
            token = next;
        }
    }

    /// A template and its builds.
    ///
    /// # Errors
    /// [`Error::TemplateUnknown`] or [`Error::TemplateOfAnotherTeam`].
    pub async fn get(&self, template_id: &str) -> Result<TemplateDetail, Error> {
        let answer = self.client.api(&ApiRequest::new(Method::GET, path(template_id, ""))).await?;
        parse(&answer, Subject::Template(template_id), "a template")
    }

    /// Deletes a template by id or name. `false` says that there was none.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while sandboxes use it.
    pub async fn delete(&self, name: &str) -> Result<bool, Error> {
        let answer = self.client.api(&ApiRequest::new(Method::DELETE, path(name, ""))).await?;
        if answer.status == 404 {
            return Ok(answer.follows_a_loss);
        }
        done(&answer, Subject::Template(name)).map(|()| true)
    }

    /// Tags of a template, by id or name.
    ///
    /// # Errors
    /// [`Error::TemplateUnknown`] or [`Error::TemplateOfAnotherTeam`].
    pub async fn tags(&self, name: &str) -> Result<Vec<TemplateTag>, Error> {
        let answer = self.client.api(&ApiRequest::new(Method::GET, path(name, "/tags"))).await?;
        parse(&answer, Subject::Template(name), "tags")
    }

    /// Gives more tags to the build that `target` (`name:tag`) stands for.
    ///
    /// # Errors
    /// [`Error::TemplateUnknown`] when it stands for none.
    pub async fn assign_tags(&self, target: &str, tags: &[&str]) -> Result<AssignedTags, Error> {
        let body = AssignTags { target: target.to_owned(), tags: owned(tags) };
        let answer = self.client.api(&ApiRequest::new(Method::POST, "/templates/tags").body(&body)?).await?;
        parse(&answer, Subject::Template(target), "assigned tags")
    }

    /// Takes tags from a template; `default` cannot be taken.
    ///
    /// # Errors
    /// [`Error::TemplateUnknown`] when there is no such template or tag.
    pub async fn remove_tags(&self, name: &str, tags: &[&str]) -> Result<(), Error> {
        let body = RemoveTags { name: name.to_owned(), tags: owned(tags) };
        let answer = self.client.api(&ApiRequest::new(Method::DELETE, "/templates/tags").body(&body)?).await?;
        done(&answer, Subject::Template(name))
    }
}

/// `/templates/<name>` and what follows.
pub(crate) fn path(name: &str, rest: &str) -> String {
    format!("/templates/{}{rest}", segment(name))
}

fn owned(tags: &[&str]) -> Vec<String> {
    tags.iter().map(|&tag| tag.to_owned()).collect()
}
