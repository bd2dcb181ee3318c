//! `POST /files`: files as parts of a form, or one as the body; and `POST /files/compose`, which joins what is there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use ambient_e2b::protocol::filesystem::UploadedFile;
use ambient_e2b::protocol::header::METADATA_PREFIX;
use axum::Json;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures::{Stream, StreamExt as _};
use rustix::fs::XattrFlags;
use serde::Deserialize;
use tokio::sync::mpsc;

use super::entry::{ATTRIBUTE_PREFIX, attribute_names, attributes};
use super::files::{FileQuery, Refusal, open, resolve, user};
use super::filesystem::make_folders;
use super::rpc;
use super::state::{Agent, Shared};
use super::users::User;

/// Chunks that wait for the disk.
const CHUNKS_AHEAD: usize = 8;

/// The name that every part of a form has.
const PART: &str = "file";

/// The route.
pub(super) async fn upload(
    State(agent): State<Shared>,
    query: Result<Query<FileQuery>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Response<Body> {
    let written = async {
        let Query(query) = query.map_err(|bad| Refusal::new(StatusCode::BAD_REQUEST, bad.body_text()))?;
        let user = user(&query, &headers, &agent)?;
        let metadata = metadata(&headers);
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if content_type.starts_with("multipart/form-data") {
            parts(&agent, &user, &query, metadata, content_type, body).await
        } else if content_type.starts_with("application/octet-stream") {
            let path = query.path.as_deref().filter(|path| !path.is_empty());
            let path = path.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "the query has no `path`"))?;
            let target = Target { path: resolve(path, &user, &agent)?, user, metadata, is_gzip: is_gzip(&headers)? };
            Ok(vec![store(target, body.into_data_stream()).await?])
        } else {
            let message = format!("`{content_type}` is neither multipart/form-data nor application/octet-stream");
            Err(Refusal::new(StatusCode::BAD_REQUEST, message))
        }
    };
    match written.await {
        Ok(files) => rpc::json(StatusCode::OK, &files),
        Err(refusal) => refusal.answer(),
    }
}

async fn parts(
    agent: &Agent,
    user: &User,
    query: &FileQuery,
    metadata: BTreeMap<String, String>,
    content_type: &str,
    body: Body,
) -> Result<Vec<UploadedFile>, Refusal> {
    let bad = |error: multer::Error| Refusal::new(StatusCode::BAD_REQUEST, format!("the form cannot be read: {error}"));
    let boundary = multer::parse_boundary(content_type).map_err(bad)?;
    let mut form = multer::Multipart::new(body.into_data_stream(), boundary);
    let mut files = Vec::new();
    while let Some(part) = form.next_field().await.map_err(bad)? {
        if part.name() != Some(PART) {
            continue;
        }
        let path = query.path.clone().filter(|path| !path.is_empty()).or_else(|| part.file_name().map(str::to_owned));
        let path =
            path.ok_or_else(|| Refusal::new(StatusCode::BAD_REQUEST, "a part names no file, nor does the query"))?;
        let path = resolve(&path, user, agent)?;
        let target = Target { path, user: user.clone(), metadata: metadata.clone(), is_gzip: false };
        files.push(store(target, part).await?);
    }
    Ok(files)
}

/// Keys in lower case, as attributes are named.
fn metadata(headers: &HeaderMap) -> BTreeMap<String, String> {
    let prefix = METADATA_PREFIX.to_ascii_lowercase();
    headers
        .iter()
        .filter_map(|(name, value)| {
            let key = name.as_str().strip_prefix(&prefix)?;
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (!key.is_empty()).then(|| (key.to_owned(), value))
        })
        .collect()
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default().to_ascii_lowercase()).as_deref()
    {
        None | Some("" | "identity") => Ok(false),
        Some("gzip") => Ok(true),
        Some(other) => {
            let message = format!("the content encoding `{other}` is not supported: there are gzip and identity");
            Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message))
        }
    }
}

/// A file to write.
struct Target {
    path: PathBuf,
    user: User,
    metadata: BTreeMap<String, String>,
    is_gzip: bool,
}

/// Writes the bytes as they come. The disk's pace holds the client back, and memory stays the same whatever the size.
async fn store<E>(
    target: Target,
    mut bytes: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<UploadedFile, Refusal>
where
    E: std::fmt::Display,
{
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let writing = tokio::task::spawn_blocking(move || target.write(receiver));
    let mut cut_off = None;
    while let Some(next) = bytes.next().await {
        match next {
            Ok(next) => {
                if sender.send(next).await.is_err() {
                    break; // It failed, and says why below.
                }
            }
            Err(error) => {
                cut_off = Some(Refusal::new(StatusCode::BAD_REQUEST, format!("the upload broke off: {error}")));
                break;
            }
        }
    }
    drop(sender);
    let written =
        writing.await.unwrap_or_else(|panic| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string())));
    cut_off.map_or(written, Err)
}

