//! `/v1/files`: videos, by upload or import.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header;
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use super::extract::{Body, Fields, Id, Patch, Query};
use super::paging::{Limits, List, Page, page, window};
use super::state::App;
use super::wire::{Deleted, Moment, new_metadata};
use crate::ids::VideoId;
use crate::ingest::form::Form;
use crate::ingest::import::{ImportError, ImportWish};
use crate::ingest::upload::{UploadError, is_expired};
use crate::store::Position;
use crate::store::records::{FileRecord, FileSource, ImportState, WorkStatus};

const LIMITS: Limits = Limits { default: 20, most: 1000 };
/// Ids of one request.
const MOST_IDS: usize = 100;

/// A file.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = File)]
pub struct FileView {
    /// `vid_` and 16 hex digits, from the bytes.
    pub id: String,
    /// Always `file`.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: &'static str,
    /// As the first upload named it.
    pub filename: String,
    /// Told from the bytes.
    pub mime_type: String,
    /// Of the whole file.
    pub size_bytes: u64,
    /// When it first came.
    pub created_at: Moment,
    /// Whether the bytes can be fetched.
    pub downloadable: bool,
    /// When it goes away, if that was asked for.
    pub expires_at: Option<Moment>,
    /// Always null: files belong to nobody.
    #[schema(value_type = Option<Object>)]
    pub scope: Option<()>,
    /// `upload` or `youtube`.
    #[schema(value_type = String)]
    pub source_type: &'static str,
    /// Whether the bytes are here: `pending`, `processing`, `ready` or `failed`.
    #[schema(value_type = String)]
    pub source_status: &'static str,
    /// How far the description is; null when none is wanted.
    #[schema(value_type = Option<String>)]
    pub description_status: Option<&'static str>,
    /// What one file alone says besides.
    #[serde(flatten)]
    pub details: Option<FileDetails>,
}

/// What `GET /v1/files/{id}` says besides.
#[derive(Debug, Serialize, ToSchema)]
pub struct FileDetails {
    /// What the video shows, in the video model's words.
    pub description: Option<String>,
    /// Why there is no description.
    pub description_error: Option<String>,
    /// Why the bytes are not here.
    pub source_error: Option<String>,
    /// Length of the pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_seconds: Option<f64>,
    /// As shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// As shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Hundredths of an import that are here, while it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_percent: Option<u8>,
    /// Of an import.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub youtube: Option<YoutubeView>,
}

/// Where an import comes from, and what its page says.
#[derive(Debug, Serialize, ToSchema)]
pub struct YoutubeView {
    /// The page of the video.
    pub webpage_url: String,
    /// Its title there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Which part of yt-dlp knows the page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extractor: Option<String>,
    /// Its length in seconds, as the page says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<f64>,
    /// The width of what is fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// The height of what is fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// What is fetched, in yt-dlp's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format_id: Option<String>,
}

impl YoutubeView {
    fn new(url: &str, import: &ImportState) -> Self {
        Self {
            webpage_url: url.to_owned(),
            title: import.title.clone(),
            extractor: import.extractor.clone(),
            duration: import.duration_seconds,
            width: import.width,
            height: import.height,
            format_id: import.format_id.clone(),
        }
    }
}

impl FileView {
    /// As it stands in a list.
    fn brief(file: FileRecord) -> Self {
        Self {
            id: file.id.into(),
            kind: "file",
            filename: file.filename,
            mime_type: file.mime_type,
            size_bytes: file.size_bytes,
            created_at: file.created_at.into(),
            downloadable: file.source_status == WorkStatus::Ready,
            expires_at: file.expires_at.map(Moment),
            scope: None,
            source_type: match file.source {
                FileSource::Upload => "upload",
                FileSource::Youtube { .. } => "youtube",
            },
            source_status: file.source_status.name(),
            description_status: file.description_status.map(WorkStatus::name),
            details: None,
        }
    }

    /// With all that is known.
    fn whole(file: FileRecord) -> Self {
        let details = FileDetails {
            description: file.description.clone(),
            description_error: file.description_error.clone(),
            source_error: file.source_error.clone(),
            duration_seconds: file.media.as_ref().map(|media| media.duration_seconds),
            width: file.media.as_ref().map(|media| media.width),
            height: file.media.as_ref().map(|media| media.height),
            source_percent: match &file.source {
                FileSource::Youtube { import, .. } if file.source_status == WorkStatus::Processing => import.percent,
                FileSource::Youtube { .. } | FileSource::Upload => None,
            },
            youtube: match &file.source {
                FileSource::Upload => None,
                FileSource::Youtube { url, import } => Some(YoutubeView::new(url, import)),
            },
        };
        Self { details: Some(details), ..Self::brief(file) }
    }
}

