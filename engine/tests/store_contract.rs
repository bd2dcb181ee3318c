//! What the store promises, told once and run on both databases.

#![expect(clippy::unwrap_used, reason = "a story is the body of two tests")]

#[path = "support/databases.rs"]
mod databases;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/records.rs"]
mod records;
#[path = "support/servers.rs"]
mod servers;

use std::collections::BTreeSet;
use std::time::Duration;

use ambient_engine::events::body::{EventBody, StopReason};
use ambient_engine::ids::{AgentId, EnvironmentId, EventId, ResourceId, RunId, SessionId};
use ambient_engine::sessions::change::{ChangeOutcome, Changed, Guard, Move, SessionChange};
use ambient_engine::sessions::state::SessionState;
use ambient_engine::store::records::{
    EventRecord, MessageBody, MessageRecord, Origin, Part, SessionRecord, WorkStatus,
};
use ambient_engine::store::{
    EventFilter, EventWindow, Inserted, Listed, Migrate, Position, SessionFilter, Store, StoreError, TimeBounds, Window,
};
use databases::Database;
use records::{agent, at, environment, file, resource, said, session, video_id};

macro_rules! contract { ($($story:ident),* $(,)?) => { $(mod $story {
    #[tokio::test]
    async fn on_sqlite() {
        super::$story(&super::Database::sqlite().await.unwrap()).await;
    }
    #[tokio::test]
    async fn on_postgres() {
        super::$story(&super::Database::postgres().await.unwrap()).await;
    }
})* } }

contract!(
    agents_keep_their_versions,
    an_agent_version_is_added_once,
    agents_are_listed_by_their_newest_version,
    environments_have_names_of_their_own,
    an_update_with_an_old_time_changes_nothing,
    files_come_back_as_they_went_in,
    files_are_found_by_id_and_by_description,
    pages_go_both_ways_over_items_of_one_moment,
    sessions_come_back_as_they_went_in,
    sessions_are_filtered,
    a_change_is_whole_or_not_at_all,
    a_run_is_taken_once,
    a_run_that_lost_its_fence_writes_nothing,
    many_writers_leave_no_gap,
    events_are_read_from_anywhere,
    messages_are_read_from_anywhere,
    a_deleted_session_takes_its_events,
    read_marks_never_go_back,
    resources_belong_to_their_session,
    every_change_of_a_session_gives_it_another_revision,
    nul_characters_are_replaced,
    engines_that_start_at_once_migrate_once,
    missing_migrations_refuse_the_start,
    a_database_of_a_newer_engine_is_refused,
    a_closed_store_is_unavailable,
);

fn page(limit: u32) -> Window {
    Window { limit, ascending: false, after: None, before: None }
}

fn all_events() -> EventWindow {
    EventWindow { limit: 10_000, descending: false, after_seq: None, filter: EventFilter::default() }
}

fn note(change: &mut SessionChange, text: &str) -> EventId {
    change.event(said(text))
}

fn done(outcome: ChangeOutcome) -> Changed {
    match outcome {
        ChangeOutcome::Done(changed) => *changed,
        other => panic!("the change was to happen: {other:?}"),
    }
}

fn ids<T>(listed: &Listed<T>, id: impl Fn(&T) -> String) -> (Vec<String>, bool) {
    (listed.items.iter().map(id).collect(), listed.has_more)
}

async fn new_session(store: &dyn Store) -> SessionRecord {
    let made = session(0);
    store.insert_session(&made, &[]).await.expect("a new session");
    made
}

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

