//! Agents and their versions.

use ambient_engine::ids::AgentId;
use ambient_engine::store::{Inserted, Listed, TimeBounds};

use crate::databases::Database;
use crate::page;
use crate::records::{agent, at};

contract!(agents_keep_their_versions, an_agent_version_is_added_once, agents_are_listed_by_their_newest_version,);

async fn agents_keep_their_versions(database: &Database) {
    let store = database.store();
    let first = agent(1);
    assert_eq!(store.insert_agent(&first).await.unwrap(), Inserted::New);
    let mut other = first.clone();
    "another".clone_into(&mut other.name);
    assert_eq!(store.insert_agent(&other).await.unwrap(), Inserted::Existing(Box::new(first.clone())));

    let mut second = first.clone();
    second.version = 2;
    "second".clone_into(&mut second.name);
    second.updated_at = at(2);
    assert!(store.add_agent_version(&second).await.unwrap());
    assert_eq!(store.agent(&first.id, None).await.unwrap(), Some(second.clone()));
    assert_eq!(store.agent(&first.id, Some(1)).await.unwrap(), Some(first.clone()));
    assert_eq!(store.agent(&first.id, Some(3)).await.unwrap(), None);
    assert_eq!(store.agent(&AgentId::generate(), None).await.unwrap(), None);

    let versions = store.agent_versions(&first.id, None, 1).await.unwrap();
    assert_eq!(versions, Listed { items: vec![second.clone()], has_more: true });
    let versions = store.agent_versions(&first.id, Some(2), 5).await.unwrap();
    assert_eq!(versions, Listed { items: vec![first.clone()], has_more: false });

    second.archived_at = Some(at(3));
    assert_eq!(store.archive_agent(&first.id, at(3)).await.unwrap(), Some(second.clone()));
    assert_eq!(store.archive_agent(&first.id, at(4)).await.unwrap(), Some(second.clone()));
    assert_eq!(store.agent(&first.id, Some(1)).await.unwrap().unwrap().archived_at, Some(at(3)));
    assert_eq!(store.archive_agent(&AgentId::generate(), at(4)).await.unwrap(), None);
    second.version = 3;
    assert!(!store.add_agent_version(&second).await.unwrap(), "an archived agent stays as it is");
}

async fn an_agent_version_is_added_once(database: &Database) {
    let store = database.store();
    let mut next = agent(1);
    store.insert_agent(&next).await.unwrap();
    next.version = 2;
    let tries = (0..8).map(|_| store.add_agent_version(&next));
    let won = futures::future::join_all(tries).await.into_iter().filter(|result| *result.as_ref().unwrap()).count();
    assert_eq!(won, 1);
    next.version = 4;
    assert!(!store.add_agent_version(&next).await.unwrap(), "version 3 is missing");
}

async fn agents_are_listed_by_their_newest_version(database: &Database) {
    let store = database.store();
    let (mut old, mut new) = (agent(1), agent(2));
    store.insert_agent(&old).await.unwrap();
    store.insert_agent(&new).await.unwrap();
    old.version = 2;
    store.add_agent_version(&old).await.unwrap();
    let listed = store.agents(&page(10), false, TimeBounds::default()).await.unwrap();
    assert_eq!(listed, Listed { items: vec![new.clone(), old.clone()], has_more: false });
    let bounds = TimeBounds { lt: Some(at(2)), ..TimeBounds::default() };
    assert_eq!(store.agents(&page(10), false, bounds).await.unwrap().items, vec![old.clone()]);
    let bounds = TimeBounds { gte: Some(at(2)), ..TimeBounds::default() };
    assert_eq!(store.agents(&page(10), false, bounds).await.unwrap().items, vec![new.clone()]);

    new = store.archive_agent(&new.id, at(5)).await.unwrap().unwrap();
    assert_eq!(store.agents(&page(10), false, TimeBounds::default()).await.unwrap().items, vec![old.clone()]);
    assert_eq!(store.agents(&page(10), true, TimeBounds::default()).await.unwrap().items, vec![new, old]);
}
