//! Videos: uploading and importing them.

use std::path::Path;

use reqwest::Method;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::json;

use super::form::Form;
use super::{EngineClient, EngineError};

/// A video that an engine knows.
#[derive(Clone, Debug, Deserialize)]
pub struct VideoFile {
    /// `vid_` and 16 hex digits.
    pub id: String,
    /// What it is called.
    pub filename: String,
    /// Bytes of the file; 0 for an import that is not here yet.
    #[serde(default)]
    pub size_bytes: u64,
    /// Whether the bytes are here: `pending`, `processing`, `ready` or `failed`.
    pub source_status: String,
    /// Hundredths of an import that are here, while it goes on.
    #[serde(default)]
    pub source_percent: Option<u8>,
    /// Why the bytes are not here.
    #[serde(default)]
    pub source_error: Option<String>,
    /// How far the description is: `pending`, `processing`, `ready` or `failed`; `None` when none is wanted.
    #[serde(default)]
    pub description_status: Option<String>,
    /// Why there is no description.
    #[serde(default)]
    pub description_error: Option<String>,
    /// Length of the pictures in seconds.
    #[serde(default)]
    pub duration_seconds: Option<f64>,
}

impl EngineClient {
    /// Uploads a file, from disk to the connection without holding it in memory. `told` hears how many bytes were sent,
    /// and of how many. The same bytes again give the same file.
    ///
    /// # Errors
    /// When the file cannot be read, nobody answers, or the engine refuses it: it is too large, or no video.
    pub async fn upload(
        &self,
        path: &Path,
        told: impl Fn(u64, u64) + Send + Sync + 'static,
    ) -> Result<VideoFile, EngineError> {
        let form = Form::open(path).await.map_err(|source| EngineError::File { path: path.to_owned(), source })?;
        let request = self
            .unlimited(Method::POST, &["v1", "files"], &[])
            .header(CONTENT_TYPE, form.content_type())
            .header(CONTENT_LENGTH, form.length_bytes())
            .body(form.into_body(told));
        self.json(request).await
    }

    /// Notes a video on YouTube that the engine is to fetch. It answers at once; [`VideoFile::source_status`] tells how
    /// far it is, and a session over the video may be asked before it is there.
    ///
    /// # Errors
    /// When nobody answers, or the engine refuses the address.
    pub async fn import(&self, url: &str) -> Result<VideoFile, EngineError> {
        self.json(self.request(Method::POST, &["v1", "files", "import"]).json(&json!({ "url": url }))).await
    }

    /// What the engine knows of a video.
    ///
    /// # Errors
    /// When nobody answers, or there is no such video.
    pub async fn file(&self, id: &str) -> Result<VideoFile, EngineError> {
        self.json(self.request(Method::GET, &["v1", "files", id])).await
    }
}
