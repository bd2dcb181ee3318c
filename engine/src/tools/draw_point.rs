//! `draw_point`: labelled points on one frame, with their places in pixels.

use serde_json::{Value, json};

use super::call::{Call, Failure, labelled, told};
use super::draw_bounding_box::{GRID, read_label};
use super::input::{Input, numbers, shown};
use super::times::clock;
use super::toolbox::Spec;
use super::window::moment;
use super::{Arguments, ToolOutput, prompts, schema};
use crate::backend::BoxWish;

pub(crate) const NAME: &str = "draw_point";
/// Points of one call: more hide the picture.
const MOST_POINTS: usize = 20;
/// A point is drawn as a square that reaches so far to each side, in steps of the grid.
const HALF_SIZE: f64 = 12.0;

pub(crate) fn spec() -> Spec {
    let place = json!({
        "type": "array",
        "items": {"type": "number", "minimum": 0, "maximum": GRID},
        "minItems": 2,
        "maxItems": 2,
        "description": "[x, y] on a grid of 0 to 1000.",
    });
    let each = schema::object(json!({"point": place, "label": schema::text(prompts::LABEL)}), &["point", "label"]);
    let properties = json!({
        "frame_timestamp": schema::number(prompts::FRAME_TIMESTAMP),
        "points": {"type": "array", "items": each, "minItems": 1, "maxItems": MOST_POINTS},
        "video_path": schema::video_path(),
    });
    Spec {
        name: NAME,
        description: prompts::DRAW_POINT,
        parameters: schema::object(properties, &["frame_timestamp", "points"]),
    }
}

/// A point as it was asked for, or what is wrong with it: one bad point does not spoil the others.
type Asked = Result<(f64, f64, String), String>;

pub(crate) async fn run(call: &Call<'_>, arguments: &Arguments) -> Result<ToolOutput, Failure> {
    let mut input = Input::new(NAME, arguments);
    let time = input.seconds("frame_timestamp");
    let points = input.list("points", MOST_POINTS, |value| Ok(read_point(value)));
    let path = input.optional_text("video_path");
    let (time, points) = input.finish(time.zip(points))?;
    let target = call.target(path);
    let time = moment(time, call.duration(&target))?;
    let boxes: Vec<BoxWish> = points.iter().flatten().map(|(x, y, label)| square(*x, *y, label)).collect();
    if boxes.is_empty() {
        return Err(report(&points, time, None).to_string().into());
    }
    let dimension = call.own_quality().max_dimension;
    let made = call.context.backend.annotate(&target, time, &boxes, dimension, &call.context.stop).await;
    let made = made.map_err(|error| told(error, "drawing points", "video_path"))?;
    let size = (made.frame.width, made.frame.height);
    let text = format!("{}\n{}", report(&points, made.frame.time, Some(size)), prompts::VERIFY);
    Ok(ToolOutput { text, media: labelled(vec![made.frame]), ..ToolOutput::default() })
}

fn read_point(value: &Value) -> Asked {
    let place = value.get("point").ok_or("needs `point` with [x, y]")?;
    let [x, y] =
        numbers::<2>(place).ok_or_else(|| format!("`point` has to be two numbers, [x, y], not {}", shown(place)))?;
    if ![x, y].iter().all(|step| (0.0..=GRID).contains(step)) {
        return Err(format!(
            "`point` has to lie on the grid of 0 to 1000 over the frame, whatever its size in pixels; got {}",
            shown(place)
        ));
    }
    Ok((x, y, read_label(value)?))
}

fn square(x: f64, y: f64, label: &str) -> BoxWish {
    let (low, high) = (|at: f64| (at - HALF_SIZE).max(0.0), |at: f64| (at + HALF_SIZE).min(GRID));
    BoxWish { corners: [low(y), low(x), high(y), high(x)], label: label.to_owned() }
}

/// One entry for each point, in the order asked for.
fn report(points: &[Asked], time: f64, size: Option<(u32, u32)>) -> Value {
    let entries = points.iter().map(|point| match point {
        Err(reason) => json!({"error": reason}),
        Ok((x, y, label)) => {
            let mut entry = json!({
                "clicked_element": label,
                "frame_timestamp": time,
                "citation": clock(time),
                "point_grid": [x, y],
                "normalized_coordinates": [x / GRID, y / GRID],
            });
            if let Some((width, height)) = size {
                entry["frame_size"] = json!([width, height]);
                entry["coordinates"] = json!([pixel(*x, width), pixel(*y, height)]);
            }
            entry
        }
    });
    entries.collect()
}

fn pixel(step: f64, size: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to the size; `as` saturates")]
    let pixel = (step / GRID * f64::from(size)).floor() as u32;
    pixel.min(size.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_point_does_not_spoil_the_others() {
        let points: Vec<Asked> = [
            json!({"point": [500, 1000], "label": "ball"}),
            json!({"point": [1001, 0], "label": "x"}),
            json!({"point": [1], "label": "x"}),
        ]
        .iter()
        .map(read_point)
        .collect();
        let report = report(&points, 65.5, Some((200, 100)));
        assert_eq!(
            report[0],
            json!({
                "clicked_element": "ball", "frame_timestamp": 65.5, "citation": "01:05", "point_grid": [500.0, 1000.0],
                "normalized_coordinates": [0.5, 1.0], "frame_size": [200, 100], "coordinates": [100, 99],
            })
        );
        assert!(report[1]["error"].as_str().unwrap().contains("grid of 0 to 1000"));
        assert!(report[2]["error"].as_str().unwrap().contains("two numbers"));
    }

    #[test]
    fn the_square_of_a_point_stays_in_the_picture() {
        let wanted = BoxWish { corners: [983.0, 0.0, 1000.0, 17.0], label: "x".into() };
        assert_eq!(square(5.0, 995.0, "x"), wanted);
    }
}
