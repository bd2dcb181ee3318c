//! What a session costs in memory once it is idle.

use std::time::Duration;

use crate::figure::{bytes_in, number};
use crate::process::Engine;
use crate::reader::Reader;
use crate::{BenchError, Figure, RunArgs};

const WARM_UP: usize = 200;
const SESSIONS: usize = 1000;
const REST: Duration = Duration::from_secs(3);
const LIMIT: Duration = Duration::from_secs(30);

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let engine = Engine::start(args).await?;
    let video = engine.upload(&args.clip).await?;
    used_sessions(&engine, &video, WARM_UP).await?;
    tokio::time::sleep(REST).await;
    let before = engine.server.resident()?;
    used_sessions(&engine, &video, SESSIONS).await?;
    tokio::time::sleep(REST).await;
    let after = engine.server.resident()?;
    engine.stop().await?;
    let each = bytes_in(after.saturating_sub(before), 1000) / number(SESSIONS);
    Ok(vec![Figure::below("memory of an idle session that has had a turn", each, 30.0, "kB")])
}

async fn used_sessions(engine: &Engine, video: &str, count: usize) -> Result<(), BenchError> {
    for _ in 0..count {
        let session = engine.session(video).await?;
        let mut stream = Reader::open(&engine.server.url, &session).await?;
        engine.send(&session, "what is this?").await?;
        stream.until("session.status_idle", LIMIT).await?;
    }
    Ok(())
}
