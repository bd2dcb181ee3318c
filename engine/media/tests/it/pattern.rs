//! The picture that tells its own time, and the eye that reads it.
//!
//! A picture is a grid of 10 x 8 cells. The outer ring has one of six colours, by the whole second. The inner 8 x 6 cells are black or white,
//! row by row: a finder row that tells black from white and which way up the picture is; 24 bits of milliseconds; 8 bits of checksum; 8
//! bits of file number.

use image::RgbImage;

pub(crate) const COLUMNS: u32 = 10;
pub(crate) const ROWS: u32 = 8;
const FINDER: [bool; 8] = [true, false, true, false, true, true, false, false];
pub(crate) const RING: [[u8; 3]; 6] =
    [[220, 40, 40], [40, 180, 40], [60, 80, 230], [220, 210, 40], [210, 50, 210], [40, 200, 210]];

/// What a picture says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) millis: u32,
    pub(crate) file: u8,
    /// How far the picture is turned clockwise from upright, in degrees.
    pub(crate) turn: u16,
    /// The brightness of its white cells.
    pub(crate) white: u32,
    pub(crate) ring: [u8; 3],
}

/// CRC-8, polynomial 7.
fn checksum(bytes: [u8; 4]) -> u8 {
    bytes.into_iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ byte, |sum, _bit| if sum & 0x80 == 0 { sum << 1 } else { (sum << 1) ^ 7 })
    })
}

fn cells(millis: u32, file: u8) -> Vec<bool> {
    let [_, high, middle, low] = millis.to_be_bytes();
    let bytes = [high, middle, low, checksum([high, middle, low, file]), file];
    let bits = bytes.into_iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1));
    FINDER.into_iter().chain(bits).collect()
}

/// One picture as rows of red, green and blue.
pub(crate) fn render(width: u32, height: u32, millis: u32, file: u8, white: u8) -> Vec<u8> {
    let cells = cells(millis, file);
    let ring = RING[(millis / 1000 % 6) as usize];
    let mut pixels = Vec::with_capacity((width * height * 3) as usize);
    for y in 0..height {
        let row = y * ROWS / height;
        for x in 0..width {
            let column = x * COLUMNS / width;
            let inner = (1..COLUMNS - 1).contains(&column) && (1..ROWS - 1).contains(&row);
            let is_white = inner && cells[((row - 1) * 8 + column - 1) as usize];
            pixels.extend(match (inner, is_white) {
                (false, _) => ring,
                (true, true) => [white; 3],
                (true, false) => [0; 3],
            });
        }
    }
    pixels
}

/// Reads a picture of any size, whichever way up it lies; `None` if it is no such picture, or a mix of two.
pub(crate) fn read(picture: &RgbImage) -> Option<Reading> {
    [0, 90, 180, 270].into_iter().find_map(|turn| read_turned(picture, turn))
}

fn read_turned(picture: &RgbImage, turn: u16) -> Option<Reading> {
    let at = |u: f64, v: f64| {
        let (u, v) = match turn {
            90 => (1.0 - v, u),
            180 => (1.0 - u, 1.0 - v),
            270 => (v, 1.0 - u),
            _ => (u, v),
        };
        let place = |share: f64, side: u32| ((share * f64::from(side)) as u32).min(side - 1);
        picture.get_pixel(place(u, picture.width()), place(v, picture.height())).0
    };
    let brightness = |column: u32, row: u32| {
        let spots = [(0.4, 0.4), (0.5, 0.5), (0.6, 0.6), (0.4, 0.6), (0.6, 0.4)];
        let sum: u32 = spots
            .into_iter()
            .map(|(x, y)| {
                let [red, green, blue] =
                    at((f64::from(column) + x) / f64::from(COLUMNS), (f64::from(row) + y) / f64::from(ROWS));
                (u32::from(red) * 299 + u32::from(green) * 587 + u32::from(blue) * 114) / 1000
            })
            .sum();
        sum / 5
    };
    let finder: Vec<u32> = (0..8).map(|column| brightness(column + 1, 1)).collect();
    let side = |wanted: bool| finder.iter().zip(FINDER).filter(move |(_, bit)| *bit == wanted).map(|(value, _)| *value);
    let (white, black) = (side(true).min()?, side(false).max()?);
    if white < black + 24 {
        return None;
    }
    let threshold = u32::midpoint(white, black);
    let mut bytes = [0_u8; 5];
    for (number, byte) in bytes.iter_mut().enumerate() {
        for column in 0..8 {
            *byte = *byte << 1 | u8::from(brightness(column + 1, number as u32 + 2) > threshold);
        }
    }
    let [high, middle, low, sum, file] = bytes;
    (checksum([high, middle, low, file]) == sum).then(|| Reading {
        millis: u32::from_be_bytes([0, high, middle, low]),
        file,
        turn,
        white: side(true).sum::<u32>() / 4,
        ring: at(0.05, 0.5),
    })
}

#[test]
fn what_is_rendered_is_read() {
    for (width, height, millis) in [(160, 120, 0), (321, 181, 1_234_567), (90, 72, 16_777_215)] {
        let picture = RgbImage::from_raw(width, height, render(width, height, millis, 42, 255)).unwrap();
        let reading = read(&picture).unwrap();
        assert_eq!((reading.millis, reading.file, reading.turn), (millis, 42, 0));
        let turned = read(&image::imageops::rotate90(&picture)).unwrap();
        assert_eq!((turned.millis, turned.turn), (millis, 90));
    }
}

#[test]
fn a_mix_of_two_pictures_is_not_read() {
    let [one, two] = [1005, 2010].map(|millis| render(160, 120, millis, 1, 255));
    let mixed = one.iter().zip(&two).map(|(one, two)| u8::midpoint(*one, *two)).collect();
    assert_eq!(read(&RgbImage::from_raw(160, 120, mixed).unwrap()).map(|reading| reading.millis), None);
}