async fn environments_have_names_of_their_own(database: &Database) {
    let store = database.store();
    let first = environment(1);
    assert_eq!(store.insert_environment(&first).await.unwrap(), Inserted::New);
    assert_eq!(store.environment(&first.id).await.unwrap(), Some(first.clone()));
    let mut second = environment(2);
    let own_name = std::mem::replace(&mut second.name, first.name.clone());
    assert_eq!(store.insert_environment(&second).await.unwrap(), Inserted::Existing(Box::new(first.clone())));
    assert!(store.environment_name_taken(&first.name, &second.id).await.unwrap());
    assert!(!store.environment_name_taken(&first.name, &first.id).await.unwrap());
    assert!(!store.environment_name_taken("free", &first.id).await.unwrap());

    second.name = own_name;
    assert_eq!(store.insert_environment(&second).await.unwrap(), Inserted::New);
    let mut renamed = second.clone();
    renamed.name = first.name.clone();
    renamed.updated_at = at(3);
    assert!(!store.update_environment(&renamed, second.updated_at).await.unwrap(), "the name is taken");

    let mut gone = first.clone();
    gone.archived_at = Some(at(4));
    gone.updated_at = at(4);
    assert!(store.update_environment(&gone, first.updated_at).await.unwrap());
    assert!(store.update_environment(&renamed, second.updated_at).await.unwrap(), "an archived one frees its name");

    assert_eq!(store.environments(&page(5), false).await.unwrap().items, vec![renamed.clone()]);
    assert_eq!(store.environments(&page(5), true).await.unwrap().items, vec![renamed.clone(), gone]);
    assert!(store.delete_environment(&renamed.id).await.unwrap());
    assert!(!store.delete_environment(&renamed.id).await.unwrap());
    assert_eq!(store.environment(&EnvironmentId::generate()).await.unwrap(), None);
}

async fn an_update_with_an_old_time_changes_nothing(database: &Database) {
    let store = database.store();
    let standing = file(1);
    store.insert_file(&standing).await.unwrap();
    let mut next = standing.clone();
    next.description = Some("new".to_owned());
    next.updated_at = at(2);
    assert!(!store.update_file(&next, at(0)).await.unwrap());
    assert_eq!(store.file(&standing.id).await.unwrap(), Some(standing.clone()));
    assert!(store.update_file(&next, standing.updated_at).await.unwrap());
    assert_eq!(store.file(&standing.id).await.unwrap(), Some(next.clone()));
    assert!(!store.update_file(&next, standing.updated_at).await.unwrap(), "the second writer was not first");
    let made = environment(1);
    store.insert_environment(&made).await.unwrap();
    assert!(!store.update_environment(&made, at(7)).await.unwrap());
}

async fn files_come_back_as_they_went_in(database: &Database) {
    let store = database.store();
    let full = file(1);
    let mut bare = file(2);
    bare.source = ambient_engine::store::records::FileSource::Upload;
    (bare.media, bare.description_status, bare.bucket_key, bare.expires_at) = (None, None, None, None);
    (bare.description, bare.description_error, bare.source_error) = (None, None, None);
    for record in [&full, &bare] {
        assert_eq!(store.insert_file(record).await.unwrap(), Inserted::New);
        assert_eq!(store.file(&record.id).await.unwrap().as_ref(), Some(record));
        let keys =
            |record: &ambient_engine::store::records::FileRecord| record.metadata.keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&store.file(&record.id).await.unwrap().unwrap()), keys(record), "the order is the client's");
    }
    let mut again = full.clone();
    "other.mp4".clone_into(&mut again.filename);
    assert_eq!(store.insert_file(&again).await.unwrap(), Inserted::Existing(Box::new(full.clone())));
    assert_eq!(store.files(&page(9)).await.unwrap().items, vec![bare, full.clone()]);
    assert!(store.delete_file(&full.id).await.unwrap());
    assert!(!store.delete_file(&full.id).await.unwrap());
    assert_eq!(store.file(&full.id).await.unwrap(), None);
}

async fn files_are_found_by_id_and_by_description(database: &Database) {
    let store = database.store();
    let (a, mut b, mut c) = (file(1), file(2), file(3));
    b.description_status = Some(WorkStatus::Ready);
    c.description_status = None;
    for record in [&a, &b, &c] {
        store.insert_file(record).await.unwrap();
    }
    let wanted = [c.id.clone(), video_id(), a.id.clone()];
    assert_eq!(store.files_by_id(&wanted).await.unwrap(), vec![c, a.clone()]);
    assert_eq!(store.files_by_id(&[]).await.unwrap(), vec![]);
    let both = [WorkStatus::Pending, WorkStatus::Ready];
    assert_eq!(store.files_with_description(&both, at(9), 9).await.unwrap(), vec![a.clone(), b]);
    assert_eq!(store.files_with_description(&both, at(9), 1).await.unwrap(), vec![a.clone()]);
    assert_eq!(store.files_with_description(&both, at(2), 9).await.unwrap(), vec![a]);
    assert_eq!(store.files_with_description(&[WorkStatus::Failed], at(9), 9).await.unwrap(), vec![]);
}

