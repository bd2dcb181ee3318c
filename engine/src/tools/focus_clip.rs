//! `focus_clip`, in two forms: the video model tells what happens in a window, or the agent's own model gets to see it.

use serde_json::json;

use super::call::{Call, Failure, labelled};
use super::citations::rewrite;
use super::input::Input;
use super::times::precise;
use super::toolbox::Spec;
use super::watch::{self, Look, between, not_empty};
use super::window::{LONGEST_WINDOW, Window};
use super::{Arguments, ToolOutput, prompts, schema};
use crate::backend::Target;
use crate::store::records::Part;

pub(crate) const NAME: &str = "focus_clip";
const SOURCE: &str = "tool:focus_clip";
/// Frames of a window for a model that takes no clips, and how often at most.
const MOST_FRAMES: usize = 300;
const FRAMES_PER_SECOND: f64 = 2.0;

/// The form in which the video model looks.
pub(crate) fn delegated() -> Spec {
    spec(prompts::FOCUS_CLIP)
}

/// The form in which the agent's own model looks.
pub(crate) fn own() -> Spec {
    spec(prompts::SHOW_CLIP)
}

fn spec(description: &'static str) -> Spec {
    let more = json!({"video_path": schema::video_path()});
    Spec { name: NAME, description, parameters: schema::object(schema::window(more), &["start_time", "end_time"]) }
}

fn read(call: &Call<'_>, arguments: &Arguments) -> Result<(Target, Window), Failure> {
    let mut input = Input::new(NAME, arguments);
    let (start, end) = (input.seconds("start_time"), input.seconds("end_time"));
    let path = input.optional_text("video_path");
    let (start, end) = input.finish(start.zip(end))?;
    let target = call.target(path);
    let window = call.window(&target, start, end, LONGEST_WINDOW)?;
    Ok((target, window))
}

/// The video model tells.
pub(crate) async fn run_delegated(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let (target, window) = read(call, arguments)?;
    let look = Look {
        source: SOURCE,
        system: prompts::focus,
        question: "query: describe this part of the video",
        target: &target,
        window: &window,
    };
    let seen = watch::look(call, &look).await?;
    let told = between(&seen.text, "video_description").unwrap_or(&seen.text);
    not_empty(told, &seen.usage)?;
    let text = rewrite(told.trim(), seen.timeline);
    Ok(ToolOutput { text: window.noted(text), usage: seen.usage, ..ToolOutput::default() })
}

/// The agent's own model gets the window as a clip, or as frames where it takes no clips.
pub(crate) async fn run_own(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let (target, window) = read(call, arguments)?;
    let quality = call.own_quality();
    if call.modalities.video {
        let clip = watch::fetch_clip(call, &target, &window, quality).await?;
        let shown = format!("{}-{}", precise(clip.start), precise(clip.end));
        let sound = if clip.has_audio { "with its sound" } else { "without sound" };
        let text = format!(
            "The clip from {shown} comes in the next message, {sound}. Its own time 00:00 is {} of the video.",
            precise(clip.start)
        );
        let caption = format!(
            "{} Time 00:00 of the clip is {} of the video.",
            prompts::clip_caption(&shown),
            precise(clip.start)
        );
        let media = vec![Part::Text { text: caption }, Part::Video { media: clip.media }];
        return Ok(ToolOutput { text: window.noted(text), media, ..ToolOutput::default() });
    }
    let frames =
        watch::fetch_frames(call, &target, &window, MOST_FRAMES, FRAMES_PER_SECOND, quality.max_dimension).await?;
    let text =
        format!("{} frames from {} come in the next message, each behind its time.", frames.len(), window.shown());
    Ok(ToolOutput { text: window.noted(text), media: labelled(frames), ..ToolOutput::default() })
}
