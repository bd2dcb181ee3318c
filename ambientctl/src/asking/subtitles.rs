//! Subtitles as a model reads them: a line for each thing said, with the time at which it is said.

use std::path::Path;

use super::AskError;
use crate::engine_client::Block;

/// What one block of a message may hold. Above that the engine refuses it.
const MOST_CHARACTERS: usize = 1_000_000;
/// What stands before them.
const INTRODUCTION: &str = "Subtitles of the video, with the time at which each line is spoken:\n";

/// Reads a file of subtitles.
///
/// # Errors
/// When it cannot be read, is no text, or is more than can be sent.
pub(super) fn read(path: &Path) -> Result<Block, AskError> {
    let unreadable = |source| AskError::BesideFile { what: "subtitles", path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let text = format!("{INTRODUCTION}{}", lines(&text));
    let characters = text.chars().count();
    if characters > MOST_CHARACTERS {
        return Err(AskError::LongSubtitles { path: path.to_owned(), characters, limit: MOST_CHARACTERS });
    }
    Ok(Block::Text { text })
}

/// `.srt` and `.vtt` become lines with times; a text without any is left as it is.
fn lines(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let mut told = Vec::new();
    for cue in text.split("\n\n") {
        let mut rest = cue.lines();
        // Before the times stand a number or a name, a header or a comment.
        let Some(start) = rest.by_ref().find_map(start_of_cue) else { continue };
        let words: Vec<String> = rest.map(without_tags).filter(|line| !line.is_empty()).collect();
        let words = words.join(" ");
        if !words.is_empty() {
            told.push(format!("[{start}] {words}"));
        }
    }
    if told.is_empty() { text.trim().to_owned() } else { told.join("\n") }
}

/// The time before the arrow, written the same for both formats: `HH:MM:SS.mmm`, hours only where they are given.
fn start_of_cue(line: &str) -> Option<String> {
    let (start, _end) = line.split_once("-->")?;
    let start = start.trim().replace(',', ".");
    let is_time = start.contains(':') && start.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b':' | b'.'));
    is_time.then_some(start)
}

/// `<i>`, `<c.yellow>`, `<00:01.000>` and their like are for players.
fn without_tags(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(open) = rest.find('<') {
        let Some(length) = rest[open..].find('>') else { break };
        plain.push_str(&rest[..open]);
        rest = &rest[open + length + 1..];
    }
    plain.push_str(rest);
    plain.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_become_lines_with_times() {
        let subrip = "\u{feff}1\r\n00:00:01,000 --> 00:00:02,500\r\n<i>Hello</i>\r\nthere\r\n\r\n2\r\n00:01:00,000 --> 00:01:01,000\r\n5 < 6\r\n";
        assert_eq!(lines(subrip), "[00:00:01.000] Hello there\n[00:01:00.000] 5 < 6");
        let webvtt = "WEBVTT - a film\n\nNOTE nobody\nsays this\n\nintro\n00:01.000 --> 00:02.000 align:start\n<v Anna>Hello\n\n00:03.000 --> 00:04.000\n \n";
        assert_eq!(lines(webvtt), "[00:01.000] Hello");
    }

    #[test]
    fn a_plain_text_stays_as_it_is() {
        assert_eq!(lines("\nAnna: hello\n\nBen: --> there\n"), "Anna: hello\n\nBen: --> there");
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.srt");
        assert!(matches!(read(&path), Err(AskError::BesideFile { what: "subtitles", .. })));
        std::fs::write(&path, [0xff, 0xfe, 0x00]).unwrap();
        assert!(matches!(read(&path), Err(AskError::BesideFile { .. })));
        std::fs::write(&path, "x".repeat(MOST_CHARACTERS)).unwrap();
        assert!(matches!(read(&path), Err(AskError::LongSubtitles { limit: MOST_CHARACTERS, .. })));
    }
}
