//! The first stage of a file: its bytes. There is nothing to do for an upload; an import is fetched.
//!
//! How far the download is stands in the file's record, where every engine and every run that waits for it can read it. The
//! record is also how a download learns that nobody wants it any more: a file that is deleted, or that somebody else has
//! taken, ends it with all that it started.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU8, Ordering};

use ambient_media::{Downloaded, MediaError, Youtube, YoutubeError, YoutubeInfo, YoutubeProgress};
use aws_lc_rs::digest::{Context, SHA256};
use camino::Utf8Path;
use tokio_util::sync::CancellationToken;

use super::hash::hex;
use super::incoming::{HEAD_BYTES, remove_file};
use super::kind::{Kind, kind_of};
use super::upload::facts;
use super::worker::{Ended, Worker};
use crate::backend::{ImportFailed, ImportMade, ImportNews, ImportPage};
use crate::ids::SessionId;
use crate::store::records::{FileRecord, FileSource, ImportState, WorkStatus};
use crate::store::{StoreError, chain};

/// What a file without a video is left with.
const NOTHING_TO_DESCRIBE: &str = "there is no video to describe";
/// Read in one go for the hash.
const CHUNK_BYTES: usize = 1 << 20;
/// Stands for a download whose size nobody knows.
const UNKNOWN: u8 = u8::MAX;

/// What came of this stage.
#[derive(Debug)]
pub(super) enum Sourced {
    /// The bytes are here, or never will be; the next stage is told by the record.
    Settled(Box<FileRecord>),
    /// The job ends here for now.
    Not(Ended),
}

/// A download that has its place.
struct Placed {
    kind: Kind,
    sha256: String,
    size_bytes: u64,
    downloaded: Downloaded,
}

/// Where a download is.
enum Fetched {
    Here(Box<Placed>),
    /// Where media work runs elsewhere.
    InBucket(ImportMade),
}

/// Why a download did not come about.
#[derive(Debug)]
enum NotFetched {
    /// yt-dlp, YouTube or the video.
    Youtube(YoutubeError),
    /// The same, where media work runs elsewhere.
    Elsewhere(ImportFailed),
    /// This host.
    Here(String),
}

impl From<YoutubeError> for NotFetched {
    fn from(error: YoutubeError) -> Self {
        Self::Youtube(error)
    }
}

impl NotFetched {
    fn is_final(&self) -> bool {
        match self {
            Self::Youtube(error) => error.is_final(),
            Self::Elsewhere(failure) => failure.is_final,
            Self::Here(_) => false,
        }
    }

    fn is_cancelled(&self) -> bool {
        match self {
            Self::Youtube(error) => matches!(error, YoutubeError::Media(MediaError::Cancelled)),
            Self::Elsewhere(failure) => failure.is_cancelled,
            Self::Here(_) => false,
        }
    }

    /// For the client. What only the operator can use goes to the log.
    fn told(&self) -> String {
        match self {
            Self::Here(reason) => reason.clone(),
            Self::Elsewhere(failure) => failure.reason.clone(),
            Self::Youtube(YoutubeError::Media(MediaError::Start { program, .. })) => format!(
                "`{}` could not be started on this engine; its operator can install it, or name it with `YTDLP_PATH`",
                program.file_name().unwrap_or_default()
            ),
            Self::Youtube(YoutubeError::Media(MediaError::File { action, source })) => {
                format!("could not {action}: {}", source.kind())
            }
            Self::Youtube(error) => error.to_string(),
        }
    }
}

