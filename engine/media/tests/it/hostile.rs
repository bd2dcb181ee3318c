//! Files made to reach other files or hosts, to eat memory, or that are no videos at all.

use std::net::TcpListener;

use ambient_media::{Acceptance, MediaConfig, Source};
use anyhow::Result;
use camino::Utf8Path;

use crate::film::{Film, Room};
use crate::kinds::refused;

pub(crate) const CANARY: &str = "CANARY-must-not-leave-this-host";

fn playlist(entry: &str) -> String {
    format!("#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{entry}\n#EXT-X-ENDLIST\n")
}

/// Each hostile file with a word of the reason that it is refused for.
pub(crate) fn hostile_files(folder: &Utf8Path, port: u16) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let canary = folder.join("canary.txt");
    let url = format!("http://127.0.0.1:{port}/hit.ts");
    let dash = format!(
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" mediaPresentationDuration=\"PT9S\" profiles=\"urn:mpeg:dash:profile:isoff-on-demand:2011\">\
         <Period><AdaptationSet mimeType=\"video/mp4\"><Representation id=\"1\" bandwidth=\"1\"><BaseURL>{url}</BaseURL></Representation></AdaptationSet></Period></MPD>"
    );
    vec![
        ("file.mp4", playlist(&format!("file://{canary}")).into_bytes(), "playlist"),
        ("file.m3u8", playlist(&format!("file://{canary}")).into_bytes(), "playlist"),
        ("url.mp4", playlist(&url).into_bytes(), "playlist"),
        ("url.m3u8", playlist(&url).into_bytes(), "playlist"),
        ("joined.m3u8", playlist(&format!("concat:{url}|file://{canary}")).into_bytes(), "playlist"),
        ("ffconcat.mp4", format!("ffconcat version 1.0\nfile '{canary}'\n").into_bytes(), "playlist"),
        ("neighbour.mp4", b"ffconcat version 1.0\nfile neighbour-film.mp4\n".to_vec(), "playlist"),
        ("concat.txt", format!("file '{url}'\n").into_bytes(), "text"),
        ("dash.mpd", dash.clone().into_bytes(), "playlist"),
        ("dash.mp4", dash.into_bytes(), "playlist"),
        ("sdp.mp4", format!("v=0\r\nc=IN IP4 127.0.0.1\r\nm=video {port} RTP/AVP 96\r\n").into_bytes(), "playlist"),
        ("asx.wmv", format!("<ASX version=\"3\"><entry><ref href=\"{url}\"/></entry></ASX>").into_bytes(), "playlist"),
        (
            "svg.mp4",
            format!("<svg xmlns=\"http://www.w3.org/2000/svg\"><image href=\"{url}\"/></svg>").into_bytes(),
            "text",
        ),
        (
            "imf.xml",
            format!("<?xml version=\"1.0\"?><CompositionPlaylist><Id>{url}</Id></CompositionPlaylist>").into_bytes(),
            "text",
        ),
        ("vapour.vpy", b"import vapoursynth as vs\n".to_vec(), "text"),
        ("text.mp4", b"this is not a video\n".repeat(40), "text"),
        ("page.mp4", b"<!DOCTYPE html><html><head><title>403</title></head></html>\n".to_vec(), "web page"),
        ("archive.mp4", b"PK\x03\x04\x14\0\0\0\x08\0".repeat(30), "archive"),
        ("empty.mp4", Vec::new(), "empty"),
        (
            "noise.mp4",
            (0..60_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect(),
            "does not begin",
        ),
        ("still.mp4", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec(), "still picture"),
        // A container by its first bytes and a playlist behind them: the forced demuxer finds nothing in it.
        ("mask.mp4", [b"\0\0\0\x18ftypisom\0\0\0\0isommp42".to_vec(), playlist(&url).into_bytes()].concat(), "cut off"),
        ("mask.mkv", [b"\x1a\x45\xdf\xa3".to_vec(), playlist(&url).into_bytes()].concat(), "ffprobe cannot read it"),
    ]
}

