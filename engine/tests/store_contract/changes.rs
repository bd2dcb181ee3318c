//! What a change of a session does: events, messages, runs.

use std::collections::BTreeSet;

use ambient_engine::events::body::{EventBody, StopReason};
use ambient_engine::ids::{EventId, RunId, SessionId};
use ambient_engine::sessions::change::{ChangeOutcome, Guard, Move, SessionChange};
use ambient_engine::sessions::state::SessionState;
use ambient_engine::store::records::{EventRecord, MessageBody, MessageRecord, Origin, Part};
use ambient_engine::store::{EventFilter, EventWindow, StoreError, TimeBounds};

use crate::databases::Database;
use crate::records::{at, file, said};
use crate::{all_events, done, new_session, note};

contract!(
    a_change_is_whole_or_not_at_all,
    a_run_is_taken_once,
    a_run_that_lost_its_fence_writes_nothing,
    many_writers_leave_no_gap,
    events_are_read_from_anywhere,
    messages_are_read_from_anywhere,
    read_marks_never_go_back,
    nul_characters_are_replaced,
);

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
