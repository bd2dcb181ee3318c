//! `draw_bounding_box`: labelled boxes on one frame, for the agent's own model to check.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::call::{Call, Failure, labelled, told};
use super::input::{Input, numbers, shown};
use super::times::precise;
use super::toolbox::Spec;
use super::window::moment;
use super::{Arguments, ToolOutput, prompts, schema};
use crate::backend::BoxWish;

pub(crate) const NAME: &str = "draw_bounding_box";
/// Boxes of one call: more hide the picture.
const MOST_BOXES: usize = 20;
/// The grid of coordinates.
pub(crate) const GRID: f64 = 1000.0;

pub(crate) fn spec() -> Spec {
    let corners = json!({
        "type": "array",
        "items": {"type": "number", "minimum": 0, "maximum": GRID},
        "minItems": 4,
        "maxItems": 4,
        "description": "[y_min, x_min, y_max, x_max] on a grid of 0 to 1000.",
    });
    let each = schema::object(json!({"box": corners, "label": schema::text(prompts::LABEL)}), &["box", "label"]);
    let properties = json!({
        "frame_timestamp": schema::number(prompts::FRAME_TIMESTAMP),
        "bounding_boxes": {"type": "array", "items": each, "minItems": 1, "maxItems": MOST_BOXES},
        "video_path": schema::video_path(),
    });
    Spec {
        name: NAME,
        description: prompts::DRAW_BOUNDING_BOX,
        parameters: schema::object(properties, &["frame_timestamp", "bounding_boxes"]),
    }
}

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let time = input.seconds("frame_timestamp");
    let boxes = input.list("bounding_boxes", MOST_BOXES, read_box);
    let path = input.optional_text("video_path");
    let (time, boxes) = input.finish(time.zip(boxes))?;
    let target = call.target(path);
    let time = moment(time, call.duration(&target))?;
    let dimension = call.own_quality().max_dimension;
    let made = call.context.backend.annotate(&target, time, &boxes, dimension, &call.context.stop).await;
    let made = made.map_err(|error| told(error, "drawing boxes", "video_path"))?;

    let frame = &made.frame;
    let mut text = format!(
        "Drew {} {} on the frame at {} ({} x {} pixels):\n",
        boxes.len(),
        if boxes.len() == 1 { "box" } else { "boxes" },
        precise(frame.time),
        frame.width,
        frame.height
    );
    for (wish, [x_min, y_min, x_max, y_max]) in boxes.iter().zip(&made.pixel_boxes) {
        writeln!(text, "- {}: x {x_min} to {x_max}, y {y_min} to {y_max} pixels", wish.label)
            .expect("a string takes all text");
    }
    text.push_str(prompts::VERIFY);
    Ok(ToolOutput { text, media: labelled(vec![made.frame]), ..ToolOutput::default() })
}

fn read_box(value: &Value) -> Result<BoxWish, String> {
    let corners = value.get("box").ok_or("needs `box` with [y_min, x_min, y_max, x_max]")?;
    let [y_min, x_min, y_max, x_max] = numbers::<4>(corners)
        .ok_or_else(|| format!("`box` has to be four numbers, [y_min, x_min, y_max, x_max], not {}", shown(corners)))?;
    if ![y_min, x_min, y_max, x_max].iter().all(|corner| (0.0..=GRID).contains(corner)) {
        return Err(format!(
            "`box` has to lie on the grid of 0 to 1000 over the frame, whatever its size in pixels; got {}",
            shown(corners)
        ));
    }
    if y_min >= y_max || x_min >= x_max {
        return Err(format!("`box` has no area: y_min < y_max and x_min < x_max have to hold; got {}", shown(corners)));
    }
    Ok(BoxWish { corners: [y_min, x_min, y_max, x_max], label: read_label(value)? })
}

/// The label of a mark; a number is as good as a text.
pub(crate) fn read_label(value: &Value) -> Result<String, String> {
    /// A longer one covers the picture.
    const MOST_CHARACTERS: usize = 60;
    let label = match value.get("label") {
        Some(Value::String(text)) => text.trim().chars().take(MOST_CHARACTERS).collect(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => String::new(),
    };
    if label.is_empty() { Err("needs `label` with a word or two".to_owned()) } else { Ok(label) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_is_on_the_grid_and_has_an_area() {
        assert_eq!(
            read_box(&json!({"box": [1, "2", 3.5, 1000], "label": "cup"})),
            Ok(BoxWish { corners: [1.0, 2.0, 3.5, 1000.0], label: "cup".into() })
        );
        for (bad, words) in [
            (json!({"label": "cup"}), "needs `box`"),
            (json!([1, 2, 3, 4]), "needs `box`"),
            (json!({"box": [1, 2, 3], "label": "cup"}), "four numbers"),
            (json!({"box": [1, 2, 3, 1001], "label": "cup"}), "grid of 0 to 1000"),
            (json!({"box": [5, 2, 5, 9], "label": "cup"}), "no area"),
            (json!({"box": [1, 2, 3, 4]}), "needs `label`"),
        ] {
            let reason = read_box(&bad).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
    }
}
