//! `grab_frames`: a few exact still frames for the agent's own model.

use serde_json::json;

use super::call::{Call, Failure, labelled};
use super::input::Input;
use super::times::precise;
use super::toolbox::Spec;
use super::watch;
use super::window::LONGEST_SPAN;
use super::{Arguments, ToolOutput, prompts, schema};

pub(crate) const NAME: &str = "grab_frames";
/// Frames of one call.
pub(crate) const MOST_FRAMES: usize = 6;
/// Below this span there are fewer: closer together they hardly differ.
pub(crate) const FRAMES_PER_SECOND: f64 = 2.0;

pub(crate) fn spec() -> Spec {
    let more = json!({"video_path": schema::video_path()});
    Spec {
        name: NAME,
        description: prompts::GRAB_FRAMES,
        parameters: schema::object(schema::window(more), &["start_time", "end_time"]),
    }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let (start, end) = (input.seconds("start_time"), input.seconds("end_time"));
    let path = input.optional_text("video_path");
    let (start, end) = input.finish(start.zip(end))?;
    let target = call.target(path);
    let window = call.window(&target, start, end, LONGEST_SPAN)?;
    let dimension = call.own_quality().max_dimension;
    let frames = watch::fetch_frames(call, &target, &window, MOST_FRAMES, FRAMES_PER_SECOND, dimension).await?;
    let times: Vec<String> = frames.iter().map(|frame| precise(frame.time)).collect();
    let noun = if frames.len() == 1 { "frame comes" } else { "frames come" };
    let text = format!("{} {noun} in the next message: {}.", frames.len(), times.join(", "));
    Ok(ToolOutput { text: window.noted(text), media: labelled(frames), ..ToolOutput::default() })
}