#[tokio::test]
async fn no_hostile_file_opens_a_connection_or_another_file() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let room = Room::new()?;
    std::fs::write(room.folder.join("canary.txt"), CANARY)?;
    Film::new(1, "10", 20).h264(&[]).make(&room.folder.join("neighbour-film.mp4"))?;
    for (name, bytes, word) in hostile_files(&room.folder, listener.local_addr()?.port()) {
        std::fs::write(room.folder.join(name), bytes)?;
        refused(&room, name, word).await?;
        let probe = room.media.probe(&room.source(name), &room.stop).await?;
        assert!(!format!("{probe:?}").contains(CANARY), "{name} tells the canary");
        assert_eq!(
            listener.accept().map_err(|error| error.kind()).err(),
            Some(std::io::ErrorKind::WouldBlock),
            "{name} made a request"
        );
    }
    Ok(())
}

#[tokio::test]
async fn what_is_no_container_is_refused_before_any_program_starts() -> Result<()> {
    // Programs that do not exist: whatever would start one fails with another error than the refusal.
    let room = Room::with(|config: &mut MediaConfig| {
        config.ffmpeg = "/nonexistent/ffmpeg".into();
        config.ffprobe = "/nonexistent/ffprobe".into();
    })?;
    for (name, bytes, word) in hostile_files(&room.folder, 9) {
        if !name.starts_with("mask") {
            std::fs::write(room.folder.join(name), bytes)?;
            refused(&room, name, word).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_link_out_of_its_folder_is_not_followed() -> Result<()> {
    let room = Room::new()?;
    let (inside, outside) = (room.folder.join("videos"), room.folder.join("elsewhere"));
    std::fs::create_dir(&inside)?;
    std::fs::create_dir(&outside)?;
    let film = Film::new(2, "10", 20).h264(&[]);
    film.make(&outside.join("film.mp4"))?;
    std::os::unix::fs::symlink(outside.join("film.mp4"), inside.join("link.mp4"))?;
    refused(&room, "videos/link.mp4", "link that leads out").await?;
    film.make(&inside.join("film.mp4"))?;
    std::os::unix::fs::symlink(inside.join("film.mp4"), inside.join("neighbour.mp4"))?;
    let probe = room.media.probe(&room.source("videos/neighbour.mp4"), &room.stop).await?;
    assert_eq!(probe.acceptance, Acceptance::Accepted);
    Ok(())
}

#[tokio::test]
async fn a_folder_or_a_device_is_no_video() -> Result<()> {
    let room = Room::new()?;
    let spec = ambient_media::FramesSpec {
        pick: ambient_media::Pick::Times(vec![ambient_media::MediaTime::ZERO]),
        max_dim: None,
        jpeg_quality: 80,
    };
    for path in [room.folder.clone(), "/dev/zero".into()] {
        let error = room.media.frames(&Source::File(path), &spec, &room.stop).await.expect_err("that is no video");
        assert!(error.to_string().contains("not a plain file"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn a_huge_picture_is_refused_by_its_declared_size() -> Result<()> {
    let room = Room::with(|config| config.max_pixels = 256 * 256)?;
    let film = Film::new(3, "5", 5).sound(0).sized(272, 256);
    film.clone().h264(&[]).make(&room.folder.join("huge.mp4"))?;
    refused(&room, "huge.mp4", "pixel").await?;
    film.coded(&["-c:v", "libvpx", "-b:v", "100k"], &[], &[]).make(&room.folder.join("huge.webm"))?;
    refused(&room, "huge.webm", "pixel").await?;
    Film::new(3, "5", 5).sound(0).sized(256, 256).h264(&[]).make(&room.folder.join("fits.mp4"))?;
    assert!(room.media.probe(&room.source("fits.mp4"), &room.stop).await?.is_accepted());
    Ok(())
}

#[tokio::test]
async fn a_stream_that_cannot_be_decoded_is_refused() -> Result<()> {
    let room = Room::new()?;
    let path = room.folder.join("broken.mp4");
    Film::new(4, "10", 20).sound(0).h264(&[]).make(&path)?;
    let mut bytes = std::fs::read(&path)?;
    let data = bytes.windows(4).position(|window| window == b"mdat").expect("there is data") + 4;
    let end = bytes.windows(4).position(|window| window == b"moov").expect("there is an index") - 4;
    bytes[data..end].fill(0x5a);
    std::fs::write(&path, bytes)?;
    refused(&room, "broken.mp4", "could be decoded").await
}
