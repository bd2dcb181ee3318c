//! What stands at the front of a conversation: what is known of the video, and the video itself where the model looks
//! with its own eyes.
//!
//! Both are attached once and live in the history, so that another engine goes on without attaching them again.

use std::time::Duration;

use super::RunOutcome;
use super::conversation::Conversation;
use super::describe::{clock_time, frame_parts};
use super::plan::{self, MAX_DIMENSION, Plan, Step};
use super::resolve::INLINE_LIMIT_BYTES;
use super::run::failed;
use crate::backend::{BackendError, FramesWish, Target};
use crate::events::body::{EventBody, FailureKind, SessionFailure};
use crate::sessions::writer::RunWriteError;
use crate::store::records::{FileRecord, FileSource, MessageBody, Origin, Part, WorkStatus};

/// Between two looks at a file that is being worked on: first, and at most.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LONGEST_LOOK: Duration = Duration::from_secs(2);
/// How long a run waits for the video itself while nothing of it moves.
const SOURCE_PATIENCE: Duration = Duration::from_mins(15);
/// How the late description begins.
const DESCRIBED: &str = "[system update] Video description now available:";

impl Conversation<'_> {
    fn target(&self) -> Target {
        Target { session: self.session.id.clone(), video: self.session.video_id.clone(), path: None }
    }

    /// Waits for an import to be there, and tells readers how far it is. An outcome says that it never will be.
    pub(crate) async fn wait_for_source(&mut self) -> Result<Option<RunOutcome>, RunWriteError> {
        let mut deadline = tokio::time::Instant::now() + SOURCE_PATIENCE;
        let (mut pause, mut told) = (FIRST_LOOK, None);
        while let Some(stage) = still_coming(&self.file)
            && tokio::time::Instant::now() < deadline
        {
            if told.as_ref() != Some(&stage) {
                let (message, percent) = stage.clone();
                self.writer.event(EventBody::SessionProgress { message, percent }).await?;
                told = Some(stage);
            }
            tokio::select! {
                () = self.stop.cancelled() => return Ok(Some(RunOutcome::Interrupted)),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_LOOK);
            let Some(file) = self.parts.store.file(&self.session.video_id).await? else {
                let reason = "video source failed: the file was deleted";
                return Ok(Some(RunOutcome::Failed(failed(FailureKind::UnknownError, reason))));
            };
            if file.updated_at != self.file.updated_at {
                deadline = tokio::time::Instant::now() + SOURCE_PATIENCE;
            }
            self.file = file;
        }
        let reason = match self.file.source_status {
            WorkStatus::Ready => return Ok(None),
            WorkStatus::Failed => {
                format!("video source failed: {}", self.file.source_error.as_deref().unwrap_or("no reason is known"))
            }
            WorkStatus::Pending | WorkStatus::Processing => {
                "the video is still being fetched; ask again later".to_owned()
            }
        };
        Ok(Some(RunOutcome::Failed(failed(FailureKind::UnknownError, reason))))
    }

    /// Waits for the description, if somebody makes one and this session is to have it.
    pub(crate) async fn wait_for_description(&mut self, is_wanted: bool) -> Result<(), RunWriteError> {
        let patience = self.parts.config.description_patience;
        if !is_wanted || patience.is_zero() {
            return Ok(());
        }
        self.watch_file(patience, |file| !is_being_described(file)).await
    }

    /// Reads the file again and again until it is as wanted, the patience ends, or the run is stopped.
    async fn watch_file(
        &mut self,
        patience: Duration,
        done: impl Fn(&FileRecord) -> bool,
    ) -> Result<(), RunWriteError> {
        let deadline = tokio::time::Instant::now() + patience;
        let mut pause = FIRST_LOOK;
        while !done(&self.file) && tokio::time::Instant::now() < deadline {
            tokio::select! {
                () = self.stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_LOOK);
            if let Some(file) = self.parts.store.file(&self.session.video_id).await? {
                self.file = file;
            }
        }
        Ok(())
    }

    /// Says what is known of the video, once in the session.
    pub(crate) async fn seed(&mut self, wants_description: bool) -> Result<(), RunWriteError> {
        let file = &self.file;
        let mut lines = vec![format!("Video id: {}", file.id), format!("Title: {}", title(file))];
        lines.push(match &file.media {
            Some(facts) => format!(
                "Duration: {:.2} seconds ({})\nPicture: {} x {}, {:.2} frames a second, {}",
                facts.duration_seconds,
                clock_time(facts.duration_seconds),
                facts.width,
                facts.height,
                facts.frames_per_second,
                if facts.has_audio { "with sound (which you cannot hear)" } else { "no sound" }
            ),
            None => "Duration: unknown".to_owned(),
        });
        match &file.description {
            Some(description) => lines.push(format!("Description:\n{description}")),
            None if wants_description && is_being_described(file) => {
                lines.push("A description of the video is being made and will follow; do not wait for it.".to_owned());
            }
            None => {}
        }
        let has_shell = self.session.mode == crate::store::records::Mode::Agent;
        if let Some(hint) = if has_shell { self.backend.source_hint(&self.target()).await } else { None } {
            lines.push(hint);
        }
        let parts = vec![Part::Text { text: lines.join("\n") }];
        self.append(vec![MessageBody::User { origin: Origin::Seed, parts }]).await
    }

    /// Hands in a description that was not there yet when the session was seeded.
    pub(crate) async fn bring_description(&mut self) -> Result<(), RunWriteError> {
        if !self.awaits_description() {
            return Ok(());
        }
        if let Some(file) = self.parts.store.file(&self.session.video_id).await? {
            self.file = file;
        }
        let Some(description) = self.file.description.clone() else { return Ok(()) };
        let parts = vec![Part::Text { text: format!("{DESCRIBED}\n{description}") }];
        self.append(vec![MessageBody::User { origin: Origin::Engine, parts }]).await
    }

    /// Whether the seed promised a description that has not come.
    fn awaits_description(&self) -> bool {
        let mut promised = false;
        for record in &self.history {
            let MessageBody::User { origin, parts } = &record.body else { continue };
            let Some(Part::Text { text }) = parts.first() else { continue };
            match origin {
                Origin::Seed => promised = text.contains("is being made and will follow"),
                Origin::Engine if text.starts_with(DESCRIBED) => promised = false,
                Origin::Engine | Origin::User | Origin::Context | Origin::ToolMedia => {}
            }
        }
        promised
    }

    /// Attaches the whole video, in the form that the model takes now, if the conversation wants it and has not got it.
    /// A failure is one only where there is nothing to ask about without it.
    pub(crate) async fn attach_context(&mut self) -> Result<Option<SessionFailure>, RunWriteError> {
        if !self.wants_context || self.context_failed {
            return Ok(None);
        }
        let mut wanted = plan::plan(Step::Context, &self.endpoint, &self.parts.catalogue, &self.known());
        if wanted == Plan::Video && self.is_too_large_now().await {
            wanted = self.frames_plan();
        }
        if self.has_context(wanted) {
            return Ok(None);
        }
        let made = match wanted {
            Plan::Nothing => Err(format!("the model `{}` takes neither videos nor pictures", self.endpoint.model)),
            Plan::Video => self.whole_video().await,
            Plan::Frames { max_frames, frames_per_second } => self.frames(max_frames, frames_per_second).await,
        };
        match made {
            Ok(parts) => {
                self.append(vec![MessageBody::User { origin: Origin::Context, parts }]).await?;
                Ok(None)
            }
            Err(_) if self.stop.is_cancelled() => Ok(None),
            Err(reason) => {
                tracing::warn!(session.id = %self.session.id, reason, "the whole video could not be attached");
                self.context_failed = true;
                let message = format!("the video could not be shown to the model: {reason}");
                Ok(self.needs_context.then(|| failed(FailureKind::UnknownError, message)))
            }
        }
    }

    /// Whether the history holds a context that this plan can use.
    fn has_context(&self, plan: Plan) -> bool {
        self.history.iter().any(|record| {
            let MessageBody::User { origin: Origin::Context, parts } = &record.body else { return false };
            parts.iter().any(|part| match (part, plan) {
                (Part::Video { .. }, Plan::Video) | (Part::Image { .. }, Plan::Video | Plan::Frames { .. }) => true,
                (Part::Text { .. } | Part::Image { .. } | Part::Video { .. }, _) => false,
            })
        })
    }

    /// The video itself: by link where there is one, else its bytes where they are few, else frames.
    async fn whole_video(&self) -> Result<Vec<Part>, String> {
        let takes = plan::accepted(&self.endpoint, &self.parts.catalogue, &self.known());
        let (media, size_bytes) = match self.backend.source(&self.session.video_id).await {
            Ok(source) => source,
            Err(failure) if !takes.image => return Err(failure.to_string()),
            Err(_) => return self.context_frames().await,
        };
        let link = if self.parts.config.inline_media {
            Ok(None)
        } else {
            self.backend.link(&media, self.parts.config.link_ttl).await
        };
        let has_link = matches!(link, Ok(Some(_)));
        if !has_link && size_bytes > self.inline_limit() {
            if takes.image {
                return self.context_frames().await;
            }
            return Err(format!(
                "it has {size_bytes} bytes, the model takes no pictures, and without a bucket at most {} bytes can be sent",
                self.inline_limit()
            ));
        }
        let text = match &self.file.media {
            Some(facts) => format!("The whole video ({}):", clock_time(facts.duration_seconds)),
            None => "The whole video:".to_owned(),
        };
        Ok(vec![Part::Text { text }, Part::Video { media }])
    }

    /// Bytes that a data URL may stand for at this server; base64 makes four characters of three bytes.
    fn inline_limit(&self) -> u64 {
        let known = self.known();
        let learned = [known.url_limit, known.body_limit].into_iter().flatten().min();
        learned.map_or(INLINE_LIMIT_BYTES, |characters| (characters as u64 / 4 * 3).min(INLINE_LIMIT_BYTES))
    }

    /// Whether the server has said that it takes less than the video's bytes, and there is no link to it.
    async fn is_too_large_now(&self) -> bool {
        let known = self.known();
        if known.url_limit.is_none() && known.body_limit.is_none() {
            return false;
        }
        let Ok((media, size_bytes)) = self.backend.source(&self.session.video_id).await else { return false };
        let has_link = !self.parts.config.inline_media
            && matches!(self.backend.link(&media, self.parts.config.link_ttl).await, Ok(Some(_)));
        !has_link && size_bytes > self.inline_limit()
    }

    /// What would be sent if the model took no videos.
    fn frames_plan(&self) -> Plan {
        let mut known = self.known();
        known.refused.video = true;
        plan::plan(Step::Context, &self.endpoint, &self.parts.catalogue, &known)
    }

    async fn context_frames(&self) -> Result<Vec<Part>, String> {
        match self.frames_plan() {
            Plan::Frames { max_frames, frames_per_second } => self.frames(max_frames, frames_per_second).await,
            Plan::Video | Plan::Nothing => Err("the model takes no pictures".to_owned()),
        }
    }

    /// Frames evenly over the whole video, as many as its length is worth.
    async fn frames(&self, max_frames: usize, frames_per_second: f64) -> Result<Vec<Part>, String> {
        let cap = self.parts.config.max_frames_per_prompt.min(plan::image_cap(&self.endpoint, &self.parts.catalogue));
        // Where tools will show more, they need room under the same cap.
        let max_frames = max_frames.min(if self.needs_context { cap } else { cap / 4 * 3 });
        let duration = self.file.media.as_ref().map(|facts| facts.duration_seconds);
        let count = duration.map_or(max_frames, |span| plan::frame_count(span, max_frames, frames_per_second));
        #[expect(clippy::cast_precision_loss, reason = "a few hundred")]
        let rate = duration
            .filter(|span| *span > 0.0)
            .map_or(frames_per_second, |span| (count as f64 / span).min(frames_per_second));
        let wish = FramesWish {
            start: 0.0,
            end: None,
            frames_per_second: rate,
            max_frames: count,
            max_dimension: MAX_DIMENSION,
        };
        let frames = match self.backend.frames(&self.target(), &wish, &self.stop).await {
            Ok(frames) if frames.is_empty() => return Err("it gave no frames".to_owned()),
            Ok(frames) => frames,
            Err(BackendError::Cancelled) => return Err("it was interrupted".to_owned()),
            Err(failure) => return Err(failure.to_string()),
        };
        let mut parts = vec![Part::Text {
            text: format!("{} frames, evenly over the whole video, each behind its time:", frames.len()),
        }];
        parts.extend(frame_parts(&frames));
        Ok(parts)
    }
}

fn is_being_described(file: &FileRecord) -> bool {
    file.description.is_none() && matches!(file.description_status, Some(WorkStatus::Pending | WorkStatus::Processing))
}

fn title(file: &FileRecord) -> &str {
    match file.title() {
        "" => "unknown",
        title => title,
    }
}

/// Where a video stands that a run waits for, in words and in hundredths; `None` when there is nothing to wait for.
/// Hundredths go by tens, so that a reader is told a dozen times and not a hundred.
fn still_coming(file: &FileRecord) -> Option<(String, Option<u8>)> {
    let percent = match &file.source {
        FileSource::Youtube { import, .. } => import.percent.map(|percent| percent / 10 * 10),
        FileSource::Upload => None,
    };
    match (file.source_status, percent) {
        (WorkStatus::Ready | WorkStatus::Failed, _) => None,
        (WorkStatus::Pending, _) => Some(("the video waits to be fetched".to_owned(), None)),
        (WorkStatus::Processing, None) => Some(("the video is being fetched".to_owned(), None)),
        (WorkStatus::Processing, Some(percent)) => {
            Some((format!("the video is being fetched: {percent} %"), Some(percent)))
        }
    }
}