/// A file that is there and not past its time.
pub async fn living(app: &App, id: &VideoId) -> Result<FileRecord, ApiError> {
    match app.store.file(id).await? {
        None => Err(ApiError::not_found("file", id.as_str())),
        Some(file) if is_expired(&file, app.clock.now()) => {
            Err(ApiError::NotFound { noun: "file", id: id.to_string(), code: Some("file_expired") })
        }
        Some(file) => Ok(file),
    }
}

/// A form with a file, for the API description.
#[derive(Debug, ToSchema)]
pub struct UploadForm {
    /// The video. The first file of the form counts, whatever its field is called.
    #[schema(value_type = String, format = Binary)]
    pub file: Vec<u8>,
    /// When the file is to go away: 3600 (an hour) to 7776000 (90 days). Left out, it stays.
    #[schema(minimum = 3600, maximum = 7_776_000)]
    pub expires_in_seconds: Option<u32>,
}

/// Takes in a video. The same bytes again give the same file, and put right what it lacks.
#[utoipa::path(post, path = "/v1/files", tag = "files",
    request_body(content = UploadForm, content_type = "multipart/form-data"),
    responses((status = 200, body = FileView), (status = "default", body = ErrorBody)))]
pub async fn upload(State(app): State<App>, request: Request) -> Result<Json<FileView>, ApiError> {
    let (parts, body) = request.into_parts();
    let limit_bytes = app.settings.server.max_upload_bytes;
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    // A form is a little longer than its file; what is longer by more will not fit.
    if length.is_some_and(|length: u64| length > limit_bytes.saturating_add(1 << 20)) {
        return Err(upload_error(UploadError::TooLarge { limit_bytes }));
    }
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let mut form = match Form::new(content_type, body.into_data_stream()) {
        Ok(form) => form,
        // To a client without a form the missing file is the news.
        Err(_no_form) => return Err(upload_error(UploadError::NoFile)),
    };
    match app.uploads.receive(&mut form).await {
        Ok(file) => Ok(Json(FileView::brief(file))),
        Err(error) => Err(upload_error(error)),
    }
}

fn upload_error(error: UploadError) -> ApiError {
    match error {
        UploadError::Form(_)
        | UploadError::NoFile
        | UploadError::Empty
        | UploadError::Field(_)
        | UploadError::Refused(_) => ApiError::invalid(error.to_string()),
        UploadError::TooLarge { limit_bytes } => ApiError::TooLarge {
            what: "the uploaded file",
            limit_bytes,
            remedy: "; upload a shorter or smaller video, or raise `MAX_UPLOAD_BYTES` in the engine's settings",
        },
        UploadError::DiskFull => ApiError::DiskFull,
        UploadError::Disk { doing, source } => ApiError::internal(doing, source),
        UploadError::Probe(source) => ApiError::internal("look at the video", source),
        UploadError::Store(source) => source.into(),
    }
}

/// Body of `POST /v1/files/import`.
#[derive(Debug, ToSchema)]
pub struct ImportFile {
    /// The page of a YouTube video.
    pub url: String,
    /// Only `youtube`, which is also the default.
    pub source_type: Option<String>,
    /// What the file is to be called.
    #[schema(max_length = 255)]
    pub filename: Option<String>,
    /// Pairs that stay with the file.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub metadata: Option<serde_json::Value>,
}

/// Notes a video to fetch, and queues the fetching. `source_status` and `source_error` of the file say how it went.
#[utoipa::path(post, path = "/v1/files/import", tag = "files", request_body = ImportFile,
    responses((status = 200, body = FileView), (status = "default", body = ErrorBody)))]
pub async fn import(State(app): State<App>, Body(fields): Body) -> Result<Json<FileView>, ApiError> {
    if !app.settings.youtube.import_enabled {
        return Err(ApiError::invalid("YouTube URL imports are disabled"));
    }
    let wish = import_wish(fields)?;
    match app.uploads.import(wish).await {
        Ok(file) => Ok(Json(FileView::brief(file))),
        Err(ImportError::NotYoutube) => Err(ApiError::invalid("url must be a YouTube URL")),
        Err(ImportError::Store(source)) => Err(source.into()),
    }
}

