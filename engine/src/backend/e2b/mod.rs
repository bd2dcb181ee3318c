//! Media work and the shell in E2B sandboxes: one for each session, one for each job on a video.
//!
//! Videos come from the bucket and results go there; what a model gets is a presigned link. A sandbox is told of the bucket and of
//! the limits of media work, never of a model's key, a database or the engine's own key; and its shell not even of the bucket's
//! credentials, which media commands alone get.
//!
//! What stands where: `boot` makes and ends sandboxes, `held` knows who has which, `handle` runs commands in one, `media` and
//! `shell` are the two kinds of commands, `tiles` the quick way to a clip, `words` and `envelope` what media commands are told and answer, `jobs` the work on videos
//! that no session does, `reaper` the end of what nobody needs.

mod boot;
mod config;
mod envelope;
mod handle;
mod held;
mod jobs;
mod media;
mod reaper;
mod scripts;
mod shell;
mod tiles;
mod told;
mod words;

use std::sync::Arc;
use std::time::Duration;

use ambient_e2b::{Client, ListFilter};
use ambient_media::Media;
use ambient_media::objects::{ObjectKey, ObjectStore};
use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use camino::Utf8PathBuf;
use futures::StreamExt as _;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub use self::config::{E2bConfig, E2bConfigError};
use self::held::Held;
use super::artifact::{artifact_name, media_type, unix_seconds};
use super::mirror::{Mirror, object_key};
use super::{
    AnnotatedMade, ArtifactMade, BackendError, BoxWish, ClipMade, ClipWish, FrameMade, FramesWish, ImportFailed,
    ImportMade, ImportNews, MediaBackend, ShellDone, ShellWish, Target,
};
use crate::broker::Broker;
use crate::clock::Clock;
use crate::ids::{AgentId, SessionId, VideoId};
use crate::lifecycle::Lifecycle;
use crate::sessions::state::SessionState;
use crate::sessions::writer::SessionWriter;
use crate::store::records::{MediaRef, Mode, SessionRecord};
use crate::store::{Store, StoreError, chain};

/// This backend, as sessions say.
const NAME: &str = "e2b";
const MEBIBYTE: u64 = 1 << 20;
/// Sandboxes that are ended at once at the end of the engine.
const ENDED_AT_ONCE: usize = 16;
/// How long that may take in all.
const END_PATIENCE: Duration = Duration::from_secs(20);
/// Hex digits of an installation's name.
const NAME_DIGITS: usize = 16;

/// What the backend stands on.
#[derive(Debug)]
pub struct E2bParts {
    /// What the settings say.
    pub config: E2bConfig,
    /// Where sessions and files are kept.
    pub store: Arc<dyn Store>,
    /// What engines agree on.
    pub broker: Arc<dyn Broker>,
    /// The time.
    pub clock: Clock,
    /// Owner of boots and of the reaper.
    pub lifecycle: Lifecycle,
    /// Media work on this host, for looking at what is in the bucket.
    pub media: Media,
    /// The bucket.
    pub objects: ObjectStore,
}

/// E2B sandboxes as a backend.
#[derive(Clone, Debug)]
pub struct E2b(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    config: E2bConfig,
    client: Client,
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    writer: SessionWriter,
    clock: Clock,
    lifecycle: Lifecycle,
    media: Media,
    objects: ObjectStore,
    mirror: Mirror,
    held: Held,
    installation: OnceCell<String>,
}

/// The right to boot a session's sandbox.
fn boot_lease(session: &SessionId) -> String {
    format!("sandbox-boot:{session}")
}

impl E2b {
    /// Sandboxes by these settings.
    ///
    /// # Errors
    /// When the client for E2B cannot be made.
    pub fn new(parts: E2bParts) -> Result<Self, E2bConfigError> {
        let E2bParts { config, store, broker, clock, lifecycle, media, objects } = parts;
        Ok(Self(Arc::new(Inner {
            client: Client::new(config.client.clone()).map_err(E2bConfigError::Client)?,
            writer: SessionWriter::new(Arc::clone(&store), Arc::clone(&broker), clock.clone()),
            mirror: Mirror::new(objects.clone(), config.video_folder.clone()),
            held: Held::default(),
            installation: OnceCell::new(),
            config,
            store,
            broker,
            clock,
            lifecycle,
            media,
            objects,
        })))
    }

