//! A look of the video model at a window: as a clip where it takes one, else as frames.

use std::time::Duration;

use super::call::{Call, Failure, INTERRUPTED, labelled, told};
use super::citations::Timeline;
use super::prompts::{self, Clock};
use super::times::precise;
use super::window::Window;
use crate::agent::error::ModelError;
use crate::agent::plan::{MAX_DIMENSION, Plan, Quality, Step, frame_count};
use crate::agent::vision::{Vision, VisionQuestion};
use crate::backend::{BackendError, ClipMade, ClipWish, FrameMade, FramesWish, Target};
use crate::store::records::{Part, UsageTotals};

/// Of one answer, thinking included.
const MAX_TOKENS: u32 = 16_000;
/// How long one look may take, with its second try.
const PATIENCE: Duration = Duration::from_mins(4);
/// Pictures that a clip may hold: longer windows get fewer a second.
const MOST_CLIP_FRAMES: f64 = 300.0;

/// What is to be looked at, and why.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    /// `tool:<name>`, for the usage.
    pub(crate) source: &'a str,
    /// The instruction, by how times count.
    pub(crate) system: fn(Clock) -> String,
    /// Said in front of the media.
    pub(crate) question: &'a str,
    pub(crate) target: &'a Target,
    pub(crate) window: &'a Window,
}

/// What the video model said.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) text: String,
    /// How its times lie in the video.
    pub(crate) timeline: Timeline,
    pub(crate) usage: UsageTotals,
}

/// Has the video model look at a window. A server that refuses the clip is asked again with frames.
pub(crate) async fn look(call: &Call<'_>, look: &Look<'_>) -> Result<Seen, Failure> {
    let Some(vision) = &call.vision else { return Err(error_analyzing(&ModelError::NoEndpoint).into()) };
    match vision.plan(Step::Clip) {
        Plan::Video => match look_at_clip(call, vision, look).await {
            Err(Refused::Video) => match vision.plan(Step::Clip) {
                Plan::Frames { max_frames, frames_per_second } => {
                    look_at_frames(call, vision, look, max_frames, frames_per_second).await
                }
                Plan::Video | Plan::Nothing => Err(sees_nothing(vision)),
            },
            Err(Refused::Failed(failure)) => Err(failure),
            Ok(seen) => Ok(seen),
        },
        Plan::Frames { max_frames, frames_per_second } => {
            look_at_frames(call, vision, look, max_frames, frames_per_second).await
        }
        Plan::Nothing => Err(sees_nothing(vision)),
    }
}

enum Refused {
    /// The server takes no video after all.
    Video,
    Failed(Failure),
}

impl<T: Into<Failure>> From<T> for Refused {
    fn from(failure: T) -> Self {
        Self::Failed(failure.into())
    }
}

async fn look_at_clip(call: &Call<'_>, vision: &Vision, look: &Look<'_>) -> Result<Seen, Refused> {
    let quality = Quality::of(vision.model().unwrap_or_default(), call.config.quality);
    let clip = fetch_clip(call, look.target, look.window, quality).await?;
    let parts = [
        Part::Text { text: look.question.to_owned() },
        Part::Text { text: prompts::clip_caption(&format!("{}-{}", precise(clip.start), precise(clip.end))) },
        Part::Video { media: clip.media },
    ];
    let timeline = Timeline { offset: clip.start, length: clip.end - clip.start };
    match ask(call, vision, look, &(look.system)(Clock::OfTheClip), &parts).await {
        Ok((text, usage)) => Ok(Seen { text, timeline, usage }),
        Err(_refused) if !vision.takes_video() && !call.context.stop.is_cancelled() => Err(Refused::Video),
        Err(error) => Err(Refused::Failed(told_model(&error))),
    }
}

async fn look_at_frames(
    call: &Call<'_>,
    vision: &Vision,
    look: &Look<'_>,
    max_frames: usize,
    frames_per_second: f64,
) -> Result<Seen, Failure> {
    let frames = fetch_frames(call, look.target, look.window, max_frames, frames_per_second, MAX_DIMENSION).await?;
    let mut parts = vec![
        Part::Text { text: look.question.to_owned() },
        Part::Text { text: prompts::frames_caption(frames.len(), &look.window.shown()) },
    ];
    parts.extend(labelled(frames));
    let (text, usage) =
        ask(call, vision, look, &(look.system)(Clock::OfTheVideo), &parts).await.map_err(|error| told_model(&error))?;
    Ok(Seen { text, timeline: Timeline::GLOBAL, usage })
}

