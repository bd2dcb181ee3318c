//! Lists: which part is wanted, and how the next part is asked for.
//!
//! A token says behind which item the next page begins, by that item's own sort key, so it survives items that come and
//! go and needs no memory here. Both kinds of paging are served for every list: `page` of the newer SDKs, and
//! `after_id`/`before_id` of the older ones.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, shortened};
use super::extract::Query;
use super::state::App;
use crate::store::{Listed, Position, Window};

/// One page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct Page<T> {
    /// The items, in the order of the list.
    pub data: Vec<T>,
    /// Whether the list goes on.
    pub has_more: bool,
    /// Id of the first item of this page.
    pub first_id: Option<String>,
    /// Id of the last item of this page; `after_id` of the next request.
    pub last_id: Option<String>,
    /// `page` of the next request; null at the end.
    pub next_page: Option<String>,
    /// Always null: lists are read forwards.
    pub prev_page: Option<String>,
}

impl<T> Page<T> {
    /// A page of `data`. `next` is asked for the token behind the last item, if the list goes on.
    pub fn of(data: Vec<T>, has_more: bool, id: impl Fn(&T) -> String, next: Option<String>) -> Self {
        let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
        Self { data, has_more, first_id, last_id, next_page: next, prev_page: None }
    }

    /// The whole of a short list.
    pub fn whole(data: Vec<T>, id: impl Fn(&T) -> String) -> Self {
        Self::of(data, false, id, None)
    }
}

/// Which list a token belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    Agents,
    Versions,
    Environments,
    Files,
    Sessions,
    Resources,
    Events,
}

impl List {
    /// First letters of its tokens.
    fn tag(self) -> &'static str {
        match self {
            Self::Agents => "a",
            Self::Versions => "v",
            Self::Environments => "n",
            Self::Files => "f",
            Self::Sessions => "s",
            Self::Resources => "r",
            Self::Events => "e",
        }
    }
}

const PREFIX: &str = "page_";

fn token(list: List, key: &str) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(format!("{}.{key}", list.tag())))
}

/// The key inside the `page` parameter, if it was sent.
fn key_of_page(query: &Query, list: List) -> Result<Option<String>, ApiError> {
    let Some(text) = query.one("page") else { return Ok(None) };
    key_of(list, text).map(Some).ok_or_else(|| bad_page(text))
}

fn key_of(list: List, text: &str) -> Option<String> {
    let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
    let inner = String::from_utf8(bytes).ok()?;
    let (tag, key) = inner.split_once('.')?;
    (tag == list.tag()).then(|| key.to_owned())
}

fn bad_page(text: &str) -> ApiError {
    ApiError::invalid(format!(
        "`page` must be the `next_page` of an answer to the same list, not `{}`; leave it out to begin at the start",
        shortened(text)
    ))
}

/// The token behind an item of a list that is sorted by time and id.
pub fn position_token(list: List, position: &Position) -> String {
    token(list, &format!("{}.{}", position.at.as_microsecond(), position.id))
}

/// The position that `page` names, if it was sent.
///
/// # Errors
/// For a token that we did not make for this list.
pub fn position_of_page(query: &Query, list: List) -> Result<Option<Position>, ApiError> {
    let Some(key) = key_of_page(query, list)? else { return Ok(None) };
    let position = key.split_once('.').and_then(|(micros, id)| {
        let at = Timestamp::from_microsecond(micros.parse().ok()?).ok()?;
        let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_id.then(|| Position { at, id: id.to_owned() })
    });
    position.map(Some).ok_or_else(|| bad_page(query.one("page").unwrap_or_default()))
}

/// The token behind an item of a list that is sorted by a number.
pub fn number_token(list: List, number: u64) -> String {
    token(list, &number.to_string())
}

/// The number that `page` names, if it was sent.
///
/// # Errors
/// For a token that we did not make for this list.
pub fn number_of_page(query: &Query, list: List) -> Result<Option<u64>, ApiError> {
    let Some(key) = key_of_page(query, list)? else { return Ok(None) };
    // Databases count in signed numbers.
    let number = key.parse().ok().filter(|number| i64::try_from(*number).is_ok());
    number.map(Some).ok_or_else(|| bad_page(query.one("page").unwrap_or_default()))
}