    /// Ends, from now on until the engine drains, sandboxes that nobody needs.
    pub fn start_reaper(&self) {
        let inner = Arc::clone(&self.0);
        self.0.lifecycle.spawn_service("sandbox reaper", move |draining| inner.reap(draining));
    }
}

impl Inner {
    /// Tells this installation from every other that uses the same E2B team: by the moment at which its database was set up, which
    /// all of its engines share.
    async fn installation(&self) -> Result<&str, StoreError> {
        let name = self
            .installation
            .get_or_try_init(|| async {
                let first = self.store.agent(&AgentId::built_in_agent(), Some(1)).await?;
                let since = first.map_or(0, |agent| agent.created_at.as_microsecond());
                let hash = digest(&SHA256, format!("ambient installation {since}").as_bytes());
                let hex = hash.as_ref().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
                Ok::<_, StoreError>(hex[..NAME_DIGITS].to_owned())
            })
            .await?;
        Ok(name)
    }

    /// Ends the sandbox of a session or job, now.
    async fn end(&self, session: &SessionId) {
        let removed = self.held.remove(session);
        let at_hand = removed.as_ref().and_then(|entry| entry.handle());
        let stored = match self.store.session(session).await {
            Ok(record) => record.and_then(|record| record.sandbox.id),
            Err(error) => {
                tracing::warn!(session.id = %session, error = %chain(&error), "a session's sandbox could not be looked up for its end");
                None
            }
        };
        for id in stored
            .iter()
            .map(String::as_str)
            .chain(at_hand.as_ref().map(|handle| handle.id()).filter(|id| stored.as_deref() != Some(*id)))
        {
            self.kill(id).await;
            if let Err(error) = self.store_lost(session, id).await {
                tracing::debug!(session.id = %session, error = %chain(&error), "the end of a sandbox was not noted");
            }
        }
    }
}

