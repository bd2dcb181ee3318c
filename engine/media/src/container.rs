//! What a file is, from its first bytes alone.
//!
//! ffmpeg would guess among hundreds of formats, and some of them are lists that name other files and hosts (HLS, DASH, concat). So we decide first: only
//! the containers below are known, each with the one demuxer that may open it, and everything else is refused before any program sees
//! it. Names, suffixes and a client's content type play no part.

use crate::probe::Refusal;

/// How much of a file is looked at: enough for two transport stream packets behind some junk.
pub(crate) const HEAD_BYTES: usize = 4096;

/// A container that holds its own pictures and names no other file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    Mp4,
    Matroska,
    TransportStream,
    ProgramStream,
    Avi,
    Flv,
    Ogg,
    Asf,
    Gif,
    Mxf,
    Nut,
    Ivf,
    RealMedia,
}

impl Container {
    /// The demuxer that is forced, so that no other one is ever tried.
    pub(crate) const fn demuxer(self) -> &'static str {
        match self {
            Self::Mp4 => "mov",
            Self::Matroska => "matroska",
            Self::TransportStream => "mpegts",
            Self::ProgramStream => "mpeg",
            Self::Avi => "avi",
            Self::Flv => "flv",
            Self::Ogg => "ogg",
            Self::Asf => "asf",
            Self::Gif => "gif",
            Self::Mxf => "mxf",
            Self::Nut => "nut",
            Self::Ivf => "ivf",
            Self::RealMedia => "rm",
        }
    }

    /// Whether decoding may begin in the middle. A GIF draws each picture over the one before, so it may not.
    pub(crate) const fn is_seekable(self) -> bool {
        !matches!(self, Self::Gif)
    }

    /// Whether a seek to a key frame lands on it or before it. In the others a seek goes by position in the file and may land behind it.
    pub(crate) const fn seeks_by_index(self) -> bool {
        matches!(self, Self::Mp4 | Self::Matroska)
    }

    /// Whether its packets may lack the time at which their pictures are shown, so that all of them have to be looked at.
    pub(crate) const fn may_lack_times(self) -> bool {
        matches!(self, Self::Avi | Self::ProgramStream | Self::Asf | Self::Mxf | Self::Nut)
    }

    /// Whether each packet has the time at which it is decoded.
    pub(crate) const fn stores_decoding_times(self) -> bool {
        !matches!(self, Self::ProgramStream)
    }

    /// Whether ffmpeg's seek by decoding time steps back by [`crate::args::DECODE_LEAD_NANOS`] on streams with reordered pictures.
    pub(crate) const fn seeks_by_decoding_time(self) -> bool {
        !matches!(self, Self::Mp4)
    }
}

