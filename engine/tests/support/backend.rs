//! A backend for worlds whose runs touch no media: every operation says so.

use std::time::Duration;

use ambient_engine::backend::{
    AnnotatedMade, ArtifactMade, BackendError, BoxWish, ClipMade, ClipWish, FrameMade, FramesWish, MediaBackend,
    ShellDone, ShellWish, Target,
};
use ambient_engine::ids::{SessionId, VideoId};
use ambient_engine::store::records::MediaRef;
use camino::Utf8PathBuf;
use tokio_util::sync::CancellationToken;

/// Has no media.
#[derive(Debug)]
pub(crate) struct NoMedia;

fn none<T>() -> Result<T, BackendError> {
    Err(BackendError::Media("this test has no media".to_owned()))
}

#[async_trait::async_trait]
impl MediaBackend for NoMedia {
    fn name(&self) -> &'static str {
        "inprocess"
    }
    async fn clip(&self, _: &Target, _: &ClipWish, _: &CancellationToken) -> Result<ClipMade, BackendError> {
        none()
    }
    async fn frames(&self, _: &Target, _: &FramesWish, _: &CancellationToken) -> Result<Vec<FrameMade>, BackendError> {
        none()
    }
    async fn annotate(
        &self,
        _: &Target,
        _: f64,
        _: &[BoxWish],
        _: u32,
        _: &CancellationToken,
    ) -> Result<AnnotatedMade, BackendError> {
        none()
    }
    async fn read_image(&self, _: &Target, _: &str, _: u32, _: &CancellationToken) -> Result<FrameMade, BackendError> {
        none()
    }
    async fn shell(&self, _: &Target, _: &ShellWish, _: &CancellationToken) -> Result<ShellDone, BackendError> {
        none()
    }
    async fn upload_artifact(
        &self,
        _: &Target,
        _: &str,
        _: Option<&str>,
        _: &CancellationToken,
    ) -> Result<ArtifactMade, BackendError> {
        none()
    }
    async fn source_hint(&self, _: &Target) -> Option<String> {
        None
    }
    async fn end_session(&self, _: &SessionId) -> Result<(), BackendError> {
        Ok(())
    }
    async fn read(&self, _: &MediaRef) -> Result<bytes::Bytes, BackendError> {
        none()
    }
    async fn link(&self, _: &MediaRef, _: Duration) -> Result<Option<String>, BackendError> {
        Ok(None)
    }
    async fn source(&self, _: &VideoId) -> Result<(MediaRef, u64), BackendError> {
        none()
    }
    fn workspace(&self, _: &SessionId) -> Option<Utf8PathBuf> {
        None
    }
}
