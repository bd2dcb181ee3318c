//! Lists of sandboxes: filtered, sorted, in pages.

use std::collections::BTreeMap;

use ambient_e2b::protocol::{ListOrder, ListedSandbox, SandboxState};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;

/// What a list is asked for.
#[derive(Debug, Default)]
pub(crate) struct Query {
    pub(crate) metadata: BTreeMap<String, String>,
    /// Both when empty.
    pub(crate) states: Vec<SandboxState>,
    pub(crate) template_id: Option<String>,
    pub(crate) started_after: Option<Timestamp>,
    pub(crate) order: ListOrder,
    pub(crate) limit: usize,
    pub(crate) next_token: Option<String>,
}

/// One page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) sandboxes: Vec<ListedSandbox>,
    /// Absent on the last page.
    pub(crate) next_token: Option<String>,
    /// Of all pages, when running ones were asked for.
    pub(crate) total_running: Option<usize>,
}

/// A token that no page gave.
#[derive(Debug, thiserror::Error)]
#[error("Invalid next token")]
pub(crate) struct PageFailure;

impl Query {
    /// The page of these.
    pub(crate) fn page(&self, all: impl Iterator<Item = ListedSandbox>) -> Result<Page, PageFailure> {
        let after = self.next_token.as_deref().map(|token| position(token, self.order)).transpose()?;
        let mut found: Vec<_> = all.filter(|sandbox| self.matches(sandbox)).collect();
        let place = |sandbox: &ListedSandbox| (sandbox.started_at, sandbox.sandbox_id.clone());
        found.sort_by_cached_key(place);
        if self.order == ListOrder::Descending {
            found.reverse();
        }
        let asks_running = self.states.is_empty() || self.states.contains(&SandboxState::Running);
        let running = found.iter().filter(|sandbox| sandbox.state == SandboxState::Running).count();
        if let Some(after) = after {
            found.retain(|sandbox| match self.order {
                ListOrder::Ascending => place(sandbox) > after,
                ListOrder::Descending => place(sandbox) < after,
            });
        }
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let next_token = found.last().filter(|_last| has_more).map(|last| token(last, self.order));
        Ok(Page { sandboxes: found, next_token, total_running: asks_running.then_some(running) })
    }

    fn matches(&self, sandbox: &ListedSandbox) -> bool {
        self.metadata.iter().all(|(key, value)| sandbox.metadata.get(key) == Some(value))
            && (self.states.is_empty() || self.states.contains(&sandbox.state))
            && self.template_id.as_ref().is_none_or(|id| sandbox.template_id == *id)
            && self.started_after.is_none_or(|time| sandbox.started_at >= time)
    }
}

const ASCENDING_MARK: &str = "asc";

/// The place of the last entry of a page: its time and id. What comes or goes between two pages moves no other entry.
fn token(last: &ListedSandbox, order: ListOrder) -> String {
    let mut text = format!("{}__{}", last.started_at, last.sandbox_id);
    if order == ListOrder::Ascending {
        text = format!("{text}__{ASCENDING_MARK}");
    }
    URL_SAFE_NO_PAD.encode(text)
}

fn position(token: &str, order: ListOrder) -> Result<(Timestamp, String), PageFailure> {
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_no_base64| PageFailure)?;
    let text = String::from_utf8(bytes).map_err(|_no_text| PageFailure)?;
    let mut parts = text.split("__");
    let (Some(time), Some(id)) = (parts.next(), parts.next()) else { return Err(PageFailure) };
    let marked = match parts.next() {
        None => ListOrder::Descending,
        Some(ASCENDING_MARK) => ListOrder::Ascending,
        Some(_unknown) => return Err(PageFailure),
    };
    if marked != order || parts.next().is_some() {
        return Err(PageFailure);
    }
    let time = time.parse().map_err(|_no_time| PageFailure)?;
    Ok((time, id.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ambient_e2b::protocol::{ListOrder, ListedSandbox, SandboxState};

    use super::Query;

    fn sandbox(second: i64, id: &str, state: SandboxState) -> ListedSandbox {
        ListedSandbox {
            template_id: "t".to_owned(),
            sandbox_id: id.to_owned(),
            client_id: String::new(),
            started_at: jiff::Timestamp::from_second(second).unwrap(),
            end_at: jiff::Timestamp::from_second(second + 300).unwrap(),
            envd_version: String::new(),
            cpu_count: 1,
            memory_mb: 128,
            disk_size_mb: 1,
            state,
            alias: None,
            metadata: BTreeMap::from([("n".to_owned(), id.to_owned())]),
            volume_mounts: Vec::new(),
        }
    }

    fn some() -> Vec<ListedSandbox> {
        vec![
            sandbox(1, "a", SandboxState::Running),
            sandbox(3, "c", SandboxState::Paused),
            sandbox(2, "b", SandboxState::Running),
            sandbox(3, "d", SandboxState::Running),
        ]
    }

    fn walk(order: ListOrder, states: &[SandboxState]) -> Vec<String> {
        let mut query = Query { order, limit: 1, states: states.to_vec(), ..Query::default() };
        let mut ids = Vec::new();
        loop {
            let page = query.page(some().into_iter()).unwrap();
            ids.extend(page.sandboxes.into_iter().map(|sandbox| sandbox.sandbox_id));
            match page.next_token {
                Some(token) => query.next_token = Some(token),
                None => return ids,
            }
        }
    }

    #[test]
    fn pages_hold_everything_once_in_order() {
        assert_eq!(walk(ListOrder::Descending, &[]), ["d", "c", "b", "a"]);
        assert_eq!(walk(ListOrder::Ascending, &[]), ["a", "b", "c", "d"]);
        assert_eq!(walk(ListOrder::Ascending, &[SandboxState::Paused]), ["c"]);
    }

    #[test]
    fn counts_are_of_all_pages_and_filters_hold() {
        let query = Query { limit: 1, ..Query::default() };
        assert_eq!(query.page(some().into_iter()).unwrap().total_running, Some(3));
        let metadata = BTreeMap::from([("n".to_owned(), "b".to_owned())]);
        let query = Query { limit: 100, metadata, ..Query::default() };
        let page = query.page(some().into_iter()).unwrap();
        assert_eq!((page.sandboxes.len(), page.next_token), (1, None));
        let query = Query { limit: 100, states: vec![SandboxState::Paused], ..Query::default() };
        assert_eq!(query.page(some().into_iter()).unwrap().total_running, None);
    }

    #[test]
    fn a_token_that_no_page_gave_is_refused() {
        for token in ["%%", "", "YWJj", "MjAyNi0wMS0wMV9fYV9fYXNj"] {
            let query = Query { limit: 1, next_token: Some(token.to_owned()), ..Query::default() };
            assert!(query.page(some().into_iter()).is_err(), "{token}");
        }
    }
}
