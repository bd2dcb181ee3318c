//! The server on the loopback through which programs read videos of the bucket.
//!
//! It serves nothing but the videos that are open now, each under a path of 256 random bits, and follows no address that anybody gives it. What
//! goes wrong on the way is told to the caller: a program takes a broken connection for the end of the file.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{ACCEPT_RANGES, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RANGE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use tokio::net::TcpListener;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use super::blocks::{BLOCK_BYTES, Blocks, range_of};
use super::object::{Fetch, RemoteObject};
use crate::error::MediaError;
use crate::objects::ObjectError;

/// How many blocks are on their way at once for a reader that goes on.
const BLOCKS_AHEAD: usize = 4;
/// How many blocks come one by one first: most readers seek again before they need more.
const BLOCKS_ALONE: usize = 2;

type Faults = Mutex<Vec<Arc<ObjectError>>>;

/// The server. It starts with the first video.
#[derive(Debug)]
pub(super) struct Proxy {
    open: Arc<Open>,
    running: OnceCell<Running>,
}

#[derive(Debug)]
struct Running {
    address: SocketAddr,
    /// Ends the server with the proxy.
    _server: Mutex<JoinSet<()>>,
}

/// What is open, by its secret path.
#[derive(Debug)]
struct Open {
    blocks: Arc<Blocks>,
    passages: Mutex<HashMap<String, Weak<Passage>>>,
}

/// A video under a secret path, as long as it is held.
#[derive(Debug)]
pub(crate) struct Passage {
    url: String,
    token: String,
    object: Arc<RemoteObject>,
    open: Arc<Open>,
    /// One list for each program that is reading now.
    watchers: Mutex<Vec<Weak<Faults>>>,
}

impl Passage {
    /// What a program is told as its input.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn fail(&self, error: ObjectError) {
        let error = Arc::new(error);
        tracing::warn!(object.key = %self.object.key(), error = %chain(&error), "a video could not be read from the bucket");
        let mut watchers = self.watchers.lock().expect("nothing panics while it holds the lock");
        watchers.retain(|watcher| watcher.strong_count() > 0);
        for faults in watchers.iter().filter_map(Weak::upgrade) {
            faults.lock().expect("nothing panics while it holds the lock").push(Arc::clone(&error));
        }
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.open.passages().remove(&self.token);
    }
}

/// What went wrong for the videos of one program while it ran.
#[derive(Debug)]
pub(crate) struct Watch {
    faults: Arc<Faults>,
    _passages: Vec<Arc<Passage>>,
}

impl Watch {
    /// An error if a read failed, whatever the program made of it.
    pub(crate) fn verdict(self) -> Result<(), MediaError> {
        let mut faults = self.faults.lock().expect("nothing panics while it holds the lock");
        if faults.is_empty() { Ok(()) } else { Err(MediaError::Bucket(faults.swap_remove(0))) }
    }
}

impl Open {
    fn passages(&self) -> MutexGuard<'_, HashMap<String, Weak<Passage>>> {
        self.passages.lock().expect("nothing panics while it holds the lock")
    }

    fn find(&self, token: &str) -> Option<Arc<Passage>> {
        self.passages().get(token).and_then(Weak::upgrade)
    }
}

impl Proxy {
    pub(super) fn new(blocks: Arc<Blocks>) -> Self {
        Self { open: Arc::new(Open { blocks, passages: Mutex::default() }), running: OnceCell::new() }
    }

    /// Gives a video a path of its own.
    pub(super) async fn open(&self, object: &Arc<RemoteObject>) -> Result<Arc<Passage>, MediaError> {
        let start = || start(Arc::clone(&self.open));
        let running = self.running.get_or_try_init(start).await.map_err(MediaError::file("listen on the loopback"))?;
        let token = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let passage = Arc::new(Passage {
            url: format!("http://{}/{token}", running.address),
            token: token.clone(),
            object: Arc::clone(object),
            open: Arc::clone(&self.open),
            watchers: Mutex::default(),
        });
        self.open.passages().insert(token, Arc::downgrade(&passage));
        Ok(passage)
    }

    pub(super) fn watch(&self, args: &[String]) -> Watch {
        let faults = Arc::<Faults>::default();
        let tokens = args.iter().filter_map(|word| word.strip_prefix("http://127.0.0.1:")?.split_once('/'));
        let passages: Vec<_> = tokens.filter_map(|(_port, token)| self.open.find(token)).collect();
        for passage in &passages {
            let mut watchers = passage.watchers.lock().expect("nothing panics while it holds the lock");
            watchers.push(Arc::downgrade(&faults));
        }
        Watch { faults, _passages: passages }
    }
}