/// The container that `head`, the beginning of a file, belongs to.
///
/// # Errors
///
/// A reason for what is no container of pictures, with what helps.
pub(crate) fn recognise(head: &[u8]) -> Result<Container, Refusal> {
    if head.is_empty() {
        return Err(Refusal::new("the file is empty", "upload the video again; the transfer sent no bytes"));
    }
    let has = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some(kind) = head.get(4..8) {
        if kind == b"ftyp" {
            return match head.get(8..12) {
                Some(b"avif" | b"heic" | b"heix" | b"mif1") => Err(still_picture()),
                _ => Ok(Container::Mp4),
            };
        }
        if [&b"moov"[..], b"mdat", b"wide", b"free", b"skip", b"pnot", b"moof", b"styp", b"sidx"].contains(&kind) {
            return Ok(Container::Mp4);
        }
    }
    let known: [(usize, &[u8], Container); 11] = [
        (0, b"\x1a\x45\xdf\xa3", Container::Matroska),
        (0, b"\x00\x00\x01\xba", Container::ProgramStream),
        (8, b"AVI ", Container::Avi),
        (8, b"AVIX", Container::Avi),
        (0, b"FLV\x01", Container::Flv),
        (0, b"OggS", Container::Ogg),
        (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9", Container::Asf),
        (0, b"nut/multimedia container\0", Container::Nut),
        (0, b"DKIF", Container::Ivf),
        (0, b".RMF", Container::RealMedia),
        (0, b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02", Container::Mxf),
    ];
    for (at, magic, container) in known {
        if has(at, magic) && (at == 0 || has(0, b"RIFF")) {
            return Ok(container);
        }
    }
    if has(0, b"GIF87a") || has(0, b"GIF89a") {
        return Ok(Container::Gif);
    }
    if is_transport_stream(head) {
        return Ok(Container::TransportStream);
    }
    Err(refusal_of(head))
}

/// Sync bytes at the distance of a packet (188, 192 with time codes, 204 with error correction), five in a row, the first within one packet.
fn is_transport_stream(head: &[u8]) -> bool {
    const PACKETS: usize = 5;
    [188, 192, 204]
        .into_iter()
        .any(|size| (0..size).any(|first| (0..PACKETS).all(|packet| head.get(first + packet * size) == Some(&0x47))))
}

fn still_picture() -> Refusal {
    Refusal::new(
        "the file is a single still picture, not a video",
        "upload a video; a picture can be read with the picture tool",
    )
}

/// Names what the file is instead, as far as its beginning tells.
fn refusal_of(head: &[u8]) -> Refusal {
    const SOUND: &[(usize, &[u8])] = &[
        (8, b"WAVE"),
        (0, b"fLaC"),
        (0, b"ID3"),
        (0, b"\xff\xfb"),
        (0, b"\xff\xf1"),
        (0, b"#!AMR"),
        (8, b"AIFF"),
        (0, b"MThd"),
    ];
    const STILL: &[(usize, &[u8])] =
        &[(0, b"\xff\xd8\xff"), (0, b"\x89PNG\r\n\x1a\n"), (8, b"WEBP"), (0, b"BM"), (0, b"II*\0"), (0, b"MM\0*")];
    const ARCHIVE: &[&[u8]] = &[b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ"];
    const LIST: &[&[u8]] = &[
        b"#EXTM3U",
        b"ffconcat",
        b"[playlist]",
        b"<MPD",
        b"<smil",
        b"<ASX",
        b"<asx",
        b"RTSPtext",
        b"RTSPtextRTSP",
        b"v=0",
    ];

    let has = |at: usize, magic: &[u8]| head.get(at..).is_some_and(|rest| rest.starts_with(magic));
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let mentions = |word: &[u8]| text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));

    if LIST.iter().any(|magic| text.starts_with(magic)) || (text.starts_with(b"<?xml") && mentions(b"<MPD")) {
        return Refusal::new(
            "the file is a playlist, which only names other files or hosts",
            "upload the video that it names",
        );
    }
    if text.starts_with(b"<") && (mentions(b"<html") || mentions(b"<!doctype html")) {
        return Refusal::new(
            "the file is a web page, not a video",
            "the download behind it has probably failed; fetch the video again",
        );
    }
    if SOUND.iter().any(|(at, magic)| has(*at, magic)) {
        return Refusal::sound_only();
    }
    if STILL.iter().any(|(at, magic)| has(*at, magic)) {
        return still_picture();
    }
    if ARCHIVE.iter().any(|magic| has(0, magic)) {
        return Refusal::new("the file is an archive, not a video", "unpack it and upload the video inside");
    }
    let is_text = std::str::from_utf8(text).map_or_else(|error| error.valid_up_to() + 4 >= text.len(), |_all| true)
        && !text.contains(&0);
    if is_text {
        return Refusal::new("the file is text, not a video", "upload the video itself");
    }
    Refusal::new(
        "the file does not begin like any video container we know",
        "convert it with `ffmpeg -i INPUT -c copy OUTPUT.mkv`, or upload MP4, MOV, MKV, WebM, AVI, MPEG-TS or another common container",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(head: &[u8], words: &str) {
        let reason = recognise(head).unwrap_err().to_string();
        assert!(reason.contains(words), "{reason:?} does not say {words:?}");
    }

    #[test]
    fn lists_that_name_other_files_are_called_playlists() {
        refused(b"#EXTM3U\n#EXT-X-VERSION:3\n", "playlist");
        refused(b"\xef\xbb\xbf\n #EXTM3U\n", "playlist");
        refused(b"ffconcat version 1.0\nfile base.mp4\n", "playlist");
        refused(b"<?xml version=\"1.0\"?>\n<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\">", "playlist");
        refused(b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\n", "playlist");
    }

    #[test]
    fn what_is_no_video_is_named() {
        refused(b"", "empty");
        refused(b"this is not a video\n", "text");
        refused(b"file 'base.mp4'\n", "text");
        refused(b"<!DOCTYPE html><html>", "web page");
        refused(b"PK\x03\x04rest", "archive");
        refused(b"\xff\xd8\xff\xe0", "still picture");
        refused(b"RIFF\0\0\0\0WAVEfmt ", "sound");
        refused(b"\x9c\x07\x00\xff\xfe noise", "does not begin like");
    }

    #[test]
    fn containers_are_known_by_their_first_bytes() {
        assert_eq!(recognise(b"\0\0\0\x20ftypisom").unwrap(), Container::Mp4);
        assert_eq!(recognise(b"\0\0\0\x08wide\0\0").unwrap(), Container::Mp4);
        assert_eq!(recognise(b"\x1a\x45\xdf\xa3\x01").unwrap(), Container::Matroska);
        assert_eq!(recognise(b"RIFF\0\0\0\0AVI LIST").unwrap(), Container::Avi);
        assert_eq!(recognise(b"GIF89a....").unwrap(), Container::Gif);
        let mut packets = vec![0_u8; 3000];
        packets.iter_mut().skip(7).step_by(188).for_each(|byte| *byte = 0x47);
        assert_eq!(recognise(&packets).unwrap(), Container::TransportStream);
    }
}
