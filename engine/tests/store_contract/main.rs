//! What the store promises, told once and run on both databases.

#![expect(clippy::unwrap_used, reason = "a story is the body of two tests")]

#[path = "../support/databases.rs"]
mod databases;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/records.rs"]
mod records;
#[path = "../support/servers.rs"]
mod servers;

/// Two tests a story, one a database.
macro_rules! contract { ($($story:ident),* $(,)?) => { $(mod $story {
    #[tokio::test]
    async fn on_sqlite() {
        super::$story(&crate::databases::Database::sqlite().await.unwrap()).await;
    }
    #[tokio::test]
    async fn on_postgres() {
        super::$story(&crate::databases::Database::postgres().await.unwrap()).await;
    }
})* } }

mod agents;
mod changes;
mod databases_found;
mod environments;
mod files;
mod sessions;

use ambient_engine::ids::EventId;
use ambient_engine::sessions::change::{ChangeOutcome, Changed, SessionChange};
use ambient_engine::store::records::SessionRecord;
use ambient_engine::store::{EventFilter, EventWindow, Listed, Store, Window};

use records::{said, session};

pub(crate) fn page(limit: u32) -> Window {
    Window { limit, ascending: false, after: None, before: None }
}

pub(crate) fn all_events() -> EventWindow {
    EventWindow { limit: 10_000, descending: false, after_seq: None, filter: EventFilter::default() }
}

pub(crate) fn note(change: &mut SessionChange, text: &str) -> EventId {
    change.event(said(text))
}

pub(crate) fn done(outcome: ChangeOutcome) -> Changed {
    match outcome {
        ChangeOutcome::Done(changed) => *changed,
        other => panic!("the change was to happen: {other:?}"),
    }
}

pub(crate) fn ids<T>(listed: &Listed<T>, id: impl Fn(&T) -> String) -> (Vec<String>, bool) {
    (listed.items.iter().map(id).collect(), listed.has_more)
}

pub(crate) async fn new_session(store: &dyn Store) -> SessionRecord {
    let made = session(0);
    store.insert_session(&made, &[]).await.expect("a new session");
    made
}
