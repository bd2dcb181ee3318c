//! Contents of files, both ways, in constant memory and never waiting for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use reqwest::header::HeaderMap;
use reqwest::{Body, Method, RequestBuilder, Response};

use super::agent::Envd;
use crate::error::Error;
use crate::protocol::connect::ConnectError;
use crate::protocol::filesystem::UploadedFile;
use crate::transport::{broken, query_text};
use crate::version::EnvdVersion;

/// The content of a file as it comes.
#[derive(Debug)]
pub struct FileDownload {
    envd: Envd,
    response: Response,
}

impl FileDownload {
    /// How many bytes there are, if the agent says so.
    pub fn size(&self) -> Option<u64> {
        self.response.content_length()
    }

    /// The next piece, or `None` at the end of the file. May be dropped and called again without losing a byte.
    ///
    /// # Errors
    /// When the connection breaks before the end, or nothing comes for [`Config::idle_timeout`](crate::Config::idle_timeout).
    pub async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let limit = self.envd.config().idle_timeout;
        match tokio::time::timeout(limit, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk),
            Ok(Err(error)) => Err(self.envd.diagnose(broken(error)).await),
            Err(_elapsed) => Err(self.envd.diagnose(stood_still(limit)).await),
        }
    }

    /// The pieces as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Error>> + Send {
        stream::try_unfold(self, |mut download| async move {
            Ok(download.next_chunk().await?.map(|chunk| (chunk, download)))
        })
    }
}

fn stood_still(limit: Duration) -> Error {
    Error::Broken { message: format!("the transfer stood still for {limit:?}") }
}

fn files_path(envd: &Envd, path: &str, user: Option<&str>) -> String {
    let user = user.or_else(|| envd.forced_user()).map(|user| ("username", user));
    format!("/files{}", query_text([("path", path)].into_iter().chain(user)))
}

pub(super) async fn download(envd: &Envd, path: &str, user: Option<&str>) -> Result<FileDownload, Error> {
    let target = files_path(envd, path, user);
    let make = |http: &reqwest::Client| envd.request(http, Method::GET, &target).header("Accept-Encoding", "identity");
    let response = envd.open(envd.config().request_timeout, make).await?;
    if !response.status().is_success() {
        return Err(failure(envd, response).await);
    }
    Ok(FileDownload { envd: envd.clone(), response })
}

pub(super) async fn upload_bytes(
    envd: &Envd,
    path: &str,
    user: Option<&str>,
    metadata: &HeaderMap,
    content: Bytes,
) -> Result<UploadedFile, Error> {
    // The one upload that can be sent again when no connection came about. It is cut into pieces so that its progress can be seen.
    let pieces = move || {
        let mut rest = content.clone();
        stream::iter(std::iter::from_fn(move || {
            (!rest.is_empty()).then(|| Ok(rest.split_to(rest.len().min(64 << 10))))
        }))
    };
    let moved = Arc::new(AtomicU64::new(0));
    let target = files_path(envd, path, user);
    let make = |http: &reqwest::Client| {
        upload_request(envd, http, &target, metadata.clone(), counted(pieces(), Arc::clone(&moved)))
    };
    watched(envd, &moved, envd.open(Duration::MAX, make)).await
}

pub(super) async fn upload_stream(
    envd: &Envd,
    path: &str,
    user: Option<&str>,
    metadata: HeaderMap,
    content: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> Result<UploadedFile, Error> {
    let moved = Arc::new(AtomicU64::new(0));
    let target = files_path(envd, path, user);
    let request = upload_request(envd, envd.http(), &target, metadata, counted(content, Arc::clone(&moved)));
    let send = async {
        match request.send().await {
            Ok(response) => Ok(response),
            Err(error) => Err(envd.diagnose(broken(error)).await),
        }
    };
    watched(envd, &moved, send).await
}

/// Counts what has been taken from a stream.
fn counted<S>(content: S, moved: Arc<AtomicU64>) -> impl Stream<Item = std::io::Result<Bytes>> + Send
where
    S: Stream<Item = std::io::Result<Bytes>> + Send,
{
    content.inspect_ok(move |piece| {
        moved.fetch_add(piece.len() as u64, Ordering::Relaxed);
    })
}

/// Waits for the answer to an upload for as long as the upload moves.
async fn watched(
    envd: &Envd,
    moved: &AtomicU64,
    send: impl Future<Output = Result<Response, Error>>,
) -> Result<UploadedFile, Error> {
    let limit = envd.config().idle_timeout;
    tokio::pin!(send);
    let mut before = moved.load(Ordering::Relaxed);
    let response = loop {
        match tokio::time::timeout(limit, &mut send).await {
            Ok(outcome) => break outcome?,
            Err(_elapsed) => {
                let now = moved.load(Ordering::Relaxed);
                if now == before {
                    return Err(envd.diagnose(stood_still(limit)).await);
                }
                before = now;
            }
        }
    };
    if !response.status().is_success() {
        return Err(failure(envd, response).await);
    }
    let files: Vec<UploadedFile> = envd.whole(response).await?.parse("an upload's answer")?;
    let nothing = || Error::Protocol { message: "an upload's answer without a file".to_owned() };
    files.into_iter().next().ok_or_else(nothing)
}

/// Plain bytes for agents that take them, a form for those of before.
fn upload_request(
    envd: &Envd,
    http: &reqwest::Client,
    target: &str,
    metadata: HeaderMap,
    content: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static,
) -> RequestBuilder {
    let request = envd.request(http, Method::POST, target).headers(metadata);
    if envd.version() >= EnvdVersion::OCTET_STREAM {
        return request.header("Content-Type", "application/octet-stream").body(Body::wrap_stream(content));
    }
    let boundary = format!("{:032x}", rand::random::<u128>());
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    let one = |text: String| stream::once(async move { Ok(Bytes::from(text)) });
    let form = one(head).chain(content).chain(one(tail));
    request.header("Content-Type", format!("multipart/form-data; boundary={boundary}")).body(Body::wrap_stream(form))
}

async fn failure(envd: &Envd, response: Response) -> Error {
    let answer = match envd.whole(response).await {
        Ok(answer) => answer,
        Err(error) => return error,
    };
    let error = ConnectError::of_answer(answer.status, &answer.body);
    match answer.status {
        507 => Error::NoSpace { message: error.message },
        _ => envd.rpc_error(error).await,
    }
}
