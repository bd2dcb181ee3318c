//! Pixels of marks: outlines, crosses and label bars, sized by the picture.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, Glyph, PxScale, ScaleFont, point};
use image::{Rgb, RgbImage};

use super::marks::{DrawnMark, PixelBox};

/// `DejaVu` Sans, cut down to Latin, Greek, Cyrillic and common signs; its licence lies beside it.
static FONT: LazyLock<FontRef<'static>> = LazyLock::new(|| {
    FontRef::try_from_slice(include_bytes!("../../fonts/DejaVuSans-subset.ttf")).expect("the embedded font is whole")
});

/// Labels longer than this, in characters, are cut with an ellipsis.
const LONGEST_LABEL: usize = 60;

pub(super) fn draw(picture: &mut RgbImage, marks: &[DrawnMark]) {
    let longest = picture.width().max(picture.height());
    let line = (longest / 320).max(2);
    // Labels come last, so that no outline crosses a text.
    for mark in marks {
        let colour = Rgb(mark.colour);
        match mark.pixel_point {
            None => outline(picture, mark.pixel_box, line, colour),
            Some([x, y]) => cross(picture, mark.pixel_box, x, y, line, colour),
        }
    }
    for mark in marks.iter().filter(|mark| !mark.label.trim().is_empty()) {
        label(picture, mark, line);
    }
}

fn fill(picture: &mut RgbImage, left: u32, top: u32, right: u32, bottom: u32, colour: Rgb<u8>) {
    for y in top..bottom.min(picture.height()) {
        for x in left..right.min(picture.width()) {
            picture.put_pixel(x, y, colour);
        }
    }
}

/// The frame lies inside of the box, so that it never leaves the picture.
fn outline(picture: &mut RgbImage, edges: PixelBox, line: u32, colour: Rgb<u8>) {
    let PixelBox { x_min, y_min, x_max, y_max } = edges;
    let (right, bottom) = (x_max + 1, y_max + 1);
    let (inner_left, inner_right) = ((x_min + line).min(right), right.saturating_sub(line).max(x_min));
    fill(picture, x_min, y_min, right, (y_min + line).min(bottom), colour);
    fill(picture, x_min, bottom.saturating_sub(line).max(y_min), right, bottom, colour);
    fill(picture, x_min, y_min, inner_left, bottom, colour);
    fill(picture, inner_right, y_min, right, bottom, colour);
}

/// A ring around the point and a cross through it, with a white rim against pictures of the same colour.
fn cross(picture: &mut RgbImage, square: PixelBox, x: u32, y: u32, line: u32, colour: Rgb<u8>) {
    let rim = Rgb([255, 255, 255]);
    let half = line / 2;
    for (extra, ink) in [(1, rim), (0, colour)] {
        let reach = half + extra;
        fill(picture, square.x_min, y.saturating_sub(reach), square.x_max + 1, y + reach + 1, ink);
        fill(picture, x.saturating_sub(reach), square.y_min, x + reach + 1, square.y_max + 1, ink);
    }
    outline(picture, square, half.max(1), colour);
}

/// A bar in the mark's colour above its box, or inside where there is no room above.
fn label(picture: &mut RgbImage, mark: &DrawnMark, line: u32) {
    let text = shortened(&mark.label);
    let height = (picture.width().max(picture.height()) / 50).max(13);
    let glyphs = layout(&text, height);
    let padding = line + 1;
    let bar_width = (glyphs.width + 2 * padding).min(picture.width());
    let bar_height = (height + 2 * padding).min(picture.height());
    let left = mark.pixel_box.x_min.min(picture.width() - bar_width);
    let top = mark
        .pixel_box
        .y_min
        .checked_sub(bar_height)
        .unwrap_or_else(|| mark.pixel_box.y_min.min(picture.height() - bar_height));
    fill(picture, left, top, left + bar_width, top + bar_height, Rgb(mark.colour));
    let ink = if brightness(mark.colour) > 140 { [0, 0, 0] } else { [255, 255, 255] };
    write(picture, &glyphs, left + padding, top + padding, left + bar_width, ink);
}

/// One line of text, whatever the label holds.
fn shortened(label: &str) -> String {
    let line: String = label.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LONGEST_LABEL {
        return line;
    }
    line.chars().take(LONGEST_LABEL - 1).chain(['…']).collect()
}

