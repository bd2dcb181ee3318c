//! The description of a whole video, from frames of it: what the agent reads before it looks for itself.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::error::ModelError;
use super::vision::{Vision, VisionAnswer, VisionQuestion};
use crate::backend::FrameMade;
use crate::store::records::Part;

/// Who the usage of descriptions is counted for.
pub const SOURCE: &str = "description";
const MAX_TOKENS: u32 = 8_000;
const TIMEOUT: Duration = Duration::from_mins(5);

const SYSTEM: &str = "You describe a video for somebody who cannot see it and will have to find things in it. You are given \
    frames taken evenly over the whole video, each behind its time. The frames are your only evidence: say nothing that they \
    do not show, and say so where they leave something open. Write between <video_description> tags:\n\
    1. two or three sentences on what the video is and what it is about;\n\
    2. a timeline: a line for each part, beginning with its time as `mm:ss-mm:ss` (or `h:mm:ss`), what is seen, who does what, \
    and words that can be read in the picture;\n\
    3. people, objects and places that come up more than once, each with the times at which they are seen.\n\
    Be exact and brief.";

/// What is described.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Name of the file.
    pub title: &'a str,
    /// Length in seconds.
    pub duration_seconds: f64,
}

/// Asks for a description.
///
/// # Errors
/// Every [`ModelError`].
pub async fn describe(
    vision: &Vision,
    subject: Subject<'_>,
    frames: &[FrameMade],
    stop: &CancellationToken,
) -> Result<VisionAnswer, ModelError> {
    let mut parts = vec![Part::Text {
        text: format!(
            "Title: {}\nDuration: {} ({:.1} s)\n{} frames, each behind its time:",
            subject.title,
            clock_time(subject.duration_seconds),
            subject.duration_seconds,
            frames.len()
        ),
    }];
    parts.extend(frame_parts(frames));
    let question =
        VisionQuestion { source: SOURCE, system: SYSTEM, parts: &parts, max_tokens: MAX_TOKENS, timeout: TIMEOUT };
    let mut answer = vision.ask(&question, stop).await?;
    answer.text = between_tags(&answer.text, "video_description").trim().to_owned();
    Ok(answer)
}

/// Frames as parts of a message: each picture right behind its time.
pub fn frame_parts(frames: &[FrameMade]) -> Vec<Part> {
    let labelled = frames.iter().flat_map(|frame| {
        let label = format!("Frame at {} ({:.2} s):", clock_time(frame.time), frame.time);
        [Part::Text { text: label }, Part::Image { media: frame.media.clone() }]
    });
    labelled.collect()
}

/// Seconds as `mm:ss`, or `h:mm:ss` from an hour on.
pub fn clock_time(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "not negative; `as` saturates")]
    let whole = seconds.max(0.0).floor() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{rest:02}") } else { format!("{minutes:02}:{rest:02}") }
}

/// What stands between the tags, or all of it: models forget them, or only the closing one.
pub fn between_tags<'a>(text: &'a str, tag: &str) -> &'a str {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    let Some((_, rest)) = text.split_once(open.as_str()) else { return text };
    rest.split_once(close.as_str()).map_or(rest, |(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_like_a_clock() {
        for (seconds, text) in
            [(0.0, "00:00"), (65.9, "01:05"), (3600.0, "1:00:00"), (-3.0, "00:00"), (f64::NAN, "00:00")]
        {
            assert_eq!(clock_time(seconds), text);
        }
    }

    #[test]
    fn tags_may_be_missing() {
        assert_eq!(between_tags("x<a>in</a>y", "a"), "in");
        assert_eq!(between_tags("x<a>in", "a"), "in");
        assert_eq!(between_tags("all", "a"), "all");
    }
}
