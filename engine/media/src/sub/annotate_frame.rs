//! `ambientctl media annotate-frame`

use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Places;
use super::envelope::Failure;
use super::extract_frames::seconds;
use super::target::{Found, Target};
use crate::annotate::{AnnotateSpec, Grid, Mark, Shape};
use crate::config::MediaConfig;

/// What `annotate-frame` takes.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    target: Target,

    /// The moment whose picture is taken, in seconds.
    #[arg(long)]
    timestamp: f64,

    /// A JSON list of `{"label": …, "box": [y_min, x_min, y_max, x_max]}` and `{"label": …, "point": [x, y]}`.
    #[arg(long)]
    annotations: String,

    /// How many steps the numbers count over the picture's sides; 0 counts pixels.
    #[arg(long, default_value_t = 1000)]
    coord_scale: u32,

    /// The longest side, in pixels.
    #[arg(long)]
    max_dim: Option<u32>,
}

/// One entry of `--annotations`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    label: String,
    #[serde(rename = "box")]
    edges: Option<[f64; 4]>,
    point: Option<[f64; 2]>,
}

impl Entry {
    fn mark(self) -> Result<Mark, Failure> {
        let shape = match (self.edges, self.point) {
            (Some([y_min, x_min, y_max, x_max]), None) => Shape::Box { y_min, x_min, y_max, x_max },
            (None, Some([x, y])) => Shape::Point { x, y },
            _ => return Err(bad(format!("`{}` needs either a `box` or a `point`", self.label))),
        };
        Ok(Mark { shape, label: self.label })
    }
}

pub(super) async fn run(
    args: Args, config: MediaConfig, places: &Places, stop: &CancellationToken,
) -> Result<Value, Failure> {
    let marks = marks(&args.annotations)?;
    let grid = if args.coord_scale == 0 { Grid::Pixels } else { Grid::Steps(args.coord_scale) };
    let spec = AnnotateSpec { at: seconds(args.timestamp)?, marks, grid, max_dim: args.max_dim, jpeg_quality: 90 };
    let Found { video_id, source, media, .. } = args.target.find(config, places).await?;
    let drawn = media.annotate(&source, &spec, stop).await?;
    let annotations: Vec<Value> = drawn
        .marks
        .iter()
        .zip(&spec.marks)
        .map(|(mark, asked)| {
            let given = match asked.shape {
                Shape::Box { y_min, x_min, y_max, x_max } => ("box", json!([y_min, x_min, y_max, x_max])),
                Shape::Point { x, y } => ("point", json!([x, y])),
            };
            json!({
                "label": mark.label,
                given.0: given.1,
                "pixel_box": mark.pixel_box,
                "pixel_point": mark.pixel_point,
                "colour": mark.colour,
            })
        })
        .collect();
    Ok(json!({
        "video_id": video_id,
        "timestamp": drawn.timestamp,
        "clamped": drawn.clamped,
        "path": drawn.path,
        "url": null,
        "width": drawn.width,
        "height": drawn.height,
        "annotations": annotations,
    }))
}

fn marks(text: &str) -> Result<Vec<Mark>, Failure> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    entries.into_iter().map(Entry::mark).collect()
}

fn bad(reason: String) -> Failure {
    Failure::new("BadAnnotations", format!("--annotations cannot be read: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_boxes_or_points() {
        let read = marks(r#"[{"label":"cup","box":[1,2,3,4]},{"point":[5,6.5]}]"#).unwrap();
        assert_eq!(read[0].shape, Shape::Box { y_min: 1.0, x_min: 2.0, y_max: 3.0, x_max: 4.0 });
        assert_eq!(read[1], Mark { shape: Shape::Point { x: 5.0, y: 6.5 }, label: String::new() });
        for bad in ["", "{}", r#"[{"label":"x"}]"#, r#"[{"box":[1,2,3]}]"#, r#"[{"box":[1,2,3,4],"point":[1,2]}]"#] {
            assert_eq!(marks(bad).unwrap_err().code, "BadAnnotations", "{bad}");
        }
    }
}