fn brightness([red, green, blue]: [u8; 3]) -> u32 {
    (u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114) / 1000
}

struct Layout {
    glyphs: Vec<Glyph>,
    width: u32,
}

fn layout(text: &str, height: u32) -> Layout {
    #[expect(clippy::cast_precision_loss, reason = "a text height of some pixels")]
    let font = FONT.as_scaled(PxScale::from(height as f32));
    let mut across = 0.0;
    let mut glyphs: Vec<Glyph> = Vec::new();
    for character in text.chars() {
        let mut glyph = font.scaled_glyph(character);
        if let Some(before) = glyphs.last() {
            across += font.kern(before.id, glyph.id);
        }
        glyph.position = point(across, font.ascent());
        across += font.h_advance(glyph.id);
        glyphs.push(glyph);
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some sixty characters of some pixels each"
    )]
    let width = across.ceil() as u32;
    Layout { glyphs, width }
}

fn write(picture: &mut RgbImage, layout: &Layout, left: u32, top: u32, right: u32, ink: [u8; 3]) {
    for glyph in &layout.glyphs {
        let Some(outlined) = FONT.outline_glyph(glyph.clone()) else { continue };
        let bounds = outlined.px_bounds();
        #[expect(clippy::cast_possible_truncation, reason = "a place inside of one line of text")]
        let (glyph_left, glyph_top) = (bounds.min.x as i64, bounds.min.y as i64);
        outlined.draw(|x, y, coverage| {
            let column = u32::try_from(i64::from(left) + glyph_left + i64::from(x));
            let row = u32::try_from(i64::from(top) + glyph_top + i64::from(y));
            let (Ok(column), Ok(row)) = (column, row) else { return };
            if column >= right || column >= picture.width() || row >= picture.height() {
                return;
            }
            let pixel = picture.get_pixel_mut(column, row);
            for (channel, ink) in pixel.0.iter_mut().zip(ink) {
                let mixed = f32::from(*channel) + (f32::from(ink) - f32::from(*channel)) * coverage.clamp(0.0, 1.0);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between two bytes")]
                {
                    *channel = mixed.round() as u8;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotate::marks::{Grid, Mark, Shape, place};
    use crate::probe::Size;

    fn drawn(width: u32, height: u32, shape: Shape, label: &str) -> RgbImage {
        let mut picture = RgbImage::from_pixel(width, height, Rgb([10, 20, 30]));
        let mark = Mark { shape, label: label.to_owned() };
        draw(&mut picture, &[place(&mark, 0, Grid::Thousandths, Size { width, height })]);
        picture
    }

    const SHAPE: Shape = Shape::Box { y_min: 250.0, x_min: 250.0, y_max: 750.0, x_max: 750.0 };

    #[test]
    fn a_box_has_its_colour_on_the_edge_and_the_picture_inside() {
        let picture = drawn(400, 400, SHAPE, "");
        assert_eq!(picture.get_pixel(100, 200).0, [230, 25, 75]);
        assert_eq!(picture.get_pixel(300, 200).0, [230, 25, 75]);
        assert_eq!(picture.get_pixel(200, 200).0, [10, 20, 30]);
        assert_eq!(picture.get_pixel(50, 50).0, [10, 20, 30]);
    }

    #[test]
    fn a_label_is_written_in_readable_ink() {
        let picture = drawn(400, 400, SHAPE, "Cup Чашка κύπελλο");
        let white = picture
            .enumerate_pixels()
            .filter(|(x, y, pixel)| *x >= 100 && *y < 100 && pixel.0.iter().all(|&part| part > 200))
            .count();
        assert!(white > 60, "only {white} pixels of ink");
    }

    #[test]
    fn the_font_has_every_letter_of_the_scripts_it_promises() {
        for character in "AZaz09äßéñłčőΑΩαωАЯаяёЇ.,:;!?()[]%&#@/\"'+-–—…€°".chars() {
            assert_ne!(FONT.glyph_id(character).0, 0, "{character:?} is missing");
        }
    }

    #[test]
    fn tiny_pictures_and_endless_labels_do_no_harm() {
        for (width, height) in [(1, 1), (2, 300), (300, 2), (40, 40)] {
            drawn(width, height, SHAPE, &"endless label ".repeat(50));
            drawn(width, height, Shape::Point { x: 1000.0, y: 0.0 }, "p\nq\u{202e}🎬");
        }
    }
}
