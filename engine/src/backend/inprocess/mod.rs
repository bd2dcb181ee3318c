//! Media work and the shell on this host.
//!
//! Videos are read from `VIDEO_FOLDER/<id><extension>`. What is made of one is kept under `VIDEO_FOLDER/<id>/`, so that
//! every session over that video finds it again; what is made of a session's own files is kept under
//! `VIDEO_FOLDER/session-media/<session>/` and goes with the session. Files that tools read must lie in the session's
//! workspace, `<BASH_CWD>/sessions/<session>/`, where `BASH_CWD` is the video folder by default.

mod config;
mod found;
mod told;

use std::sync::Arc;
use std::time::Duration;

use ambient_media::objects::{About, ObjectKey};
use ambient_media::{
    AnnotateSpec, Clip, ClipSpec, FramesSpec, Grid, ImageSpec, Mark, Media, MediaError, MediaTime, Pick, Rate, Shape,
    Source,
};
use async_trait::async_trait;
use bytes::Bytes;
use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

pub use self::config::{InProcessConfig, media_config};
use self::found::{Found, file_name, identity_of, session_media};
use super::artifact::{artifact_name, media_type, unix_seconds};
use super::mirror::{self, Mirror, object_key};
use super::outputs::{Fresh, Outputs};
use super::shell::ShellHost;
use super::tiles::Tiles;
use super::workspace::{Workspaces, remove_folder};
use super::{
    AnnotatedMade, ArtifactMade, BackendError, BoxWish, ClipMade, ClipWish, FrameMade, FramesWish, MediaBackend,
    ShellDone, ShellWish, Target,
};
use crate::ids::{SessionId, VideoId};
use crate::store::Store;
use crate::store::records::MediaRef;

/// The quality of pictures for a model: no visible loss at a tenth of the size of a PNG.
const JPEG_QUALITY: u8 = 85;
/// Pictures a second; over a video of a whole day that is still a picture in a quarter of an hour.
const SLOWEST_RATE: f64 = 0.001;
const JPEG: &str = "image/jpeg";
const MP4: &str = "video/mp4";
const MEBIBYTE: u64 = 1 << 20;

