//! What the broker promises, told once and run in process and on Redis.

#![expect(clippy::unwrap_used, reason = "a story is the body of two tests")]

#[path = "support/proxy.rs"]
mod proxy;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "support/servers.rs"]
mod servers;

use std::sync::Arc;
use std::time::Duration;

use ambient_engine::broker::{
    Broker, BrokerError, BrokerOptions, Heard, Job, Lease, Preview, Signal, Signals, TakenJob, connect,
};
use ambient_engine::ids::{EventId, SessionId, VideoId};
use futures::future::join_all;
use proxy::Proxy;
use servers::Failure;
use tokio::time::{Instant, timeout};

macro_rules! contract { ($($story:ident),* $(,)?) => { $(mod $story {
    #[tokio::test]
    async fn in_process() {
        super::$story(super::Engines::in_process().await.unwrap()).await;
    }
    #[tokio::test]
    async fn on_redis() {
        super::$story(super::Engines::on_redis().await.unwrap()).await;
    }
})* } }

contract!(
    a_lease_has_one_holder,
    a_lease_runs_out,
    an_extended_lease_stays,
    many_want_a_lease_and_one_gets_it,
    signals_come_whole_and_in_order,
    what_is_published_after_subscribing_is_heard,
    a_slow_reader_is_told_and_slows_nobody,
    readers_hear_that_the_broker_is_gone,
    a_job_is_taken_once,
    jobs_come_in_order,
    the_same_job_waits_once,
    a_job_added_while_it_runs_comes_again,
    a_delayed_job_waits,
    a_job_that_is_wanted_sooner_comes_sooner,
    a_patient_taker_is_woken,
    a_silent_holder_loses_its_job,
    a_try_counts_though_the_job_was_added_again,
    a_kept_job_stays,
    a_finished_job_is_gone,
);

/// No story waits longer for what has to come.
const LIMIT: Duration = Duration::from_secs(30);
/// Long enough for everything here.
const LONG: Duration = Duration::from_mins(10);
const NOW: Duration = Duration::ZERO;

/// Two engines that share what engines share; in process they are one.
struct Engines {
    one: Arc<dyn Broker>,
    two: Arc<dyn Broker>,
    options: BrokerOptions,
}

impl Engines {
    async fn in_process() -> Result<Self, Failure> {
        let options = options();
        let one = connect(None, &options).await?;
        Ok(Self { two: Arc::clone(&one), one, options })
    }

    async fn on_redis() -> Result<Self, Failure> {
        let url = redis_server::redis_url()?;
        let options = options();
        let (one, two) = (connect(Some(&url), &options).await?, connect(Some(&url), &options).await?);
        Ok(Self { one, two, options })
    }
}

/// Names that no other test has.
fn options() -> BrokerOptions {
    let test = SessionId::generate();
    BrokerOptions { engine_id: "same".to_owned(), stream: format!("test:{test}"), group: "workers".to_owned() }
}

fn lease_name() -> String {
    format!("session:{}", SessionId::generate())
}

fn job(number: u8) -> Job {
    Job::Ingest { video: VideoId::of_hash(&format!("{number:016x}")).expect("hex digits") }
}

fn word(text: &str) -> Signal {
    Signal::Preview(Preview::Text {
        id: "evt_0123456789abcdef".parse::<EventId>().expect("an id"),
        text: text.to_owned(),
    })
}

async fn next(ear: &mut Signals) -> Heard {
    timeout(LIMIT, ear.next()).await.expect("something was to be heard")
}

/// The text of the next [`word`].
async fn next_word(ear: &mut Signals) -> String {
    match next(ear).await {
        Heard::Signal(signal) => match &*signal {
            Signal::Preview(Preview::Text { text, .. }) => text.clone(),
            other => panic!("not a word: {other:?}"),
        },
        other => panic!("not a signal: {other:?}"),
    }
}

/// Tries until the lease is free.
async fn acquired(broker: &dyn Broker, name: &str) -> Lease {
    let until = Instant::now() + LIMIT;
    loop {
        if let Some(lease) = broker.acquire(name, LONG).await.expect("the broker answers") {
            return lease;
        }
        assert!(Instant::now() < until, "the lease never ran out");
        tokio::task::yield_now().await;
    }
}

async fn taken(broker: &dyn Broker, patience: Duration) -> Option<TakenJob> {
    timeout(LIMIT + patience, broker.take(patience, LONG)).await.expect("in time").expect("the broker answers")
}

