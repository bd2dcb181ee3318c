//! The list of sandboxes, page by page.

use std::collections::BTreeMap;

use jiff::Timestamp;
use reqwest::Method;

use crate::api_error::{Subject, is_about_route};
use crate::client::{Client, parse};
use crate::error::Error;
use crate::protocol::{ListOrder, ListedSandbox, SandboxState, encode_metadata, header};
use crate::transport::ApiRequest;

/// Which sandboxes are listed; by default all of the team.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Only those that have all of these pairs.
    pub metadata: BTreeMap<String, String>,
    /// Only those in one of these states; none means both.
    pub states: Vec<SandboxState>,
    /// Only those of this template: id or alias without a tag.
    pub template: Option<String>,
    /// Only those that started then or later.
    pub started_after: Option<Timestamp>,
    /// How they are sorted.
    pub order: ListOrder,
    /// How many a page holds, 1 to 100; the service's default is 100.
    pub page_size: Option<u32>,
}

/// A list that is read page by page.
#[derive(Debug)]
pub struct SandboxPages<'a> {
    client: &'a Client,
    filter: &'a ListFilter,
    next: Next,
}

#[derive(Debug)]
enum Next {
    First,
    After(String),
    Nothing,
}

impl Client {
    /// All sandboxes that pass the filter, from every page. A page that cannot be read fails the whole: a list with holes would take sandboxes for gone.
    ///
    /// # Errors
    /// When any page cannot be read.
    pub async fn list(&self, filter: &ListFilter) -> Result<Vec<ListedSandbox>, Error> {
        let mut pages = self.pages(filter);
        let mut all = Vec::new();
        while let Some(page) = pages.next_page().await? {
            all.extend(page);
        }
        Ok(all)
    }

    /// The same page by page.
    pub fn pages<'a>(&'a self, filter: &'a ListFilter) -> SandboxPages<'a> {
        SandboxPages { client: self, filter, next: Next::First }
    }
}

impl SandboxPages<'_> {
    /// The next page, or `None` after the last.
    ///
    /// # Errors
    /// When it cannot be read; it may be asked for again.
    pub async fn next_page(&mut self) -> Result<Option<Vec<ListedSandbox>>, Error> {
        let token = match &self.next {
            Next::First => None,
            Next::After(token) => Some(token.clone()),
            Next::Nothing => return Ok(None),
        };
        let mut answer = self.client.api(&self.request("/v2/sandboxes", token.as_ref())).await?;
        if token.is_none() && is_about_route(&answer) {
            // Servers of old list what runs, on one page.
            let filter = self.filter;
            let of_old = ApiRequest::new(Method::GET, "/sandboxes").query("metadata", metadata(filter));
            answer = self.client.api(&of_old).await?;
        }
        let page: Vec<ListedSandbox> = parse(&answer, Subject::Nothing, "a list of sandboxes")?;
        let following = answer.headers.get(header::NEXT_TOKEN).and_then(|value| value.to_str().ok());
        self.next = match following.filter(|text| !text.is_empty()) {
            Some(following) if token.as_deref() == Some(following) => {
                return Err(Error::Protocol { message: "a page of a list that leads to itself".to_owned() });
            }
            Some(following) => Next::After(following.to_owned()),
            None => Next::Nothing,
        };
        Ok(Some(page))
    }

    fn request(&self, path: &str, token: Option<&String>) -> ApiRequest {
        let filter = self.filter;
        let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
        let order = (filter.order != ListOrder::default()).then_some(filter.order.as_str());
        ApiRequest::new(Method::GET, path)
            .query("metadata", metadata(filter))
            .query("state", (!states.is_empty()).then(|| states.join(",")))
            .query("limit", filter.page_size)
            .query("order", order)
            .query("startedAfter", filter.started_after)
            .query("template", filter.template.as_ref())
            .query("nextToken", token)
    }
}

fn metadata(filter: &ListFilter) -> Option<String> {
    (!filter.metadata.is_empty()).then(|| encode_metadata(&filter.metadata))
}
