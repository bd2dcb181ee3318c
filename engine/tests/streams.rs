//! Streams: every event once, in order, whatever happens between the writer and the reader.

mod support {
    pub(crate) mod backend;
    #[expect(dead_code, reason = "streams are told apart by their frames, not by lists of events")]
    pub(crate) mod world;
}

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ambient_engine::agent::{RunContext, RunOutcome};
use ambient_engine::broker::{Preview, Signal};
use ambient_engine::events::body::{EventBody, StopReason};
use ambient_engine::events::stream::StreamWish;
use ambient_engine::ids::{EventId, SessionId};
use ambient_engine::sessions::change::{ChangeOutcome, Guard, SessionChange};
use ambient_engine::sessions::writer::RunWriteError;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use proptest::prelude::*;
use support::world::{PATIENCE, World, answer, message, world};

async fn answers(context: RunContext) -> Result<RunOutcome, RunWriteError> {
    context.writer.event(answer("here it is")).await?;
    Ok(RunOutcome::Answered)
}

type Frames = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

async fn open(world: &World, id: &SessionId, wish: StreamWish) -> Frames {
    Box::pin(world.streams.open(id, wish).await.expect("the session is there"))
}

/// The next frame's id, event name and data; `None` at the end. Comments and pings are passed over.
async fn next(frames: &mut Frames) -> Option<(Option<String>, String, serde_json::Value)> {
    loop {
        let frame = tokio::time::timeout(PATIENCE, frames.next()).await.expect("a frame in time")?;
        let text = String::from_utf8(frame.to_vec()).expect("UTF-8");
        let field =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).map(str::to_owned);
        match field("event") {
            None => {}
            Some(event) if event == "ping" => {}
            Some(event) => {
                let data = serde_json::from_str(&field("data").expect("data")).expect("JSON");
                return Some((field("id"), event, data));
            }
        }
    }
}

async fn names_until_idle(frames: &mut Frames) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((_, event, _)) = next(frames).await {
        let idle = event == "session.status_idle";
        names.push(event);
        if idle {
            break;
        }
    }
    names
}

#[tokio::test]
async fn a_stream_opened_after_an_unread_run_gives_that_run() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    let mut frames = open(&world, &id, StreamWish::default()).await;
    assert_eq!(
        names_until_idle(&mut frames).await,
        ["user.message", "session.status_running", "agent.message", "session.usage", "session.status_idle"]
    );
}

#[tokio::test]
async fn a_stream_opened_after_a_read_run_begins_with_the_next_one() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let mut first = open(&world, &id, StreamWish::default()).await;
    world.send(&id, vec![message("one")]).await.unwrap();
    names_until_idle(&mut first).await;
    let mut second = open(&world, &id, StreamWish::default()).await;
    world.settled(&id).await.unwrap();
    world.send(&id, vec![message("two")]).await.unwrap();
    let (_, event, data) = next(&mut second).await.unwrap();
    assert_eq!(event, "user.message");
    assert_eq!(data["content"][0]["text"], "two");
}

#[tokio::test]
async fn a_list_that_showed_the_idle_counts_as_read() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("one")]).await.unwrap();
    world.settled(&id).await.unwrap();
    world.streams.handed_out(&id, &world.events(&id).await.unwrap()).await;
    let mut frames = open(&world, &id, StreamWish::default()).await;
    world.send(&id, vec![message("two")]).await.unwrap();
    assert_eq!(next(&mut frames).await.unwrap().2["content"][0]["text"], "two");
}

#[tokio::test]
async fn a_reconnect_goes_on_right_behind_the_last_event() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    let events = world.events(&id).await.unwrap();
    for place in 0..events.len() - 1 {
        let wish = StreamWish { last_event_id: Some(events[place].id.to_string()), ..StreamWish::default() };
        let mut frames = open(&world, &id, wish).await;
        for event in &events[place + 1..] {
            assert_eq!(next(&mut frames).await.unwrap().0.as_deref(), Some(event.id.as_str()));
        }
    }
}

#[tokio::test]
async fn an_odd_last_event_id_is_as_none() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    world.send(&id, vec![message("go")]).await.unwrap();
    world.settled(&id).await.unwrap();
    world.streams.handed_out(&id, &world.events(&id).await.unwrap()).await;
    for odd in ["17", "", "evt_0000000000000000", "../x"] {
        let wish = StreamWish { last_event_id: Some(odd.to_owned()), ..StreamWish::default() };
        let mut frames = open(&world, &id, wish).await;
        world.send(&id, vec![message(odd)]).await.unwrap();
        assert_eq!(next(&mut frames).await.unwrap().2["content"][0]["text"], odd);
        names_until_idle(&mut frames).await;
        world.settled(&id).await.unwrap();
    }
}