async fn a_lease_has_one_holder(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let name = lease_name();
    assert!(!two.is_held(&name).await.unwrap());
    let first = one.acquire(&name, LONG).await.unwrap().unwrap();
    assert_eq!(first.name, name);
    assert!(two.is_held(&name).await.unwrap());
    assert_eq!(two.acquire(&name, LONG).await.unwrap(), None);
    assert_eq!(one.acquire(&name, LONG).await.unwrap(), None, "not even its holder gets it twice");
    assert!(one.extend(&first, LONG).await.unwrap());

    one.release(&first).await.unwrap();
    assert!(!two.is_held(&name).await.unwrap());
    assert!(!one.extend(&first, LONG).await.unwrap());
    let second = two.acquire(&name, LONG).await.unwrap().unwrap();
    assert!(second.fence > first.fence);
    assert_ne!(second.token, first.token);
    one.release(&first).await.unwrap();
    assert!(!one.extend(&first, LONG).await.unwrap());
    assert!(two.extend(&second, LONG).await.unwrap(), "the old holder touches nothing");
}

async fn a_lease_runs_out(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let name = lease_name();
    let lost = one.acquire(&name, Duration::from_millis(50)).await.unwrap().unwrap();
    let mine = acquired(&*two, &name).await;
    assert!(mine.fence > lost.fence);
    assert!(!one.extend(&lost, LONG).await.unwrap());
    one.release(&lost).await.unwrap();
    assert!(two.extend(&mine, LONG).await.unwrap());
}

async fn an_extended_lease_stays(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let (name, clock) = (lease_name(), lease_name());
    let short = Duration::from_millis(200);
    let kept = one.acquire(&name, short).await.unwrap().unwrap();
    assert!(one.extend(&kept, LONG).await.unwrap());
    one.acquire(&clock, short).await.unwrap().unwrap();
    // Once a lease that was taken later has run out, this one would have too.
    acquired(&*two, &clock).await;
    assert!(two.is_held(&name).await.unwrap());
    assert!(one.extend(&kept, LONG).await.unwrap());
}

async fn many_want_a_lease_and_one_gets_it(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let name = lease_name();
    let tries = (0..16).map(|n| if n % 2 == 0 { &one } else { &two }).map(|broker| broker.acquire(&name, LONG));
    let got: Vec<Lease> = join_all(tries).await.into_iter().filter_map(|result| result.unwrap()).collect();
    assert_eq!(got.len(), 1);
}

async fn signals_come_whole_and_in_order(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let (session, other) = (SessionId::generate(), SessionId::generate());
    let mut ears = [one.subscribe(&session).await.unwrap(), two.subscribe(&session).await.unwrap()];
    let mut elsewhere = one.subscribe(&other).await.unwrap();
    for n in 0..100 {
        two.publish(&session, word(&format!("{n} ä\n\"\0🎬"))).await.unwrap();
    }
    two.publish(&session, Signal::Interrupt { fence: u64::MAX }).await.unwrap();
    two.publish(&other, word("elsewhere")).await.unwrap();
    for ear in &mut ears {
        for n in 0..100 {
            assert_eq!(next_word(ear).await, format!("{n} ä\n\"\0🎬"));
        }
        match next(ear).await {
            Heard::Signal(signal) => assert_eq!(*signal, Signal::Interrupt { fence: u64::MAX }),
            other => panic!("not a signal: {other:?}"),
        }
    }
    assert_eq!(next_word(&mut elsewhere).await, "elsewhere", "nothing of the other session came before");
}

async fn what_is_published_after_subscribing_is_heard(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let rounds = (0..50).map(async |n| {
        let session = SessionId::generate();
        two.publish(&session, word("too early")).await.unwrap();
        let mut ear = one.subscribe(&session).await.unwrap();
        two.publish(&session, word(&n.to_string())).await.unwrap();
        assert_eq!(next_word(&mut ear).await, n.to_string());
        // A second reader of a session, and one that comes after all left, hear as well.
        let mut second = one.subscribe(&session).await.unwrap();
        two.publish(&session, word("second")).await.unwrap();
        assert_eq!(next_word(&mut second).await, "second");
        drop((ear, second));
        let mut third = one.subscribe(&session).await.unwrap();
        two.publish(&session, word("third")).await.unwrap();
        assert_eq!(next_word(&mut third).await, "third");
    });
    join_all(rounds).await;
}

