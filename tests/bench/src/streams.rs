//! A thousand readers of a hundred sessions: every event to every reader, in time, and one that has stopped reading.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::figure::{bytes_in, number, print, quantile};
use crate::process::Engine;
use crate::reader::{Arrival, Reader, ask_for_stream};
use crate::{BenchError, Figure, RunArgs};

const SESSIONS: usize = 100;
const READERS_A_SESSION: usize = 10;
const TURNS: usize = 10;
/// Each session gets a message this often; the sessions are spread evenly over the time.
const PACE: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_mins(1);
const IDLE: &str = "session.status_idle";

/// What one load showed.
struct Load {
    delays: Vec<f64>,
    expected: usize,
    arrived: usize,
}

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let engine = Engine::start(args).await?;
    let video = engine.upload(&args.clip).await?;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let session = engine.session(&video).await?;
        let mut stream = Reader::open(&engine.server.url, &session).await?;
        engine.send(&session, "what is this?").await?;
        stream.until(IDLE, LIMIT).await?;
        sessions.push(session);
    }
    let before = engine.server.resident()?;
    engine.server.forget_peak()?;
    let alone = load(&engine, &sessions).await?;
    let growth = bytes_in(engine.server.peak()?.saturating_sub(before), 1_000_000);

    let stalled = stalled_reader(&engine, &sessions[0]).await?;
    let beside = load(&engine, &sessions).await?;
    drop(stalled);
    engine.stop().await?;

    let (mut alone_delays, mut beside_delays) = (alone.delays, beside.delays);
    let (p50, p99) = (quantile(&mut alone_delays, 0.5), quantile(&mut alone_delays, 0.99));
    let stalled_p99 = quantile(&mut beside_delays, 0.99);
    print(&format!(
        "     {} streams on {SESSIONS} sessions, {} events delivered, median {p50:.1} ms",
        SESSIONS * READERS_A_SESSION,
        alone.arrived
    ));
    Ok(vec![
        Figure::at_least("events that reached every reader, in order", share(alone.arrived, alone.expected), 1.0, "x"),
        Figure::below("delivery of an event, 99th percentile", p99, 100.0, "ms"),
        Figure::below("memory growth with all streams under load, peak", growth, 100.0, "MB"),
        Figure::at_least("the same events beside a stalled reader", share(beside.arrived, beside.expected), 1.0, "x"),
        Figure::below("the same delivery beside a stalled reader", stalled_p99, 100.0, "ms"),
    ])
}

fn share(part: usize, whole: usize) -> f64 {
    number(part) / number(whole.max(1))
}

/// A client that asks for a stream and never reads.
async fn stalled_reader(engine: &Engine, session: &str) -> Result<TcpStream, BenchError> {
    ask_for_stream(&engine.server.url, session).await
}

/// Messages at an even pace to all sessions, read by all readers.
async fn load(engine: &Engine, sessions: &[String]) -> Result<Load, BenchError> {
    let mut readers = JoinSet::new();
    for (place, session) in sessions.iter().enumerate() {
        for _ in 0..READERS_A_SESSION {
            let mut reader = Reader::open(&engine.server.url, session).await?;
            readers.spawn(async move {
                let mut seen = Vec::new();
                for _ in 0..TURNS {
                    seen.extend(reader.until(IDLE, LIMIT).await?);
                }
                Ok::<(usize, Vec<Arrival>), BenchError>((place, seen))
            });
        }
    }
    send_all(engine, sessions).await?;

    let mut stored = Vec::new();
    let mut load = Load { delays: Vec::new(), expected: 0, arrived: 0 };
    for session in sessions {
        stored.push(newest_events(engine, session).await?);
    }
    while let Some(done) = readers.join_next().await {
        let (place, seen) = done.map_err(|error| BenchError::Unexpected(error.to_string()))??;
        let expected = expected_of(&stored[place]);
        load.expected += expected.len();
        load.arrived += expected.iter().zip(&seen).filter(|(wanted, got)| **wanted == got.id).count();
        load.delays.extend(seen.iter().map(|arrival| arrival.delay));
    }
    Ok(load)
}

async fn send_all(engine: &Engine, sessions: &[String]) -> Result<(), BenchError> {
    let step = PACE / u32::try_from(sessions.len()).map_err(|error| BenchError::Unexpected(error.to_string()))?;
    let mut next = Instant::now();
    for _ in 0..TURNS {
        for session in sessions {
            tokio::time::sleep_until(next).await;
            next += step;
            engine.send(session, "and then?").await?;
        }
    }
    tokio::time::sleep(PACE).await; // the last runs end before the history is read
    Ok(())
}

/// The events of a session, newest first, as pairs of id and type.
async fn newest_events(engine: &Engine, session: &str) -> Result<Vec<(String, String)>, BenchError> {
    let page = engine.get(&format!("/v1/sessions/{session}/events?order=desc&limit=1000")).await?;
    let text = |event: &serde_json::Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let events = page["data"].as_array().cloned().unwrap_or_default();
    Ok(events.iter().map(|event| (text(event, "id"), text(event, "type"))).collect())
}

/// The ids of the newest turns in the order of storing: all after the idle event that came before them.
fn expected_of(newest_first: &[(String, String)]) -> Vec<String> {
    let mut idles = 0;
    let mut ids: Vec<String> = newest_first
        .iter()
        .take_while(|(_, kind)| {
            idles += usize::from(kind == IDLE);
            idles <= TURNS
        })
        .map(|(id, _)| id.clone())
        .collect();
    ids.reverse();
    ids
}