async fn start(open: Arc<Open>) -> io::Result<Running> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/{token}", get(serve)).with_state(open);
    let mut server = JoinSet::new();
    server.spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the server for videos of the bucket ended");
        }
    });
    Ok(Running { address, _server: Mutex::new(server) })
}

async fn serve(
    State(open): State<Arc<Open>>,
    Path(token): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let Some(passage) = open.find(&token) else { return StatusCode::NOT_FOUND.into_response() };
    let size_bytes = passage.object.size_bytes();
    let asked = headers.get(RANGE).map(|value| value.to_str().ok().and_then(|text| wanted(text, size_bytes)));
    let (status, range) = match asked {
        None => (StatusCode::OK, 0..size_bytes),
        Some(Some(range)) => (StatusCode::PARTIAL_CONTENT, range),
        Some(None) => {
            let whole = [(CONTENT_RANGE, format!("bytes */{size_bytes}"))];
            return (StatusCode::RANGE_NOT_SATISFIABLE, whole).into_response();
        }
    };
    let headers = [
        (ACCEPT_RANGES, "bytes".to_owned()),
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, (range.end - range.start).to_string()),
    ];
    let content_range = (status == StatusCode::PARTIAL_CONTENT)
        .then(|| [(CONTENT_RANGE, format!("bytes {}-{}/{size_bytes}", range.start, range.end - 1))]);
    let body = if method == Method::HEAD { Body::empty() } else { Body::from_stream(bytes_of(open, passage, range)) };
    match content_range {
        Some(content_range) => (status, headers, content_range, body).into_response(),
        None => (status, headers, body).into_response(),
    }
}

/// The bytes of a range, block by block, in order.
fn bytes_of(
    open: Arc<Open>,
    passage: Arc<Passage>,
    range: Range<u64>,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    let numbers = range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
    let split = numbers.end.min(numbers.start + BLOCKS_ALONE as u64);
    let (alone, rest) = (numbers.start..split, split..numbers.end);
    let fetch = move |number: u64| {
        let (open, passage, range) = (Arc::clone(&open), Arc::clone(&passage), range.clone());
        async move {
            match open.blocks.block(&passage.object, number).await {
                Ok(block) => Ok(part_of(&block, number, &range, passage.object.size_bytes())),
                Err(Fetch::Failed(error)) => {
                    passage.fail(error);
                    Err(io::Error::other("the bucket does not give the bytes"))
                }
                Err(Fetch::NoRanges) => {
                    let reason = "it answered ranges before and does not any more";
                    passage.fail(passage.object.bad_answer(reason));
                    Err(io::Error::other("the bucket does not give ranges"))
                }
            }
        }
    };
    let ahead = fetch.clone();
    stream::iter(alone).then(fetch).chain(stream::iter(rest).map(ahead).buffered(BLOCKS_AHEAD)).boxed()
}

/// What of a block belongs to a range.
fn part_of(block: &Bytes, number: u64, range: &Range<u64>, size_bytes: u64) -> Bytes {
    let held = range_of(number, size_bytes);
    let within =
        |at: u64| usize::try_from(at.clamp(held.start, held.end) - held.start).expect("a block fits in memory");
    block.slice(within(range.start)..within(range.end))
}

/// `bytes=10-19` or `bytes=10-` inside an object; ffmpeg asks for nothing else.
fn wanted(text: &str, size_bytes: u64) -> Option<Range<u64>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first: u64 = first.parse().ok()?;
    let end = if last.is_empty() { size_bytes } else { last.parse::<u64>().ok()?.saturating_add(1).min(size_bytes) };
    (first < end).then_some(first..end)
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        words = format!("{words}: {deeper}");
        cause = deeper.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_stays_inside_the_object() {
        assert_eq!(wanted("bytes=0-", 10), Some(0..10));
        assert_eq!(wanted("bytes=3-5", 10), Some(3..6));
        assert_eq!(wanted("bytes=9-99", 10), Some(9..10));
        for text in ["bytes=10-", "bytes=5-3", "bytes=-5", "bytes=a-", "0-1", "bytes=0-1,3-4"] {
            assert_eq!(wanted(text, 10), None, "{text}");
        }
    }

    #[test]
    fn blocks_are_cut_to_the_range() {
        let size = BLOCK_BYTES + 10;
        let first = Bytes::from(vec![1; usize::try_from(BLOCK_BYTES).unwrap()]);
        let second = Bytes::from_static(b"0123456789");
        let range = BLOCK_BYTES - 2..BLOCK_BYTES + 4;
        assert_eq!(part_of(&first, 0, &range, size).len(), 2);
        assert_eq!(part_of(&second, 1, &range, size), "0123");
        assert_eq!(part_of(&second, 1, &(BLOCK_BYTES + 3..size), size), "3456789");
    }
}