async fn a_slow_reader_is_told_and_slows_nobody(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let session = SessionId::generate();
    let mut slow = one.subscribe(&session).await.unwrap();
    let mut fast = one.subscribe(&session).await.unwrap();
    for n in 0..2000 {
        two.publish(&session, word(&n.to_string())).await.unwrap();
        assert_eq!(next_word(&mut fast).await, n.to_string());
    }
    assert!(matches!(next(&mut slow).await, Heard::Missed));
    let first: u32 = next_word(&mut slow).await.parse().unwrap();
    assert!(first > 0);
    for n in first + 1..2000 {
        assert_eq!(next_word(&mut slow).await, n.to_string());
    }
}

async fn readers_hear_that_the_broker_is_gone(engines: Engines) {
    let mut ear = engines.one.subscribe(&SessionId::generate()).await.unwrap();
    drop(engines);
    assert!(matches!(next(&mut ear).await, Heard::Closed));
}

async fn a_job_is_taken_once(engines: Engines) {
    let Engines { one, two, .. } = engines;
    one.enqueue(&job(1), NOW).await.unwrap();
    let takers = (0..8).map(|n| if n % 2 == 0 { &one } else { &two }).map(|broker| taken(&**broker, NOW));
    let got: Vec<TakenJob> = join_all(takers).await.into_iter().flatten().collect();
    assert_eq!(got.len(), 1);
    assert_eq!((&got[0].job, got[0].attempt), (&job(1), 1));
}

async fn jobs_come_in_order(engines: Engines) {
    let Engines { one, two, .. } = engines;
    for n in [3, 1, 2] {
        one.enqueue(&job(n), NOW).await.unwrap();
    }
    for n in [3, 1, 2] {
        assert_eq!(taken(&*two, NOW).await.unwrap().job, job(n));
    }
    assert_eq!(taken(&*one, NOW).await, None);
}

async fn the_same_job_waits_once(engines: Engines) {
    let Engines { one, two, .. } = engines;
    for broker in [&one, &two, &one] {
        broker.enqueue(&job(1), NOW).await.unwrap();
    }
    let only = taken(&*one, NOW).await.unwrap();
    assert_eq!(taken(&*two, NOW).await, None);
    one.finish(&only).await.unwrap();
    assert_eq!(taken(&*two, NOW).await, None);
}

async fn a_job_added_while_it_runs_comes_again(engines: Engines) {
    let Engines { one, two, .. } = engines;
    one.enqueue(&job(1), NOW).await.unwrap();
    let first = taken(&*one, NOW).await.unwrap();
    two.enqueue(&job(1), NOW).await.unwrap();
    one.finish(&first).await.unwrap();
    let second = taken(&*one, NOW).await.unwrap();
    assert_eq!((&second.job, second.attempt), (&job(1), 1));
    assert_ne!(second.receipt, first.receipt);
}

async fn a_delayed_job_waits(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let began = Instant::now();
    let delay = Duration::from_millis(300);
    one.enqueue(&job(1), delay).await.unwrap();
    one.enqueue(&job(2), NOW).await.unwrap();
    assert_eq!(taken(&*two, NOW).await.unwrap().job, job(2));
    assert_eq!(taken(&*two, LIMIT).await.unwrap().job, job(1));
    // Redis counts in its own milliseconds.
    assert!(began.elapsed() >= delay.checked_sub(Duration::from_millis(5)).unwrap());
}

async fn a_job_that_is_wanted_sooner_comes_sooner(engines: Engines) {
    let Engines { one, two, .. } = engines;
    one.enqueue(&job(1), LONG).await.unwrap();
    assert_eq!(taken(&*two, NOW).await, None);
    one.enqueue(&job(1), NOW).await.unwrap();
    one.enqueue(&job(1), LONG).await.unwrap();
    assert_eq!(taken(&*two, NOW).await.unwrap().job, job(1));
    assert_eq!(taken(&*two, NOW).await, None);
}

async fn a_patient_taker_is_woken(engines: Engines) {
    let Engines { one, two, .. } = engines;
    assert_eq!(taken(&*two, NOW).await, None);
    let began = Instant::now();
    let takers = join_all((0..4).map(|_| taken(&*two, LONG)));
    let giver = join_all((0..4).map(|n| {
        let one = &one;
        async move {
            tokio::task::yield_now().await;
            one.enqueue(&job(n), NOW).await.unwrap();
        }
    }));
    let (got, _given) = timeout(LIMIT, futures::future::join(takers, giver)).await.expect("woken");
    assert_eq!(got.into_iter().flatten().count(), 4);
    assert!(began.elapsed() < LIMIT);
}

