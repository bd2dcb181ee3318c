//! A reader of one event stream, on a socket of its own and with as little work per event as can be.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::BenchError;

/// An event as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(crate) id: String,
    pub(crate) kind: String,
    /// Milliseconds from `processed_at` to here, by the clock of this machine.
    pub(crate) delay: f64,
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct Reader {
    stream: BufReader<TcpStream>,
    line: Vec<u8>,
}

/// The socket of a stream whose head was asked for.
pub(crate) async fn ask_for_stream(url: &str, session: &str) -> Result<TcpStream, BenchError> {
    let address = url.trim_start_matches("http://");
    let mut socket = TcpStream::connect(address).await?;
    let request = format!(
        "GET /v1/sessions/{session}/events/stream HTTP/1.1\r\nhost: {address}\r\nx-api-key: dev-token\r\naccept: text/event-stream\r\n\r\n"
    );
    socket.write_all(request.as_bytes()).await?;
    Ok(socket)
}

impl Reader {
    /// Opens a stream and reads its head.
    pub(crate) async fn open(url: &str, session: &str) -> Result<Self, BenchError> {
        let socket = ask_for_stream(url, session).await?;
        let mut reader = Self { stream: BufReader::with_capacity(2048, socket), line: Vec::with_capacity(512) };
        let status = reader.next_line().await?.to_owned();
        if !status.starts_with("HTTP/1.1 200") {
            return Err(BenchError::Unexpected(format!("the stream answered {status}")));
        }
        while !reader.next_line().await?.is_empty() {}
        Ok(reader)
    }

    async fn next_line(&mut self) -> Result<&str, BenchError> {
        self.line.clear();
        if self.stream.read_until(b'\n', &mut self.line).await? == 0 {
            return Err(BenchError::Unexpected("a stream ended by itself".to_owned()));
        }
        Ok(std::str::from_utf8(&self.line).unwrap_or_default().trim_end())
    }

    /// The next event that has an id; pings, comments and the lengths of chunks are passed over.
    pub(crate) async fn next(&mut self) -> Result<Arrival, BenchError> {
        let (mut id, mut kind) = (String::new(), String::new());
        loop {
            let line = self.next_line().await?;
            if let Some(value) = line.strip_prefix("id:") {
                value.trim().clone_into(&mut id);
            } else if let Some(value) = line.strip_prefix("event:") {
                value.trim().clone_into(&mut kind);
            } else if let Some(data) = line.strip_prefix("data:")
                && !id.is_empty()
            {
                return Ok(Arrival { delay: delay_of(data), id, kind });
            }
        }
    }

    /// Reads until an event of this kind, and gives all up to it.
    pub(crate) async fn until(&mut self, kind: &str, limit: Duration) -> Result<Vec<Arrival>, BenchError> {
        let mut arrivals = Vec::new();
        let reading = async {
            loop {
                let arrival = self.next().await?;
                let done = arrival.kind == kind;
                arrivals.push(arrival);
                if done {
                    return Ok::<(), BenchError>(());
                }
            }
        };
        tokio::time::timeout(limit, reading)
            .await
            .map_err(|_elapsed| BenchError::Unexpected(format!("no `{kind}` within {limit:?}")))??;
        Ok(arrivals)
    }
}

fn delay_of(data: &str) -> f64 {
    let stamp = data.split("\"processed_at\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let then = stamp.and_then(|text| text.parse::<jiff::Timestamp>().ok());
    #[expect(clippy::disallowed_methods, reason = "the delay is measured by the clock of the machine")]
    let now = jiff::Timestamp::now();
    then.map_or(0.0, |then| now.duration_since(then).as_secs_f64() * 1000.0)
}