impl Worker {
    /// Brings the bytes of a file here, if they are to come from elsewhere.
    pub(super) async fn source(
        &self,
        job: &SessionId,
        file: FileRecord,
        stop: &CancellationToken,
    ) -> Result<Sourced, StoreError> {
        let url = match &file.source {
            FileSource::Youtube { url, .. } if is_unfinished(&file) => url.clone(),
            FileSource::Youtube { .. } | FileSource::Upload => return Ok(Sourced::Settled(Box::new(file))),
        };
        let Some(youtube) = self.parts.youtube.clone() else {
            return self.failed(file, "YouTube URL imports are disabled".to_owned()).await;
        };
        let most = self.parts.config.max_attempts;
        let claimed = self.change(file, |file| {
            let is_wanted = is_unfinished(file);
            if let FileSource::Youtube { import, .. } = &mut file.source {
                // Counted before the work, so that a video which takes the engine down with it is given up too.
                import.attempts += 1;
                import.percent = None;
            }
            file.source_status = WorkStatus::Processing;
            is_wanted
        });
        let Some(file) = claimed.await? else { return Ok(Sourced::Not(Ended::Lost)) };
        let attempt = attempts(&file);
        if attempt > most {
            return self.failed(file, format!("no video came of {most} attempts")).await;
        }

        let unwanted = stop.child_token();
        let so_far = AtomicU8::new(UNKNOWN);
        let fetched = {
            let fetch = async {
                if self.parts.backend.imports() {
                    self.fetch_elsewhere(job, &file, &url, &so_far, &unwanted).await.map(Fetched::InBucket)
                } else {
                    self.fetch(&youtube, &file, &url, &so_far, &unwanted)
                        .await
                        .map(|placed| Fetched::Here(Box::new(placed)))
                }
            };
            tokio::pin!(fetch);
            tokio::select! {
                fetched = &mut fetch => fetched,
                () = self.attend(&file, &so_far) => {
                    unwanted.cancel();
                    let _ended = fetch.await;
                    tracing::info!(video.id = %file.id, "an import is not wanted any more");
                    return Ok(Sourced::Not(Ended::Lost));
                }
            }
        };
        match fetched {
            Ok(Fetched::Here(placed)) => self.here(file, *placed, stop).await,
            Ok(Fetched::InBucket(made)) => self.in_bucket(file, made).await,
            Err(failure) if failure.is_cancelled() => self.put_back(file).await,
            Err(failure) => {
                if let NotFetched::Youtube(error @ YoutubeError::Media(_)) = &failure {
                    tracing::warn!(video.id = %file.id, error = %chain(error), "an import failed on this host");
                }
                if failure.is_final() || attempt >= most {
                    return self.failed(file, failure.told()).await;
                }
                self.again(file, failure.told(), attempt).await
            }
        }
    }

    async fn fetch(
        &self,
        youtube: &Youtube,
        file: &FileRecord,
        url: &str,
        so_far: &AtomicU8,
        stop: &CancellationToken,
    ) -> Result<Placed, NotFetched> {
        let extraction = youtube.extract(url, stop).await?;
        // Told early: a client sees what is on its way. A record that cannot be written is found out by `attend`.
        let info = extraction.info().clone();
        let told = self.change(file.clone(), |now| {
            note(now, &info);
            is_mine(now, file)
        });
        if let Err(error) = told.await {
            tracing::warn!(video.id = %file.id, error = %chain(&error), "what a page says was not written down");
        }
        let progress = |progress: YoutubeProgress| {
            so_far.store(progress.percent().unwrap_or(UNKNOWN), Ordering::Relaxed);
        };
        let downloaded = youtube.download(extraction, &progress, stop).await?;
        let path = downloaded.path().to_owned();
        let read = tokio::task::spawn_blocking(move || read_through(&path)).await;
        let (head, sha256, size_bytes) = read
            .map_err(|panic| NotFetched::Here(format!("could not read the download: {panic}")))?
            .map_err(|error| NotFetched::Here(format!("could not read the download: {}", error.kind())))?;
        let kind = kind_of(downloaded.probe().container.as_deref().unwrap_or_default(), &head);
        Ok(Placed { kind, sha256, size_bytes, downloaded })
    }

    /// Has the download made where media work runs.
    async fn fetch_elsewhere(
        &self,
        job: &SessionId,
        file: &FileRecord,
        url: &str,
        so_far: &AtomicU8,
        stop: &CancellationToken,
    ) -> Result<ImportMade, NotFetched> {
        let (told, mut pages) = tokio::sync::mpsc::channel(1);
        let news = move |news: ImportNews| match news {
            ImportNews::Page(page) => {
                let _nobody_listens = told.try_send(page);
            }
            ImportNews::Percent(percent) => so_far.store(percent, Ordering::Relaxed),
        };
        let import = async move { self.parts.backend.import(job, &file.id, url, &news, stop).await };
        let note = async {
            // One page, told early: a client sees what is on its way.
            while let Some(page) = pages.recv().await {
                let told = self.change(file.clone(), |now| {
                    note_page(now, &page);
                    is_mine(now, file)
                });
                if let Err(error) = told.await {
                    tracing::warn!(video.id = %file.id, error = %chain(&error), "what a page says was not written down");
                }
            }
        };
        let (made, ()) = tokio::join!(import, note);
        made.map_err(NotFetched::Elsewhere)
    }

