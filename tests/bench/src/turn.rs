//! What the engine adds to a turn: from the request that sends a message to the idle event on an open stream, less what the
//! model itself takes.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::figure::{milliseconds, quantile};
use crate::process::Engine;
use crate::reader::Reader;
use crate::{BenchError, Figure, RunArgs};

const SESSIONS: usize = 20;
const TURNS_A_SESSION: usize = 10;
const MODEL_REQUESTS: usize = 300;
const LIMIT: Duration = Duration::from_secs(30);
const IDLE: &str = "session.status_idle";

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let engine = Engine::start(args).await?;
    let video = engine.upload(&args.clip).await?;
    let mut turns = Vec::new();
    for _ in 0..SESSIONS {
        let session = engine.session(&video).await?;
        let mut stream = Reader::open(&engine.server.url, &session).await?;
        // The first turn also tells the model of the video; what is measured is the turns of a conversation.
        engine.send(&session, "what is this?").await?;
        stream.until(IDLE, LIMIT).await?;
        for _ in 0..TURNS_A_SESSION {
            let began = Instant::now();
            engine.send(&session, "and then?").await?;
            stream.until(IDLE, LIMIT).await?;
            turns.push(milliseconds(began.elapsed()));
        }
    }
    let model = quantile(&mut model_times(&engine, &args.clip).await?, 0.5);
    engine.stop().await?;
    let whole = quantile(&mut turns, 0.5);
    Ok(vec![Figure::below(
        format!("engine time a turn, median (model's own {model:.2} ms taken off)"),
        whole - model,
        5.0,
        "ms",
    )])
}

/// The model asked directly, with a request of the size of the engine's: the engine's holds the video as base64.
async fn model_times(engine: &Engine, clip: &Path) -> Result<Vec<f64>, BenchError> {
    let url = format!("{}/v1/chat/completions", engine.model.url);
    let video = usize::try_from(std::fs::metadata(clip)?.len()).unwrap_or_default().div_ceil(3) * 4;
    let text = "x".repeat(8000 + video);
    let body = json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": text }] });
    let mut times = Vec::new();
    for _ in 0..MODEL_REQUESTS {
        let began = Instant::now();
        engine.http.post(&url).json(&body).send().await?.bytes().await?;
        times.push(milliseconds(began.elapsed()));
    }
    Ok(times)
}
