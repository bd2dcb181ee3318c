//! Taking in a video: streamed to disk while it is hashed, looked at, and only then given its name.
//!
//! The id of a video comes from its bytes, so the same bytes are one file however often and by how many at once they are
//! sent; sending them again repairs what is missing. Until a video is accepted it lives under a temporary name that goes
//! away by itself: a cut, cancelled or refused upload and a full disk leave nothing behind. Memory stays the same for any
//! size: a few pieces are on their way to one thread that hashes and writes.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ambient_media::objects::ObjectStore;
use ambient_media::{Acceptance, Media, MediaError, Probe, Refusal, Source};
use camino::{Utf8Path, Utf8PathBuf};
use jiff::Timestamp;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::copies::BucketCopies;
use super::form::{Form, FormError, PartHead};
use super::hash::video_id;
use super::incoming::{self, INCOMING, Received, disk, place, remove_file};
use super::kind::{Kind, file_name, kind_of};
use crate::broker::{Broker, Job};
use crate::clock::Clock;
use crate::ids::VideoId;
use crate::store::records::{FileRecord, FileSource, MediaFacts, Metadata, WorkStatus};
use crate::store::{Inserted, Store, StoreError, Window, chain};

/// How often a record is read and written again when others get in between.
const REPAIR_TRIES: u32 = 8;
/// A form field that is not the file.
const FIELD_BYTES: usize = 64 << 10;
/// How long a file may be asked to live, in seconds: an hour to 90 days.
const EXPIRY_SECONDS: std::ops::RangeInclusive<u64> = 3600..=7_776_000;

