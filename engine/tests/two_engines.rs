//! Two engines over one Postgres and one Redis serve one session: what one does, the other sees, stops and goes on with.

#[path = "support/databases.rs"]
#[expect(dead_code, reason = "only Postgres is wanted here")]
mod databases;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "support/servers.rs"]
mod servers;
mod support {
    pub(crate) mod backend;
    #[expect(dead_code, reason = "its worlds of one engine are not wanted here")]
    pub(crate) mod world;
}

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::agent::{RunContext, RunOutcome};
use ambient_engine::broker::BrokerOptions;
use ambient_engine::clock::Clock;
use ambient_engine::events::body::{EventBody, StopReason};
use ambient_engine::events::stream::StreamWish;
use ambient_engine::ids::SessionId;
use ambient_engine::lifecycle::Lifecycle;
use ambient_engine::sessions::state::SessionState;
use ambient_engine::sessions::supervise::Runner;
use ambient_engine::sessions::wishes::SessionError;
use ambient_engine::sessions::writer::RunWriteError;
use ambient_engine::store::Migrate;
use databases::Database;
use futures::StreamExt as _;
use support::world::{PATIENCE, World, answer, assemble, message, seed, types};

type Work = fn(RunContext) -> futures::future::BoxFuture<'static, Result<RunOutcome, RunWriteError>>;

/// Two engines, and what they share.
struct Pair {
    one: World,
    two: World,
    database: Database,
}

async fn engine(database: &Database, name: &str, work: Work) -> World {
    let store = database.open(Migrate::Run).await.expect("the database is migrated");
    let options = BrokerOptions {
        engine_id: format!("{name}-{:08x}", std::process::id()),
        stream: "two-engines".to_owned(),
        group: "two-engines".to_owned(),
    };
    let url = redis_server::redis_url().expect("a Redis");
    let broker = ambient_engine::broker::connect(Some(&url), &options).await.expect("Redis answers");
    let folder = tempfile::tempdir().expect("a folder");
    assemble(store, broker, Clock::system(), Lifecycle::new(), Runner::new(work), folder)
}

async fn pair(work: Work) -> Pair {
    let database = Database::postgres().await.expect("a database");
    seed(database.store(), &Clock::system()).await.expect("seeded");
    let one = engine(&database, "one", work).await;
    let two = engine(&database, "two", work).await;
    Pair { one, two, database }
}

fn answers(context: RunContext) -> futures::future::BoxFuture<'static, Result<RunOutcome, RunWriteError>> {
    Box::pin(async move {
        let history = context.session.message_count;
        context.writer.event(answer(&format!("after {history} messages"))).await?;
        Ok(RunOutcome::Answered)
    })
}

fn waits(context: RunContext) -> futures::future::BoxFuture<'static, Result<RunOutcome, RunWriteError>> {
    Box::pin(async move {
        context.stop.cancelled().await;
        Ok(RunOutcome::Interrupted)
    })
}

async fn stream_until_idle(engine: &World, id: &SessionId) -> Vec<String> {
    let wish = StreamWish { until_idle: true, ..StreamWish::default() };
    let stream = engine.streams.open(id, wish).await.expect("the session is there");
    let frames = tokio::time::timeout(PATIENCE, Box::pin(stream).collect::<Vec<_>>()).await.expect("an idle in time");
    frames
        .iter()
        .filter_map(|frame| std::str::from_utf8(frame).ok()?.lines().find_map(|line| line.strip_prefix("event: ")))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn a_stream_on_one_engine_shows_the_run_of_the_other() {
    let Pair { one, two, .. } = pair(answers).await;
    let id = one.session().await.unwrap();
    for _turn in 0..3 {
        let (names, sent) = tokio::join!(stream_until_idle(&two, &id), one.send(&id, vec![message("go")]));
        sent.unwrap();
        assert_eq!(
            names,
            ["user.message", "session.status_running", "agent.message", "session.usage", "session.status_idle"]
        );
    }
}

#[tokio::test]
async fn turns_on_changing_engines_see_each_other() {
    let Pair { one, two, .. } = pair(answers).await;
    let id = one.session().await.unwrap();
    for engine in [&one, &two, &one, &two] {
        engine.send(&id, vec![message("go")]).await.unwrap();
        engine.settled(&id).await.unwrap();
    }
    let said = format!("{:?}", two.events(&id).await.unwrap());
    assert!(said.contains("after 1 messages") && said.contains("after 4 messages"), "{said}");
}

#[tokio::test]
async fn an_interrupt_at_one_engine_stops_the_run_of_the_other() {
    let Pair { one, two, .. } = pair(waits).await;
    let id = one.session().await.unwrap();
    one.send(&id, vec![message("go")]).await.unwrap();
    assert!(matches!(two.send(&id, vec![message("me too")]).await, Err(SessionError::RunInFlight)));
    let asked = tokio::time::Instant::now();
    two.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await.unwrap();
    two.settled(&id).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let events = one.events(&id).await.unwrap();
    assert!(
        matches!(&events.last().unwrap().body, EventBody::StatusIdle { stop_reason: StopReason::EndTurn, .. }),
        "{:?}",
        types(&events)
    );
}

#[tokio::test]
async fn of_messages_at_both_engines_at_once_one_begins_a_run() {
    let Pair { one, two, .. } = pair(waits).await;
    for _try in 0..5 {
        let id = one.session().await.unwrap();
        let (first, second) = tokio::join!(one.send(&id, vec![message("one")]), two.send(&id, vec![message("two")]));
        assert_eq!(usize::from(first.is_ok()) + usize::from(second.is_ok()), 1, "{first:?} {second:?}");
    }
}

#[tokio::test]
async fn a_living_run_of_another_engine_is_left_alone() {
    let Pair { one, two, .. } = pair(waits).await;
    let id = one.session().await.unwrap();
    one.send(&id, vec![message("go")]).await.unwrap();
    two.sessions.recover_once().await.unwrap();
    assert!(matches!(two.sessions.session(&id).await.unwrap().state, SessionState::Running { .. }));
}

#[tokio::test]
async fn an_engine_that_joins_later_goes_on_with_the_session() {
    let Pair { one, database, .. } = pair(answers).await;
    let id = one.session().await.unwrap();
    one.send(&id, vec![message("go")]).await.unwrap();
    one.settled(&id).await.unwrap();
    assert!(one.lifecycle.shut_down(Duration::from_secs(5)).await);
    let three = Arc::new(engine(&database, "three", answers).await);
    three.send(&id, vec![message("again")]).await.unwrap();
    assert_eq!(three.settled(&id).await.unwrap().state, SessionState::Idle);
}
