//! `GET /files`: the bytes of one file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use ambient_e2b::protocol::ErrorBody;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    RANGE, VARY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::paths;
use super::rpc;
use super::state::{Agent, Shared};
use super::users::User;

/// Read from the disk in one go.
const CHUNK_BYTES: usize = 256 << 10;

/// Chunks that wait for the client.
const CHUNKS_AHEAD: usize = 4;

/// What both file routes are asked with. The host has looked at the signature.
#[derive(Debug, Default, Deserialize)]
pub(super) struct FileQuery {
    pub(super) path: Option<String>,
    pub(super) username: Option<String>,
}

/// Why a file route refuses.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// What the kernel said about a path.
    pub(super) fn from_io(what: &str, path: &Path, error: &io::Error) -> Self {
        let status = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StatusCode::INSUFFICIENT_STORAGE,
            ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::InvalidFilename => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, format!("error {what} '{}': {error}", path.display()))
    }

    pub(super) fn answer(self) -> Response<Body> {
        rpc::json(self.status, &ErrorBody::new(self.status.as_u16(), self.message))
    }
}

/// Who is meant by a file route: the query, the header, or the sandbox's own user.
pub(super) fn user(query: &FileQuery, headers: &HeaderMap, agent: &Agent) -> Result<User, Refusal> {
    let named = query.username.clone().filter(|name| !name.is_empty()).or_else(|| rpc::named_user(headers));
    let name = named.as_deref().unwrap_or(&agent.default_user);
    User::named(name).ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, format!("invalid username: '{name}'")))
}

/// Where the query points.
pub(super) fn resolve(path: &str, user: &User, agent: &Agent) -> Result<PathBuf, Refusal> {
    paths::resolve(path, user, agent.default_workdir.as_deref())
        .map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))
}

/// The route.
pub(super) async fn download(
    State(agent): State<Shared>,
    query: Result<Query<FileQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Response<Body> {
    let opened = async {
        let Query(query) = query.map_err(|bad| Refusal::new(StatusCode::BAD_REQUEST, bad.body_text()))?;
        let user = user(&query, &headers, &agent)?;
        let path = resolve(query.path.as_deref().unwrap_or_default(), &user, &agent)?;
        let opened =
            tokio::task::spawn_blocking(move || open(&path).map(|(file, known)| (file, known.len(), path))).await;
        opened.map_err(|panic| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string()))?
    };
    match opened.await.and_then(|(file, size, path)| Plan::new(&headers, size).map(|plan| (file, path, plan))) {
        Ok((file, path, plan)) => plan.answer(file, &path, &agent.tasks),
        Err(refusal) => refusal.answer(),
    }
}

/// A regular file, and what is known of it.
pub(super) fn open(path: &Path) -> Result<(File, fs::Metadata), Refusal> {
    let missing = |error: &io::Error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Refusal::new(StatusCode::NOT_FOUND, format!("path '{}' does not exist", path.display()))
        }
        _ => Refusal::from_io("reading", path, error),
    };
    // Looked at before it is opened: opening a pipe would wait for its writer.
    let known = fs::metadata(path).map_err(|error| missing(&error))?;
    if known.is_dir() {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("path '{}' is a directory", path.display())));
    }
    if !known.is_file() {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("path '{}' is not a regular file", path.display())));
    }
    let file = File::open(path).map_err(|error| missing(&error))?;
    let known = file.metadata().map_err(|error| missing(&error))?;
    Ok((file, known))
}

/// How the bytes travel.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Plain { size: u64 },
    Gzip,
    Part { first: u64, last: u64, size: u64 },
}

impl Plan {
    fn new(headers: &HeaderMap, size: u64) -> Result<Self, Refusal> {
        if let Some(range) = headers.get(RANGE).and_then(|value| value.to_str().ok()) {
            match part(range, size) {
                Some(Ok((first, last))) => return Ok(Self::Part { first, last, size }),
                Some(Err(())) => {
                    let message = format!("the file has {size} bytes, and none of `{range}`");
                    return Err(Refusal::new(StatusCode::RANGE_NOT_SATISFIABLE, message));
                }
                // Not one range of bytes: the whole file is a good answer to that.
                None => {}
            }
        }
        let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let accepted = accepted.collect::<Vec<_>>().join(",");
        if weight(&accepted, "gzip").is_some_and(|weight| weight > 0.0) {
            return Ok(Self::Gzip);
        }
        let plain = weight(&accepted, "identity").or_else(|| weight(&accepted, "*"));
        if plain == Some(0.0) {
            let message = format!("no acceptable encoding in `{accepted}`: there are gzip and identity");
            return Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, message));
        }
        Ok(Self::Plain { size })
    }

    fn answer(self, mut file: File, path: &Path, tasks: &TaskTracker) -> Response<Body> {
        let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
        let mut response = Response::new(Body::from_stream(futures::stream::unfold(receiver, |mut chunks| async {
            chunks.recv().await.map(|chunk| (chunk, chunks))
        })));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        put(headers, CONTENT_DISPOSITION, &disposition(path));
        match self {
            Self::Plain { size } => {
                put(headers, CONTENT_LENGTH, &size.to_string());
                headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
                tasks.spawn_blocking(move || report(&sender, copy(file.take(size), &sender)));
            }
            Self::Part { first, last, size } => {
                put(headers, CONTENT_LENGTH, &(last - first + 1).to_string());
                put(headers, CONTENT_RANGE, &format!("bytes {first}-{last}/{size}"));
                tasks.spawn_blocking(move || {
                    let sent = file.seek(SeekFrom::Start(first));
                    report(&sender, sent.and_then(|_at| copy(file.take(last - first + 1), &sender)));
                });
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
            Self::Gzip => {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                tasks.spawn_blocking(move || report(&sender, compress(file, &sender)));
            }
        }
        response
    }
}

