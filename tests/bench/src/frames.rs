//! Fifty frames of an hour, against one pass over all of it, and whether a late frame takes longer than an early one.

use crate::figure::{milliseconds, print, quantile};
use crate::media::Studio;
use crate::{BenchError, Figure, RunArgs};
use std::time::Duration;

const FILM_SECONDS: u32 = 3600;
/// The plain pass goes over so much of the film, and counts for all of it: its time grows with the length alone.
const PASS_SECONDS: u32 = 120;
const ROUNDS: usize = 7;

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let studio = Studio::new(args, FILM_SECONDS).await?;
    let (film, out) = (studio.film(), studio.path("plain_%03d.jpg"));
    let pass = PASS_SECONDS.to_string();
    let filters = "fps=50/3600,scale=768:-2";
    let part = studio.plain(&["-t", &pass, "-i", &film, "-vf", filters, "-q:v", "3", &out]).await?;
    let plain = part * f64::from(FILM_SECONDS / PASS_SECONDS);
    let words = ["--start", "0", "--end", "3600", "--fps", "1", "--max-frames", "50", "--max-dim", "768"];
    let ours = studio.ours(&[&["extract-frames", "--source-path", &film], &words[..]].concat()).await?;
    let count = ours.data["frames"].as_array().map_or(0, Vec::len);
    if count != 50 {
        return Err(BenchError::Unexpected(format!("{count} frames")));
    }
    print(&format!("     50 frames of an hour of 1080p30: {:.1} s, one pass: {plain:.0} s", ours.took));
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for _round in 0..ROUNDS {
        early.push(one(&studio, &film, "100").await?);
        late.push(one(&studio, &film, "3580").await?);
    }
    let (early, late) = (quantile(&mut early, 0.5), quantile(&mut late, 0.5));
    print(&format!(
        "     a frame at 100 s: {:.0} ms, at 3580 s: {:.0} ms",
        milliseconds(Duration::from_secs_f64(early)),
        milliseconds(Duration::from_secs_f64(late))
    ));
    Ok(vec![
        Figure::below("50 frames of an hour against one pass of ffmpeg", ours.took / plain, 0.05, "x"),
        Figure::below("a late frame against an early one", late / early, 1.3, "x"),
    ])
}

async fn one(studio: &Studio, film: &str, at: &str) -> Result<f64, BenchError> {
    let words = ["extract-frames", "--source-path", film, "--start", at, "--end", at, "--max-frames", "1"];
    Ok(studio.ours(&words).await?.took)
}