/// Seven files, five of them of one moment: whatever the page size and direction, walking shows each once, in order.
async fn pages_go_both_ways_over_items_of_one_moment(database: &Database) {
    let store = database.store();
    let mut files: Vec<_> = [1, 5, 5, 5, 5, 5, 9].map(file).into();
    for record in &files {
        store.insert_file(record).await.unwrap();
    }
    let place = |record: &ambient_engine::store::records::FileRecord| Position {
        at: record.created_at,
        id: record.id.to_string(),
    };
    for ascending in [false, true] {
        files.sort_by_key(|record| (record.created_at, record.id.clone()));
        if !ascending {
            files.reverse();
        }
        for limit in 1..=8 {
            let mut seen = Vec::new();
            let mut after = None;
            loop {
                let window = Window { limit, ascending, after, before: None };
                let listed = store.files(&window).await.unwrap();
                after = listed.items.last().map(place);
                seen.extend(listed.items);
                if !listed.has_more {
                    break;
                }
            }
            assert_eq!(seen, files, "forward, ascending {ascending}, limit {limit}");

            let mut seen = Vec::new();
            let mut before = files.last().map(place);
            loop {
                let window = Window { limit, ascending, after: None, before };
                let listed = store.files(&window).await.unwrap();
                before = listed.items.first().map(place);
                seen.splice(0..0, listed.items);
                if !listed.has_more {
                    break;
                }
            }
            assert_eq!(seen, files[..6], "backward, ascending {ascending}, limit {limit}");
        }
        let between = Window { limit: 9, ascending, after: Some(place(&files[1])), before: Some(place(&files[4])) };
        assert_eq!(store.files(&between).await.unwrap().items, files[2..4]);
    }
    let place_of_none = Position { at: at(5), id: "vid_7".to_owned() };
    let window = Window { limit: 9, ascending: true, after: Some(place_of_none), before: None };
    let behind = store.files(&window).await.unwrap();
    let expected = files.iter().filter(|record| (record.created_at, record.id.as_str()) > (at(5), "vid_7")).count();
    assert_eq!(behind.items.len(), expected, "a place outlives its item");
}

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

async fn a_change_is_whole_or_not_at_all(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let mut change = SessionChange::new(Guard::Ready);
    let run = RunId::generate();
    change.to = Some(Move::Run(run.clone()));
    change.run = Some(run.clone());
    let event = note(&mut change, "what is in it?");
    change.event(EventBody::StatusRunning {});
    change.messages = vec![
        MessageBody::System { text: "s".to_owned() },
        MessageBody::User { origin: Origin::User, parts: vec![Part::Text { text: "what is in it?".to_owned() }] },
    ];
    let changed = done(store.change_session(&made.id, change, at(100)).await.unwrap());
    assert_eq!(changed.session.state, SessionState::Running { run, fence: 1 });
    assert_eq!(store.session(&made.id).await.unwrap(), Some(changed.session.clone()));
    assert_eq!(store.events(&made.id, &all_events()).await.unwrap().items, changed.events);
    assert_eq!(store.messages(&made.id, 0).await.unwrap(), changed.messages);
    assert_eq!(changed.events[0].id, event);

    let mut refused = SessionChange::new(Guard::Ready);
    note(&mut refused, "too early");
    let outcome = store.change_session(&made.id, refused, at(200)).await.unwrap();
    assert_eq!(outcome, ChangeOutcome::Refused(Box::new(changed.session.clone())));

    // The second event has the id of one that is there: the database refuses it, and nothing of the change stays.
    let mut broken = SessionChange::new(Guard::Always);
    broken.title = Some(Some("never".to_owned()));
    note(&mut broken, "fine by itself");
    note(&mut broken, "not fine");
    broken.events[1].id = event;
    assert!(matches!(store.change_session(&made.id, broken, at(300)).await, Err(StoreError::Query(_))));
    assert_eq!(store.session(&made.id).await.unwrap(), Some(changed.session));
    assert_eq!(store.events(&made.id, &all_events()).await.unwrap().items, changed.events);

    let outcome = store.change_session(&SessionId::generate(), SessionChange::new(Guard::Always), at(1)).await;
    assert_eq!(outcome.unwrap(), ChangeOutcome::Gone);
}