    /// Says that the download is in the bucket.
    async fn in_bucket(&self, file: FileRecord, made: ImportMade) -> Result<Sourced, StoreError> {
        let mine = file.clone();
        let written = self.change(file, |file| {
            let is_mine = is_mine(file, &mine);
            made.mime_type.clone_into(&mut file.mime_type);
            made.extension.clone_into(&mut file.extension);
            (file.size_bytes, file.media) = (made.size_bytes, Some(made.facts.clone()));
            file.sha256.clone_from(&made.sha256);
            file.bucket_key = Some(made.bucket_key.clone());
            (file.source_status, file.source_error) = (WorkStatus::Ready, None);
            if let FileSource::Youtube { import, .. } = &mut file.source {
                import.percent = None;
            }
            is_mine
        });
        match written.await? {
            Some(file) => {
                tracing::info!(video.id = %file.id, file.size_bytes = made.size_bytes, "a video is imported");
                Ok(Sourced::Settled(Box::new(file)))
            }
            None => Ok(Sourced::Not(Ended::Lost)),
        }
    }

    /// Writes the progress down until the file is gone or somebody else's.
    async fn attend(&self, file: &FileRecord, so_far: &AtomicU8) {
        let mut told = UNKNOWN;
        loop {
            tokio::time::sleep(self.parts.config.progress_every).await;
            let percent = so_far.load(Ordering::Relaxed);
            let is_wanted = if percent == told {
                self.parts.store.file(&file.id).await.map(|now| now.is_some_and(|now| is_mine(&now, file)))
            } else {
                let written = self.change(file.clone(), |now| {
                    if let FileSource::Youtube { import, .. } = &mut now.source {
                        import.percent = (percent != UNKNOWN).then_some(percent);
                    }
                    is_mine(now, file)
                });
                written.await.map(|written| written.is_some())
            };
            match is_wanted {
                Ok(true) => told = percent,
                Ok(false) => return,
                // The store may be back at the next look, and the download is not lost.
                Err(error) => {
                    tracing::warn!(video.id = %file.id, error = %chain(&error), "an import's progress was not written");
                }
            }
        }
    }

    /// Gives the download its place, and says so.
    async fn here(&self, file: FileRecord, placed: Placed, stop: &CancellationToken) -> Result<Sourced, StoreError> {
        let Placed { kind, sha256, size_bytes, downloaded } = placed;
        let path = self.parts.video_folder.join(format!("{}{}", file.id, kind.extension));
        let media = facts(downloaded.probe());
        if let Err(error) = downloaded.move_to(&path).await {
            let attempt = attempts(&file);
            tracing::warn!(video.id = %file.id, error = %chain(&error), "a download could not be put in its place");
            let reason = NotFetched::from(YoutubeError::from(error)).told();
            return if attempt >= self.parts.config.max_attempts {
                self.failed(file, reason).await
            } else {
                self.again(file, reason, attempt).await
            };
        }
        let mine = file.clone();
        let written = self.change(file, |file| {
            let is_mine = is_mine(file, &mine);
            kind.mime_type.clone_into(&mut file.mime_type);
            kind.extension.clone_into(&mut file.extension);
            (file.size_bytes, file.media) = (size_bytes, Some(media.clone()));
            file.sha256.clone_from(&sha256);
            (file.source_status, file.source_error) = (WorkStatus::Ready, None);
            if let FileSource::Youtube { import, .. } = &mut file.source {
                import.percent = None;
            }
            is_mine
        });
        if let Some(file) = written.await? {
            tracing::info!(video.id = %file.id, file.size_bytes = size_bytes, "a video is imported");
            return self.copied(file, stop).await;
        }
        // Deleted in this moment: nobody would ever find it. What somebody else fetched instead is theirs.
        if let Ok(None) = self.parts.store.file(&mine.id).await {
            remove_file(&path).await;
        }
        Ok(Sourced::Not(Ended::Lost))
    }

    /// Sees to the copy in the bucket, where there is one, so that other hosts can work on the video. One that fails, or that a
    /// stop cuts short, is made by the sweep of files.
    async fn copied(&self, file: FileRecord, stop: &CancellationToken) -> Result<Sourced, StoreError> {
        let Some(uploads) = &self.parts.uploads else { return Ok(Sourced::Settled(Box::new(file))) };
        tokio::select! {
            () = stop.cancelled() => {}
            _is_copied = uploads.copy_missing(&file) => {}
        }
        let read_again = self.parts.store.file(&file.id).await?;
        Ok(read_again.map_or(Sourced::Not(Ended::Lost), |file| Sourced::Settled(Box::new(file))))
    }

