//! What yt-dlp is told: one look at the page, then the download from what that look found.
//!
//! No configuration file, cache, cookie or playlist counts, so the same address means the same on every host.

use camino::Utf8Path;

use super::words;

/// The file that the first call's answer is handed to the second one in.
pub(crate) const INFO: &str = "info.json";
/// What the download is called, before its extension.
pub(crate) const STEM: &str = "source";
/// How lines of progress begin.
pub(crate) const PROGRESS: &str = "ambient-progress";

/// What may be fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) max_height: Option<u32>,
    pub(crate) max_size_bytes: u64,
}

/// Prints all that is known of a video as JSON, and fetches nothing of it.
pub(crate) fn extract(url: &str, bounds: Bounds) -> Vec<String> {
    let mut args = common();
    // A page with several videos is recognised by one of them.
    args.extend(words(&["--use-extractors", "youtube,youtube:.*", "--flat-playlist", "--playlist-items", "1"]));
    args.extend(words(&["--extractor-retries", "5", "--format", &formats(bounds), "--dump-single-json", "--", url]));
    args
}

/// Fetches what [`extract`] found, into the working folder.
pub(crate) fn download(bounds: Bounds, ffmpeg: &Utf8Path) -> Vec<String> {
    let mut args = common();
    args.extend(words(&["--load-info-json", INFO, "--format", &formats(bounds)]));
    args.extend(words(&["--max-filesize", &bounds.max_size_bytes.to_string()]));
    args.extend(words(&["--retries", "10", "--fragment-retries", "10", "--retry-sleep", "http:exp=1:30"]));
    // A piece that is missing would be a hole in the video, without a word.
    args.extend(words(&["--abort-on-unavailable-fragments", "--concurrent-fragments", "4"]));
    args.extend(words(&["--no-mtime", "--merge-output-format", "mp4/mkv", "--output", &format!("{STEM}.%(ext)s")]));
    if ffmpeg.as_str().contains('/') {
        args.extend(words(&["--ffmpeg-location", ffmpeg.as_str()]));
    }
    let numbers = "%(progress.downloaded_bytes)s %(progress.total_bytes,progress.total_bytes_estimate)s";
    args.extend(words(&["--newline", "--progress-template"]));
    args.push(format!("download:{PROGRESS} %(progress.status)s {numbers}"));
    args.extend(words(&["--progress-template", &format!("postprocess:{PROGRESS} merging")]));
    args
}

fn common() -> Vec<String> {
    words(&[
        "--ignore-config",
        "--no-cache-dir",
        "--no-cookies",
        "--no-cookies-from-browser",
        "--no-playlist",
        "--socket-timeout",
        "30",
    ])
}

/// From what every player shows to whatever there is, never taller than allowed.
fn formats(bounds: Bounds) -> String {
    // A format that does not tell its height is taken.
    let height = bounds.max_height.map(|height| format!("[height<=?{height}]")).unwrap_or_default();
    [
        format!("bv*[vcodec^=avc1][ext=mp4]{height}+ba[ext=m4a]"),
        format!("bv*[ext=mp4]{height}+ba[ext=m4a]"),
        format!("b[ext=mp4]{height}"),
        format!("bv*{height}+ba"),
        format!("b{height}"),
        format!("bv*{height}"),
    ]
    .join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { max_height: Some(720), max_size_bytes: 5 << 30 };

    #[test]
    fn the_look_at_a_page() {
        let args = extract("https://www.youtube.com/watch?v=dQw4w9WgXcQ", BOUNDS);
        insta::assert_snapshot!(args.join("\n"), @r"
        --ignore-config
        --no-cache-dir
        --no-cookies
        --no-cookies-from-browser
        --no-playlist
        --socket-timeout
        30
        --use-extractors
        youtube,youtube:.*
        --flat-playlist
        --playlist-items
        1
        --extractor-retries
        5
        --format
        bv*[vcodec^=avc1][ext=mp4][height<=?720]+ba[ext=m4a]/bv*[ext=mp4][height<=?720]+ba[ext=m4a]/b[ext=mp4][height<=?720]/bv*[height<=?720]+ba/b[height<=?720]/bv*[height<=?720]
        --dump-single-json
        --
        https://www.youtube.com/watch?v=dQw4w9WgXcQ
        ");
    }

    #[test]
    fn the_download() {
        insta::assert_snapshot!(download(BOUNDS, "ffmpeg".into()).join("\n"), @r"
        --ignore-config
        --no-cache-dir
        --no-cookies
        --no-cookies-from-browser
        --no-playlist
        --socket-timeout
        30
        --load-info-json
        info.json
        --format
        bv*[vcodec^=avc1][ext=mp4][height<=?720]+ba[ext=m4a]/bv*[ext=mp4][height<=?720]+ba[ext=m4a]/b[ext=mp4][height<=?720]/bv*[height<=?720]+ba/b[height<=?720]/bv*[height<=?720]
        --max-filesize
        5368709120
        --retries
        10
        --fragment-retries
        10
        --retry-sleep
        http:exp=1:30
        --abort-on-unavailable-fragments
        --concurrent-fragments
        4
        --no-mtime
        --merge-output-format
        mp4/mkv
        --output
        source.%(ext)s
        --newline
        --progress-template
        download:ambient-progress %(progress.status)s %(progress.downloaded_bytes)s %(progress.total_bytes,progress.total_bytes_estimate)s
        --progress-template
        postprocess:ambient-progress merging
        ");
    }

    #[test]
    fn without_a_limit_of_height_none_is_asked_for() {
        assert!(!formats(Bounds { max_height: None, ..BOUNDS }).contains("height"));
    }

    #[test]
    fn an_ffmpeg_of_ones_own_is_told() {
        let args = download(BOUNDS, "/opt/ffmpeg/bin/ffmpeg".into());
        assert!(args.windows(2).any(|pair| pair == ["--ffmpeg-location", "/opt/ffmpeg/bin/ffmpeg"]));
    }
}