async fn a_run_is_taken_once(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let tries = (0..8).map(|_| {
        let mut change = SessionChange::new(Guard::Ready);
        change.to = Some(Move::Run(RunId::generate()));
        note(&mut change, "mine");
        store.change_session(&made.id, change, at(1))
    });
    let outcomes = futures::future::join_all(tries).await;
    let won = outcomes.iter().filter(|outcome| matches!(outcome, Ok(ChangeOutcome::Done(_)))).count();
    let refused = outcomes.iter().filter(|outcome| matches!(outcome, Ok(ChangeOutcome::Refused(_)))).count();
    assert_eq!((won, refused), (1, 7));
    assert_eq!(store.events(&made.id, &all_events()).await.unwrap().items.len(), 1);
}

async fn a_run_that_lost_its_fence_writes_nothing(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let (old, new) = (RunId::generate(), RunId::generate());
    let start = |run: &RunId| {
        let mut change = SessionChange::new(Guard::Ready);
        change.to = Some(Move::Run(run.clone()));
        note(&mut change, "go");
        change
    };
    done(store.change_session(&made.id, start(&old), at(1)).await.unwrap());
    let mut end = SessionChange::new(Guard::Running);
    end.to = Some(Move::Idle);
    end.event(EventBody::StatusIdle { stop_reason: StopReason::EndTurn, stop_details: None });
    done(store.change_session(&made.id, end, at(2)).await.unwrap());
    let taken = done(store.change_session(&made.id, start(&new), at(3)).await.unwrap());

    for (run, fence) in [(old.clone(), 1), (old, 2), (new.clone(), 1)] {
        let mut late = SessionChange::new(Guard::Run { run, fence });
        note(&mut late, "late");
        let outcome = store.change_session(&made.id, late, at(4)).await.unwrap();
        assert_eq!(outcome, ChangeOutcome::Refused(Box::new(taken.session.clone())));
    }
    let mut own = SessionChange::new(Guard::Run { run: new, fence: 2 });
    note(&mut own, "in time");
    assert_eq!(done(store.change_session(&made.id, own, at(5)).await.unwrap()).session.last_seq, 4);
}

async fn many_writers_leave_no_gap(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let writes = (0..60_u64).map(|n| {
        let mut change = SessionChange::new(Guard::Always);
        for part in 0..=(n % 3) {
            note(&mut change, &format!("{n}.{part}"));
        }
        change.messages = vec![MessageBody::System { text: n.to_string() }];
        // Clocks of several machines do not agree.
        store.change_session(&made.id, change, at(i64::try_from(n * 7 % 60).unwrap()))
    });
    let told: Vec<EventRecord> =
        futures::future::join_all(writes).await.into_iter().flat_map(|outcome| done(outcome.unwrap()).events).collect();
    let kept = store.events(&made.id, &all_events()).await.unwrap().items;
    assert_eq!(kept.iter().map(|event| event.seq).collect::<Vec<_>>(), (1..=120).collect::<Vec<_>>());
    assert!(kept.is_sorted_by_key(|event| event.at), "times never step back");
    let of = |events: &[EventRecord]| events.iter().map(|event| (event.seq, event.id.clone())).collect::<BTreeSet<_>>();
    assert_eq!(of(&told), of(&kept), "what was told is what was kept");
    let messages = store.messages(&made.id, 0).await.unwrap();
    assert_eq!(messages.iter().map(|message| message.index).collect::<Vec<_>>(), (0..60).collect::<Vec<_>>());
    let standing = store.session(&made.id).await.unwrap().unwrap();
    assert_eq!((standing.last_seq, standing.message_count), (120, 60));
}

