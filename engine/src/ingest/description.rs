//! One attempt at describing a video.

use tokio_util::sync::CancellationToken;

use super::IngestParts;
use crate::agent::describe::{Subject, describe as ask};
use crate::agent::error::ModelError;
use crate::agent::vision::Vision;
use crate::backend::{BackendError, FramesWish, Target};
use crate::ids::SessionId;
use crate::store::records::FileRecord;

/// Pictures a second at most: a short video needs no more to be told.
const MOST_PER_SECOND: f64 = 2.0;

/// What came of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Described {
    /// This is the description.
    As(String),
    /// There is none.
    Not {
        /// Why, for the client.
        reason: String,
        /// Whether another attempt may go better.
        may_help: bool,
    },
    /// It was stopped.
    Stopped,
}

/// Takes frames over the whole video and has them described.
pub(super) async fn describe(
    parts: &IngestParts,
    job: &SessionId,
    vision: &Vision,
    file: &FileRecord,
    stop: &CancellationToken,
) -> Described {
    let Some(media) = &file.media else {
        return Described::Not { reason: "nothing is known of the video".to_owned(), may_help: false };
    };
    if !vision.takes_images() {
        let model = vision.model().unwrap_or_default();
        return Described::Not { reason: format!("the model `{model}` takes no pictures"), may_help: false };
    }
    let duration = media.duration_seconds;
    let max_frames = parts.config.description_max_frames.max(1);
    #[expect(clippy::cast_precision_loss, reason = "a setting of some dozens")]
    let rate = max_frames as f64 / duration.max(f64::MIN_POSITIVE);
    let wish = FramesWish {
        start: 0.0,
        end: Some(duration),
        frames_per_second: rate.min(MOST_PER_SECOND),
        max_frames,
        max_dimension: parts.config.description_max_dimension,
    };
    let target = Target { session: job.clone(), video: file.id.clone(), path: None };
    let taken = parts.backend.frames(&target, &wish, stop).await;
    match taken {
        Ok(frames) => {
            let vision = vision.with_backend(std::sync::Arc::clone(&parts.backend), target.session.clone());
            let subject = Subject { title: file.title(), duration_seconds: duration };
            match ask(&vision, subject, &frames, stop).await {
                Ok(answer) if answer.text.trim().is_empty() => {
                    Described::Not { reason: "the model gave an empty description".to_owned(), may_help: true }
                }
                Ok(answer) => {
                    tracing::info!(
                        video.id = %file.id,
                        usage.input_tokens = answer.usage.input_tokens,
                        usage.output_tokens = answer.usage.output_tokens,
                        usage.cost = answer.usage.cost,
                        "a description was paid for"
                    );
                    Described::As(format!(
                        "Total duration: {duration:.1} seconds. Approximate, from {} frames:\n{}",
                        frames.len(),
                        answer.text.trim()
                    ))
                }
                Err(ModelError::Cancelled) => Described::Stopped,
                Err(error) => Described::Not { reason: error.to_string(), may_help: error.is_retryable() },
            }
        }
        Err(BackendError::Cancelled) => Described::Stopped,
        Err(error) => Described::Not { reason: error.to_string(), may_help: true },
    }
}
