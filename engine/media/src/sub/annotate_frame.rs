//! `ambientctl media annotate-frame`

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::Surroundings;
use super::bucket::MADE_BY;
use super::envelope::Failure;
use super::extract_frames::JPEG;
use super::target::{Found, Target};
use super::upload::Upload;
use super::words::{digest, seconds};
use crate::annotate::{AnnotateSpec, Grid, Mark, Shape};
use crate::objects::{About, ObjectKey};

pub(super) const EXAMPLES: &str = "Example:\n  \
    ambientctl media annotate-frame --source-path film.mp4 --timestamp 61.5 \\\n    \
    --annotations '[{\"label\": \"cup\", \"box\": [400, 300, 800, 700]}, {\"label\": \"handle\", \"point\": [710, 520]}]'\n\n\
    A box is [y_min, x_min, y_max, x_max], a point [x, y]. The answer repeats each annotation with its `pixel_box`.";

/// JPEG hardly hurts the edges of letters from here on.
const JPEG_QUALITY: u8 = 90;

/// What `annotate-frame` takes.
#[derive(clap::Args, Debug)]
#[command(allow_negative_numbers = true)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// The moment whose picture is taken, in seconds
    #[arg(long, value_name = "SECONDS")]
    timestamp: f64,

    /// A JSON list of `{"label": …, "box": [y_min, x_min, y_max, x_max]}` and `{"label": …, "point": [x, y]}`
    #[arg(long, value_name = "JSON")]
    annotations: String,

    /// How many steps the numbers count over the picture's sides; 0 counts pixels
    #[arg(long, value_name = "STEPS", default_value_t = 1000)]
    coord_scale: u32,

    /// The longest side, in pixels
    #[arg(long, value_name = "PIXELS")]
    max_dim: Option<u32>,

    #[command(flatten)]
    upload: Upload,
}

pub(super) async fn run(args: Args, around: &Surroundings, stop: &CancellationToken) -> Result<Value, Failure> {
    let mut entries: Vec<Map<String, Value>> =
        serde_json::from_str(&args.annotations).map_err(|error| bad(&error.to_string()))?;
    let marks = entries.iter().map(mark).collect::<Result<_, _>>()?;
    let grid = if args.coord_scale == 0 { Grid::Pixels } else { Grid::Steps(args.coord_scale) };
    let at = seconds("--timestamp", args.timestamp)?;
    let spec = AnnotateSpec { at, marks, grid, max_dim: args.max_dim, jpeg_quality: JPEG_QUALITY };
    let outbox = args.upload.outbox(around)?;
    let Found { video_id, label, source, media } = args.target.find(around, "annotated", stop).await?;
    let drawn = media.annotate(&source, &spec, stop).await?;
    let mut url = None;
    if let Some(outbox) = outbox {
        let marks = digest(&args.annotations);
        let name = format!("frame_{}_{}x{}_{marks}", drawn.timestamp, drawn.width, drawn.height);
        let key = ObjectKey::annotated(&label, &name, "jpg");
        url = Some(outbox.send(&key, &drawn.path, &About::new(JPEG, MADE_BY), stop).await?.url);
    }
    for (entry, mark) in entries.iter_mut().zip(&drawn.marks) {
        entry.insert("pixel_box".to_owned(), json!(mark.pixel_box));
        entry.insert("colour".to_owned(), json!(mark.colour));
        if let Some(point) = mark.pixel_point {
            entry.insert("pixel_point".to_owned(), json!(point));
        }
    }
    Ok(json!({
        "video_id": video_id,
        "asked": at,
        "timestamp": drawn.timestamp,
        "clamped": drawn.clamped,
        "path": drawn.path,
        "url": url,
        "width": drawn.width,
        "height": drawn.height,
        "size_bytes": drawn.size_bytes,
        "annotations": entries,
    }))
}

/// Reads one entry. What else it holds is the caller's, and comes back as it is.
fn mark(entry: &Map<String, Value>) -> Result<Mark, Failure> {
    let label = match entry.get("label") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(label)) => label.clone(),
        Some(other) => return Err(bad(&format!("the label `{other}` is no text"))),
    };
    let numbers = |name: &str| -> Result<Option<Vec<f64>>, Failure> {
        let Some(value) = entry.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
        let numbers: Option<Vec<f64>> = value.as_array().and_then(|list| list.iter().map(Value::as_f64).collect());
        numbers.map(Some).ok_or_else(|| bad(&format!("the `{name}` of `{label}` is no list of numbers: `{value}`")))
    };
    let shape = match (numbers("box")?.as_deref(), numbers("point")?.as_deref()) {
        (Some(&[y_min, x_min, y_max, x_max]), None) => Shape::Box { y_min, x_min, y_max, x_max },
        (None, Some(&[x, y])) => Shape::Point { x, y },
        _ => return Err(bad(&format!("`{label}` needs either a `box` of four numbers or a `point` of two"))),
    };
    Ok(Mark { shape, label })
}

fn bad(reason: &str) -> Failure {
    Failure::new("BadAnnotations", format!("--annotations cannot be used: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(text: &str) -> Result<Vec<Mark>, Failure> {
        let entries: Vec<Map<String, Value>> = serde_json::from_str(text).map_err(|error| bad(&error.to_string()))?;
        entries.iter().map(mark).collect()
    }

    #[test]
    fn annotations_are_boxes_or_points() {
        let read = marks(r#"[{"label":"cup","box":[1,2,3,4],"color":"red"},{"point":[5,6.5],"box":null}]"#).unwrap();
        assert_eq!(read[0].shape, Shape::Box { y_min: 1.0, x_min: 2.0, y_max: 3.0, x_max: 4.0 });
        assert_eq!(read[1], Mark { shape: Shape::Point { x: 5.0, y: 6.5 }, label: String::new() });
        for bad in [
            "",
            "{}",
            "[1]",
            r#"[{"label":"x"}]"#,
            r#"[{"label":7,"point":[1,2]}]"#,
            r#"[{"box":[1,2,3]}]"#,
            r#"[{"box":["a",2,3,4]}]"#,
            r#"[{"box":[1,2,3,4],"point":[1,2]}]"#,
        ] {
            assert_eq!(marks(bad).unwrap_err().code, "BadAnnotations", "{bad}");
        }
    }
}