async fn events_are_read_from_anywhere(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let mut all = Vec::new();
    for n in 1..=6 {
        let mut change = SessionChange::new(Guard::Always);
        if n % 2 == 0 {
            change.event(EventBody::StatusRunning {});
        } else {
            note(&mut change, "x");
        }
        all.extend(done(store.change_session(&made.id, change, at(n * 10)).await.unwrap()).events);
    }
    let read = async |window: EventWindow| {
        let listed = store.events(&made.id, &window).await.unwrap();
        (listed.items.iter().map(|event| event.seq).collect::<Vec<_>>(), listed.has_more)
    };
    let window =
        |limit, descending, after_seq| EventWindow { limit, descending, after_seq, filter: EventFilter::default() };
    assert_eq!(read(window(3, false, None)).await, (vec![1, 2, 3], true));
    assert_eq!(read(window(3, false, Some(3))).await, (vec![4, 5, 6], false));
    assert_eq!(read(window(3, false, Some(6))).await, (vec![], false));
    assert_eq!(read(window(2, true, None)).await, (vec![6, 5], true));
    assert_eq!(read(window(9, true, Some(3))).await, (vec![2, 1], false));
    let filtered = |types: &[&str], processed| EventWindow {
        filter: EventFilter { types: types.iter().map(|word| (*word).to_owned()).collect(), processed },
        ..all_events()
    };
    assert_eq!(read(filtered(&["session.status_running"], TimeBounds::default())).await, (vec![2, 4, 6], false));
    let running = EventWindow { limit: 2, ..filtered(&["session.status_running"], TimeBounds::default()) };
    assert_eq!(read(running).await, (vec![2, 4], true));
    let bounds = TimeBounds { gt: Some(at(10)), lt: Some(at(50)), ..TimeBounds::default() };
    assert_eq!(read(filtered(&["user.message", "agent.message"], bounds)).await, (vec![3], false));
    assert_eq!(read(filtered(&["agent.message"], TimeBounds::default())).await, (vec![], false));

    assert_eq!(store.event(&made.id, &all[3].id).await.unwrap().as_ref(), Some(&all[3]));
    assert_eq!(store.event_seq(&made.id, &all[3].id).await.unwrap(), Some(4));
    let other = new_session(store).await;
    assert_eq!(store.event(&other.id, &all[3].id).await.unwrap(), None, "an event of another session");
    assert_eq!(store.event_seq(&other.id, &all[3].id).await.unwrap(), None);
    assert_eq!(store.events(&SessionId::generate(), &all_events()).await.unwrap().items, vec![]);
}

