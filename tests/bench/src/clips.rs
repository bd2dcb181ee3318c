//! A clip of a minute: cut from the source, and put together from tiles.

use serde_json::Value;

use crate::figure::{print, quantile};
use crate::media::{Studio, VIDEO};
use crate::{BenchError, Figure, RunArgs};

const ROUNDS: usize = 3;
const JOINS: usize = 15;
const FILM_SECONDS: u32 = 120;

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let studio = Studio::new(args, FILM_SECONDS).await?;
    let (film, out) = (studio.film(), studio.path("plain.mp4"));
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _round in 0..ROUNDS {
        plain.push(studio.plain(&["-ss", "20", "-i", &film, "-t", "60", "-vf", "fps=2,scale=768:-2", &out]).await?);
        let words = ["--start", "20", "--end", "80", "--fps", "2", "--max-dim", "768"];
        ours.push(studio.ours(&[&["fetch-clip", "--source-path", &film], &words[..]].concat()).await?.took);
    }
    let (ours, plain) = (quantile(&mut ours, 0.5), quantile(&mut plain, 0.5));
    print(&format!("     a minute at 2 a second, 768 px, of 1080p30: {ours:.2} s, plain ffmpeg: {plain:.2} s"));

    let manifest = studio.ours(&["transcode-tiles", "--video-id", VIDEO]).await?.data;
    let keys = keys(&manifest);
    let mut on_key = joined(&studio, &keys, "20", "80").await?;
    let mut off_key = joined(&studio, &keys, "21.4", "81.4").await?;
    let (on_key, off_key) = (quantile(&mut on_key, 0.5), quantile(&mut off_key, 0.5));
    Ok(vec![
        Figure::below("a clip of a minute against plain ffmpeg", ours / plain, 0.7, "x"),
        Figure::below("the same clip from tiles, median", on_key * 1000.0, 60.0, "ms"),
        Figure::below("the same clip from tiles against cutting it", on_key / ours, 0.02, "x"),
        Figure::below("a clip from tiles that begins between key frames, median", off_key * 1000.0, 300.0, "ms"),
    ])
}

fn keys(manifest: &Value) -> String {
    let keys = manifest["tiles"].as_array().into_iter().flatten().filter_map(|tile| tile["key"].as_str());
    keys.collect::<Vec<_>>().join(",")
}

async fn joined(studio: &Studio, keys: &str, start: &str, end: &str) -> Result<Vec<f64>, BenchError> {
    let mut times = Vec::new();
    for _join in 0..JOINS {
        let words = ["concat-tiles", "--video-id", VIDEO, "--keys", keys, "--start", start, "--end", end];
        times.push(studio.ours(&words).await?.took);
    }
    Ok(times)
}