/// This host as a backend.
#[derive(Debug)]
pub struct InProcess {
    config: InProcessConfig,
    store: Arc<dyn Store>,
    media: Media,
    workspaces: Workspaces,
    outputs: Outputs,
    mirror: Option<Mirror>,
    tiles: Option<Tiles>,
    shell: Option<ShellHost>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ClipFacts {
    start: f64,
    end: f64,
    size_bytes: u64,
    has_audio: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct FrameFacts {
    times: Vec<f64>,
    width: u32,
    height: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct AnnotatedFacts {
    time: f64,
    width: u32,
    height: u32,
    pixel_boxes: Vec<[u32; 4]>,
}

impl InProcess {
    /// A backend over the videos of this store, and over the bucket of `media` if it has one.
    pub fn new(config: InProcessConfig, store: Arc<dyn Store>, media: Media) -> Self {
        Self {
            workspaces: Workspaces::new(config.workspaces.clone(), config.extra_roots.clone()),
            outputs: Outputs::new(config.video_folder.clone(), config.cache_max_bytes),
            mirror: media.objects().map(|store| Mirror::new(store.clone(), config.video_folder.clone())),
            tiles: Tiles::new(&media, &config.tiles, &config.video_folder, config.concurrency),
            shell: config.has_shell.then(|| ShellHost::new(config.shell_limits)),
            store,
            media,
            config,
        }
    }

    /// Media work in the name of this session, so that sessions take turns.
    fn media_of(&self, target: &Target) -> Media {
        self.media.for_caller(target.session.as_str())
    }

    /// A clip, out of tiles where that can be.
    async fn cut(
        &self,
        target: &Target,
        found: &Found,
        spec: &ClipSpec,
        stop: &CancellationToken,
    ) -> Result<Clip, MediaError> {
        let media = self.media_of(target);
        if let (Some(tiles), Some(record)) = (&self.tiles, &found.record)
            && let Some(clip) = tiles.clip(&media, record, spec, stop).await?
        {
            return Ok(clip);
        }
        media.clip(&found.source, spec, stop).await
    }

    fn local(path: Utf8PathBuf, mime_type: &str) -> MediaRef {
        MediaRef::Local { path, mime_type: mime_type.to_owned() }
    }
}

#[async_trait]
impl MediaBackend for InProcess {
    fn name(&self) -> &'static str {
        "inprocess"
    }

    async fn shut_down(&self) {
        if let Some(shell) = &self.shell {
            shell.shut_down().await;
        }
    }

    async fn clip(&self, target: &Target, wish: &ClipWish, stop: &CancellationToken) -> Result<ClipMade, BackendError> {
        let found = self.found(target).await?;
        let spec = ClipSpec {
            start: moment(wish.start)?,
            end: moment(wish.end)?,
            fps: wish.frames_per_second.map(rate).transpose()?,
            max_dim: Some(wish.max_dimension),
            max_size_bytes: Some(wish.max_size_bytes),
            crf: wish.crf,
        };
        let key = (
            "clip",
            &found.identity,
            (wish.start, wish.end, wish.frames_per_second),
            (wish.max_dimension, wish.max_size_bytes, wish.crf),
        );
        let make = || async {
            let clip = self.cut(target, &found, &spec, stop).await.map_err(|error| self.told(&error))?;
            let facts = ClipFacts {
                start: clip.start.as_secs_f64(),
                end: clip.end.as_secs_f64(),
                size_bytes: clip.size_bytes,
                has_audio: clip.has_audio,
            };
            Ok((vec![Fresh { path: clip.path, extension: "mp4" }], facts))
        };
        let (mut paths, facts) = self.outputs.find_or_make(&found.folder.join("clips"), &key, stop, make).await?;
        Ok(ClipMade {
            media: Self::local(paths.pop().ok_or_else(empty)?, MP4),
            start: facts.start,
            end: facts.end,
            size_bytes: facts.size_bytes,
            has_audio: facts.has_audio,
        })
    }

    async fn frames(
        &self,
        target: &Target,
        wish: &FramesWish,
        stop: &CancellationToken,
    ) -> Result<Vec<FrameMade>, BackendError> {
        let found = self.found(target).await?;
        let end = if let Some(end) = wish.end.or(found.duration) {
            end
        } else {
            let probe = self.media_of(target).probe(&found.source, stop).await.map_err(|error| self.told(&error))?;
            probe.duration.as_secs_f64()
        };
        let spec = FramesSpec {
            pick: Pick::Window {
                start: moment(wish.start)?,
                end: moment(end)?,
                fps: rate(wish.frames_per_second)?,
                max_frames: wish.max_frames,
            },
            max_dim: Some(wish.max_dimension),
            jpeg_quality: JPEG_QUALITY,
        };
        let key = (
            "frames",
            &found.identity,
            (wish.start, end, wish.frames_per_second),
            (wish.max_frames, wish.max_dimension, JPEG_QUALITY),
        );
        let make = || async {
            let taken =
                self.media_of(target).frames(&found.source, &spec, stop).await.map_err(|error| self.told(&error))?;
            let facts = FrameFacts {
                times: taken.frames.iter().map(|frame| frame.timestamp.as_secs_f64()).collect(),
                width: taken.size.width,
                height: taken.size.height,
            };
            let fresh = taken.frames.into_iter().map(|frame| Fresh { path: frame.path, extension: "jpg" });
            Ok((fresh.collect(), facts))
        };
        let (paths, facts) = self.outputs.find_or_make(&found.folder.join("frames"), &key, stop, make).await?;
        let frames = paths.into_iter().zip(&facts.times).map(|(path, time)| FrameMade {
            media: Self::local(path, JPEG),
            time: *time,
            width: facts.width,
            height: facts.height,
        });
        Ok(frames.collect())
    }

    async fn annotate(
        &self,
        target: &Target,
        time: f64,
        boxes: &[BoxWish],
        max_dimension: u32,
        stop: &CancellationToken,
    ) -> Result<AnnotatedMade, BackendError> {
        let found = self.found(target).await?;
        let marks = boxes.iter().map(|wish| {
            let [y_min, x_min, y_max, x_max] = wish.corners;
            Mark { shape: Shape::Box { y_min, x_min, y_max, x_max }, label: wish.label.clone() }
        });
        let spec = AnnotateSpec {
            at: moment(time)?,
            marks: marks.collect(),
            grid: Grid::Thousandths,
            max_dim: Some(max_dimension),
            jpeg_quality: JPEG_QUALITY,
        };
        let drawn: Vec<_> = boxes.iter().map(|wish| (wish.corners, &wish.label)).collect();
        let key = ("annotated", &found.identity, time, (max_dimension, JPEG_QUALITY), drawn);
        let make = || async {
            let made =
                self.media_of(target).annotate(&found.source, &spec, stop).await.map_err(|error| self.told(&error))?;
            let boxes = made.marks.iter().map(|mark| mark.pixel_box);
            let facts = AnnotatedFacts {
                time: made.timestamp.as_secs_f64(),
                width: made.width,
                height: made.height,
                pixel_boxes: boxes.map(|edges| [edges.x_min, edges.y_min, edges.x_max, edges.y_max]).collect(),
            };
            Ok((vec![Fresh { path: made.path, extension: "jpg" }], facts))
        };
        let (mut paths, facts) = self.outputs.find_or_make(&found.folder.join("annotated"), &key, stop, make).await?;
        let media = Self::local(paths.pop().ok_or_else(empty)?, JPEG);
        Ok(AnnotatedMade {
            frame: FrameMade { media, time: facts.time, width: facts.width, height: facts.height },
            pixel_boxes: facts.pixel_boxes,
        })
    }

    async fn read_image(
        &self,
        target: &Target,
        path: &str,
        max_dimension: u32,
        stop: &CancellationToken,
    ) -> Result<FrameMade, BackendError> {
        let path = self.workspaces.confine(&target.session, path).await?;
        let key = ("image", identity_of(&path).await?, max_dimension, JPEG_QUALITY);
        let make = || async {
            let spec = ImageSpec { max_dim: Some(max_dimension), jpeg_quality: JPEG_QUALITY };
            let picture =
                self.media_of(target).read_image(&path, &spec, stop).await.map_err(|error| self.told(&error))?;
            Ok((vec![Fresh { path: picture.path, extension: "jpg" }], (picture.width, picture.height)))
        };
        let folder = session_media(&target.session).join("images");
        let (mut paths, (width, height)) = self.outputs.find_or_make(&folder, &key, stop, make).await?;
        Ok(FrameMade { media: Self::local(paths.pop().ok_or_else(empty)?, JPEG), time: 0.0, width, height })
    }

    async fn shell(
        &self,
        target: &Target,
        wish: &ShellWish,
        stop: &CancellationToken,
    ) -> Result<ShellDone, BackendError> {
        let Some(shell) = &self.shell else {
            return Err(BackendError::Media("there is no shell on this engine".to_owned()));
        };
        let folder = self.workspaces.open(&target.session).await?;
        // A command may do without the video, so one that is gone does not keep it from running.
        self.put_into_workspace(target).await?;
        shell.run(&target.session, &folder, wish, stop).await
    }

    async fn upload_artifact(
        &self,
        target: &Target,
        path: &str,
        name: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<ArtifactMade, BackendError> {
        let Some(mirror) = &self.mirror else {
            return Err(BackendError::Media("S3 is not configured, so upload_artifact is unavailable.".to_owned()));
        };
        let path = self.workspaces.confine(&target.session, path).await?;
        let facts = fs_err::tokio::metadata(&path)
            .await
            .map_err(|error| BackendError::Path(format!("cannot be read: {}", error.kind())))?;
        if facts.len() > self.config.artifact_max_bytes {
            return Err(BackendError::Media(format!(
                "artifact is {} MB, over the {} MB limit.",
                facts.len().div_ceil(MEBIBYTE),
                self.config.artifact_max_bytes / MEBIBYTE
            )));
        }
        let name = artifact_name(name, &path);
        let store = mirror.store();
        let key = ObjectKey::artifact(target.video.as_str(), &name, unix_seconds());
        let mut about = About::new(media_type(&name), "upload_artifact");
        about.download_name = Some(name);
        let size_bytes = tokio::select! {
            () = stop.cancelled() => return Err(BackendError::Cancelled),
            stored = store.put_file(&key, &path, &about) => stored.map_err(|error| mirror::told(&error))?,
        };
        let url = mirror.link(&key, self.config.artifact_link_life).await?;
        Ok(ArtifactMade { uri: store.uri(&key), key: key.to_string(), url, size_bytes })
    }

    async fn source_hint(&self, target: &Target) -> Option<String> {
        self.shell.as_ref()?;
        self.put_into_workspace(target).await.ok()?.map(Utf8PathBuf::into_string)
    }

    async fn end_session(&self, session: &SessionId) -> Result<(), BackendError> {
        if let Some(shell) = &self.shell {
            shell.end_session(session).await;
        }
        self.workspaces.remove(session).await?;
        remove_folder(self.config.video_folder.join(session_media(session))).await.map_err(|error| {
            tracing::warn!(session.id = %session, %error, "media of a session could not be removed");
            BackendError::Media("the session's media could not be removed".to_owned())
        })
    }

    async fn read(&self, media: &MediaRef) -> Result<Bytes, BackendError> {
        match (media, &self.mirror) {
            (MediaRef::Local { path, .. }, None) => self.outputs.read(path).await,
            // Another replica may have made it.
            (MediaRef::Local { path, .. }, Some(mirror)) => match self.outputs.read(path).await {
                Err(BackendError::Media(_)) => mirror.read_local(path).await,
                outcome => outcome,
            },
            (MediaRef::Object { key, .. }, Some(mirror)) => mirror.read(&object_key(key)?).await,
            (MediaRef::Object { .. }, None) => Err(elsewhere("in a bucket, and none is set")),
            (MediaRef::Sent { .. }, _) => Err(elsewhere("in the user's message")),
            (MediaRef::Link { .. }, _) => Err(elsewhere("behind a link")),
        }
    }

    async fn link(&self, media: &MediaRef, ttl: Duration) -> Result<Option<String>, BackendError> {
        let Some(mirror) = &self.mirror else { return Ok(None) };
        match media {
            MediaRef::Local { path, mime_type } => mirror.link_local(path, mime_type, ttl).await.map(Some),
            MediaRef::Object { key, .. } => mirror.link(&object_key(key)?, ttl).await.map(Some),
            MediaRef::Sent { .. } | MediaRef::Link { .. } => Ok(None),
        }
    }

    async fn source(&self, video: &VideoId) -> Result<(MediaRef, u64), BackendError> {
        let (source, record) = self.video(video).await?;
        let media = match source {
            Source::Object(key) => MediaRef::Object { key: key.to_string(), mime_type: record.mime_type },
            // Where there is a bucket, the file's key in it follows from its name.
            _ => Self::local(file_name(&record).into(), &record.mime_type),
        };
        Ok((media, record.size_bytes))
    }

    async fn make_tiles(
        &self,
        _job: &SessionId,
        video: &VideoId,
        stop: &CancellationToken,
    ) -> Result<(), BackendError> {
        let Some(tiles) = &self.tiles else { return Ok(()) };
        let (source, record) = self.video(video).await?;
        tiles.make(&source, &record, stop).await.map_err(|error| self.told(&error))
    }

    fn workspace(&self, session: &SessionId) -> Option<Utf8PathBuf> {
        Some(self.workspaces.folder(session))
    }
}

fn elsewhere(place: &str) -> BackendError {
    BackendError::Media(format!("this medium is {place}, not on this host"))
}

fn moment(seconds: f64) -> Result<MediaTime, BackendError> {
    MediaTime::from_secs_f64(seconds).map_err(|error| BackendError::Media(error.to_string()))
}

fn rate(frames_per_second: f64) -> Result<Rate, BackendError> {
    Rate::from_f64(frames_per_second.max(SLOWEST_RATE))
        .ok_or_else(|| BackendError::Media(format!("`{frames_per_second}` is not a number of pictures a second")))
}

fn empty() -> BackendError {
    BackendError::Media("the media work gave no file".to_owned())
}
