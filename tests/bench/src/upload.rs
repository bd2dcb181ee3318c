//! A large upload: what it costs in memory, and its speed against a server that only stores the same bytes.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Instant;

use crate::figure::{bytes_in, print, quantile};
use crate::process::{Engine, Server, command, text_at};
use crate::{BenchError, Figure, RunArgs};

const ROUNDS: usize = 3;
/// The head of an MP4 box: its length and its name.
const BOX_HEAD: u64 = 8;

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let folder = tempfile::tempdir()?;
    let film = folder.path().join("film.mp4");
    long_film(&args.clip, &film, args.upload_bytes)?;
    let store = Server::plain(&["store", &folder.path().to_string_lossy()]).await?;
    let engine = Engine::start(args).await?;

    let (mut ours, mut plain, mut growth) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(stored(&store, &film).await?);
        let before = engine.server.resident()?;
        engine.server.forget_peak()?;
        let (seconds, id) = uploaded(&engine, &film).await?;
        ours.push(seconds);
        growth.push(bytes_in(engine.server.peak()?.saturating_sub(before), 1_000_000));
        engine.http.delete(format!("{}/v1/files/{id}", engine.server.url)).send().await?.error_for_status()?;
    }
    store.stop().await?;
    engine.stop().await?;
    let (ours, plain) = (quantile(&mut ours, 0.5), quantile(&mut plain, 0.5));
    let size = bytes_in(args.upload_bytes, 1_000_000);
    print(&format!(
        "     upload of {size:.0} MB: {:.0} MB/s, a server that only stores: {:.0} MB/s",
        size / ours,
        size / plain
    ));
    Ok(vec![
        Figure::below("memory growth of a large upload, worst of its rounds", quantile(&mut growth, 1.0), 32.0, "MB"),
        Figure::at_least("speed of a large upload against plain storing", plain / ours, 0.7, "x"),
    ])
}

/// The clip, with a free box behind it that fills it up to this size. The box is a hole in the file, which reads as zeros.
fn long_film(clip: &Path, film: &Path, size: u64) -> Result<(), BenchError> {
    let head = std::fs::read(clip)?;
    let used = u64::try_from(head.len()).map_err(|error| BenchError::Unexpected(error.to_string()))?;
    let filler = size.saturating_sub(used).max(BOX_HEAD);
    let length =
        u32::try_from(filler).map_err(|_error| BenchError::Unexpected("a box holds 4 GiB at most".to_owned()))?;
    let mut file = std::fs::File::create(film)?;
    file.write_all(&head)?;
    file.write_all(&length.to_be_bytes())?;
    file.write_all(b"free")?;
    file.seek(SeekFrom::Start(used + filler - 1))?;
    file.write_all(&[0])?;
    Ok(())
}

async fn stored(store: &Server, film: &Path) -> Result<f64, BenchError> {
    let began = Instant::now();
    curl(&["--upload-file", &film.to_string_lossy(), &format!("{}/kept.mp4", store.url)]).await?;
    Ok(began.elapsed().as_secs_f64())
}

async fn uploaded(engine: &Engine, film: &Path) -> Result<(f64, String), BenchError> {
    let form = format!("file=@{};type=video/mp4", film.display());
    let url = format!("{}/v1/files", engine.server.url);
    let began = Instant::now();
    let answer = curl(&["--header", "x-api-key: dev-token", "--form", &form, &url]).await?;
    let took = began.elapsed().as_secs_f64();
    let file = serde_json::from_slice(&answer).map_err(|error| BenchError::Unexpected(error.to_string()))?;
    Ok((took, text_at(&file, "id")?))
}

async fn curl(words: &[&str]) -> Result<Vec<u8>, BenchError> {
    let plain = ["--silent", "--show-error", "--fail-with-body", "--noproxy", "*", "--header", "expect:"];
    let output = command(Path::new("curl")).args(plain).args(words).output().await?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = [output.stdout, output.stderr].concat();
    Err(BenchError::Unexpected(format!("curl: {}", String::from_utf8_lossy(&said))))
}
