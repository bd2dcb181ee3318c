//! Large files: only the stretches that are asked for are looked at, those of pictures far apart together.

use std::io::{Seek, SeekFrom, Write};

use anyhow::Result;
use camino::Utf8Path;

use crate::film::{Film, Room};
use crate::kinds::truth;

/// More than is read whole.
const PADDING_BYTES: u32 = 80 << 20;

/// Puts a box behind the film that players pass over; it takes no room on the disk.
fn pad(path: &Utf8Path) -> Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    file.write_all(&PADDING_BYTES.to_be_bytes())?;
    file.write_all(b"free")?;
    file.set_len(length + u64::from(PADDING_BYTES))?;
    Ok(())
}

async fn shows_what_it_should(name: &'static str, film: Film) -> Result<()> {
    let room = Room::new()?;
    film.make(&room.folder.join(name))?;
    pad(&room.folder.join(name))?;
    let truth = truth(name, &film);
    // The first ones share what was listed, the last two do not; one stands alone; the last picture of all is among them.
    room.shows(&truth, &[40, 2_900, 5_990, 9_010, 9_100, 17_330, 19_990]).await?;
    room.shows(&truth, &[12_345]).await?;
    room.samples(&truth, 3_300, 9_300, 2).await
}

#[tokio::test]
async fn reordered_pictures_far_apart_are_found() -> Result<()> {
    shows_what_it_should("large.mp4", Film::new(96, "25", 500).h264(&["-g", "100", "-bf", "2"])).await
}

#[tokio::test]
async fn open_groups_far_apart_are_found() -> Result<()> {
    let args = ["-x264-params", "open-gop=1:keyint=40:b-adapt=0:scenecut=0", "-bf", "3"];
    shows_what_it_should("open.mp4", Film::new(97, "25", 500).h264(&args)).await
}

#[tokio::test]
async fn pictures_that_stay_for_seconds_are_found_far_apart() -> Result<()> {
    shows_what_it_should("slow.mp4", Film::new(98, "1/2", 10).h264(&["-g", "3"])).await
}
