//! Still pictures: the read of one from disk, and the encoding of what we drew.

use camino::{Utf8Path, Utf8PathBuf};
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, Rgb, RgbImage};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::error::MediaError;
use crate::media::Media;
use crate::probe::Size;
use crate::source;
use crate::workspace::Workspace;

/// Four bytes a pixel, twice over for the turn after decoding.
const BYTES_PER_PIXEL: u64 = 8;

/// How a still picture is handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageSpec {
    /// The longest side, in pixels; a smaller picture stays as it is.
    pub max_dim: Option<u32>,
    /// The JPEG quality from 1 to 100.
    pub jpeg_quality: u8,
}

/// A still picture as JPEG.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Picture {
    /// The JPEG file; the caller moves or deletes it.
    pub path: Utf8PathBuf,
    /// The width in pixels.
    pub width: u32,
    /// The height in pixels.
    pub height: u32,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
}

impl Media {
    /// Reads a PNG or JPEG by content, turns it upright by its own note, fits it and writes it as JPEG. What is transparent becomes white.
    ///
    /// # Errors
    ///
    /// When the file is no such picture, is damaged or larger than the pixel limit, cannot be read, or `stop` fires.
    pub async fn read_image(
        &self,
        path: &Utf8Path,
        spec: &ImageSpec,
        stop: &CancellationToken,
    ) -> Result<Picture, MediaError> {
        let found = source::resolve(path).await?;
        let max_pixels = self.config().max_pixels;
        let spec = *spec;
        let work = move || {
            let picture = decode(&found, max_pixels)?;
            encode(&fit(picture, spec.max_dim), spec.jpeg_quality)
        };
        let (jpeg, size) = blocking(work, stop).await?;
        self.save(jpeg, size, "picture.jpg").await
    }

    /// Writes a finished JPEG to a file of its own.
    pub(crate) async fn save(&self, jpeg: Vec<u8>, size: Size, name: &str) -> Result<Picture, MediaError> {
        let workspace = Workspace::new(&self.config().work_folder).await?;
        let size_bytes = u64::try_from(jpeg.len()).unwrap_or(u64::MAX);
        fs_err::tokio::write(workspace.file(name), jpeg).await.map_err(MediaError::file("write the picture"))?;
        let mut paths = workspace.hand_over(&[name.to_owned()]).await?;
        Ok(Picture { path: paths.remove(0), width: size.width, height: size.height, size_bytes })
    }
}

/// Runs work on pixels beside the async threads. A cancelled caller leaves at once; the work ends by itself, bounded by the pixel limit.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MediaError> + Send + 'static,
    stop: &CancellationToken,
) -> Result<T, MediaError> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(MediaError::Cancelled),
        done = tokio::task::spawn_blocking(work) => done.map_err(|_panic| MediaError::BrokeOff)?,
    }
}

/// Decodes by content, upright, with transparency on white.
pub(crate) fn decode(path: &Utf8Path, max_pixels: u64) -> Result<RgbImage, MediaError> {
    let bad = |reason: String| MediaError::BadPicture { path: path.to_owned(), reason };
    let file = fs_err::File::open(path).map_err(MediaError::file("open the picture"))?;
    let reader = ImageReader::new(std::io::BufReader::new(file))
        .with_guessed_format()
        .map_err(MediaError::file("read the picture"))?;
    let mut decoder = reader.into_decoder().map_err(|error| bad(error.to_string()))?;
    let (width, height) = decoder.dimensions();
    let size = Size { width, height };
    if size.pixels() > max_pixels {
        return Err(bad(format!("it is {size}, over the limit of {max_pixels} pixels: scale it down first")));
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(max_pixels.saturating_mul(BYTES_PER_PIXEL));
    decoder.set_limits(limits).map_err(|error| bad(error.to_string()))?;
    let orientation = decoder.orientation().map_err(|error| bad(error.to_string()))?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(|error| bad(error.to_string()))?;
    picture.apply_orientation(orientation);
    Ok(on_white(picture))
}

fn on_white(picture: DynamicImage) -> RgbImage {
    if !picture.color().has_alpha() {
        return picture.into_rgb8();
    }
    let mixed = picture.into_rgba8();
    RgbImage::from_fn(mixed.width(), mixed.height(), |x, y| {
        let [red, green, blue, alpha] = mixed.get_pixel(x, y).0;
        let over = |part: u8| {
            let (part, alpha) = (u16::from(part), u16::from(alpha));
            u8::try_from((part * alpha + 255 * (255 - alpha) + 127) / 255).unwrap_or(u8::MAX)
        };
        Rgb([over(red), over(green), over(blue)])
    })
}

fn fit(picture: RgbImage, max_dim: Option<u32>) -> RgbImage {
    let size = Size { width: picture.width(), height: picture.height() };
    let fitted = size.fit(max_dim);
    if fitted == size {
        picture
    } else {
        image::imageops::resize(&picture, fitted.width, fitted.height, FilterType::CatmullRom)
    }
}

/// The picture as JPEG, and its size.
pub(crate) fn encode(picture: &RgbImage, quality: u8) -> Result<(Vec<u8>, Size), MediaError> {
    let mut jpeg = Vec::new();
    JpegEncoder::new_with_quality(&mut jpeg, quality.clamp(1, 100))
        .encode_image(picture)
        .map_err(|error| MediaError::BadPicture { path: "the drawn picture".into(), reason: error.to_string() })?;
    Ok((jpeg, Size { width: picture.width(), height: picture.height() }))
}