#[async_trait]
impl MediaBackend for E2b {
    fn name(&self) -> &'static str {
        NAME
    }

    fn boots(&self, mode: Mode) -> bool {
        mode == Mode::Agent
    }

    async fn boot(&self, session: &SessionId, stop: &CancellationToken) -> Result<(), BackendError> {
        self.0.boot(session, stop).await
    }

    async fn is_booting(&self, session: &SessionId) -> Result<bool, BackendError> {
        self.0.is_booting(session).await
    }

    async fn freshen(&self, session: &SessionRecord, stop: &CancellationToken) {
        let Some(id) = session.sandbox.id.as_deref() else {
            if session.sandbox.status == crate::store::records::sandbox_status::LOST {
                let _made_or_told_by_the_first_command = self.0.handle(&session.id, stop).await;
            }
            return;
        };
        // A question and not a keep-alive: without commands a sandbox is to end at its time.
        match self.0.client.info(id).await {
            Err(error) if error.is_sandbox_lost() => {
                self.0.gave_up(&session.id, id).await;
                let _made_or_told_by_the_first_command = self.0.handle(&session.id, stop).await;
            }
            Ok(_) | Err(_) => {}
        }
    }

    async fn begin_job(&self, job: &SessionId, video: &VideoId) {
        self.0.held.begin_job(job, video);
    }

    fn imports(&self) -> bool {
        true
    }

    async fn import(
        &self,
        job: &SessionId,
        video: &VideoId,
        url: &str,
        news: &(dyn Fn(ImportNews) + Send + Sync),
        stop: &CancellationToken,
    ) -> Result<ImportMade, ImportFailed> {
        self.0.import(job, video, url, news, stop).await
    }

    async fn make_tiles(&self, job: &SessionId, video: &VideoId, stop: &CancellationToken) -> Result<(), BackendError> {
        if self.0.config.tiles.enabled { self.0.make_tiles(job, video, stop).await } else { Ok(()) }
    }

    async fn ping(&self) -> Result<(), BackendError> {
        let filter = ListFilter { page_size: Some(1), ..ListFilter::default() };
        match self.0.client.pages(&filter).next_page().await {
            Ok(_page) => Ok(()),
            Err(error) => Err(BackendError::NoSandbox(chain(&error))),
        }
    }

    async fn shut_down(&self) {
        let held = self.0.held.all();
        // Made one by one beforehand: a closure over borrowed entries would not be `Send` for every lifetime.
        let ends: Vec<_> = held
            .iter()
            .map(|(session, entry)| async move {
                let is_elsewhere = match self.0.store.session(session).await {
                    // Our own runs have ended by now, so this one is another engine's, which needs the sandbox.
                    Ok(Some(record)) => matches!(record.state, SessionState::Running { .. }),
                    Ok(None) => false,
                    Err(_unknown) => entry.job().is_none(),
                };
                if !is_elsewhere {
                    self.0.end(session).await;
                }
            })
            .collect();
        let ended = futures::stream::iter(ends).buffer_unordered(ENDED_AT_ONCE).collect::<Vec<()>>();
        if tokio::time::timeout(END_PATIENCE, ended).await.is_err() {
            tracing::warn!("some sandboxes were not ended; their timeouts do that");
        }
    }

    async fn clip(&self, target: &Target, wish: &ClipWish, stop: &CancellationToken) -> Result<ClipMade, BackendError> {
        let inner = &self.0;
        if let Some(clip) = inner.clip_from_tiles(target, wish, stop).await? {
            return Ok(clip);
        }
        let made: words::ClipAnswer = inner
            .media(&target.session, |tool| words::clip(tool, target, wish), None, stop)
            .await
            .map_err(|failure| Inner::told(failure, target))?;
        inner.clip_made(made).await
    }

    async fn frames(
        &self,
        target: &Target,
        wish: &FramesWish,
        stop: &CancellationToken,
    ) -> Result<Vec<FrameMade>, BackendError> {
        let inner = &self.0;
        let made: words::FramesAnswer = inner
            .media(&target.session, |_tool| words::frames(target, wish), None, stop)
            .await
            .map_err(|failure| Inner::told(failure, target))?;
        let (width, height) = (made.width, made.height);
        let frames = made.frames.into_iter().map(|frame| {
            let (_key, media) = inner.object(frame.frame_url.as_deref())?;
            Ok(FrameMade { media, time: frame.timestamp, width, height })
        });
        frames.collect()
    }

    async fn annotate(
        &self,
        target: &Target,
        time: f64,
        boxes: &[BoxWish],
        max_dimension: u32,
        stop: &CancellationToken,
    ) -> Result<AnnotatedMade, BackendError> {
        let inner = &self.0;
        let made: words::AnnotateAnswer = inner
            .media(&target.session, |_tool| words::annotate(target, time, boxes, max_dimension), None, stop)
            .await
            .map_err(|failure| Inner::told(failure, target))?;
        let (_key, media) = inner.object(made.url.as_deref())?;
        let pixel_boxes: Option<Vec<_>> = made.annotations.iter().map(words::AnnotationData::edges).collect();
        let pixel_boxes = pixel_boxes.filter(|edges| edges.len() == boxes.len()).ok_or_else(|| {
            BackendError::Media(
                "the sandbox's answer does not say where the boxes are; build the template anew".to_owned(),
            )
        })?;
        let frame = FrameMade { media, time: made.timestamp.unwrap_or(time), width: made.width, height: made.height };
        Ok(AnnotatedMade { frame, pixel_boxes })
    }

    async fn read_image(
        &self,
        target: &Target,
        path: &str,
        max_dimension: u32,
        stop: &CancellationToken,
    ) -> Result<FrameMade, BackendError> {
        let inner = &self.0;
        let made: words::ImageAnswer = inner
            .media(&target.session, |_tool| words::read_image(path, max_dimension), None, stop)
            .await
            .map_err(|failure| Inner::told(failure, target))?;
        let (_key, media) = inner.object(made.image_url.as_deref())?;
        Ok(FrameMade { media, time: 0.0, width: made.width, height: made.height })
    }

    async fn shell(
        &self,
        target: &Target,
        wish: &ShellWish,
        stop: &CancellationToken,
    ) -> Result<ShellDone, BackendError> {
        if !self.0.config.has_shell {
            return Err(BackendError::Media("there is no shell on this engine".to_owned()));
        }
        self.0.shell(target, wish, stop).await
    }

    async fn upload_artifact(
        &self,
        target: &Target,
        path: &str,
        name: Option<&str>,
        stop: &CancellationToken,
    ) -> Result<ArtifactMade, BackendError> {
        let inner = &self.0;
        let path = words::absolute(path);
        let name = artifact_name(name, camino::Utf8Path::new(&path));
        let key = ObjectKey::artifact(target.video.as_str(), &name, unix_seconds());
        let (limit, life) = (inner.config.artifact_max_bytes, inner.config.artifact_link_life);
        let upload = |_: &_| {
            words::Words::new("upload-artifact")
                .with("path", &path)
                .with("key", &key)
                .with("content-type", media_type(&name))
                .with("max-size-mb", limit.div_ceil(MEBIBYTE))
                .with("s3-presigned-expires", life.as_secs())
        };
        let made: words::ArtifactAnswer =
            inner.media(&target.session, upload, None, stop).await.map_err(|failure| match failure {
                media::MediaFailure::Tool(envelope::NoData::Failed { code, message }) if code == "ArtifactTooLarge" => {
                    let limit = limit / MEBIBYTE;
                    BackendError::Media(format!("artifact is over the {limit} MB limit ({message})."))
                }
                failure => Inner::told(failure, target),
            })?;
        let url = match made.url {
            Some(url) => url,
            None => inner.mirror.link(&object_key(&made.s3_key)?, life).await?,
        };
        Ok(ArtifactMade { key: made.s3_key, uri: made.s3_uri, url, size_bytes: made.size_bytes })
    }

    async fn source_hint(&self, target: &Target) -> Option<String> {
        if !self.0.config.has_shell || self.0.source_key(&target.video).await.is_err() {
            return None;
        }
        let file = self.0.link_file(target);
        Some(format!(
            "For shell commands, `{file}` holds a link to the source video, renewed before each command: \
             `ffmpeg -i \"$(cat {file})\" …` reads only what it needs of it."
        ))
    }

    async fn end_session(&self, session: &SessionId) -> Result<(), BackendError> {
        self.0.end(session).await;
        Ok(())
    }

    async fn read(&self, media: &MediaRef) -> Result<Bytes, BackendError> {
        let elsewhere = |place: &str| BackendError::Media(format!("this medium is {place}, not in the bucket"));
        match media {
            MediaRef::Local { path, .. } => self.0.mirror.read_local(path).await,
            MediaRef::Object { key, .. } => self.0.mirror.read(&object_key(key)?).await,
            MediaRef::Sent { .. } => Err(elsewhere("in the user's message")),
            MediaRef::Link { .. } => Err(elsewhere("behind a link")),
        }
    }

    async fn link(&self, media: &MediaRef, ttl: Duration) -> Result<Option<String>, BackendError> {
        match media {
            MediaRef::Local { path, mime_type } => self.0.mirror.link_local(path, mime_type, ttl).await.map(Some),
            MediaRef::Object { key, .. } => self.0.mirror.link(&object_key(key)?, ttl).await.map(Some),
            MediaRef::Sent { .. } | MediaRef::Link { .. } => Ok(None),
        }
    }

    async fn source(&self, video: &VideoId) -> Result<(MediaRef, u64), BackendError> {
        let (key, mime_type, size_bytes) = self.0.source_key(video).await?;
        Ok((MediaRef::Object { key: key.to_string(), mime_type }, size_bytes))
    }

    fn workspace(&self, _session: &SessionId) -> Option<Utf8PathBuf> {
        None
    }
}