/// Turns what the store listed into a page. A page that was asked for backwards has no `next_page`: the old SDKs that
/// ask so go on by `first_id`.
pub fn page<R, V>(
    listed: Listed<R>,
    list: List,
    backwards: bool,
    position: impl Fn(&R) -> Position,
    view: impl Fn(R) -> V,
) -> Page<V> {
    let positions: Vec<Position> = match (listed.items.first(), listed.items.last()) {
        (Some(first), Some(last)) => vec![position(first), position(last)],
        _ => Vec::new(),
    };
    let next = positions.last().filter(|_| listed.has_more && !backwards).map(|last| position_token(list, last));
    Page {
        data: listed.items.into_iter().map(view).collect(),
        has_more: listed.has_more,
        first_id: positions.first().map(|position| position.id.clone()),
        last_id: positions.last().map(|position| position.id.clone()),
        next_page: next,
        prev_page: None,
    }
}

/// The part of a list that is asked for, in the store's terms.
///
/// # Errors
/// For bad parameters, for more than one of `page`, `after_id` and `before_id`, and when the store fails.
pub async fn window(app: &App, query: &Query, list: List, limits: Limits, ascending: bool) -> Result<Window, ApiError> {
    let limit = query.limit(limits.default, limits.most)?;
    let page = position_of_page(query, list)?;
    let (after_id, before_id) = (query.one("after_id"), query.one("before_id"));
    let sent = [page.is_some(), after_id.is_some(), before_id.is_some()];
    if sent.into_iter().filter(|sent| *sent).count() > 1 {
        return Err(ApiError::invalid("send one of `page`, `after_id` and `before_id`, not several"));
    }
    let after = match after_id {
        Some(id) => Some(neighbour(app, list, "after_id", id).await?),
        None => page,
    };
    let before = match before_id {
        Some(id) => Some(neighbour(app, list, "before_id", id).await?),
        None => None,
    };
    Ok(Window { limit, ascending, after, before })
}

/// How long a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// When the client does not say.
    pub default: u32,
    /// At most.
    pub most: u32,
}

/// The position of the item with this id.
async fn neighbour(app: &App, list: List, name: &str, text: &str) -> Result<Position, ApiError> {
    let at = match list {
        List::Agents => match text.parse() {
            Ok(id) => app.store.agent(&id, None).await?.map(|agent| agent.created_at),
            Err(_) => None,
        },
        List::Environments => match text.parse() {
            Ok(id) => app.store.environment(&id).await?.map(|environment| environment.created_at),
            Err(_) => None,
        },
        List::Files => match text.parse() {
            Ok(id) => app.store.file(&id).await?.map(|file| file.created_at),
            Err(_) => None,
        },
        List::Sessions => match text.parse() {
            Ok(id) => app.store.session(&id).await?.map(|session| session.created_at),
            Err(_) => None,
        },
        // These lists are paged by token alone, in every SDK.
        List::Versions | List::Resources | List::Events => None,
    };
    at.map(|at| Position { at, id: text.to_owned() }).ok_or_else(|| {
        ApiError::invalid(format!("`{name}` must be the id of an item of the list, which `{}` is not", shortened(text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(page: &str) -> Query {
        Query::of(&format!("page={page}"))
    }

    proptest! {
        #[test]
        fn a_token_leads_back_to_its_position(micros in -62_000_000_000_000_000_i64..253_000_000_000_000_000, id in "[a-z]{1,4}_[0-9a-f]{16}") {
            let position = Position { at: Timestamp::from_microsecond(micros).unwrap(), id };
            let token = position_token(List::Files, &position);
            prop_assert_eq!(position_of_page(&query(&token), List::Files).unwrap(), Some(position));
            prop_assert!(position_of_page(&query(&token), List::Agents).is_err());
        }

        #[test]
        fn no_text_breaks_the_reader(text in "(page_)?\\PC{0,60}") {
            let _either = position_of_page(&Query::of(&url::form_urlencoded::Serializer::new(String::new()).append_pair("page", &text).finish()), List::Files);
        }
    }

    #[test]
    fn tokens_of_others_are_refused() {
        for text in ["2", "page_", "page_!!!!", "page_Zi4", "page_Zi4xLg", "page_Zi54LnZpZF8x", "vid_0123456789abcdef"]
        {
            assert!(position_of_page(&query(text), List::Files).is_err(), "{text}");
        }
        assert!(number_of_page(&query(&token(List::Events, "18446744073709551615")), List::Events).is_err());
        assert_eq!(position_of_page(&query(""), List::Files).unwrap(), None);
    }
}
