//! The bytes of a file, whole or in part.

use ambient_media::objects::{ObjectError, ObjectKey};
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use camino::{Utf8Path, Utf8PathBuf};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::error::{ApiError, ErrorBody};
use super::extract::Id;
use super::files::living;
use super::state::App;
use crate::ids::VideoId;
use crate::store::records::FileRecord;

/// One read from the disk.
const CHUNK_BYTES: usize = 256 << 10;

/// What RFC 5987 lets stand in an extended parameter is what is not here.
const EXTENDED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'%')
    .add(b'\'')
    .add(b'(')
    .add(b')')
    .add(b'*')
    .add(b',')
    .add(b'/')
    .add(b':')
    .add(b';')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'@')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'{')
    .add(b'}');

/// The bytes of a file, as they were uploaded. One `Range` is honoured; the key may come as `?api_key=`.
#[utoipa::path(get, path = "/v1/files/{id}/content", tag = "files",
    params(("id" = String, Path), ("Range" = Option<String>, Header), ("If-Range" = Option<String>, Header),
        ("api_key" = Option<String>, Query)),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 206, content_type = "application/octet-stream", body = Vec<u8>), (status = 304),
        (status = "default", body = ErrorBody)))]
pub async fn content(
    State(app): State<App>,
    Id(id): Id<VideoId>,
    method: Method,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let file = living(&app, &id).await?;
    let path = app.uploads.local_path(&id, &file.extension);
    let place = Place::of(&app, &file, path).await.ok_or_else(|| ApiError::not_found("file content", id.as_str()))?;
    let size = place.size_bytes;
    let etag = format!("\"{}\"", file.sha256);
    if matches_etag(headers.get(header::IF_NONE_MATCH), &etag) {
        return Ok(described(StatusCode::NOT_MODIFIED.into_response(), &file, &etag));
    }
    // A range of another version of the bytes is no use to the client: it gets the whole.
    let is_same = headers.get(header::IF_RANGE).is_none_or(|value| value.as_bytes() == etag.as_bytes());
    let range = if is_same { wanted(headers.get(header::RANGE), size)? } else { None };
    let (status, first, length) = match range {
        Some((first, last)) => (StatusCode::PARTIAL_CONTENT, first, last - first + 1),
        None => (StatusCode::OK, 0, size),
    };
    let body = if method == Method::HEAD { Body::empty() } else { place.stream(&app, first, length).await? };
    let mut response = described((status, body).into_response(), &file, &etag);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    if range.is_some() {
        insert(headers, header::CONTENT_RANGE, &format!("bytes {first}-{}/{size}", first + length - 1));
    }
    Ok(response)
}

/// Where the bytes are, and how many.
struct Place {
    held: Held,
    size_bytes: u64,
}

enum Held {
    Here(Utf8PathBuf),
    InBucket(ObjectKey),
}

impl Place {
    /// On this host, else in the bucket; `None` when they are nowhere.
    async fn of(app: &App, file: &FileRecord, path: Utf8PathBuf) -> Option<Self> {
        if let Ok(facts) = fs_err::tokio::metadata(&path).await {
            return Some(Self { held: Held::Here(path), size_bytes: facts.len() });
        }
        app.uploads.objects()?;
        let key = file.bucket_key.as_deref()?.parse().ok()?;
        Some(Self { held: Held::InBucket(key), size_bytes: file.size_bytes })
    }

    async fn stream(&self, app: &App, first: u64, length: u64) -> Result<Body, ApiError> {
        match &self.held {
            Held::Here(path) => from_disk(path, first, length).await,
            Held::InBucket(key) => from_bucket(app, key, first, length).await,
        }
    }
}

async fn from_disk(path: &Utf8Path, first: u64, length: u64) -> Result<Body, ApiError> {
    let failed = |source| ApiError::internal("read the file", source);
    let mut file = fs_err::tokio::File::open(path).await.map_err(failed)?;
    if first > 0 {
        file.seek(std::io::SeekFrom::Start(first)).await.map_err(failed)?;
    }
    let (file, _path) = file.into_parts();
    Ok(Body::from_stream(ReaderStream::with_capacity(file.take(length), CHUNK_BYTES)))
}

async fn from_bucket(app: &App, key: &ObjectKey, first: u64, length: u64) -> Result<Body, ApiError> {
    let Some(store) = app.uploads.objects().filter(|_store| length > 0) else { return Ok(Body::empty()) };
    match store.stream(key, Some(first..first + length)).await {
        Ok((_facts, pieces)) => Ok(Body::from_stream(pieces)),
        Err(ObjectError::NotFound { .. }) => Err(ApiError::not_found("file content", key.file_name())),
        Err(error) if error.is_passing() => Err(ApiError::Unavailable { what: "the bucket", source: error.into() }),
        Err(error) => Err(ApiError::internal("read the file from the bucket", error)),
    }
}