async fn a_silent_holder_loses_its_job(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let short = Duration::from_millis(100);
    one.enqueue(&job(1), NOW).await.unwrap();
    let lost = one.take(NOW, short).await.unwrap().unwrap();
    let mine = timeout(LIMIT, two.take(LONG, short)).await.unwrap().unwrap().unwrap();
    assert_eq!((&mine.job, mine.attempt), (&job(1), 2));
    assert!(!one.keep(&lost).await.unwrap());
    one.finish(&lost).await.unwrap();
    let third = timeout(LIMIT, one.take(LONG, short)).await.unwrap().unwrap().unwrap();
    assert_eq!(third.attempt, 3, "what the first holder finished too late was not finished");
    one.finish(&third).await.unwrap();
    assert!(!one.keep(&third).await.unwrap());
}

async fn a_try_counts_though_the_job_was_added_again(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let (clock, short) = (lease_name(), Duration::from_millis(50));
    one.enqueue(&job(1), NOW).await.unwrap();
    one.take(NOW, short).await.unwrap().unwrap();
    one.enqueue(&job(1), NOW).await.unwrap();
    // Once a lease that was taken later has run out, the holder has been silent for too long.
    two.acquire(&clock, short * 2).await.unwrap().unwrap();
    acquired(&*two, &clock).await;
    let again = two.take(NOW, short).await.unwrap().unwrap();
    assert_eq!((&again.job, again.attempt), (&job(1), 2));
}

async fn a_kept_job_stays(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let lease = Duration::from_millis(500);
    one.enqueue(&job(1), NOW).await.unwrap();
    let mine = one.take(NOW, lease).await.unwrap().unwrap();
    let mut beat = tokio::time::interval(Duration::from_millis(50));
    let heartbeat = async {
        loop {
            beat.tick().await;
            assert!(one.keep(&mine).await.unwrap());
        }
    };
    // The other engine looks for three times as long as the lease.
    tokio::select! {
        never = heartbeat => never,
        stolen = two.take(lease * 3, lease) => assert_eq!(stolen.unwrap(), None),
    }
}

async fn a_finished_job_is_gone(engines: Engines) {
    let Engines { one, two, .. } = engines;
    let lease = Duration::from_millis(20);
    one.enqueue(&job(1), NOW).await.unwrap();
    let mine = taken(&*one, NOW).await.unwrap();
    one.finish(&mine).await.unwrap();
    one.finish(&mine).await.unwrap();
    assert_eq!(two.take(lease * 10, lease).await.unwrap(), None);
}

