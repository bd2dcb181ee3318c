//! Marks as a model gives them, and where they come to lie on a picture.

use serde::Serialize;

use crate::error::MediaError;
use crate::probe::Size;

/// Colours that stay apart on most pictures, used in turn.
const COLOURS: [[u8; 3]; 8] = [
    [230, 25, 75],
    [60, 180, 75],
    [0, 130, 200],
    [255, 165, 0],
    [145, 30, 180],
    [0, 200, 200],
    [240, 50, 230],
    [255, 225, 25],
];

/// What the numbers of a mark count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Grid {
    /// Thousandths of the picture's width and height, as vision models answer.
    #[default]
    Thousandths,
    /// So many steps over the picture's width and height.
    Steps(u32),
    /// Pixels of the picture.
    Pixels,
}

/// Something to draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Box or point.
    pub shape: Shape,
    /// The text beside it; may be empty.
    pub label: String,
}

/// Where a mark lies. Corners in the wrong order are put right, and what lies outside is moved to the edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A box, in the order in which models answer: `[y_min, x_min, y_max, x_max]`.
    Box {
        /// The upper edge.
        y_min: f64,
        /// The left edge.
        x_min: f64,
        /// The lower edge.
        y_max: f64,
        /// The right edge.
        x_max: f64,
    },
    /// A point.
    Point {
        /// From the left.
        x: f64,
        /// From the top.
        y: f64,
    },
}

/// A mark on a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DrawnMark {
    /// The text beside it.
    pub label: String,
    /// Its edges in pixels; of a point, the square around it.
    pub pixel_box: PixelBox,
    /// The pixel that a point marks.
    pub pixel_point: Option<[u32; 2]>,
    /// Red, green and blue.
    pub colour: [u8; 3],
}

/// Edges in pixels, all inside of the picture. Invariant: minima are not above maxima.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PixelBox {
    /// The left column.
    pub x_min: u32,
    /// The upper row.
    pub y_min: u32,
    /// The right column.
    pub x_max: u32,
    /// The lower row.
    pub y_max: u32,
}

/// Refuses numbers that are none.
pub(super) fn check(marks: &[Mark]) -> Result<(), MediaError> {
    for mark in marks {
        let numbers: &[f64] = match &mark.shape {
            Shape::Box { y_min, x_min, y_max, x_max } => &[*y_min, *x_min, *y_max, *x_max],
            Shape::Point { x, y } => &[*x, *y],
        };
        if let Some(bad) = numbers.iter().find(|number| !number.is_finite()) {
            return Err(MediaError::BadRequest(format!(
                "the mark `{}` has the coordinate `{bad}`, which is no number",
                mark.label
            )));
        }
    }
    Ok(())
}

/// Where the mark lies on a picture of that size.
pub(super) fn place(mark: &Mark, number: usize, grid: Grid, size: Size) -> DrawnMark {
    let steps = match grid {
        Grid::Thousandths => Some(1000.0),
        Grid::Steps(steps) => Some(f64::from(steps.max(1))),
        Grid::Pixels => None,
    };
    let pixel = |value: f64, side: u32| {
        let scaled = steps.map_or(value, |steps| value / steps * f64::from(side));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to the picture's side just before"
        )]
        let pixel = scaled.round().clamp(0.0, f64::from(side.saturating_sub(1))) as u32;
        pixel
    };
    let across = |value: f64| pixel(value, size.width);
    let down = |value: f64| pixel(value, size.height);
    let (pixel_box, pixel_point) = match mark.shape {
        Shape::Box { y_min, x_min, y_max, x_max } => {
            let (left, right) = (across(x_min), across(x_max));
            let (top, bottom) = (down(y_min), down(y_max));
            (
                PixelBox {
                    x_min: left.min(right),
                    y_min: top.min(bottom),
                    x_max: left.max(right),
                    y_max: top.max(bottom),
                },
                None,
            )
        }
        Shape::Point { x, y } => {
            let (x, y) = (across(x), down(y));
            let reach = point_reach(size);
            let square = PixelBox {
                x_min: x.saturating_sub(reach),
                y_min: y.saturating_sub(reach),
                x_max: (x + reach).min(size.width.saturating_sub(1)),
                y_max: (y + reach).min(size.height.saturating_sub(1)),
            };
            (square, Some([x, y]))
        }
    };
    DrawnMark { label: mark.label.clone(), pixel_box, pixel_point, colour: COLOURS[number % COLOURS.len()] }
}

/// How far a point's square reaches: 12 thousandths of the picture.
fn point_reach(size: Size) -> u32 {
    (size.width.max(size.height) * 12 / 1000).max(3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HD: Size = Size { width: 1920, height: 1080 };

    fn boxed(y_min: f64, x_min: f64, y_max: f64, x_max: f64) -> Mark {
        Mark { shape: Shape::Box { y_min, x_min, y_max, x_max }, label: "cup".to_owned() }
    }

    #[test]
    fn boxes_are_sorted_scaled_and_kept_inside() {
        let drawn = place(&boxed(900.0, 500.0, 100.0, 250.0), 0, Grid::Thousandths, HD);
        assert_eq!(drawn.pixel_box, PixelBox { x_min: 480, y_min: 108, x_max: 960, y_max: 972 });
        let outside = place(&boxed(-50.0, -1e300, 2000.0, 1e300), 9, Grid::Thousandths, HD);
        assert_eq!(outside.pixel_box, PixelBox { x_min: 0, y_min: 0, x_max: 1919, y_max: 1079 });
        assert_eq!(outside.colour, COLOURS[1]);
    }

    #[test]
    fn pixels_stay_as_they_are() {
        let drawn = place(&boxed(1.0, 2.0, 30.0, 40.0), 0, Grid::Pixels, HD);
        assert_eq!(drawn.pixel_box, PixelBox { x_min: 2, y_min: 1, x_max: 40, y_max: 30 });
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        assert!(check(&[boxed(0.0, f64::NAN, 1.0, 1.0)]).is_err());
        assert!(check(&[Mark { shape: Shape::Point { x: f64::INFINITY, y: 0.0 }, label: String::new() }]).is_err());
    }

    proptest! {
        #[test]
        fn every_mark_lies_inside(x in -2e4..2e4_f64, y in -2e4..2e4_f64, width in 1_u32..5000, height in 1_u32..5000) {
            let size = Size { width, height };
            let mark = Mark { shape: Shape::Point { x, y }, label: String::new() };
            let PixelBox { x_min, y_min, x_max, y_max } = place(&mark, 0, Grid::Thousandths, size).pixel_box;
            prop_assert!(x_min <= x_max && x_max < width && y_min <= y_max && y_max < height);
        }
    }
}
