//! Pictures that a clip does not need are not decoded, and nothing that is delivered changes by it.

use ambient_media::{Frames, FramesSpec, MediaTime, Pick, Rate};
use anyhow::{Context, Result, ensure};
use camino::Utf8Path;

use crate::film::{Film, Room, run, with_script, words};
use crate::judge::Truth;
use crate::kinds::truth;

/// A room in which each call of ffmpeg is written down.
fn room() -> Result<Room> {
    with_script("echo \"$*\" >> \"$ROOM/calls\"\nexec \"$FFMPEG\" \"$@\"", |_config| {})
}

fn was_thinned(room: &Room) -> Result<bool> {
    let calls = std::fs::read_to_string(room.folder.join("calls"))?;
    std::fs::remove_file(room.folder.join("calls"))?;
    Ok(calls.contains("file:thinned.mp4"))
}

/// The sum of each picture of a clip.
fn sums(path: &Utf8Path) -> Result<Vec<String>> {
    let input = format!("file:{path}");
    let args = ["-v", "error", "-i", &input, "-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-"];
    let listed = String::from_utf8(run("ffmpeg", &words(&args), Vec::new())?.stdout)?;
    let lines = listed.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| Ok(line.rsplit(',').next().context("a sum")?.trim().to_owned())).collect()
}

/// The same stream in a container that is not sorted out.
fn stored_otherwise(room: &Room, truth: &Truth) -> Result<Truth> {
    let (from, to) = (room.folder.join(truth.name), room.folder.join("whole.mkv"));
    run("ffmpeg", &words(&["-v", "error", "-y", "-i", from.as_str(), "-c", "copy", to.as_str()]), Vec::new())?;
    Ok(Truth { name: "whole.mkv", tolerance_millis: 1.0, ..truth.clone() })
}

/// Films of one kind, made with these words for the encoder: cut from a thinned source and from a whole one, clips are the same bit for bit.
async fn is_the_same(args: &[&'static str], may_be_whole: bool) -> Result<()> {
    let x264 = ["-c:v", "libx264", "-preset", "veryfast", "-crf", "24", "-pix_fmt", "yuv420p"];
    let aac = ["-c:a", "aac", "-b:a", "32k"];
    let room = room()?;
    let film = Film::new(91, "25", 250).coded(&x264, &aac, args);
    film.make(&room.folder.join("film.mp4"))?;
    let truth = truth("film.mp4", &film);
    // The last step of the first window shows a picture with others behind it, that of the second one the last picture of all.
    for (start, end) in [(0, 10_000), (1_960, 10_000)] {
        let told = || format!("{start}-{end}");
        let (clip, seen) = room.cut(&truth, start, end, Rate::new(2, 1)).await.with_context(told)?;
        ensure!(was_thinned(&room)? || may_be_whole, "{}: was decoded whole", told());
        let other = stored_otherwise(&room, &truth)?;
        let (whole, expected) = room.cut(&other, start, end, Rate::new(2, 1)).await.with_context(told)?;
        ensure!(!was_thinned(&room)?, "the other way is the other way");
        ensure!(seen.codes() == expected.codes(), "{}: {:?}", told(), seen.codes());
        ensure!(sums(&clip.path)? == sums(&whole.path)?, "{}: pictures differ", told());
        ensure!(seen.difference(&expected, 0.2, 4.0) < 0.05, "{}: the sound differs", told());
        ensure!((clip.start, clip.end, clip.source_pictures) == (whole.start, whole.end, whole.source_pictures));
    }
    Ok(())
}

#[tokio::test]
async fn a_pyramid_of_reordered_pictures_stays_as_it_is() -> Result<()> {
    is_the_same(&["-g", "250"], false).await
}

#[tokio::test]
async fn short_groups_stay_as_they_are() -> Result<()> {
    is_the_same(&["-g", "25"], false).await
}

#[tokio::test]
async fn open_groups_stay_as_they_are() -> Result<()> {
    // A window that begins inside of an open group may need pictures of the one before, and is then decoded whole.
    is_the_same(&["-x264-params", "open-gop=1:keyint=30:b-adapt=0:scenecut=0"], true).await
}

#[tokio::test]
async fn pictures_in_their_order_stay_as_they_are() -> Result<()> {
    is_the_same(&["-bf", "0", "-g", "60"], false).await
}

#[tokio::test]
async fn fragments_stay_as_they_are() -> Result<()> {
    is_the_same(&["-g", "50", "-movflags", "frag_keyframe+empty_moov"], false).await
}

#[tokio::test]
async fn pictures_shown_earlier_than_decoded_stay_as_they_are() -> Result<()> {
    is_the_same(&["-g", "50", "-movflags", "negative_cts_offsets", "-output_ts_offset", "0.7"], false).await
}

#[tokio::test]
async fn turned_pictures_stay_turned() -> Result<()> {
    let room = room()?;
    let film = Film::new(92, "25", 200).h264(&["-metadata:s:v:0", "rotate=180", "-vf", "hflip,vflip"]);
    film.make(&room.folder.join("turned.mp4"))?;
    room.samples(&truth("turned.mp4", &film), 0, 8_000, 2).await?;
    ensure!(was_thinned(&room)?, "was decoded whole");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_sorted_out_is_decoded_whole() -> Result<()> {
    let kinds: [(&str, Film); 2] = [
        ("other.mp4", Film::new(93, "25", 200).coded(&["-c:v", "mpeg4", "-q:v", "3"], &["-c:a", "aac"], &[])),
        ("slow.mp4", Film::new(94, "5", 100).h264(&[])),
    ];
    for (name, film) in kinds {
        let room = room()?;
        film.make(&room.folder.join(name))?;
        room.samples(&truth(name, &film), 0, 8_000, 2).await.with_context(|| name.to_owned())?;
        ensure!(!was_thinned(&room)?, "{name} was thinned");
    }
    Ok(())
}

#[tokio::test]
async fn frames_far_behind_a_key_frame_are_the_same() -> Result<()> {
    let room = room()?;
    let film = Film::new(95, "25", 250).h264(&["-g", "250", "-bf", "2"]);
    film.make(&room.folder.join("film.mp4"))?;
    let truth = truth("film.mp4", &film);
    let other = stored_otherwise(&room, &truth)?;
    for at in [4_010, 9_960] {
        let spec = FramesSpec { pick: Pick::Times(vec![MediaTime::from_millis(at)]), max_dim: None, jpeg_quality: 85 };
        let taken = room.media.frames(&room.source(truth.name), &spec, &room.stop).await?;
        ensure!(was_thinned(&room)?, "{at}: was decoded whole");
        let whole = room.media.frames(&room.source(other.name), &spec, &room.stop).await?;
        ensure!(!was_thinned(&room)?, "the other way is the other way");
        let bytes = |frames: &Frames| std::fs::read(&frames.frames[0].path);
        ensure!(bytes(&taken)? == bytes(&whole)?, "{at}: pictures differ");
        ensure!(taken.frames[0].timestamp.since(whole.frames[0].timestamp).as_millis() <= 1, "{at}: {taken:?}");
    }
    Ok(())
}