/// Headers that describe the file, whatever part of it goes out.
fn described(mut response: Response, file: &FileRecord, etag: &str) -> Response {
    let headers = response.headers_mut();
    insert(headers, header::CONTENT_TYPE, &file.mime_type);
    insert(headers, header::CONTENT_DISPOSITION, &disposition(&file.filename));
    insert(headers, header::ETAG, etag);
    insert(headers, header::ACCEPT_RANGES, "bytes");
    // The bytes are a stranger's: no browser is to take them for a page.
    insert(headers, header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    insert(headers, header::CACHE_CONTROL, "private, no-transform");
    response
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

/// The name twice: in plain ASCII for old clients, and whole.
fn disposition(filename: &str) -> String {
    let plain: String = filename
        .chars()
        .map(|character| match character {
            '"' | '\\' | '%' => '_',
            ' '..='~' => character,
            _ => '_',
        })
        .collect();
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{}", utf8_percent_encode(filename, EXTENDED))
}

fn matches_etag(header: Option<&HeaderValue>, etag: &str) -> bool {
    let listed = header.and_then(|value| value.to_str().ok()).unwrap_or_default();
    listed.split(',').map(|one| one.trim().trim_start_matches("W/")).any(|one| one == etag || one == "*")
}

/// First and last byte of the range that is wanted. What does not parse, other units and several ranges ask for the
/// whole, as RFC 9110 allows.
fn wanted(header: Option<&HeaderValue>, size: u64) -> Result<Option<(u64, u64)>, ApiError> {
    let Some(text) = header.and_then(|value| value.to_str().ok()) else { return Ok(None) };
    let Some(spec) = text.trim().strip_prefix("bytes=").map(str::trim) else { return Ok(None) };
    let Some((first, last)) = spec.split_once('-') else { return Ok(None) };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number beyond every file is the end of every file.
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let outside = Err(ApiError::Range { size_bytes: size });
    match (first.trim(), last.trim()) {
        ("", suffix) => match number(suffix) {
            None => Ok(None),
            Some(0) => outside,
            Some(_) if size == 0 => outside,
            Some(length) => Ok(Some((size.saturating_sub(length), size - 1))),
        },
        (first, last) => match (number(first), last.is_empty(), number(last)) {
            (None, _, _) | (_, false, None) => Ok(None),
            (Some(first), _, _) if first >= size => outside,
            (Some(first), true, _) => Ok(Some((first, size - 1))),
            (Some(first), false, Some(last)) if last < first => Ok(None),
            (Some(first), false, Some(last)) => Ok(Some((first, last.min(size - 1)))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_are_read_as_the_rfc_says() {
        let range = |text: &'static str| wanted(Some(&HeaderValue::from_static(text)), 100).map_err(|_outside| ());
        for (text, expected) in [
            ("bytes=0-0", Ok(Some((0, 0)))),
            ("bytes=10-19", Ok(Some((10, 19)))),
            ("bytes=90-", Ok(Some((90, 99)))),
            ("bytes=-10", Ok(Some((90, 99)))),
            ("bytes=-1000", Ok(Some((0, 99)))),
            ("bytes=0-99999999999999999999999", Ok(Some((0, 99)))),
            ("bytes=100-", Err(())),
            ("bytes=99999999999999999999999-", Err(())),
            ("bytes=-0", Err(())),
            ("bytes=20-10", Ok(None)),
            ("bytes=0-1,5-6", Ok(None)),
            ("bytes=a-b", Ok(None)),
            ("bytes=-", Ok(None)),
            ("bytes=+1-2", Ok(None)),
            ("items=0-1", Ok(None)),
        ] {
            assert_eq!(range(text), expected, "{text}");
        }
        assert!(wanted(Some(&HeaderValue::from_static("bytes=0-")), 0).is_err());
    }

    proptest! {
        #[test]
        fn a_range_stays_inside_the_file(text in "(bytes=)?[-0-9, a]{0,24}", size in 0_u64..1000) {
            if let Ok(Some((first, last))) = wanted(Some(&HeaderValue::from_str(&text).unwrap()), size) {
                prop_assert!(first <= last && last < size);
            }
        }

        #[test]
        fn a_file_name_is_always_a_header(name in "\\PC{0,40}") {
            let text = disposition(&name);
            prop_assert!(text.is_ascii());
            prop_assert!(HeaderValue::from_str(&text).is_ok());
            prop_assert_eq!(text.matches('"').count(), 2);
        }
    }
}