impl Target {
    fn write(self, mut chunks: mpsc::Receiver<Bytes>) -> Result<UploadedFile, Refusal> {
        let failed = |error: &io::Error| Refusal::from_io("writing", &self.path, error);
        let file = self.open()?;
        if self.is_gzip {
            let mut decoder = MultiGzDecoder::new(file);
            while let Some(chunk) = chunks.blocking_recv() {
                decoder.write_all(&chunk).map_err(|error| self.bad_gzip(&error))?;
            }
            let file = decoder.finish().map_err(|error| self.bad_gzip(&error))?;
            self.finish(&file)
        } else {
            let mut file = file;
            while let Some(chunk) = chunks.blocking_recv() {
                file.write_all(&chunk).map_err(|error| failed(&error))?;
            }
            self.finish(&file)
        }
    }

    fn bad_gzip(&self, error: &io::Error) -> Refusal {
        match error.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                Refusal::new(StatusCode::BAD_REQUEST, format!("the body is no gzip: {error}"))
            }
            _ => Refusal::from_io("writing", &self.path, error),
        }
    }

    fn open(&self) -> Result<File, Refusal> {
        if let Some(parent) = self.path.parent() {
            make_folders(parent, &self.user)
                .map_err(|error| Refusal::from_io("making the folders of", &self.path, &error))?;
        }
        match fs::metadata(&self.path) {
            Ok(known) if known.is_dir() => {
                let message = format!("path is a directory: {}", self.path.display());
                return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
            }
            Ok(known) if !known.is_file() => {
                let message = format!("path is not a regular file: {}", self.path.display());
                return Err(Refusal::new(StatusCode::BAD_REQUEST, message));
            }
            _ => {}
        }
        File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o666)
            .open(&self.path)
            .map_err(|error| Refusal::from_io("opening", &self.path, &error))
    }

    /// The owner is set after the content: whoever watches sees it made, written and changed, in this order.
    fn finish(&self, file: &File) -> Result<UploadedFile, Refusal> {
        let failed = |error: &io::Error| Refusal::from_io("writing", &self.path, error);
        fchown(file, Some(self.user.uid), Some(self.user.gid)).map_err(|error| failed(&error))?;
        for name in attribute_names(&self.path) {
            rustix::fs::removexattr(&self.path, name.as_str()).map_err(|error| failed(&error.into()))?;
        }
        for (key, value) in &self.metadata {
            let name = format!("{ATTRIBUTE_PREFIX}{key}");
            rustix::fs::setxattr(&self.path, name.as_str(), value.as_bytes(), XattrFlags::empty())
                .map_err(|error| failed(&error.into()))?;
        }
        Ok(uploaded(&self.path))
    }
}

fn uploaded(path: &Path) -> UploadedFile {
    UploadedFile {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        path: path.to_string_lossy().into_owned(),
        kind: PART.to_owned(),
        metadata: attributes(path),
    }
}

/// What `compose` is asked with.
#[derive(Debug, Deserialize)]
pub(super) struct Compose {
    source_paths: Vec<String>,
    destination: String,
    username: Option<String>,
}

/// Joins files into one.
pub(super) async fn compose(
    State(agent): State<Shared>,
    headers: HeaderMap,
    request: Result<Json<Compose>, axum::extract::rejection::JsonRejection>,
) -> Response<Body> {
    let joined = async {
        let Json(request) = request.map_err(|bad| Refusal::new(StatusCode::BAD_REQUEST, bad.body_text()))?;
        let query = FileQuery { path: None, username: request.username };
        let user = user(&query, &headers, &agent)?;
        let sources =
            request.source_paths.iter().map(|path| resolve(path, &user, &agent)).collect::<Result<Vec<_>, _>>()?;
        let path = resolve(&request.destination, &user, &agent)?;
        let target = Target { path, user, metadata: BTreeMap::new(), is_gzip: false };
        tokio::task::spawn_blocking(move || join(&target, &sources))
            .await
            .unwrap_or_else(|panic| Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, panic.to_string())))
    };
    match joined.await {
        Ok(file) => rpc::json(StatusCode::OK, &file),
        Err(refusal) => refusal.answer(),
    }
}

fn join(target: &Target, sources: &[PathBuf]) -> Result<UploadedFile, Refusal> {
    // All are opened first, so that a missing one leaves the destination as it was.
    let mut files = Vec::with_capacity(sources.len());
    let there = fs::metadata(&target.path).ok().map(|known| (known.dev(), known.ino()));
    for path in sources {
        let (file, known) = open(path)?;
        // By whatever name, it would be emptied before it is read.
        if there == Some((known.dev(), known.ino())) {
            return Err(Refusal::new(StatusCode::BAD_REQUEST, "the destination is one of the sources"));
        }
        files.push((path, file, known.len()));
    }
    let mut out = target.open()?;
    for (path, file, size_bytes) in files {
        io::copy(&mut file.take(size_bytes), &mut out).map_err(|error| Refusal::from_io("joining", path, &error))?;
    }
    target.finish(&out)
}
