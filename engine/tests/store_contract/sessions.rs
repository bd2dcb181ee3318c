//! Sessions and what belongs to them.

use ambient_engine::ids::{ResourceId, RunId, SessionId};
use ambient_engine::sessions::change::{ChangeOutcome, Guard, SessionChange};
use ambient_engine::sessions::state::SessionState;
use ambient_engine::store::records::{MessageBody, SessionRecord};
use ambient_engine::store::{Listed, SessionFilter, StoreError, TimeBounds, Window};

use crate::databases::Database;
use crate::records::{at, resource, session};
use crate::{all_events, done, ids, new_session, note, page};

contract!(
    sessions_come_back_as_they_went_in,
    sessions_are_filtered,
    a_deleted_session_takes_its_events,
    resources_belong_to_their_session,
    every_change_of_a_session_gives_it_another_revision,
);

async fn sessions_come_back_as_they_went_in(database: &Database) {
    let store = database.store();
    let states = [
        SessionState::Pending { since: at(3) },
        SessionState::Idle,
        SessionState::Running { run: RunId::generate(), fence: 4 },
        SessionState::Terminated { error: "no boot".to_owned() },
    ];
    for (n, state) in states.into_iter().enumerate() {
        let mut made = session(i64::try_from(n).unwrap());
        made.state = state;
        (made.fence, made.interrupted_fence, made.last_seq, made.run_start_seq) = (9, 8, 7, 6);
        (made.read_seq, made.message_count) = (5, 4);
        (made.run_began_at, made.archived_at) = (Some(at(11)), Some(at(12)));
        made.mode = ambient_engine::store::records::Mode::Fast;
        let resources = [resource(&made, 1), resource(&made, 2)];
        store.insert_session(&made, &resources).await.unwrap();
        assert_eq!(store.session(&made.id).await.unwrap(), Some(made.clone()));
        assert_eq!(store.resources(&made.id, &page(5)).await.unwrap().items.len(), 2);
        assert_eq!(store.sessions_in_state(made.state.name(), 5).await.unwrap(), vec![made.clone()]);
        let again = store.insert_session(&made, &[]).await;
        assert!(matches!(again, Err(StoreError::Query(_))), "{again:?}");
    }
    assert_eq!(store.session(&SessionId::generate()).await.unwrap(), None);
}

async fn sessions_are_filtered(database: &Database) {
    let store = database.store();
    let (one, mut two, mut three) = (session(1), session(2), session(3));
    two.state = SessionState::Terminated { error: "x".to_owned() };
    two.agent.version = 2;
    three.archived_at = Some(at(4));
    three.agent = one.agent.clone();
    for made in [&one, &two, &three] {
        store.insert_session(made, &[]).await.unwrap();
    }
    let check = async |filter: SessionFilter, expected: &[&SessionRecord]| {
        let listed = store.sessions(&page(9), &filter).await.unwrap();
        let expected: Vec<_> = expected.iter().map(|made| made.id.to_string()).collect();
        assert_eq!(ids(&listed, |made| made.id.to_string()), (expected, false), "{filter:?}");
    };
    let all = SessionFilter { include_archived: true, ..SessionFilter::default() };
    check(SessionFilter::default(), &[&two, &one]).await;
    check(all.clone(), &[&three, &two, &one]).await;
    check(SessionFilter { agent_id: Some(one.agent.id.clone()), ..all.clone() }, &[&three, &one]).await;
    check(SessionFilter { agent_version: Some(2), ..all.clone() }, &[&two]).await;
    check(SessionFilter { statuses: vec!["idle"], ..all.clone() }, &[&three, &one]).await;
    check(SessionFilter { statuses: vec!["idle", "terminated"], ..SessionFilter::default() }, &[&two, &one]).await;
    check(SessionFilter { statuses: vec!["running"], ..all.clone() }, &[]).await;
    let created = TimeBounds { gt: Some(at(1)), lte: Some(at(2)), ..TimeBounds::default() };
    check(SessionFilter { created, ..all }, &[&two]).await;
}