    /// An engine that stops leaves the import as it found it.
    async fn put_back(&self, file: FileRecord) -> Result<Sourced, StoreError> {
        let mine = file.clone();
        let written = self.change(file, |file| {
            let is_mine = is_mine(file, &mine);
            file.source_status = WorkStatus::Pending;
            if let FileSource::Youtube { import, .. } = &mut file.source {
                import.attempts = import.attempts.saturating_sub(1);
                import.percent = None;
            }
            is_mine
        });
        Ok(Sourced::Not(if written.await?.is_some() { Ended::Again(std::time::Duration::ZERO) } else { Ended::Lost }))
    }

    async fn again(&self, file: FileRecord, reason: String, attempt: u32) -> Result<Sourced, StoreError> {
        let pause = self.pause(attempt);
        tracing::warn!(video.id = %file.id, reason, attempt, ?pause, "an import failed and is tried again");
        let mine = file.clone();
        let written = self.change(file, |file| {
            let is_mine = is_mine(file, &mine);
            (file.source_status, file.source_error) = (WorkStatus::Pending, Some(reason.clone()));
            if let FileSource::Youtube { import, .. } = &mut file.source {
                import.percent = None;
            }
            is_mine
        });
        Ok(Sourced::Not(if written.await?.is_some() { Ended::Again(pause) } else { Ended::Lost }))
    }

    async fn failed(&self, file: FileRecord, reason: String) -> Result<Sourced, StoreError> {
        tracing::warn!(video.id = %file.id, reason, "an import failed");
        let written = self.change(file, |file| {
            let is_wanted = is_unfinished(file);
            (file.source_status, file.source_error) = (WorkStatus::Failed, Some(reason.clone()));
            if let FileSource::Youtube { import, .. } = &mut file.source {
                import.percent = None;
            }
            if file.description_status.is_some_and(|status| status != WorkStatus::Ready) {
                file.description_status = Some(WorkStatus::Failed);
                file.description_error = Some(NOTHING_TO_DESCRIBE.to_owned());
            }
            is_wanted
        });
        Ok(written.await?.map_or(Sourced::Not(Ended::Lost), |file| Sourced::Settled(Box::new(file))))
    }
}

fn is_unfinished(file: &FileRecord) -> bool {
    matches!(file.source_status, WorkStatus::Pending | WorkStatus::Processing)
}

/// Whether the record is still at the attempt that this worker makes.
fn is_mine(now: &FileRecord, mine: &FileRecord) -> bool {
    now.source_status == WorkStatus::Processing && attempts(now) == attempts(mine)
}

fn attempts(file: &FileRecord) -> u32 {
    match &file.source {
        FileSource::Youtube { import, .. } => import.attempts,
        FileSource::Upload => 0,
    }
}

fn note_page(file: &mut FileRecord, page: &ImportPage) {
    if let FileSource::Youtube { import, .. } = &mut file.source {
        *import = ImportState {
            attempts: import.attempts,
            percent: import.percent,
            title: page.title.clone(),
            extractor: page.extractor.clone(),
            duration_seconds: page.duration_seconds,
            width: page.width,
            height: page.height,
            format_id: page.format_id.clone(),
        };
    }
}

fn note(file: &mut FileRecord, info: &YoutubeInfo) {
    if let FileSource::Youtube { import, .. } = &mut file.source {
        *import = ImportState {
            attempts: import.attempts,
            percent: import.percent,
            title: info.title.clone(),
            extractor: info.extractor.clone(),
            duration_seconds: Some(info.duration_seconds),
            width: info.width,
            height: info.height,
            format_id: info.format_id.clone(),
        };
    }
}

/// The first bytes of a file, its hash and its size.
fn read_through(path: &Utf8Path) -> io::Result<(Vec<u8>, String, u64)> {
    let mut file = fs_err::File::open(path)?;
    let (mut head, mut hash, mut size_bytes) = (Vec::new(), Context::new(&SHA256), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok((head, hex(&hash.finish()), size_bytes));
        }
        let wanted = HEAD_BYTES.saturating_sub(head.len()).min(count);
        head.extend_from_slice(&chunk[..wanted]);
        hash.update(&chunk[..count]);
        size_bytes += count as u64;
    }
}