async fn messages_are_read_from_anywhere(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    let run = RunId::generate();
    for (n, run) in [(0, None), (1, Some(run.clone()))] {
        let mut change = SessionChange::new(Guard::Always);
        change.run = run;
        change.messages = (0..2)
            .map(|part| MessageBody::Tool {
                call_id: format!("call {n}.{part}"),
                tool_use: EventId::generate(),
                name: "bash".to_owned(),
                text: "ü\n\"\\u0041".to_owned(),
                is_error: n == 1,
            })
            .collect();
        done(store.change_session(&made.id, change, at(n)).await.unwrap());
    }
    let about = |messages: Vec<MessageRecord>| messages.into_iter().map(|m| (m.index, m.run)).collect::<Vec<_>>();
    let all = [(0, None), (1, None), (2, Some(run.clone())), (3, Some(run))];
    assert_eq!(about(store.messages(&made.id, 0).await.unwrap()), all);
    assert_eq!(about(store.messages(&made.id, 3).await.unwrap()), all[3..]);
    assert_eq!(store.messages(&made.id, 4).await.unwrap(), vec![]);
    let first = store.messages(&made.id, 0).await.unwrap().remove(0);
    assert!(matches!(first.body, MessageBody::Tool { text, .. } if text == "ü\n\"\\u0041"));
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

async fn read_marks_never_go_back(database: &Database) {
    let store = database.store();
    let made = new_session(store).await;
    for (mark, stands) in [(3, 3), (2, 3), (5, 5)] {
        store.mark_read(&made.id, mark).await.unwrap();
        assert_eq!(store.session(&made.id).await.unwrap().unwrap().read_seq, stands);
    }
    let changed = done(store.change_session(&made.id, SessionChange::new(Guard::Always), at(1)).await.unwrap());
    assert_eq!(changed.session.read_seq, 5);
    assert_eq!(store.session(&made.id).await.unwrap().unwrap().read_seq, 5);
    store.mark_read(&SessionId::generate(), 1).await.unwrap();
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

async fn nul_characters_are_replaced(database: &Database) {
    let store = database.store();
    let mut named = file(1);
    "a\0b.mp4".clone_into(&mut named.filename);
    named.description = Some("\0".to_owned());
    store.insert_file(&named).await.unwrap();
    let back = store.file(&named.id).await.unwrap().unwrap();
    assert_eq!((back.filename.as_str(), back.description.as_deref()), ("a\u{fffd}b.mp4", Some("\u{fffd}")));

    let made = new_session(store).await;
    let mut change = SessionChange::new(Guard::Always);
    note(&mut change, "bash said \0");
    change.title = Some(Some("t\0".to_owned()));
    change.messages = vec![MessageBody::System { text: "m\0".to_owned() }];
    let changed = done(store.change_session(&made.id, change, at(1)).await.unwrap());
    assert_eq!(changed.events[0].body, said("bash said \u{fffd}"));
    assert_eq!(store.events(&made.id, &all_events()).await.unwrap().items, changed.events);
    assert_eq!(store.messages(&made.id, 0).await.unwrap(), changed.messages);
    assert_eq!(store.session(&made.id).await.unwrap().unwrap().title.as_deref(), Some("t\u{fffd}"));
}

async fn engines_that_start_at_once_migrate_once(database: &Database) {
    let empty = database.another().await.unwrap();
    let starts = (0..6).map(|_| empty.open(Migrate::Run));
    for store in futures::future::join_all(starts).await {
        let store = store.unwrap();
        store.ping().await.unwrap();
        assert_eq!(store.files(&page(1)).await.unwrap().items, vec![]);
        store.close().await;
    }
    empty.open(Migrate::Refuse).await.unwrap().close().await;
}

async fn missing_migrations_refuse_the_start(database: &Database) {
    let empty = database.another().await.unwrap();
    let refused = empty.open(Migrate::Refuse).await.expect_err("nothing is migrated");
    assert!(matches!(refused, StoreError::Pending { missing } if missing > 0), "{refused}");
    assert!(refused.to_string().contains("--no-migrate"));
}

async fn a_database_of_a_newer_engine_is_refused(database: &Database) {
    let newer = database.another().await.unwrap();
    newer.open(Migrate::Run).await.unwrap().close().await;
    newer
        .execute(
            "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
             select 999999, description, success, checksum, execution_time from _sqlx_migrations where version = 1",
        )
        .await
        .unwrap();
    for migrate in [Migrate::Run, Migrate::Refuse] {
        let refused = newer.open(migrate).await.expect_err("an unknown migration is there");
        assert!(matches!(refused, StoreError::Migrate(_)), "{refused}");
    }
}

async fn a_closed_store_is_unavailable(database: &Database) {
    let another = database.another().await.unwrap();
    let store = another.open(Migrate::Run).await.unwrap();
    store.close().await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    let change = SessionChange::new(Guard::Always);
    let outcome = store.change_session(&SessionId::generate(), change, at(1)).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))));
}

#[tokio::test]
async fn an_address_of_nothing_known_is_refused_without_its_secrets() {
    let options = ambient_engine::store::StoreOptions::new(Migrate::Run);
    for url in
        ["mysql://root:hunter2@db/x", "hunter2", "postgresql+asyncpg://u:hunter2@h/d", "postgres://u:hunter2@h:port/d"]
    {
        let refused = ambient_engine::store::connect(url, &options).await.expect_err(url);
        assert!(matches!(refused, StoreError::Address { .. }), "{refused}");
        assert!(!ambient_engine::store::chain(&refused).contains("hunter2"), "{refused}");
    }
}