type Chunks = mpsc::Sender<io::Result<Bytes>>;

/// Ends the answer in an error, so that the client does not take a part for the whole.
fn report(chunks: &Chunks, sent: io::Result<()>) {
    if let Err(error) = sent
        && error.kind() != ErrorKind::BrokenPipe
    {
        let _client_may_be_gone = chunks.blocking_send(Err(error));
    }
}

fn send(chunks: &Chunks, bytes: Bytes) -> io::Result<()> {
    chunks.blocking_send(Ok(bytes)).map_err(|_client_is_gone| ErrorKind::BrokenPipe.into())
}

fn copy(mut source: impl Read, chunks: &Chunks) -> io::Result<()> {
    loop {
        let mut buffer = vec![0; CHUNK_BYTES];
        let length = source.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        buffer.truncate(length);
        send(chunks, buffer.into())?;
    }
}

fn compress(mut source: File, chunks: &Chunks) -> io::Result<()> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        let length = source.read(&mut buffer)?;
        if length == 0 {
            return send(chunks, encoder.finish()?.into());
        }
        encoder.write_all(&buffer[..length])?;
        if encoder.get_ref().len() >= CHUNK_BYTES {
            send(chunks, std::mem::take(encoder.get_mut()).into())?;
        }
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn disposition(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b';' | b'\''));
    if is_plain {
        format!("inline; filename={name}")
    } else {
        format!("inline; filename*=UTF-8''{}", utf8_percent_encode(&name, NON_ALPHANUMERIC))
    }
}

/// The first and last byte of `bytes=…`; an error when the file has none of them, nothing when the header asks for something else.
fn part(range: &str, size: u64) -> Option<Result<(u64, u64), ()>> {
    let (first, last) = range.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = match (first.trim(), last.trim()) {
        ("", tail) => {
            let tail: u64 = tail.parse().ok()?;
            if tail == 0 {
                return Some(Err(()));
            }
            (size.saturating_sub(tail), size.saturating_sub(1))
        }
        (first, "") => (first.parse().ok()?, size.saturating_sub(1)),
        (first, last) => (first.parse().ok()?, last.parse::<u64>().ok()?.min(size.saturating_sub(1))),
    };
    Some(if first < size && first <= last { Ok((first, last)) } else { Err(()) })
}

/// The weight of an encoding; nothing when it is not named.
fn weight(accepted: &str, encoding: &str) -> Option<f64> {
    accepted.split(',').find_map(|choice| {
        let mut parts = choice.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(encoding));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok()).unwrap_or(1.0);
        named.then_some(weight)
    })
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::{Plan, part};

    #[test]
    fn ranges_are_cut_to_the_file() {
        let check =
            |range: &str, wanted: Option<Result<(u64, u64), ()>>| assert_eq!(part(range, 10), wanted, "{range}");
        check("bytes=0-3", Some(Ok((0, 3))));
        check("bytes=4-", Some(Ok((4, 9))));
        check("bytes=-2", Some(Ok((8, 9))));
        check("bytes=-200", Some(Ok((0, 9))));
        check("bytes=8-99", Some(Ok((8, 9))));
        check("bytes=10-", Some(Err(())));
        check("bytes=5-4", Some(Err(())));
        check("bytes=0-1,4-5", None);
        check("lines=0-1", None);
        assert_eq!(part("bytes=0-", 0), Some(Err(())));
    }

    #[test]
    fn the_encoding_is_what_the_client_takes() {
        let plan = |accepted: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("accept-encoding", HeaderValue::from_static(accepted));
            Plan::new(&headers, 5)
        };
        assert_eq!(plan("gzip, deflate").unwrap(), Plan::Gzip);
        assert_eq!(plan("gzip;q=0, identity").unwrap(), Plan::Plain { size: 5 });
        assert_eq!(plan("br").unwrap(), Plan::Plain { size: 5 });
        assert_eq!(Plan::new(&HeaderMap::new(), 5).unwrap(), Plan::Plain { size: 5 });
        assert!(plan("br, identity;q=0").is_err());
        assert!(plan("*;q=0").is_err());
    }
}