async fn a_deleted_session_takes_its_events(database: &Database) {
    let store = database.store();
    let (gone, stays) = (new_session(store).await, new_session(store).await);
    for made in [&gone, &stays] {
        let mut change = SessionChange::new(Guard::Always);
        note(&mut change, "x");
        change.messages = vec![MessageBody::System { text: "s".to_owned() }];
        done(store.change_session(&made.id, change, at(1)).await.unwrap());
        store.insert_resource(&resource(made, 1)).await.unwrap();
    }
    assert!(store.delete_session(&gone.id).await.unwrap());
    assert!(!store.delete_session(&gone.id).await.unwrap());
    for (made, left) in [(&gone, 0), (&stays, 1)] {
        assert_eq!(store.events(&made.id, &all_events()).await.unwrap().items.len(), left);
        assert_eq!(store.messages(&made.id, 0).await.unwrap().len(), left);
        assert_eq!(store.resources(&made.id, &page(5)).await.unwrap().items.len(), left);
    }
    let late = store.change_session(&gone.id, SessionChange::new(Guard::Always), at(2)).await.unwrap();
    assert_eq!(late, ChangeOutcome::Gone);
}

async fn resources_belong_to_their_session(database: &Database) {
    let store = database.store();
    let (made, other) = (new_session(store).await, new_session(store).await);
    let (first, second) = (resource(&made, 1), resource(&made, 2));
    for record in [&first, &second] {
        store.insert_resource(record).await.unwrap();
    }
    assert_eq!(store.resource(&made.id, &first.id).await.unwrap(), Some(first.clone()));
    assert_eq!(store.resource(&other.id, &first.id).await.unwrap(), None);
    let in_order = Window { ascending: true, ..page(1) };
    let listed = store.resources(&made.id, &in_order).await.unwrap();
    assert_eq!(listed, Listed { items: vec![first.clone()], has_more: true });
    let others = resource(&other, 3);
    store.insert_resource(&others).await.unwrap();
    let both = [made.id.clone(), SessionId::generate(), other.id.clone()];
    let of_both = store.resources_of(&both).await.unwrap();
    assert_eq!(of_both, vec![first.clone(), second.clone(), others]);
    assert_eq!(store.resources_of(&[]).await.unwrap(), vec![]);
    let mut found = store.sessions_with_resources(&both).await.unwrap();
    found.sort_by_key(|(session, _)| session.id != made.id);
    let attached: Vec<_> = found.iter().map(|(session, resources)| (&session.id, resources.len())).collect();
    assert_eq!(attached, [(&made.id, 2), (&other.id, 1)]);
    assert_eq!(found[0], (made.clone(), vec![first.clone(), second.clone()]));
    let bare = new_session(store).await;
    let alone = store.sessions_with_resources(std::slice::from_ref(&bare.id)).await.unwrap();
    assert_eq!(alone, [(bare, Vec::new())]);
    assert!(!store.delete_resource(&other.id, &first.id).await.unwrap());
    assert!(store.delete_resource(&made.id, &first.id).await.unwrap());
    assert!(!store.delete_resource(&made.id, &ResourceId::generate()).await.unwrap());
    assert_eq!(store.resources(&made.id, &in_order).await.unwrap().items, vec![second]);
    let stray = resource(&session(0), 1);
    assert!(store.insert_resource(&stray).await.is_err(), "no session, no resource");
}

async fn every_change_of_a_session_gives_it_another_revision(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let id = &made.id;
    let Some(mut last) = store.revision(id) else {
        assert!(database.url().starts_with("postgres"), "only other engines' changes go unseen");
        return;
    };
    let mut has_moved = |what: &str| {
        let before = std::mem::replace(&mut last, store.revision(id).unwrap());
        assert_ne!(before, last, "{what}");
        assert_eq!(store.revision(id), Some(last), "{what}");
    };
    let mut change = SessionChange::new(Guard::Always);
    change.title = Some(Some("t".to_owned()));
    done(store.change_session(id, change, at(1)).await.unwrap());
    has_moved("a change");
    let attached = resource(&made, 1);
    store.insert_resource(&attached).await.unwrap();
    has_moved("a resource that came");
    store.delete_resource(id, &attached.id).await.unwrap();
    has_moved("a resource that went");
    store.delete_session(id).await.unwrap();
    has_moved("the end");
}
