//! Still pictures, and drawing on them.

use ambient_media::{AnnotateSpec, Grid, ImageSpec, Mark, MediaError, MediaTime, Shape, draw_on_jpeg};
use anyhow::Result;
use image::{Rgb, RgbImage, Rgba, RgbaImage};

use crate::film::{Film, Room};
use crate::pattern;

const SPEC: ImageSpec = ImageSpec { max_dim: Some(768), jpeg_quality: 90 };

fn cup() -> Mark {
    Mark { shape: Shape::Box { y_min: 800.0, x_min: 300.0, y_max: 400.0, x_max: 700.0 }, label: "cup".to_owned() }
}

#[tokio::test]
async fn a_frame_is_drawn_on() -> Result<()> {
    let room = Room::new()?;
    Film::new(1, "25", 100).sized(640, 480).h264(&[]).make(&room.folder.join("film.mp4"))?;
    let point = Mark { shape: Shape::Point { x: 500.0, y: 100.0 }, label: "point".to_owned() };
    let spec = AnnotateSpec {
        at: MediaTime::from_millis(2010),
        marks: vec![cup(), point],
        grid: Grid::Thousandths,
        max_dim: Some(320),
        jpeg_quality: 92,
    };
    let annotated = room.media.annotate(&room.source("film.mp4"), &spec, &room.stop).await?;
    assert_eq!((annotated.width, annotated.height, annotated.clamped), (320, 240, false));
    assert_eq!(annotated.timestamp, MediaTime::from_millis(2000));
    let edges = annotated.marks[0].pixel_box;
    assert_eq!((edges.x_min, edges.y_min, edges.x_max, edges.y_max), (96, 96, 224, 192));
    assert_eq!(annotated.marks[1].pixel_point, Some([160, 24]));
    let picture = image::open(&annotated.path)?.into_rgb8();
    let [red, green, blue] = picture.get_pixel(97, 150).0;
    assert!(red > 170 && green < 90 && blue < 130, "the edge is {red} {green} {blue}");
    assert_eq!(room.outputs()?.len(), 1, "only the picture is left");
    Ok(())
}

#[tokio::test]
async fn marks_without_numbers_and_moments_without_pictures_are_told() -> Result<()> {
    let room = Room::new()?;
    Film::new(2, "25", 50).h264(&[]).make(&room.folder.join("film.mp4"))?;
    let bad = Mark { shape: Shape::Point { x: f64::NAN, y: 0.0 }, label: "nowhere".to_owned() };
    let mut spec = AnnotateSpec {
        at: MediaTime::from_millis(90_000),
        marks: vec![bad],
        grid: Grid::Pixels,
        max_dim: None,
        jpeg_quality: 90,
    };
    let error = room.media.annotate(&room.source("film.mp4"), &spec, &room.stop).await.expect_err("no number");
    assert!(error.to_string().contains("`nowhere`"), "{error}");
    spec.marks = vec![cup()];
    let annotated = room.media.annotate(&room.source("film.mp4"), &spec, &room.stop).await?;
    assert!(annotated.clamped && annotated.timestamp == MediaTime::from_millis(1960), "{annotated:?}");
    Ok(())
}

#[tokio::test]
async fn pictures_are_read_by_content_and_fitted() -> Result<()> {
    let room = Room::new()?;
    let picture = RgbImage::from_raw(1600, 1200, pattern::render(1600, 1200, 4321, 7, 255)).expect("the size fits");
    picture.save_with_format(room.folder.join("picture.txt"), image::ImageFormat::Png)?;
    let read = room.media.read_image(&room.folder.join("picture.txt"), &SPEC, &room.stop).await?;
    assert_eq!((read.width, read.height), (768, 576));
    let reading = pattern::read(&image::open(&read.path)?.into_rgb8()).expect("readable");
    assert_eq!((reading.millis, reading.turn), (4321, 0));
    assert_eq!(read.size_bytes, read.path.metadata()?.len());
    Ok(())
}

#[tokio::test]
async fn what_is_transparent_becomes_white() -> Result<()> {
    let room = Room::new()?;
    RgbaImage::from_pixel(40, 30, Rgba([255, 0, 0, 0])).save(room.folder.join("clear.png"))?;
    let read = room.media.read_image(&room.folder.join("clear.png"), &SPEC, &room.stop).await?;
    let picture = image::open(&read.path)?.into_rgb8();
    assert_eq!((picture.width(), picture.height()), (40, 30));
    assert!(picture.get_pixel(20, 15).0.iter().all(|&part| part > 250));
    Ok(())
}

#[tokio::test]
async fn a_photo_is_turned_upright_by_its_own_note() -> Result<()> {
    let room = Room::new()?;
    let upright = RgbImage::from_raw(300, 400, pattern::render(300, 400, 999, 8, 255)).expect("the size fits");
    let lying = image::imageops::rotate270(&upright);
    let mut jpeg = Vec::new();
    image::codecs::jpeg::JpegEncoder::new_with_quality(&mut jpeg, 95).encode_image(&lying)?;
    // An EXIF block with one entry: orientation (0x0112), a short, 6 = to be turned by 90 degrees clockwise.
    let tiff = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    let length = u16::try_from(2 + 6 + tiff.len())?.to_be_bytes();
    let block = [&b"\xff\xe1"[..], &length, b"Exif\0\0", tiff].concat();
    jpeg.splice(2..2, block);
    std::fs::write(room.folder.join("photo.jpg"), jpeg)?;
    let read = room.media.read_image(&room.folder.join("photo.jpg"), &SPEC, &room.stop).await?;
    let reading = pattern::read(&image::open(&read.path)?.into_rgb8()).expect("readable");
    assert_eq!((reading.millis, reading.turn, read.width, read.height), (999, 0, 300, 400));
    Ok(())
}

#[tokio::test]
async fn what_is_no_picture_is_told_and_leaves_nothing() -> Result<()> {
    let room = Room::with(|config| config.max_pixels = 100 * 100)?;
    std::fs::write(room.folder.join("text.png"), "no picture")?;
    RgbImage::from_pixel(101, 100, Rgb([1, 2, 3])).save(room.folder.join("large.png"))?;
    std::fs::write(room.folder.join("broken.png"), &std::fs::read(room.folder.join("large.png"))?[..60])?;
    for (name, word) in [
        ("text.png", "could not read the picture"),
        ("large.png", "over the limit"),
        ("broken.png", "could not read"),
        ("none.png", "could not find"),
    ] {
        let error = room.media.read_image(&room.folder.join(name), &SPEC, &room.stop).await.expect_err(name);
        assert!(error.to_string().contains(word), "{name}: {error}");
    }
    assert_eq!(room.outputs()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_picture_in_memory_is_drawn_on() -> Result<()> {
    let mut jpeg = Vec::new();
    let picture = RgbImage::from_pixel(200, 100, Rgb([20, 20, 20]));
    image::codecs::jpeg::JpegEncoder::new_with_quality(&mut jpeg, 95).encode_image(&picture)?;
    let drawn = draw_on_jpeg(&jpeg, &[cup()], Grid::Steps(1000), 95)?;
    assert_eq!((drawn.size.width, drawn.size.height), (200, 100));
    let [red, ..] = image::load_from_memory(&drawn.jpeg)?.into_rgb8().get_pixel(61, 60).0;
    assert!(red > 150, "the edge is {red}");
    assert!(matches!(draw_on_jpeg(b"text", &[], Grid::Pixels, 90), Err(MediaError::BadPicture { .. })));
    Ok(())
}