#[tokio::test]
async fn until_idle_ends_the_stream() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let mut frames = open(&world, &id, StreamWish { until_idle: true, ..StreamWish::default() }).await;
    world.send(&id, vec![message("go")]).await.unwrap();
    names_until_idle(&mut frames).await;
    assert!(next(&mut frames).await.is_none());
}

#[tokio::test]
async fn a_deleted_session_ends_its_streams_with_its_last_event() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let mut frames = open(&world, &id, StreamWish::default()).await;
    assert_eq!(frames.next().await.unwrap(), ": open\n\n");
    world.sessions.delete(&id).await.unwrap();
    assert_eq!(next(&mut frames).await.unwrap().1, "session.deleted");
    assert!(next(&mut frames).await.is_none());
}

#[tokio::test]
async fn a_shutdown_ends_a_stream_after_the_run_under_way() {
    let world = world(|context: RunContext| async move {
        context.stop.cancelled().await;
        Ok(RunOutcome::Interrupted)
    })
    .await
    .unwrap();
    let busy = world.session().await.unwrap();
    let quiet = world.session().await.unwrap();
    world.send(&busy, vec![message("go")]).await.unwrap();
    let mut frames = open(&world, &busy, StreamWish::default()).await;
    let mut still = open(&world, &quiet, StreamWish::default()).await;
    next(&mut frames).await.unwrap();
    let lifecycle = world.lifecycle.clone();
    let (names, ended, _) =
        tokio::join!(names_until_idle(&mut frames), next(&mut still), lifecycle.shut_down(Duration::from_millis(200)));
    assert_eq!(names.last().map(String::as_str), Some("session.status_idle"));
    assert!(ended.is_none());
    assert!(next(&mut frames).await.is_none());
}

#[tokio::test]
async fn previews_come_only_to_those_who_asked_and_only_from_their_start() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let asking = StreamWish { message_previews: true, ..StreamWish::default() };
    let mut asked = open(&world, &id, asking.clone()).await;
    let mut plain = open(&world, &id, StreamWish::default()).await;
    // Both are past their first look at the store, so that what comes now comes live.
    let first = append(&world, &id, 1).await;
    world.broker.publish(&id, Signal::Events(first)).await.unwrap();
    next(&mut asked).await.unwrap();
    next(&mut plain).await.unwrap();
    let event = EventId::generate();
    let tell = async |signal: Signal| world.broker.publish(&id, signal).await.unwrap();
    tell(Signal::Preview(Preview::Start { id: event.clone(), event_type: "agent.message".to_owned() })).await;
    let mut late = open(&world, &id, asking).await;
    tell(Signal::Preview(Preview::Text { id: event.clone(), text: "hel".to_owned() })).await;
    let mut change = SessionChange::new(Guard::Always);
    change.events.push(ambient_engine::sessions::change::NewEvent { id: event.clone(), body: answer("hello") });
    let outcome = world.store.change_session(&id, change, ambient_engine::clock::Clock::system().now()).await.unwrap();
    let ChangeOutcome::Done(changed) = outcome else { panic!("refused") };
    tell(Signal::Events(changed.events)).await;
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(next(&mut asked).await.unwrap().1);
    }
    assert_eq!(seen, ["event_start", "event_delta", "agent.message"]);
    assert_eq!(next(&mut plain).await.unwrap().1, "agent.message");
    assert_eq!(next(&mut late).await.unwrap().1, "agent.message");
}

/// What may happen between the writer and a reader.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// Events are stored and told of.
    Append(u8),
    /// Events are stored, and nobody is told.
    AppendUntold(u8),
    /// The signal of an earlier append comes again, or late.
    Repeat,
    /// The reader takes some frames.
    Read(u8),
    /// The reader goes and comes back with its last event id.
    Reconnect,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (1_u8..6).prop_map(Happening::Append),
        2 => (1_u8..6).prop_map(Happening::AppendUntold),
        1 => Just(Happening::Repeat),
        4 => (1_u8..8).prop_map(Happening::Read),
        1 => Just(Happening::Reconnect),
    ]
}

async fn append(world: &World, id: &SessionId, count: u8) -> Vec<ambient_engine::store::records::EventRecord> {
    let mut change = SessionChange::new(Guard::Always);
    for number in 0..count {
        change.event(answer(&number.to_string()));
    }
    match world.store.change_session(id, change, ambient_engine::clock::Clock::system().now()).await {
        Ok(ChangeOutcome::Done(changed)) => changed.events,
        other => panic!("{other:?}"),
    }
}