/// A connection past the broker.
async fn redis_itself() -> redis::aio::MultiplexedConnection {
    let url = redis_server::redis_url().expect("a Redis");
    let client = redis::Client::open(url).expect("an address");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

#[tokio::test]
async fn a_broken_connection_is_made_again_and_readers_are_told() {
    let url = redis_server::redis_url().unwrap();
    let target = url.trim_start_matches("redis://").trim_end_matches("/0").to_owned();
    let wire = Proxy::to(target).await.unwrap();
    let options = options();
    let through = connect(Some(&format!("redis://{}/0", wire.address())), &options).await.unwrap();
    let direct = connect(Some(&url), &options).await.unwrap();
    let session = SessionId::generate();
    let mut ear = through.subscribe(&session).await.unwrap();
    direct.publish(&session, word("before")).await.unwrap();
    assert_eq!(next_word(&mut ear).await, "before");

    wire.cut();
    let until = Instant::now() + LIMIT;
    while through.ping().await.is_ok() {
        assert!(Instant::now() < until, "the cut was not noticed");
    }
    assert!(matches!(through.acquire(&lease_name(), LONG).await, Err(BrokerError::Unavailable(_))));
    direct.publish(&session, word("while it was away")).await.unwrap();
    wire.mend();
    assert!(matches!(next(&mut ear).await, Heard::Missed));
    direct.publish(&session, word("after")).await.unwrap();
    assert_eq!(next_word(&mut ear).await, "after");

    let until = Instant::now() + LIMIT;
    while through.ping().await.is_err() {
        assert!(Instant::now() < until, "commands never came back");
    }
    let mut second = through.subscribe(&session).await.unwrap();
    through.publish(&session, word("both ways")).await.unwrap();
    assert_eq!(next_word(&mut second).await, "both ways");
    direct.enqueue(&job(1), NOW).await.unwrap();
    assert_eq!(taken(&*through, LIMIT).await.unwrap().job, job(1));
}

#[tokio::test]
async fn a_session_without_readers_is_not_listened_to() {
    let engines = Engines::on_redis().await.unwrap();
    let session = SessionId::generate();
    let channel = format!("session:{session}:events");
    let mut redis = redis_itself().await;
    let mut listeners = async || {
        let (_channel, count): (String, u64) =
            redis::cmd("PUBSUB").arg("NUMSUB").arg(&channel).query_async(&mut redis).await.unwrap();
        count
    };
    let ears = (engines.one.subscribe(&session).await.unwrap(), engines.one.subscribe(&session).await.unwrap());
    assert_eq!(listeners().await, 1, "one connection for all readers of a process");
    drop(ears);
    let until = Instant::now() + LIMIT;
    while listeners().await > 0 {
        assert!(Instant::now() < until, "it still listens");
    }
}

#[tokio::test]
async fn a_lease_is_the_key_that_operators_look_for() {
    let engines = Engines::on_redis().await.unwrap();
    let name = lease_name();
    let lease = engines.one.acquire(&name, LONG).await.unwrap().unwrap();
    let value: String =
        redis::cmd("GET").arg(format!("{name}:owner")).query_async(&mut redis_itself().await).await.unwrap();
    assert_eq!(value, lease.token);
    assert!(value.starts_with("same-"), "{value} names its engine");
}

#[tokio::test]
async fn a_redis_that_lost_its_data_takes_jobs_again() {
    let Engines { one, two, options } = Engines::on_redis().await.unwrap();
    one.enqueue(&job(1), NOW).await.unwrap();
    let lost = taken(&*one, NOW).await.unwrap();
    let mut redis = redis_itself().await;
    let _gone: u64 = redis::cmd("DEL").arg(&options.stream).query_async(&mut redis).await.unwrap();
    assert!(!one.keep(&lost).await.unwrap());
    one.finish(&lost).await.unwrap();
    two.enqueue(&job(2), NOW).await.unwrap();
    assert_eq!(taken(&*one, NOW).await.unwrap().job, job(2));
}

/// What was added by hand, before there was a group too, is work; what is no job is thrown away instead of coming back for
/// ever; and what is done leaves the stream.
#[tokio::test]
async fn the_stream_takes_entries_of_others() {
    let Engines { one, options, .. } = Engines::on_redis().await.unwrap();
    let mut redis = redis_itself().await;
    let text = serde_json::to_string(&job(7)).unwrap();
    for (field, value) in [("job", "{"), ("video_id", "x"), ("job", text.as_str())] {
        let _id: String =
            redis::cmd("XADD").arg(&[&options.stream, "*", field, value]).query_async(&mut redis).await.unwrap();
    }
    let mine = taken(&*one, NOW).await.unwrap();
    assert_eq!(mine.job, job(7));
    one.finish(&mine).await.unwrap();
    assert_eq!(taken(&*one, NOW).await, None);
    let left: u64 = redis::cmd("XLEN").arg(&options.stream).query_async(&mut redis).await.unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn an_entry_that_was_trimmed_is_forgotten() {
    let Engines { one, two, options } = Engines::on_redis().await.unwrap();
    let short = Duration::from_millis(20);
    for n in [1, 2] {
        one.enqueue(&job(n), NOW).await.unwrap();
        one.take(NOW, LONG).await.unwrap().unwrap();
    }
    let mut redis = redis_itself().await;
    let _cut: u64 =
        redis::cmd("XTRIM").arg(&options.stream).arg("MAXLEN").arg(1).query_async(&mut redis).await.unwrap();
    let mine = timeout(LIMIT, two.take(LONG, short)).await.unwrap().unwrap().unwrap();
    assert_eq!(mine.job, job(2));
    two.finish(&mine).await.unwrap();
    assert_eq!(two.take(short * 5, short).await.unwrap(), None);
}

#[tokio::test]
async fn a_start_names_what_is_wrong_without_secrets() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let there = redis_server::redis_url().unwrap().trim_start_matches("redis://").to_owned();
    for (url, expected) in [
        (format!("redis://:hunter2@{free}/0"), "nothing listens at"),
        (format!("redis://:hunter2@{there}"), "refused the login"),
        (format!("rediss://:hunter2@{there}"), "no connection to Redis at"),
        ("http://hunter2@host".to_owned(), "`REDIS_URL` is not usable: it does not parse"),
        ("hunter2".to_owned(), "`REDIS_URL` is not usable: it does not parse"),
    ] {
        let error = connect(Some(&url), &options()).await.expect_err(&url);
        let text = ambient_engine::store::chain(&error);
        assert!(text.contains(expected), "{url}: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
