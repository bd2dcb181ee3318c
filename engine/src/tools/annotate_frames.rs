//! `annotate_frames`: the video model finds things in a few frames, for an agent whose model sees no pictures.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::call::{Call, Failure};
use super::grab_frames::{FRAMES_PER_SECOND, MOST_FRAMES};
use super::input::{Input, numbers};
use super::times::precise;
use super::toolbox::Spec;
use super::watch::{self, error_analyzing, not_empty};
use super::window::LONGEST_SPAN;
use super::{Arguments, ToolOutput, prompts, schema};
use crate::agent::error::ModelError;
use crate::agent::plan::MAX_DIMENSION;
use crate::agent::vision::VisionQuestion;
use crate::backend::FrameMade;
use crate::store::records::Part;

pub(crate) const NAME: &str = "annotate_frames";
const SOURCE: &str = "tool:annotate_frames";
const MAX_TOKENS: u32 = 16_000;
const PATIENCE: Duration = Duration::from_mins(4);

pub(crate) fn spec() -> Spec {
    let more = json!({
        "annotation_prompt": schema::text("What is to be found in the frames."),
        "video_path": schema::video_path(),
    });
    Spec {
        name: NAME,
        description: prompts::ANNOTATE_FRAMES,
        parameters: schema::object(schema::window(more), &["start_time", "end_time", "annotation_prompt"]),
    }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let (start, end) = (input.seconds("start_time"), input.seconds("end_time"));
    let prompt = input.text("annotation_prompt");
    let path = input.optional_text("video_path");
    let ((start, end), prompt) = input.finish(start.zip(end).zip(prompt))?;
    let target = call.target(path);
    let window = call.window(&target, start, end, LONGEST_SPAN)?;
    let Some(vision) = &call.vision else { return Err(error_analyzing(&ModelError::NoEndpoint).into()) };

    let frames = watch::fetch_frames(call, &target, &window, MOST_FRAMES, FRAMES_PER_SECOND, MAX_DIMENSION).await?;
    let mut parts = vec![Part::Text { text: format!("query: {prompt}") }];
    for (number, frame) in (1..).zip(&frames) {
        parts.push(Part::Text { text: format!("Frame {number}, at {}:", precise(frame.time)) });
        parts.push(Part::Image { media: frame.media.clone() });
    }
    let question = VisionQuestion {
        source: SOURCE,
        system: prompts::ANNOTATE,
        parts: &parts,
        max_tokens: MAX_TOKENS,
        timeout: PATIENCE,
    };
    let answer = match vision.ask(&question, &call.context.stop).await {
        Ok(answer) => answer,
        Err(ModelError::Cancelled) => return Err(super::call::INTERRUPTED.into()),
        Err(error) => return Err(error_analyzing(&error).into()),
    };
    not_empty(&answer.text, &answer.usage)?;
    let text = told(&answer.text, &frames);
    Ok(ToolOutput { text: window.noted(text), usage: answer.usage, ..ToolOutput::default() })
}

/// Boxes by frame, then what was said besides.
fn told(text: &str, frames: &[FrameMade]) -> String {
    let (boxes, words) = taken_apart(text);
    let mut out = String::new();
    for (number, frame) in (1..).zip(frames) {
        let mine: Vec<&Found> = boxes.iter().filter(|found| found.frame == number).collect();
        if mine.is_empty() {
            continue;
        }
        line(&mut out, &format!("Frame at {}:", precise(frame.time)));
        for found in mine {
            let [y_min, x_min, y_max, x_max] = found.corners;
            line(&mut out, &format!("- {}: [{y_min}, {x_min}, {y_max}, {x_max}]", found.label));
        }
    }
    if out.is_empty() {
        let times: Vec<String> = frames.iter().map(|frame| precise(frame.time)).collect();
        line(&mut out, &format!("No boxes in the frames at {}.", times.join(", ")));
    } else {
        line(&mut out, "Boxes are [y_min, x_min, y_max, x_max] on a grid of 0 to 1000.");
    }
    out.push_str(words.trim());
    out.trim_end().to_owned()
}

fn line(out: &mut String, text: &str) {
    writeln!(out, "{text}").expect("a string takes all text");
}

#[derive(Debug, PartialEq)]
struct Found {
    frame: usize,
    corners: [f64; 4],
    label: String,
}

/// The boxes, and the text without their blocks. A block that does not read stays in the text, so nothing is lost.
fn taken_apart(text: &str) -> (Vec<Found>, String) {
    const OPEN: &str = "<annotation";
    const CLOSE: &str = "</annotation>";
    let (mut boxes, mut words, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find(OPEN) {
        let (before, block) = rest.split_at(at);
        words.push_str(before);
        let Some(length) = block.find(CLOSE).map(|end| end + CLOSE.len()) else {
            rest = block;
            break;
        };
        let (block, after) = block.split_at(length);
        match read_block(&block[OPEN.len()..length - CLOSE.len()]) {
            Some(found) => boxes.extend(found),
            None => words.push_str(block),
        }
        rest = after;
    }
    words.push_str(rest);
    (boxes, words)
}

/// ` frame="2">[{…}]` or a single object.
fn read_block(block: &str) -> Option<Vec<Found>> {
    let (attributes, json) = block.split_once('>')?;
    let digits: String = attributes.chars().filter(char::is_ascii_digit).collect();
    let frame: usize = digits.parse().ok()?;
    let value: Value = serde_json::from_str(json.trim()).ok()?;
    let items = match value {
        Value::Array(items) => items,
        other => vec![other],
    };
    items
        .iter()
        .map(|item| {
            let corners = ["box", "box_2d", "bbox"].iter().find_map(|key| item.get(key))?;
            let corners = numbers::<4>(corners)?.map(|corner| corner.clamp(0.0, 1000.0).round());
            let label = item.get("label").and_then(Value::as_str).unwrap_or("thing").to_owned();
            Some(Found { frame, corners, label })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::records::MediaRef;

    fn frame(time: f64) -> FrameMade {
        let media = MediaRef::Local { path: "x.jpg".into(), mime_type: "image/jpeg".into() };
        FrameMade { media, time, width: 100, height: 100 }
    }

    #[test]
    fn boxes_are_told_with_the_time_of_their_frame() {
        let said = "<annotation frame=\"2\">[{\"box\": [1, 2.4, 3, 2000], \"label\": \"cup\"}]</annotation>\nA cup is on the table.";
        assert_eq!(
            told(said, &[frame(1.0), frame(1.5)]),
            "Frame at 00:01.500:\n- cup: [1, 2, 3, 1000]\nBoxes are [y_min, x_min, y_max, x_max] on a grid of 0 to \
             1000.\nA cup is on the table."
        );
    }

    #[test]
    fn what_does_not_read_is_handed_on_as_it_is() {
        for said in ["<annotation frame=\"1\">oops</annotation> x", "<annotation frame=\"1\">[", "no cup"] {
            assert_eq!(told(said, &[frame(1.0)]), format!("No boxes in the frames at 00:01.000.\n{said}"));
        }
    }
}
