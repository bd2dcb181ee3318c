//! How many times a second a session can be read, against a handler that only answers.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::figure::{number, print, quantile};
use crate::process::{Engine, Server};
use crate::{BenchError, Figure, RunArgs};

const CONNECTIONS: usize = 16;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);

pub(crate) async fn measure(args: &RunArgs) -> Result<Vec<Figure>, BenchError> {
    let engine = Engine::start(args).await?;
    let video = engine.upload(&args.clip).await?;
    let session = engine.session(&video).await?;
    let path = format!("/v1/sessions/{session}");
    let size = engine.get(&path).await?.to_string().len();
    let bare = Server::plain(&["bare", &size.to_string()]).await?;
    // One round each in turn, so that whatever else the machine does meets both.
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(rate(&bare.url, &path).await?);
        ours.push(rate(&engine.server.url, &path).await?);
    }
    bare.stop().await?;
    engine.stop().await?;
    let (ours, plain) = (quantile(&mut ours, 0.5), quantile(&mut plain, 0.5));
    print(&format!("     GET of a session: {ours:.0} a second, a bare handler: {plain:.0} a second"));
    Ok(vec![Figure::at_least("GET of a session against a bare handler, rate", ours / plain, 0.5, "x")])
}

/// Requests answered a second, over some connections that are kept.
async fn rate(url: &str, path: &str) -> Result<f64, BenchError> {
    let mut connections = JoinSet::new();
    let began = Instant::now();
    for _ in 0..CONNECTIONS {
        let address = url.trim_start_matches("http://").to_owned();
        let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nx-api-key: dev-token\r\n\r\n");
        connections.spawn(ask_until(address, request, began + ROUND));
    }
    let mut answered = 0;
    while let Some(done) = connections.join_next().await {
        answered += done.map_err(|error| BenchError::Unexpected(error.to_string()))??;
    }
    Ok(number(answered) / began.elapsed().as_secs_f64())
}

async fn ask_until(address: String, request: String, end: Instant) -> Result<usize, BenchError> {
    let mut socket = TcpStream::connect(&address).await?;
    socket.set_nodelay(true)?;
    let mut buffer = vec![0; 64 * 1024];
    let mut answered = 0;
    while Instant::now() < end {
        socket.write_all(request.as_bytes()).await?;
        read_answer(&mut socket, &mut buffer).await?;
        answered += 1;
    }
    Ok(answered)
}

/// Reads one answer of a known length.
async fn read_answer(socket: &mut TcpStream, buffer: &mut [u8]) -> Result<(), BenchError> {
    let mut filled = 0;
    loop {
        let count = socket.read(&mut buffer[filled..]).await?;
        if count == 0 {
            return Err(BenchError::Unexpected("a server closed a connection".to_owned()));
        }
        filled += count;
        let Some(head_end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&buffer[..head_end]).to_lowercase();
        if !head.starts_with("http/1.1 200") {
            return Err(BenchError::Unexpected(head));
        }
        let length: usize = head
            .split("content-length:")
            .nth(1)
            .and_then(|rest| rest.lines().next()?.trim().parse().ok())
            .ok_or_else(|| BenchError::Unexpected(format!("no length in {head}")))?;
        if filled >= head_end + 4 + length {
            return Ok(());
        }
    }
}