#[tokio::test]
async fn a_sqlite_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/ambient.db");
    let options = ambient_engine::store::StoreOptions::new(Migrate::Run);
    let store = ambient_engine::store::connect(&format!("sqlite://{}", path.display()), &options).await.unwrap();
    store.insert_file(&file(1)).await.unwrap();
    for name in ["ambient.db", "ambient.db-wal", "ambient.db-shm"] {
        let mode = std::fs::metadata(path.with_file_name(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    store.close().await;
    assert!(!path.with_file_name("ambient.db-wal").exists(), "a clean stop leaves one file");
}

/// Another process holds the write lock (a backup): writers wait for it instead of failing.
#[tokio::test]
async fn a_writer_waits_for_another_process() {
    use sqlx::{ConnectOptions as _, Connection as _};
    let database = Database::sqlite().await.unwrap();
    let made = new_session(database.store()).await;
    let path = database.url().trim_start_matches("sqlite://").to_owned();
    let mut other = sqlx::sqlite::SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    let lock = other.begin_with("begin immediate").await.unwrap();
    let write = database.store().mark_read(&made.id, 1);
    tokio::pin!(write);
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut write).await.is_err(), "it waits");
    assert!(database.store().session(&made.id).await.unwrap().is_some(), "readers do not");
    lock.rollback().await.unwrap();
    write.await.unwrap();
}

#[tokio::test]
async fn a_start_names_what_is_wrong_with_postgres() {
    let there = postgres::postgres_url().unwrap();
    let place = there.rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let options = ambient_engine::store::StoreOptions::new(Migrate::Run);
    for (url, expected) in [
        (format!("postgres://ambient:hunter2@{free}/x"), "nothing listens at"),
        (format!("postgres://nobody:hunter2@{place}/postgres"), "refused the login of user `nobody`"),
        (format!("postgres://ambient:hunter2@{place}/missing"), "has no database `missing`"),
        (format!("postgres://ambient:hunter2@{place}/postgres?sslmode=require"), "no TLS with Postgres"),
    ] {
        let error = ambient_engine::store::connect(&url, &options).await.expect_err(&url);
        let text = ambient_engine::store::chain(&error);
        assert!(text.contains(expected), "{url}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

/// A pool that is busy and a database that is away do not look the same, and neither keeps a request for long.
#[tokio::test]
async fn a_busy_pool_and_a_lost_database_are_told_apart() {
    let database = Database::postgres().await.unwrap();
    let made = new_session(database.store()).await;
    let short = Duration::from_millis(300);
    let server = database.url().rsplit('@').next().unwrap().split('/').next().unwrap().to_owned();
    let wire = proxy::Proxy::to(server.clone()).await.unwrap();
    let options = ambient_engine::store::StoreOptions {
        connections: 1,
        acquire_timeout: short,
        ..ambient_engine::store::StoreOptions::new(Migrate::Refuse)
    };
    let url = database.url().replace(&server, &wire.address().to_string());
    let store = ambient_engine::store::connect(&url, &options).await.unwrap();
    store.ping().await.unwrap();

    // Somebody else holds the session's row, so the one connection waits.
    let mut other = database.connection().await.unwrap();
    sqlx::Executor::execute(&mut other, "begin; select id from sessions for update").await.unwrap();
    let stuck = store.change_session(&made.id, SessionChange::new(Guard::Always), at(1));
    tokio::pin!(stuck);
    let busy = tokio::select! {
        outcome = &mut stuck => panic!("the row was locked: {outcome:?}"),
        failed = async {
            loop {
                if let Err(error) = store.ping().await {
                    return error;
                }
            }
        } => failed,
    };
    assert!(matches!(busy, StoreError::Busy { connections: 1 }), "{busy}");
    sqlx::Executor::execute(&mut other, "rollback").await.unwrap();
    done(stuck.await.unwrap());

    wire.cut();
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    let away = loop {
        match store.ping().await {
            Err(error) => break error,
            Ok(()) => assert!(tokio::time::Instant::now() < until, "the cut was not noticed"),
        }
    };
    assert!(matches!(away, StoreError::Unavailable(_)), "{away}");
    let began = tokio::time::Instant::now();
    let outcome = store.session(&made.id).await;
    assert!(matches!(outcome, Err(StoreError::Unavailable(_))), "{outcome:?}");
    assert!(began.elapsed() < Duration::from_secs(10));
    wire.mend();
    while let Err(error) = store.ping().await {
        assert!(tokio::time::Instant::now() < until, "it never came back: {error}");
    }
    assert_eq!(store.session(&made.id).await.unwrap().unwrap().id, made.id);
}