/// Why a video was not taken in.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// The body is no form, or was cut off.
    #[error(transparent)]
    Form(#[from] FormError),
    /// The form has no file.
    #[error("multipart form must include a file part")]
    NoFile,
    /// The file has no bytes.
    #[error("uploaded file is empty")]
    Empty,
    /// A form field beside the file does not fit.
    #[error("{0}")]
    Field(String),
    /// Larger than `MAX_UPLOAD_BYTES`.
    #[error("the uploaded file is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// We do not work with it.
    #[error("the uploaded file was refused: {0}")]
    Refused(Refusal),
    /// No room.
    #[error("the disk of `VIDEO_FOLDER` is full")]
    DiskFull,
    /// The disk failed otherwise.
    #[error("could not {doing}")]
    Disk {
        /// What was attempted.
        doing: &'static str,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The look at the video failed, for no fault of the video.
    #[error("could not look at the video")]
    Probe(#[source] MediaError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes in videos, and knows where they lie. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Uploads {
    parts: Arc<Parts>,
    /// Whether the background work is to look at a video whose description is there already.
    has_tiles: bool,
}

#[derive(Debug)]
struct Parts {
    folder: Utf8PathBuf,
    limit_bytes: u64,
    media: Media,
    store: Arc<dyn Store>,
    broker: Arc<dyn Broker>,
    clock: Clock,
    turns: Turns,
    copies: Option<BucketCopies>,
}

/// Lets one upload of the same bytes at a time be looked at; those behind it find it accepted.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<VideoId, Weak<Semaphore>>>);

impl Turns {
    /// Waits for the turn of this id, which ends when the permit is dropped.
    pub(super) async fn take(&self, id: &VideoId) -> OwnedSemaphorePermit {
        let turn = {
            let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            turns.retain(|_, turn| turn.strong_count() > 0);
            let turn = turns.get(id).and_then(Weak::upgrade).unwrap_or_else(|| Arc::new(Semaphore::new(1)));
            turns.insert(id.clone(), Arc::downgrade(&turn));
            turn
        };
        turn.acquire_owned().await.expect("nobody closes these semaphores")
    }
}

/// What the form says besides the file.
#[derive(Debug, Default)]
struct Said {
    part: PartHead,
    lives: Option<Duration>,
}

impl Uploads {
    /// Uploads into `folder`, which is made when it is missing; `copies` says to which bucket they are copied, if there is one.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(
        folder: &Utf8Path,
        limit_bytes: u64,
        media: Media,
        store: Arc<dyn Store>,
        broker: Arc<dyn Broker>,
        clock: Clock,
        copies: Option<BucketCopies>,
    ) -> io::Result<Self> {
        fs_err::create_dir_all(folder.join(INCOMING))?;
        let (folder, turns) = (folder.to_owned(), Turns::default());
        let parts = Parts { folder, limit_bytes, media, store, broker, clock, turns, copies };
        Ok(Self { parts: Arc::new(parts), has_tiles: false })
    }

    /// The same for an engine that makes tiles: sending the bytes of a video again mends those too.
    #[must_use]
    pub fn with_tiles(self, has_tiles: bool) -> Self {
        Self { has_tiles, ..self }
    }

    /// Whether there may be something to do in the background.
    pub(super) fn has_work(&self, record: &FileRecord) -> bool {
        record.description_status == Some(WorkStatus::Pending) || self.has_tiles
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// The bucket that uploads are copied to.
    pub fn objects(&self) -> Option<&ObjectStore> {
        self.parts.copies.as_ref().map(BucketCopies::store)
    }

    pub(super) fn copies(&self) -> Option<&BucketCopies> {
        self.parts.copies.as_ref()
    }

    pub(super) fn store(&self) -> &dyn Store {
        self.parts.store.as_ref()
    }

    /// Where a file lies on this host, if it is here.
    pub fn local_path(&self, id: &VideoId, extension: &str) -> Utf8PathBuf {
        self.parts.folder.join(format!("{id}{extension}"))
    }

    /// Takes in the first file of a form.
    ///
    /// # Errors
    /// When there is none, it is not a video that we work with, or something fails; then nothing is left behind.
    pub async fn receive(&self, form: &mut Form) -> Result<FileRecord, UploadError> {
        let mut said = Said::default();
        let mut received = None;
        while let Some(part) = form.next_part().await? {
            if received.is_none() && part.is_file() {
                received = Some(incoming::receive(form, &self.parts.folder, self.parts.limit_bytes).await?);
                said.part = part;
            } else {
                let text = small_field(form, &part).await?;
                if part.name == "expires_in_seconds" {
                    said.lives = Some(lifetime(&text)?);
                }
            }
        }
        let received = received.ok_or(UploadError::NoFile)?;
        if received.size_bytes == 0 {
            return Err(UploadError::Empty);
        }
        let id = video_id(&received.sha256);
        let _turn = self.parts.turns.take(&id).await;
        match self.parts.store.file(&id).await? {
            Some(known) => self.again(known, received, &said).await,
            None => self.accept(id, received, &said).await,
        }
    }

    /// A video that is not known: looked at, named, recorded.
    async fn accept(&self, id: VideoId, received: Received, said: &Said) -> Result<FileRecord, UploadError> {
        let (probe, kind) = self.look(&received).await?;
        let now = self.parts.clock.now();
        let record = FileRecord {
            id: id.clone(),
            filename: file_name(said.part.filename.as_deref(), kind),
            mime_type: kind.mime_type.to_owned(),
            extension: kind.extension.to_owned(),
            size_bytes: received.size_bytes,
            sha256: received.sha256.clone(),
            source: FileSource::Upload,
            source_status: WorkStatus::Ready,
            source_error: None,
            bucket_key: None,
            media: Some(facts(&probe)),
            description_status: Some(WorkStatus::Pending),
            description: None,
            description_error: None,
            description_attempts: 0,
            metadata: Metadata::new(),
            expires_at: expiry(now, said.lives),
            created_at: now,
            updated_at: now,
        };
        let path = self.local_path(&id, kind.extension);
        place(received.path, &path).await?;
        match self.parts.store.insert_file(&record).await {
            Ok(Inserted::New) => {
                tracing::info!(file.id = %id, file.size_bytes = record.size_bytes, "video taken in");
                Ok(self.copy_and_enqueue(record).await)
            }
            Ok(Inserted::Existing(known)) => self.repaired(*known, said.lives).await,
            Err(error) => {
                // Without a record the file would never be found again; with one, another upload of it won.
                if let Ok(None) = self.parts.store.file(&id).await {
                    remove_file(&path).await;
                }
                Err(error.into())
            }
        }
    }

    async fn look(&self, received: &Received) -> Result<(Probe, Kind), UploadError> {
        let path = Utf8Path::from_path(&received.path)
            .ok_or_else(|| disk("name the upload")(io::Error::other("its temporary path is not UTF-8")))?;
        let source = Source::File(path.to_owned());
        let probe = match self.parts.media.probe(&source, &CancellationToken::new()).await {
            Ok(probe) => probe,
            // The video made the program run wild: its own fault.
            Err(MediaError::TimedOut { .. } | MediaError::TooMuchOutput { .. } | MediaError::BadAnswer { .. }) => {
                return Err(UploadError::Refused(Refusal {
                    reason: "it cannot be examined within the engine's limits".to_owned(),
                    remedy: "convert it with `ffmpeg -i INPUT -c:v libx264 OUTPUT.mp4` and upload that".to_owned(),
                }));
            }
            Err(MediaError::Refused { refusal, .. }) => return Err(UploadError::Refused(refusal)),
            Err(error) => return Err(UploadError::Probe(error)),
        };
        if let Acceptance::Refused(refusal) = &probe.acceptance {
            return Err(UploadError::Refused(refusal.clone()));
        }
        let kind = kind_of(probe.container.as_deref().unwrap_or_default(), &received.head);
        Ok((probe, kind))
    }

    /// The same bytes once more: whatever is missing is put right.
    async fn again(&self, known: FileRecord, received: Received, said: &Said) -> Result<FileRecord, UploadError> {
        let path = self.local_path(&known.id, &known.extension);
        let is_whole = fs_err::tokio::metadata(&path).await.is_ok_and(|facts| facts.len() == received.size_bytes);
        if !is_whole {
            place(received.path, &path).await?;
            tracing::info!(file.id = %known.id, "the local copy of a video is back");
        }
        self.repaired(known, said.lives).await
    }

    /// Brings a record to what a fresh upload would have given, except for what already works.
    async fn repaired(&self, known: FileRecord, lives: Option<Duration>) -> Result<FileRecord, UploadError> {
        let mut current = known;
        for _ in 0..REPAIR_TRIES {
            let now = self.parts.clock.now();
            let mut next = current.clone();
            next.source_status = WorkStatus::Ready;
            next.source_error = None;
            // The longer life wins.
            next.expires_at = next.expires_at.and_then(|at| expiry(now, lives).map(|wanted| at.max(wanted)));
            if matches!(next.description_status, None | Some(WorkStatus::Failed)) {
                next.description_status = Some(WorkStatus::Pending);
                next.description_error = None;
                next.description_attempts = 0;
            }
            let is_changed = next != current;
            if is_changed {
                next.updated_at = after(current.updated_at, now);
            }
            if !is_changed || self.parts.store.update_file(&next, current.updated_at).await? {
                return Ok(self.copy_and_enqueue(next).await);
            }
            match self.parts.store.file(&current.id).await? {
                Some(read_again) => current = read_again,
                // Deleted in this moment: what stays is the answer that it was here.
                None => return Ok(next),
            }
        }
        Ok(current)
    }

    /// Asks for the background work. A job that is not taken is found by the sweep.
    pub async fn enqueue(&self, id: &VideoId) {
        if let Err(error) = self.parts.broker.enqueue(&Job::Ingest { video: id.clone() }, Duration::ZERO).await {
            tracing::warn!(file.id = %id, error = %chain(&error), "a job was not queued; the next sweep finds it");
        }
    }

    /// Deletes a file: its record, its local copy and the folder of media made from it, and all of that in the bucket. `false` when there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn delete(&self, id: &VideoId) -> Result<bool, StoreError> {
        let Some(file) = self.parts.store.file(id).await? else { return Ok(false) };
        if !self.parts.store.delete_file(id).await? {
            return Ok(false);
        }
        remove_file(&self.local_path(id, &file.extension)).await;
        self.remove_leftovers(&file).await;
        tracing::info!(file.id = %id, "file deleted");
        Ok(true)
    }

    /// Removes what was made of a file that is deleted, here and in the bucket.
    pub(super) async fn remove_leftovers(&self, file: &FileRecord) {
        let id = &file.id;
        let folder = self.parts.folder.join(id.as_str());
        match fs_err::tokio::remove_dir_all(&folder).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(file.id = %id, error = %chain(&error), "a folder of media was not removed"),
        }
        self.remove_objects(file).await;
    }

    /// Deletes files past their time and what dead engines left of uploads, and makes copies in the bucket that are missing. Idempotent; for a
    /// recurring task.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        incoming::remove_left_overs(&self.parts.folder).await;
        let mut window = Window { limit: 500, ascending: true, after: None, before: None };
        let mut copying = self.parts.copies.is_some();
        loop {
            let page = self.parts.store.files(&window).await?;
            let now = self.parts.clock.now();
            for file in &page.items {
                if is_expired(file, now) {
                    self.delete(&file.id).await?;
                } else if copying {
                    copying = self.copy_missing(file).await;
                }
            }
            let Some(last) = page.items.last().filter(|_| page.has_more) else { return Ok(()) };
            window.after = Some(crate::store::Position { at: last.created_at, id: last.id.to_string() });
        }
    }
}

