//! Every kind of file that people bring, each with exact time.

use ambient_media::{MediaError, Pick, Rate};
use anyhow::Result;

use crate::film::{Film, Room, run, words};
use crate::judge::Truth;

const X264: [&str; 8] = ["-c:v", "libx264", "-preset", "ultrafast", "-crf", "24", "-pix_fmt", "yuv420p"];
const VP8: [&str; 10] =
    ["-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "150k", "-pix_fmt", "yuv420p"];
const VP9: [&str; 10] =
    ["-c:v", "libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "150k", "-pix_fmt", "yuv420p"];
const OPUS: [&str; 4] = ["-c:a", "libopus", "-b:a", "24k"];
const MP2: [&str; 4] = ["-c:a", "mp2", "-b:a", "64k"];
const AAC: [&str; 4] = ["-c:a", "aac", "-b:a", "32k"];

fn truth(name: &'static str, film: &Film) -> Truth {
    let codes = film.codes.clone();
    let one = codes.get(1).map_or(40, |second| second - codes[0]);
    Truth {
        name,
        file: film.file,
        offset: 0,
        end: codes[codes.len() - 1] + one,
        width: film.width,
        height: film.height,
        has_audio: film.sound_seconds > 0,
        tolerance_millis: 1.0,
        codes,
    }
}

fn made(name: &'static str, film: &Film) -> Result<(Room, Truth)> {
    let room = Room::new()?;
    film.make(&room.folder.join(name))?;
    Ok((room, truth(name, film)))
}

/// The whole set of questions for a file of about six seconds.
async fn is_exact(room: &Room, truth: &Truth) -> Result<()> {
    room.probed(truth).await?;
    let last_moment = truth.end - 5;
    room.shows(truth, &[0, 1480, 3333, 4010, last_moment]).await?;
    room.cuts(truth, 1330, 3010).await?;
    room.cuts(truth, truth.end - 900, truth.end).await?;
    room.samples(truth, 2222, 5050, 2).await?;
    Ok(())
}

#[tokio::test]
async fn plain() -> Result<()> {
    let (room, truth) = made("plain.mp4", &Film::new(1, "30", 180).h264(&["-g", "30"]))?;
    is_exact(&room, &truth).await?;
    // The first and the last picture, and the very edges of one.
    room.shows(&truth, &[0, 33, 34, 66, 67, 100, 5967, 5999]).await
}

#[tokio::test]
async fn one_key_frame_and_reordered_pictures() -> Result<()> {
    let film = Film::new(2, "25", 150).coded(&X264, &AAC, &["-bf", "3", "-g", "1000"]);
    let (room, truth) = made("one.mp4", &film)?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn open_groups_of_pictures() -> Result<()> {
    let film = Film::new(3, "25", 150).coded(
        &X264,
        &AAC,
        &["-bf", "3", "-g", "20", "-x264-params", "open-gop=1:b-adapt=0:scenecut=0"],
    );
    let (room, truth) = made("open.mkv", &film)?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn turned_by_a_phone() -> Result<()> {
    for (turn, filter) in [("90", "transpose=clock"), ("180", "hflip,vflip"), ("270", "transpose=cclock")] {
        let film = Film::new(4, "25", 100).sized(120, 160).h264(&["-vf", filter, "-g", "25"]);
        let (room, truth) = made("stored.mp4", &film)?;
        let turned = Truth { name: "turned.mp4", ..truth };
        let rotate = format!("rotate={turn}");
        let (from, to) = (room.folder.join("stored.mp4"), room.folder.join("turned.mp4"));
        run(
            "ffmpeg",
            &words(&["-v", "error", "-i", from.as_str(), "-c", "copy", "-metadata:s:v:0", &rotate, to.as_str()]),
            Vec::new(),
        )?;
        let probe = room.probed(&turned).await?;
        assert_ne!(probe.video.map(|video| video.rotation), Some(0));
        room.shows(&turned, &[0, 1500, 3990]).await?;
        room.cuts(&turned, 1000, 2500).await?;
    }
    Ok(())
}

#[tokio::test]
async fn gaps_and_uneven_rates() -> Result<()> {
    let mut film = Film::new(5, "20", 160);
    let keep = |code: &u32| *code < 2000 || (4500..6000).contains(code) && code.is_multiple_of(250) || *code >= 6000;
    film = film.h264(&[
        "-vf",
        r"select=lt(t\,1.99)+between(t\,4.49\,5.99)*not(mod(n\,5))+gte(t\,5.99)",
        "-fps_mode",
        "vfr",
        "-g",
        "400",
    ]);
    let (room, truth) = made("gaps.mp4", &film)?;
    let truth = Truth { codes: truth.codes.into_iter().filter(keep).collect(), ..truth };
    room.probed(&truth).await?;
    // Inside of the gap the picture of 1950 ms is on screen.
    room.shows(&truth, &[0, 1949, 1950, 3000, 4499, 4500, 5100, 7500]).await?;
    room.cuts(&truth, 1000, 5000).await?;
    room.cuts(&truth, 3000, 7000).await?;
    room.samples(&truth, 1000, 7000, 4).await?;
    // No picture begins between 2500 and 4000: the one on screen is held, and what comes later is not shown.
    let (clip, watched) = room.cut(&truth, 2500, 4000, None).await?;
    assert!(clip.held, "{clip:?}");
    assert_eq!(watched.codes(), [1950; 8], "five pictures a second over 1.5 s");
    Ok(())
}

#[tokio::test]
async fn odd_sizes() -> Result<()> {
    let film = Film::new(6, "15", 90).sized(161, 121).coded(&VP9, &OPUS, &["-g", "30"]);
    let (room, truth) = made("odd.webm", &film)?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn no_sound() -> Result<()> {
    let (room, truth) = made("silent.mp4", &Film::new(7, "25", 150).sound(0).h264(&[]))?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn sound_only_is_refused() -> Result<()> {
    let room = Room::new()?;
    for name in ["song.m4a", "song.mp3", "song.wav", "song.ogg", "song.mka"] {
        let path = room.folder.join(name);
        run("ffmpeg", &words(&["-v", "error", "-f", "lavfi", "-i", "sine=d=2", path.as_str()]), Vec::new())?;
        refused(&room, name, "sound only").await?;
    }
    Ok(())
}

/// Every operation refuses the file, with that word in its reason, and leaves nothing.
pub(crate) async fn refused(room: &Room, name: &str, word: &str) -> Result<()> {
    let source = room.source(name);
    let probe = room.media.probe(&source, &room.stop).await?;
    let reason = format!("{:?}", probe.acceptance);
    assert!(!probe.is_accepted() && reason.contains(word), "{name}: {reason}");
    let frames = ambient_media::FramesSpec {
        pick: Pick::Times(vec![ambient_media::MediaTime::ZERO]),
        max_dim: None,
        jpeg_quality: 80,
    };
    let clip = ambient_media::ClipSpec {
        start: ambient_media::MediaTime::ZERO,
        end: ambient_media::MediaTime::from_millis(1000),
        fps: None,
        max_dim: None,
        max_size_bytes: None,
        crf: None,
    };
    let errors = [
        room.media.frames(&source, &frames, &room.stop).await.err(),
        room.media.clip(&source, &clip, &room.stop).await.err(),
    ];
    for error in errors {
        let error = error.expect("a refused file gives nothing");
        assert!(matches!(&error, MediaError::Refused { .. } | MediaError::Undecodable { .. }), "{name}: {error}");
    }
    assert_eq!(room.outputs()?, Vec::<String>::new(), "{name} left something");
    Ok(())
}

#[tokio::test]
async fn cover_art_is_no_picture_of_the_film() -> Result<()> {
    let (room, truth) = made("film.mp4", &Film::new(8, "25", 150).h264(&["-g", "25"]))?;
    let cover = Film::new(255, "1", 1).sound(0).sized(200, 200).coded(&["-c:v", "png"], &[], &["-f", "image2"]);
    let (film, art) = (room.folder.join("film.mp4"), room.folder.join("cover.png"));
    cover.make(&art)?;
    for (name, first, second) in [("first.mp4", "1", "0"), ("last.mp4", "0", "1"), ("attached.mkv", "0", "1")] {
        let mapped = room.folder.join(name);
        let disposition = if first == "1" { "-disposition:v:0" } else { "-disposition:v:1" };
        run(
            "ffmpeg",
            &words(&[
                "-v",
                "error",
                "-i",
                film.as_str(),
                "-i",
                art.as_str(),
                "-map",
                first,
                "-map",
                second,
                "-c",
                "copy",
                disposition,
                "attached_pic",
                mapped.as_str(),
            ]),
            Vec::new(),
        )?;
        let truth = Truth { name, ..truth.clone() };
        room.probed(&truth).await?;
        room.shows(&truth, &[0, 3000]).await?;
        room.cuts(&truth, 1000, 2000).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_single_picture() -> Result<()> {
    let (room, truth) = made("single.mp4", &Film::new(9, "25", 1).sound(0).h264(&[]))?;
    room.probed(&truth).await?;
    room.shows(&truth, &[0, 20, 39, 5000]).await?;
    room.cuts(&truth, 0, 40).await?;
    Ok(())
}

#[tokio::test]
async fn hdr_is_tone_mapped() -> Result<()> {
    for (transfer, space) in [("smpte2084", "bt2020nc"), ("arib-std-b67", "bt2020nc")] {
        let mut film = Film::new(10, "24", 72).coded(
            &[
                "-c:v",
                "libx265",
                "-preset",
                "ultrafast",
                "-crf",
                "24",
                "-x265-params",
                "log-level=error:pools=none",
                "-tag:v",
                "hvc1",
            ],
            &AAC,
            &[
                "-vf",
                "scale=out_color_matrix=bt2020:out_range=tv,format=yuv420p10le",
                "-color_primaries",
                "bt2020",
                "-color_trc",
                transfer,
                "-colorspace",
                space,
            ],
        );
        // The code of 203 nits, the white of graphics: 58 % in PQ, 75 % in HLG.
        film.white = if transfer == "smpte2084" { 148 } else { 191 };
        let (room, truth) = made("hdr.mp4", &film)?;
        let probe = room.probed(&truth).await?;
        assert!(probe.video.is_some_and(|video| video.is_hdr));
        room.shows(&truth, &[0, 1000, 2990]).await?;
        room.cuts(&truth, 500, 2500).await?;
        let (_clip, watched) = room.cut(&truth, 1000, 1100, None).await?;
        let white = watched.pictures[0].reading.map(|reading| reading.white);
        assert!(white.is_some_and(|white| (170..=255).contains(&white)), "{transfer}: white is {white:?}");
    }
    Ok(())
}

#[tokio::test]
async fn colours_stay_as_they_were() -> Result<()> {
    let unlabelled = Film::new(11, "10", 60).h264(&[]);
    let labelled = Film::new(11, "10", 60).h264(&[
        "-vf",
        "scale=out_color_matrix=bt709",
        "-colorspace",
        "bt709",
        "-color_primaries",
        "bt709",
        "-color_trc",
        "bt709",
    ]);
    let large = Film::new(11, "2", 12).sized(960, 720).h264(&["-vf", "scale=out_color_matrix=bt709"]);
    let full = Film::new(11, "10", 60).h264(&["-vf", "scale=out_range=pc", "-pix_fmt", "yuvj420p"]);
    for film in [unlabelled, labelled, large, full] {
        let (room, truth) = made("colours.mp4", &film)?;
        let near = |one: [u8; 3], two: [u8; 3]| one.iter().zip(two).all(|(one, two)| one.abs_diff(two) < 14);
        for second in 0..6_u32 {
            let spec = ambient_media::FramesSpec {
                pick: Pick::Times(vec![ambient_media::MediaTime::from_millis(u64::from(second) * 1000 + 500)]),
                max_dim: None,
                jpeg_quality: 95,
            };
            let frames = room.media.frames(&room.source(truth.name), &spec, &room.stop).await?;
            let reading = crate::pattern::read(&image::open(&frames.frames[0].path)?.into_rgb8()).expect("readable");
            assert!(near(reading.ring, crate::pattern::RING[second as usize]), "frame of {:?}: {reading:?}", film.args);
        }
        let (_clip, watched) = room.cut(&truth, 0, 6000, None).await?;
        for seen in watched.pictures {
            let reading = seen.reading.expect("readable");
            assert!(
                near(reading.ring, crate::pattern::RING[(reading.millis / 1000) as usize]),
                "clip of {:?}: {reading:?}",
                film.args
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn pixels_that_are_not_square() -> Result<()> {
    let film = Film::new(12, "25", 150).h264(&["-vf", "setsar=4/3", "-g", "50"]);
    let (room, truth) = made("wide.mp4", &film)?;
    is_exact(&room, &Truth { width: 213, ..truth }).await
}

#[tokio::test]
async fn no_duration_and_no_index() -> Result<()> {
    let mut film = Film::new(13, "15", 90).coded(&VP8, &OPUS, &["-g", "45", "-f", "webm"]);
    film.piped = true;
    let (room, truth) = made("recorded.webm", &film)?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn a_transport_stream_that_starts_at_an_hour() -> Result<()> {
    let film = Film::new(14, "25", 150).coded(&X264, &MP2, &["-bf", "2", "-g", "25", "-output_ts_offset", "3600"]);
    let (room, truth) = made("hour.ts", &film)?;
    is_exact(&room, &truth).await?;
    room.shows(&truth, &[400, 960, 1000, 5960]).await
}

#[tokio::test]
async fn a_transport_stream_with_rare_key_frames_and_aac() -> Result<()> {
    let film = Film::new(15, "25", 150).coded(&X264, &AAC, &["-bf", "2", "-g", "70"]);
    let (room, truth) = made("rare.ts", &film)?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn the_index_at_the_end_and_in_fragments() -> Result<()> {
    let (room, truth) = made("end.mp4", &Film::new(16, "25", 150).h264(&["-movflags", "-faststart", "-g", "25"]))?;
    is_exact(&room, &truth).await?;
    let flags = "+frag_keyframe+empty_moov+default_base_moof";
    let (room, truth) = made("fragments.mp4", &Film::new(17, "25", 150).h264(&["-movflags", flags, "-g", "25"]))?;
    is_exact(&room, &truth).await
}

#[tokio::test]
async fn a_cut_tail() -> Result<()> {
    for (name, args) in [("whole.mp4", &["-movflags", "+faststart", "-g", "25"][..]), ("whole.mkv", &["-g", "25"])] {
        let (room, truth) = made(name, &Film::new(18, "25", 250).h264(args))?;
        let bytes = std::fs::read(room.folder.join(name))?;
        let cut = if name.ends_with("mp4") { "cut.mp4" } else { "cut.mkv" };
        std::fs::write(room.folder.join(cut), &bytes[..bytes.len() * 55 / 100])?;
        let probe = room.media.probe(&room.source(cut), &room.stop).await?;
        assert!(probe.is_accepted() && probe.is_cut_off, "{name}: {probe:?}");
        let readable = (probe.duration.as_secs_f64() * 1000.0) as u32;
        assert!((3000..8000).contains(&readable), "{name}: readable up to {readable}");
        let truth = Truth {
            name: cut,
            codes: truth.codes.iter().copied().filter(|code| *code < readable).collect(),
            end: readable,
            ..truth
        };
        room.shows(&truth, &[0, 2000]).await?;
        room.cuts(&truth, 500, 2000).await?;
        let late = ambient_media::FramesSpec {
            pick: Pick::Times(vec![ambient_media::MediaTime::from_millis(9500)]),
            max_dim: None,
            jpeg_quality: 80,
        };
        let error = room.media.frames(&room.source(cut), &late, &room.stop).await.expect_err("the tail is missing");
        assert!(matches!(error, MediaError::CutOff { .. }), "{name}: {error}");
        let error = room.cut(&truth, 9000, 9900, None).await.expect_err("the tail is missing");
        assert!(error.to_string().contains("cut off"), "{name}: {error}");
    }
    let (room, _truth) = made("whole.mp4", &Film::new(18, "25", 100).h264(&[]))?;
    let bytes = std::fs::read(room.folder.join("whole.mp4"))?;
    std::fs::write(room.folder.join("headless.mp4"), &bytes[..bytes.len() / 2])?;
    refused(&room, "headless.mp4", "moov").await
}

#[tokio::test]
async fn pictures_that_come_late() -> Result<()> {
    for name in ["late.mp4", "late.mkv"] {
        let mut film =
            Film::new(19, "20", 110).sound(7).h264(&["-vf", "setpts=PTS+1.5/TB", "-fps_mode", "passthrough"]);
        film.codes.iter_mut().for_each(|code| *code += 1500);
        let (room, truth) = made(name, &film)?;
        // AAC's priming of 64 ms cannot be told in Matroska, so its clock starts that much earlier.
        let tolerance_millis = if name.ends_with("mkv") { 66.0 } else { 1.0 };
        let truth = Truth { tolerance_millis, ..truth };
        room.probed(&truth).await?;
        if name.ends_with("mp4") {
            room.shows(&truth, &[500, 1500, 4000, 6990]).await?;
            room.cuts(&truth, 3000, 5000).await?;
            room.cuts(&truth, 500, 3000).await?;
        }
        let error = room.cut(&truth, 100, 1000, None).await.expect_err("nothing is on screen yet");
        assert!(error.to_string().contains("no picture before"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn sound_that_outlasts_the_pictures() -> Result<()> {
    let (room, truth) = made("longer.mp4", &Film::new(20, "25", 125).sound(9).h264(&["-g", "25"]))?;
    let probe = room.probed(&truth).await?;
    assert!((probe.file_duration.as_secs_f64() - 9.0).abs() < 0.1, "{}", probe.file_duration);
    room.shows(&truth, &[2000, 4970, 7000]).await?;
    room.cuts(&truth, 3000, 5000).await?;
    room.cuts(&truth, 3000, 9000).await?;
    let error = room.cut(&truth, 6000, 8000, None).await.expect_err("the pictures are over");
    assert!(error.to_string().contains("past the last picture"), "{error}");
    Ok(())
}

#[tokio::test]
async fn sound_that_ends_early_or_comes_late() -> Result<()> {
    let (room, truth) = made("shorter.mp4", &Film::new(21, "25", 150).sound(3).h264(&["-g", "25"]))?;
    room.shows(&truth, &[0, 5990]).await?;
    let (clip, _watched) = room.cut(&truth, 4000, 5000, None).await?;
    assert!(!clip.has_audio, "there is no sound in that window");
    let (_clip, watched) = room.cut(&truth, 2000, 5000, None).await?;
    assert_eq!(watched.heard(0.5), Some(2));
    Ok(())
}

#[tokio::test]
async fn an_edit_list_that_hides_the_beginning() -> Result<()> {
    let (room, truth) = made("whole.mp4", &Film::new(22, "25", 200).h264(&["-g", "50"]))?;
    let (from, to) = (room.folder.join("whole.mp4"), room.folder.join("edited.mp4"));
    // A copy from the middle of a group keeps the pictures before it, hidden by an edit list.
    run("ffmpeg", &words(&["-v", "error", "-ss", "1.2", "-i", from.as_str(), "-c", "copy", to.as_str()]), Vec::new())?;
    let codes = truth.codes.iter().copied().filter(|&code| code >= 1200).collect();
    let truth = Truth { name: "edited.mp4", codes, offset: 1200, end: truth.end - 1200, has_audio: true, ..truth };
    room.shows(&truth, &[0, 40, 1500, 3000, 6790]).await?;
    room.cuts(&truth, 0, 1500).await?;
    room.cuts(&truth, 2000, 4000).await?;
    Ok(())
}

#[tokio::test]
async fn ntsc_without_drift() -> Result<()> {
    let film = Film::new(23, "30000/1001", 600).sized(96, 80).h264(&["-g", "120"]);
    let (room, truth) = made("ntsc.mp4", &film)?;
    room.probed(&truth).await?;
    room.shows(&truth, &[0, 33, 34, 9990, 19_300, 20_015]).await?;
    room.cuts(&truth, 15_000, 17_000).await?;
    room.samples(&truth, 10_000, 18_000, 1).await?;
    Ok(())
}

#[tokio::test]
async fn an_animated_gif() -> Result<()> {
    let film = Film::new(24, "5", 20).sound(0).coded(
        &["-c:v", "gif"],
        &[],
        &["-vf", "split[a][b];[a]palettegen=stats_mode=full[p];[b][p]paletteuse=dither=none"],
    );
    let (room, truth) = made("slides.gif", &film)?;
    room.probed(&truth).await?;
    room.shows(&truth, &[0, 1480, 3990]).await?;
    room.cuts(&truth, 1000, 3000).await?;
    room.samples(&truth, 1000, 3000, 10).await?;
    Ok(())
}

#[tokio::test]
async fn containers_without_presentation_times() -> Result<()> {
    let h264 = [&X264[..4], &["-bf", "3", "-crf", "24", "-pix_fmt", "yuv420p"]].concat();
    let open = [&h264[..], &["-x264-params", "open-gop=1:scenecut=0:b-pyramid=normal"]].concat();
    let kinds: [(&'static str, &[&'static str], &[&'static str]); 8] = [
        // The parser tells which pictures wait for others, and with that the demuxer works the times out.
        ("old.avi", &["-c:v", "mpeg4", "-q:v", "3", "-bf", "2"], &["-g", "24"]),
        ("silent.avi", &["-c:v", "mpeg4", "-q:v", "3", "-bf", "1"], &["-g", "40", "-an"]),
        ("old.wmv", &["-c:v", "mpeg4", "-q:v", "3", "-bf", "2"], &["-g", "24"]),
        ("disc.vob", &["-c:v", "mpeg2video", "-q:v", "3", "-bf", "2"], &["-g", "12"]),
        ("first.mpg", &["-c:v", "mpeg1video", "-q:v", "3", "-bf", "2"], &["-g", "15", "-output_ts_offset", "1000"]),
        // Nothing tells it there but the order in which the decoder gives them.
        ("closed.avi", &h264, &["-g", "40"]),
        ("open.avi", &open, &["-g", "24"]),
        ("h264.mpg", &h264, &["-g", "40"]),
    ];
    for (name, video, args) in kinds {
        let film =
            Film::new(25, "25", 150).coded(video, if name.ends_with("wmv") { &["-c:a", "wmav2"] } else { &MP2 }, args);
        let (room, truth) = made(name, &film)?;
        let truth = Truth { has_audio: name != "silent.avi", ..truth };
        is_exact(&room, &truth).await.map_err(|error| error.context(name))?;
    }
    Ok(())
}

#[tokio::test]
async fn further_containers_and_codecs() -> Result<()> {
    let h264 = [&X264[..], &["-bf", "2"]].concat();
    let kinds: [(&'static str, &[&'static str], &[&'static str]); 7] = [
        ("film.flv", &h264, &AAC),
        ("film.mkv", &h264, &AAC),
        ("film.mov", &["-c:v", "mjpeg", "-q:v", "3", "-pix_fmt", "yuvj422p"], &["-c:a", "pcm_s16le"]),
        ("film.wmv", &["-c:v", "wmv2", "-q:v", "3"], &["-c:a", "wmav2"]),
        ("film.ogv", &["-c:v", "libtheora", "-q:v", "8"], &["-c:a", "libvorbis"]),
        ("film.3gp", &["-c:v", "mpeg4", "-q:v", "3"], &AAC),
        ("film.mxf", &["-c:v", "mpeg2video", "-q:v", "3"], &["-c:a", "pcm_s16le", "-ar", "48000"]),
    ];
    for (name, video, audio) in kinds {
        let (room, truth) = made(name, &Film::new(26, "25", 100).coded(video, audio, &["-g", "20"]))?;
        let told = async {
            room.probed(&truth).await?;
            room.shows(&truth, &[0, 1480, 3333, 3990]).await?;
            room.cuts(&truth, 1330, 3010).await?;
            anyhow::Ok(())
        };
        told.await.map_err(|error| error.context(name))?;
    }
    Ok(())
}

#[tokio::test]
async fn ten_bits_alpha_and_full_chroma() -> Result<()> {
    let kinds: [(&'static str, &[&'static str], &[&'static str]); 3] = [
        ("ten.mp4", &["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv422p10le"], &[]),
        ("full.mp4", &["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p"], &[]),
        (
            "alpha.webm",
            &VP9,
            &[
                "-auto-alt-ref",
                "0",
                "-vf",
                "format=rgba,colorchannelmixer=aa=0.5,format=yuva420p",
                "-pix_fmt",
                "yuva420p",
            ],
        ),
    ];
    for (name, video, args) in kinds {
        let (room, truth) = made(name, &Film::new(27, "25", 100).sound(0).coded(video, &[], args))?;
        room.shows(&truth, &[0, 3333]).await?;
        room.cuts(&truth, 1330, 3010).await?;
    }
    Ok(())
}

#[tokio::test]
async fn interlaced_pictures_are_made_whole() -> Result<()> {
    let film = Film::new(28, "50", 200).sized(352, 288).coded(
        &["-c:v", "mpeg2video", "-b:v", "1500k", "-g", "12"],
        &MP2,
        &["-vf", "tinterlace=mode=interleave_top,setfield=tff", "-flags:v", "+ilme+ildct"],
    );
    let (room, truth) = made("fields.ts", &film)?;
    // Two moments share a picture, and the first of them is shown.
    let truth = Truth { codes: truth.codes.into_iter().step_by(2).collect(), ..truth };
    let probe = room.probed(&truth).await?;
    assert!(probe.video.is_some_and(|video| video.is_interlaced));
    room.shows(&truth, &[0, 400, 2220, 3990]).await?;
    room.cuts(&truth, 1200, 3000).await?;
    Ok(())
}

#[tokio::test]
async fn interlaced_pictures_that_no_header_tells_are_made_whole() -> Result<()> {
    let pcm = ["-c:a", "pcm_s16le"];
    let mpeg4 = Film::new(30, "50", 200).sized(352, 288).coded(
        &["-c:v", "mpeg4", "-q:v", "3", "-g", "25"],
        &pcm,
        &["-vf", "tinterlace=mode=interleave_top,setfield=tff", "-flags:v", "+ilme+ildct"],
    );
    // The lower field comes first, and pixels are wider than high.
    let dv = Film::new(31, "50", 200).sized(720, 576).coded(
        &["-c:v", "dvvideo", "-pix_fmt", "yuv420p"],
        &pcm,
        &["-vf", "tinterlace=mode=interleave_bottom,setfield=bff"],
    );
    for (name, film, width) in [("mpeg4.avi", &mpeg4, 352), ("dv.avi", &dv, 768)] {
        let (room, truth) = made(name, film)?;
        let truth = Truth { codes: truth.codes.into_iter().step_by(2).collect(), width, ..truth };
        room.shows(&truth, &[0, 400, 2220, 3990]).await?;
        room.cuts(&truth, 1200, 3000).await?;
    }
    Ok(())
}

#[tokio::test]
async fn names_that_break_careless_command_lines() -> Result<()> {
    let (room, truth) = made("plain.mp4", &Film::new(29, "10", 30).h264(&[]))?;
    let names = [
        "my holiday clip.mp4",
        "50% off %03d %s.mp4",
        "-leading-dash.mp4",
        "12:30:05 meeting.mp4",
        "it's \"quoted\".mp4",
        "naïve café 视频 🎬.mp4",
        "semi;colon & $(touch pwned) `id` |x.mp4",
        "a#b?c=d&e.mp4",
        "back\\slash.mp4",
        "[brackets] {x,y} *.mp4",
        "concat:a|b",
        "no suffix at all",
    ];
    for name in names {
        std::fs::copy(room.folder.join("plain.mp4"), room.folder.join(name))?;
        let truth = Truth { name, ..truth.clone() };
        room.shows(&truth, &[1500]).await?;
    }
    room.cuts(&Truth { name: names[6], ..truth }, 500, 1500).await?;
    Ok(())
}

#[tokio::test]
async fn an_odd_work_folder_does_no_harm() -> Result<()> {
    let room = Room::with(|config| config.work_folder = config.work_folder.join("100%d 'out' [x],y;z"))?;
    let film = Film::new(30, "10", 30).h264(&[]);
    film.make(&room.folder.join("plain.mp4"))?;
    let truth = truth("plain.mp4", &film);
    room.shows(&truth, &[1500]).await?;
    room.cuts(&truth, 500, 1500).await?;
    Ok(())
}

#[tokio::test]
async fn windows_past_the_end_are_clamped_or_refused() -> Result<()> {
    let (room, truth) = made("plain.mp4", &Film::new(31, "25", 100).h264(&["-g", "25"]))?;
    room.shows(&truth, &[20_000]).await?;
    let clip = room.cuts(&truth, 3000, 30_000).await?;
    assert!(clip.clamped);
    let error = room.cut(&truth, 20_000, 30_000, None).await.expect_err("nothing is there");
    assert!(error.to_string().contains("past the last picture"), "{error}");
    let error = room.cut(&truth, 2000, 2000, None).await.expect_err("an empty window");
    assert!(error.to_string().contains("not after its start"), "{error}");
    Ok(())
}

#[tokio::test]
async fn windows_of_frames_keep_their_budget_dense_and_sparse() -> Result<()> {
    let (room, truth) = made("plain.mp4", &Film::new(32, "10", 300).sized(96, 80).h264(&["-g", "40"]))?;
    let window = |start: u64, end: u64, fps: u32, max_frames: usize| ambient_media::FramesSpec {
        pick: Pick::Window {
            start: ambient_media::MediaTime::from_millis(start),
            end: ambient_media::MediaTime::from_millis(end),
            fps: Rate::new(fps, 1).expect("a rate"),
            max_frames,
        },
        max_dim: None,
        jpeg_quality: 85,
    };
    for (spec, wanted) in [
        (window(2000, 6000, 2, 100), (0..8).map(|step| 2000 + step * 500).collect::<Vec<u32>>()),
        (window(0, 30_000, 1, 5), (0..5).map(|step| step * 6000).collect()),
        // Twenty steps a second over ten pictures a second: each picture once.
        (window(1000, 2000, 20, 100), (0..10).map(|step| 1000 + step * 100).collect()),
        (window(7777, 7777, 1, 1), vec![7700]),
    ] {
        let answer = room.media.frames(&room.source(truth.name), &spec, &room.stop).await?;
        let mut codes = Vec::new();
        for frame in &answer.frames {
            codes.push(crate::pattern::read(&image::open(&frame.path)?.into_rgb8()).expect("readable").millis);
        }
        assert_eq!(codes, wanted, "{spec:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_size_cap_is_kept() -> Result<()> {
    // Noise behind the codes, so that the encoder has something to do.
    let film = Film::new(33, "25", 150).sized(320, 240).h264(&["-vf", "noise=alls=40:allf=t"]);
    let (room, truth) = made("noisy.mp4", &film)?;
    for limit in [400_000, 120_000, 60_000] {
        let spec = ambient_media::ClipSpec {
            start: ambient_media::MediaTime::from_millis(1000),
            end: ambient_media::MediaTime::from_millis(5000),
            fps: None,
            max_dim: None,
            max_size_bytes: Some(limit),
            crf: Some(10),
        };
        let clip = room.media.clip(&room.source(truth.name), &spec, &room.stop).await?;
        assert!(clip.size_bytes <= limit, "{} bytes for {limit}", clip.size_bytes);
        assert!(clip.size_bytes * 3 > limit, "only {} bytes of {limit} were used", clip.size_bytes);
        assert_eq!(clip.source_pictures, 100);
    }
    Ok(())
}