async fn ask(
    call: &Call<'_>,
    vision: &Vision,
    look: &Look<'_>,
    system: &str,
    parts: &[Part],
) -> Result<(String, UsageTotals), ModelError> {
    let question = VisionQuestion { source: look.source, system, parts, max_tokens: MAX_TOKENS, timeout: PATIENCE };
    let answer = vision.ask(&question, &call.context.stop).await?;
    Ok((answer.text, answer.usage))
}

/// A clip of a window.
pub(crate) async fn fetch_clip(
    call: &Call<'_>,
    target: &Target,
    window: &Window,
    quality: Quality,
) -> Result<ClipMade, Failure> {
    let wish = ClipWish {
        start: window.start,
        end: window.end,
        frames_per_second: Some(quality.frames_per_second.min(MOST_CLIP_FRAMES / window.length())),
        max_dimension: quality.max_dimension,
        max_size_bytes: quality.max_size_bytes,
        crf: None,
    };
    let made = call.context.backend.clip(target, &wish, &call.context.stop).await;
    made.map_err(|error| told(error, "fetching clip", "video_path"))
}

/// Frames of a window: as many as the rate gives, at most so many; never none.
pub(crate) async fn fetch_frames(
    call: &Call<'_>,
    target: &Target,
    window: &Window,
    max_frames: usize,
    frames_per_second: f64,
    max_dimension: u32,
) -> Result<Vec<FrameMade>, Failure> {
    let wish = FramesWish {
        start: window.start,
        end: Some(window.end),
        frames_per_second,
        max_frames: frame_count(window.length(), max_frames, frames_per_second),
        max_dimension,
    };
    let frames = call.context.backend.frames(target, &wish, &call.context.stop).await;
    let frames = frames.map_err(|error| match told(error, "fetching frames", "video_path") {
        failure if failure.text.starts_with("Error") => {
            Failure { text: format!("{}, please try again", failure.text), ..failure }
        }
        failure => failure,
    })?;
    if frames.is_empty() {
        let nothing = BackendError::Media("the window gave no frame".to_owned());
        return Err(told(nothing, "fetching frames", "video_path"));
    }
    Ok(frames)
}

fn sees_nothing(vision: &Vision) -> Failure {
    let model = vision.model().unwrap_or_default();
    format!("Error analyzing clip: the model `{model}` takes neither video nor pictures; another `LLM_MODEL` can")
        .into()
}

fn told_model(error: &ModelError) -> Failure {
    if matches!(error, ModelError::Cancelled) { INTERRUPTED.into() } else { error_analyzing(error).into() }
}

/// What the model is told when the video model failed.
pub(crate) fn error_analyzing(error: &ModelError) -> String {
    let words = match error {
        ModelError::Status { status, message, .. } => format!("LLM request failed (HTTP {status}). {message}"),
        ModelError::Empty { .. } => "LLM returned an empty response. Please try again.".to_owned(),
        ModelError::NoEndpoint
        | ModelError::Address { .. }
        | ModelError::Transport { .. }
        | ModelError::Silent { .. }
        | ModelError::Broken { .. }
        | ModelError::Cancelled => error.to_string(),
    };
    format!("Error analyzing clip: {words}")
}

/// What stands between tags; the closing one may be missing.
pub(crate) fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    Some(rest.split_once(&format!("</{tag}>")).map_or(rest, |(inside, _)| inside).trim())
}

/// The words of an answer that may not be empty.
pub(crate) fn not_empty(text: &str, usage: &UsageTotals) -> Result<(), Failure> {
    if text.trim().is_empty() {
        let text = "Error analyzing clip: LLM returned no content. Please try again.".to_owned();
        return Err(Failure { text, usage: Box::new(usage.clone()) });
    }
    Ok(())
}