/// Whether a file's time is over.
pub fn is_expired(file: &FileRecord, now: Timestamp) -> bool {
    file.expires_at.is_some_and(|at| at <= now)
}

fn expiry(now: Timestamp, lives: Option<Duration>) -> Option<Timestamp> {
    lives.and_then(|lives| now.checked_add(lives).ok())
}

/// A later time than `before`: the next writer compares with it.
pub(super) fn after(before: Timestamp, now: Timestamp) -> Timestamp {
    now.max(before.checked_add(Duration::from_micros(1)).unwrap_or(before))
}

pub(crate) fn facts(probe: &Probe) -> MediaFacts {
    let video = probe.video.as_ref();
    MediaFacts {
        duration_seconds: probe.duration.as_secs_f64(),
        width: video.map_or(0, |video| video.size.width),
        height: video.map_or(0, |video| video.size.height),
        frames_per_second: video.map_or(0.0, |video| video.rate.as_f64()),
        has_audio: probe.has_audio(),
        video_codec: video.map_or_else(String::new, |video| video.codec.clone()),
        container: probe.container.clone().unwrap_or_default(),
    }
}

async fn small_field(form: &mut Form, part: &PartHead) -> Result<String, UploadError> {
    let mut bytes = Vec::new();
    while let Some(piece) = form.data().await? {
        // Further files are read past; a field has to be small.
        if bytes.len() + piece.len() <= FIELD_BYTES {
            bytes.extend_from_slice(&piece);
        } else if !part.is_file() {
            let name: String = part.name.chars().take(80).collect();
            return Err(UploadError::Field(format!("the form field `{name}` is longer than {FIELD_BYTES} bytes")));
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn lifetime(text: &str) -> Result<Duration, UploadError> {
    let seconds = text.trim().parse().ok().filter(|seconds| EXPIRY_SECONDS.contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(|| {
        UploadError::Field(format!(
            "`expires_in_seconds` must be a whole number from {} (an hour) to {} (90 days)",
            EXPIRY_SECONDS.start(),
            EXPIRY_SECONDS.end()
        ))
    })
}
