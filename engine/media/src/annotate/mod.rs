//! Boxes and points with labels on a picture, so that a model can check what it saw and a person can see it.

mod draw;
mod marks;

use camino::Utf8PathBuf;
use image::RgbImage;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub use self::marks::{DrawnMark, Grid, Mark, PixelBox, Shape};

use crate::error::MediaError;
use crate::image_file::{blocking, decode, encode};
use crate::media::Media;
use crate::probe::Size;
use crate::source::Source;
use crate::time::MediaTime;
use crate::workspace::Workspace;

/// Which picture of a video, and what to draw on it.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotateSpec {
    /// The moment whose picture is taken.
    pub at: MediaTime,
    /// What to draw, in this order.
    pub marks: Vec<Mark>,
    /// What the numbers in `marks` count.
    pub grid: Grid,
    /// The longest side, in pixels; a smaller picture stays as it is. `None` keeps the size on screen.
    pub max_dim: Option<u32>,
    /// The JPEG quality from 1 to 100.
    pub jpeg_quality: u8,
}

/// A picture with marks on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Annotated {
    /// The JPEG file; the caller moves or deletes it.
    pub path: Utf8PathBuf,
    /// When the picture really begins.
    pub timestamp: MediaTime,
    /// Whether there is no picture at the asked moment, so that the first or last one stands in.
    pub clamped: bool,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// What was drawn where, in the order of the request.
    pub marks: Vec<DrawnMark>,
}

/// A JPEG with marks on it, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnJpeg {
    /// The JPEG.
    pub jpeg: Vec<u8>,
    /// Its size in pixels.
    pub size: Size,
    /// What was drawn where, in the order of the request.
    pub marks: Vec<DrawnMark>,
}

impl Media {
    /// Takes the picture at a moment and draws on it.
    ///
    /// # Errors
    ///
    /// When a mark has numbers that are none, and for all reasons of [`Media::frames`].
    pub async fn annotate(
        &self,
        source: &Source,
        spec: &AnnotateSpec,
        stop: &CancellationToken,
    ) -> Result<Annotated, MediaError> {
        marks::check(&spec.marks)?;
        let facts = self.facts(source, stop).await?;
        let workspace = Workspace::new(&self.config().work_folder).await?;
        let (still, timestamp, clamped) = self.still(&facts, spec.at, spec.max_dim, &workspace, stop).await?;
        let (marks, grid, quality, max_pixels) =
            (spec.marks.clone(), spec.grid, spec.jpeg_quality, self.config().max_pixels);
        let work = move || draw_on(decode(&still, max_pixels)?, &marks, grid, quality);
        let drawn = blocking(work, stop).await?;
        let saved = self.save(drawn.jpeg, drawn.size, "annotated.jpg").await?;
        drop(workspace);
        Ok(Annotated {
            path: saved.path,
            timestamp,
            clamped,
            width: saved.width,
            height: saved.height,
            size_bytes: saved.size_bytes,
            marks: drawn.marks,
        })
    }
}

/// Draws marks on a JPEG or PNG in memory. Takes some milliseconds of processor time: call it beside the async threads.
///
/// # Errors
///
/// When the bytes are no picture, or a mark has numbers that are none.
pub fn draw_on_jpeg(picture: &[u8], marks: &[Mark], grid: Grid, jpeg_quality: u8) -> Result<DrawnJpeg, MediaError> {
    marks::check(marks)?;
    let decoded = image::load_from_memory(picture)
        .map_err(|error| MediaError::BadPicture { path: "the given picture".into(), reason: error.to_string() })?;
    draw_on(decoded.into_rgb8(), marks, grid, jpeg_quality)
}

fn draw_on(mut picture: RgbImage, marks: &[Mark], grid: Grid, jpeg_quality: u8) -> Result<DrawnJpeg, MediaError> {
    let size = Size { width: picture.width(), height: picture.height() };
    let placed: Vec<DrawnMark> =
        marks.iter().enumerate().map(|(number, mark)| marks::place(mark, number, grid, size)).collect();
    draw::draw(&mut picture, &placed);
    let (jpeg, size) = encode(&picture, jpeg_quality)?;
    Ok(DrawnJpeg { jpeg, size, marks: placed })
}
