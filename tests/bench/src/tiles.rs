//! The tiles of ten minutes, against one pass of ffmpeg that cuts the same segments with all cores.

use crate::figure::{bytes_in, print};
use crate::media::{Studio, VIDEO};
use crate::{BenchError, Figure, RunArgs};

const FILM_SECONDS: u32 = 600;

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let studio = Studio::new(args, FILM_SECONDS).await?;
    let (film, out) = (studio.film(), studio.path("plain_%05d.mp4"));
    let pictures = ["-i", &film, "-vf", "fps=2,scale=768:-2", "-c:v", "libx264", "-preset", "veryfast"];
    let segments = ["-force_key_frames", "expr:gte(t,n_forced*45)", "-f", "segment", "-segment_time", "45"];
    let plain = studio.plain(&[&pictures[..], &segments[..], &["-reset_timestamps", "1", &out]].concat()).await?;
    let ours = studio.ours(&["transcode-tiles", "--video-id", VIDEO]).await?;
    print(&format!("     tiles of ten minutes of 1080p30: {:.1} s, one pass of ffmpeg: {plain:.1} s", ours.took));
    Ok(vec![
        Figure::below("tiles of ten minutes against one pass of ffmpeg", ours.took / plain, 1.0, "x"),
        Figure::below(
            "memory of all processes while tiles are made",
            bytes_in(ours.peak_bytes, 1_000_000),
            1000.0,
            "MB",
        ),
    ])
}