async fn every_event_once_in_order(world: &World, happenings: Vec<Happening>) {
    let id = world.session().await.expect("a session");
    let mut frames = open(world, &id, StreamWish::default()).await;
    let mut seen: Vec<String> = Vec::new();
    let mut stored: Vec<String> = Vec::new();
    let mut told = Vec::new();
    // The first event is what a reconnect can name.
    let first = append(world, &id, 1).await;
    stored.extend(first.iter().map(|event| event.id.to_string()));
    world.broker.publish(&id, Signal::Events(first)).await.expect("published");
    for happening in happenings {
        match happening {
            Happening::Append(count) => {
                let events = append(world, &id, count).await;
                stored.extend(events.iter().map(|event| event.id.to_string()));
                told.push(events.clone());
                world.broker.publish(&id, Signal::Events(events)).await.expect("published");
            }
            Happening::AppendUntold(count) => {
                let events = append(world, &id, count).await;
                stored.extend(events.iter().map(|event| event.id.to_string()));
                told.push(events);
            }
            Happening::Repeat => {
                if let Some(events) = told.last() {
                    world.broker.publish(&id, Signal::Events(events.clone())).await.expect("published");
                }
            }
            Happening::Read(count) => {
                // Only as many as are sure to come without another signal.
                for _ in 0..count {
                    let Some(Some(frame)) = futures::FutureExt::now_or_never(frames.next()) else { break };
                    seen.extend(id_of(&frame));
                }
            }
            Happening::Reconnect => {
                if let Some(last) = seen.last() {
                    let wish = StreamWish { last_event_id: Some(last.clone()), ..StreamWish::default() };
                    frames = open(world, &id, wish).await;
                }
            }
        }
    }
    // A last event that is told of brings the reader to the end.
    let last = append(world, &id, 1).await;
    stored.extend(last.iter().map(|event| event.id.to_string()));
    world.broker.publish(&id, Signal::Events(last)).await.expect("published");
    while seen.len() < stored.len() {
        let (event, ..) = next(&mut frames).await.expect("the stream goes on");
        seen.extend(event);
    }
    assert_eq!(seen, stored);
}

fn id_of(frame: &Bytes) -> Option<String> {
    std::str::from_utf8(frame).ok()?.lines().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn any_interleaving_shows_each_event_once_in_order(happenings in prop::collection::vec(happening(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = world(answers).await.unwrap();
            every_event_once_in_order(&world, happenings).await;
        });
    }
}

#[tokio::test]
async fn a_reader_that_stalls_over_a_thousand_events_gets_them_all_and_holds_up_nobody() {
    let world = Arc::new(world(answers).await.unwrap());
    let id = world.session().await.unwrap();
    let mut stalled = open(&world, &id, StreamWish::default()).await;
    assert_eq!(stalled.next().await.unwrap(), ": open\n\n");
    let mut brisk = open(&world, &id, StreamWish::default()).await;
    let mut stored = Vec::new();
    for _ in 0..250 {
        let events = append(&world, &id, 4).await;
        stored.extend(events.iter().map(|event| event.id.to_string()));
        world.broker.publish(&id, Signal::Events(events)).await.unwrap();
        for _ in 0..4 {
            next(&mut brisk).await.unwrap();
        }
    }
    let mut seen = Vec::new();
    while seen.len() < stored.len() {
        seen.extend(next(&mut stalled).await.unwrap().0);
    }
    assert_eq!(seen, stored);
}

#[tokio::test]
async fn an_idle_that_waits_for_the_client_does_not_end_a_stream_until_idle() {
    let world = world(answers).await.unwrap();
    let id = world.session().await.unwrap();
    let mut frames = open(&world, &id, StreamWish { until_idle: true, ..StreamWish::default() }).await;
    let mut change = SessionChange::new(Guard::Always);
    change.event(EventBody::StatusIdle {
        stop_reason: StopReason::RequiresAction { event_ids: Vec::new() },
        stop_details: None,
    });
    change.event(EventBody::StatusIdle { stop_reason: StopReason::EndTurn, stop_details: None });
    let outcome = world.store.change_session(&id, change, ambient_engine::clock::Clock::system().now()).await.unwrap();
    let ChangeOutcome::Done(changed) = outcome else { panic!("refused") };
    world.broker.publish(&id, Signal::Events(changed.events)).await.unwrap();
    assert_eq!(next(&mut frames).await.unwrap().2["stop_reason"]["type"], "requires_action");
    assert_eq!(next(&mut frames).await.unwrap().2["stop_reason"]["type"], "end_turn");
    assert!(next(&mut frames).await.is_none());
}