fn import_wish(mut fields: Fields) -> Result<ImportWish, ApiError> {
    match fields.take("source_type") {
        Patch::Absent | Patch::Null => {}
        Patch::Given(serde_json::Value::String(kind)) if kind.trim().eq_ignore_ascii_case("youtube") => {}
        Patch::Given(serde_json::Value::String(_)) => {
            return Err(ApiError::invalid("only source_type='youtube' is supported"));
        }
        Patch::Given(_) => return Err(ApiError::invalid("source_type must be a string")),
    }
    let url = match fields.text("url", 0..=2048)? {
        Patch::Given(url) if !url.trim().is_empty() => url,
        Patch::Given(_) | Patch::Absent | Patch::Null => return Err(ApiError::invalid("url is required")),
    };
    Ok(ImportWish { url, filename: fields.text("filename", 0..=255)?.given(), metadata: new_metadata(&mut fields)? })
}

/// All files, newest first, or those of `ids[]`.
#[utoipa::path(get, path = "/v1/files", tag = "files",
    params(("limit" = Option<u32>, Query, minimum = 1, maximum = 1000), ("page" = Option<String>, Query),
        ("after_id" = Option<String>, Query), ("before_id" = Option<String>, Query),
        ("ids[]" = Option<Vec<String>>, Query), ("scope_id" = Option<String>, Query)),
    responses((status = 200, body = Page<FileView>), (status = "default", body = ErrorBody)))]
pub async fn list(State(app): State<App>, query: Query) -> Result<Json<Page<FileView>>, ApiError> {
    let now = app.clock.now();
    if let Some(ids) = asked_ids(&query)? {
        let found = app.store.files_by_id(&ids).await?;
        let data = found.into_iter().filter(|file| !is_expired(file, now)).map(FileView::brief).collect();
        return Ok(Json(Page::whole(data, |file: &FileView| file.id.clone())));
    }
    let window = window(&app, &query, List::Files, LIMITS, false).await?;
    if query.one("scope_id").is_some() {
        // No file belongs to a session here.
        return Ok(Json(Page::whole(Vec::new(), |file: &FileView| file.id.clone())));
    }
    let mut listed = app.store.files(&window).await?;
    let position = |file: &FileRecord| Position { at: file.created_at, id: file.id.to_string() };
    // Those past their time wait for the sweep; the last one stays where the next page would otherwise not be found.
    let last = listed.items.last().map(|file| file.id.clone());
    let has_more = listed.has_more;
    listed.items.retain(|file| !is_expired(file, now) || (has_more && last.as_ref() == Some(&file.id)));
    Ok(Json(page(listed, List::Files, window.before.is_some(), position, FileView::brief)))
}

fn asked_ids(query: &Query) -> Result<Option<Vec<VideoId>>, ApiError> {
    let ids = query.all("ids");
    if ids.is_empty() {
        return Ok(None);
    }
    if ids.len() > MOST_IDS {
        return Err(ApiError::invalid(format!("`ids` may name at most {MOST_IDS} files, not {}", ids.len())));
    }
    if ["limit", "page", "after_id", "before_id"].iter().any(|name| query.one(name).is_some()) {
        return Err(ApiError::invalid(
            "`ids` names single files: send it without `limit`, `page`, `after_id` and `before_id`",
        ));
    }
    // What is no id is an id that nobody has.
    Ok(Some(ids.into_iter().filter_map(|id| id.parse().ok()).collect()))
}

/// One file, with its description.
#[utoipa::path(get, path = "/v1/files/{id}", tag = "files", params(("id" = String, Path)),
    responses((status = 200, body = FileView), (status = "default", body = ErrorBody)))]
pub async fn retrieve(State(app): State<App>, Id(id): Id<VideoId>) -> Result<Json<FileView>, ApiError> {
    Ok(Json(FileView::whole(living(&app, &id).await?)))
}

/// Deletes a file. Sessions over it stay; new ones over it are refused.
#[utoipa::path(delete, path = "/v1/files/{id}", tag = "files", params(("id" = String, Path)),
    responses((status = 200, body = Deleted), (status = "default", body = ErrorBody)))]
pub async fn delete(State(app): State<App>, Id(id): Id<VideoId>) -> Result<Json<Deleted>, ApiError> {
    if app.uploads.delete(&id).await? {
        Ok(Json(Deleted { id: id.into(), kind: "file_deleted" }))
    } else {
        Err(ApiError::not_found("file", id.as_str()))
    }
}
