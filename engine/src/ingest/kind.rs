//! What a video is called once it is here: extension and media type from its bytes, name from the client.

/// Characters of a file name that are kept.
const LONGEST_NAME: usize = 255;

/// How a container is named on disk and on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// With its dot.
    pub extension: &'static str,
    /// As in `Content-Type`.
    pub mime_type: &'static str,
}

const fn kind(extension: &'static str, mime_type: &'static str) -> Kind {
    Kind { extension, mime_type }
}

/// The kind of a video from the container that a probe found, and its first bytes where one container has two names.
pub fn kind_of(container: &str, head: &[u8]) -> Kind {
    match container {
        "mov" => match head.get(8..12) {
            Some(b"qt  ") => kind(".mov", "video/quicktime"),
            Some(brand) if brand.starts_with(b"M4V") => kind(".m4v", "video/x-m4v"),
            // Old QuickTime files have no brand at all.
            _ if head.get(4..8).is_some_and(|name| name != b"ftyp") => kind(".mov", "video/quicktime"),
            _ => kind(".mp4", "video/mp4"),
        },
        "matroska" if memchr::memmem::find(&head[..head.len().min(128)], b"webm").is_some() => {
            kind(".webm", "video/webm")
        }
        "matroska" => kind(".mkv", "video/x-matroska"),
        "mpegts" => kind(".ts", "video/mp2t"),
        "mpeg" => kind(".mpg", "video/mpeg"),
        "avi" => kind(".avi", "video/x-msvideo"),
        "flv" => kind(".flv", "video/x-flv"),
        "ogg" => kind(".ogv", "video/ogg"),
        "asf" => kind(".wmv", "video/x-ms-wmv"),
        "gif" => kind(".gif", "image/gif"),
        "mxf" => kind(".mxf", "application/mxf"),
        "rm" => kind(".rm", "application/vnd.rn-realmedia"),
        "nut" => kind(".nut", "video/x-nut"),
        "ivf" => kind(".ivf", "video/x-ivf"),
        _ => kind(".video", "video/x-unknown"),
    }
}

/// A client's file name, fit to show and to send in a header: its last path component without control characters.
pub fn file_name(sent: Option<&str>, kind: Kind) -> String {
    let sent = sent.unwrap_or_default();
    let last = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last.chars().filter(|character| !is_unseen(*character)).collect();
    let clean: String = clean.trim().chars().take(LONGEST_NAME).collect();
    match clean.trim() {
        "" | "." | ".." => format!("unnamed{}", kind.extension),
        name => name.to_owned(),
    }
}

/// Control characters, and those that turn the direction of text, with which a name can pose as another.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_climb_or_hide() {
        let name = |sent: &str| file_name(Some(sent), kind(".mp4", "video/mp4"));
        for (sent, kept) in [
            ("clip.mp4", "clip.mp4"),
            ("../../etc/passwd", "passwd"),
            ("..\\..\\boot.ini", "boot.ini"),
            ("/abs/a.mp4", "a.mp4"),
            ("..", "unnamed.mp4"),
            (".", "unnamed.mp4"),
            ("", "unnamed.mp4"),
            ("dir/", "unnamed.mp4"),
            ("  ", "unnamed.mp4"),
            ("a\0b\r\n.mp4", "ab.mp4"),
            ("evil\u{202e}4pm.exe", "evil4pm.exe"),
            ("žluťoučký 🎬.mp4", "žluťoučký 🎬.mp4"),
        ] {
            assert_eq!(name(sent), kept, "{sent:?}");
        }
        assert_eq!(name(&"x".repeat(400)).len(), 255);
        assert_eq!(file_name(None, kind(".webm", "video/webm")), "unnamed.webm");
    }

    #[test]
    fn the_bytes_tell_twins_apart() {
        assert_eq!(kind_of("mov", b"\0\0\0\x18ftypisom").extension, ".mp4");
        assert_eq!(kind_of("mov", b"\0\0\0\x14ftypqt  ").extension, ".mov");
        assert_eq!(kind_of("mov", b"\0\0\0\x08moov\0\0\0\0").extension, ".mov");
        assert_eq!(kind_of("matroska", b"\x1a\x45\xdf\xa3....B\x82\x84webm").extension, ".webm");
        assert_eq!(kind_of("matroska", b"\x1a\x45\xdf\xa3").extension, ".mkv");
    }
}
