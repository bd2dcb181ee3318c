//! What a file that a session gives away is called, and what kind of file browsers take it for.

use std::time::SystemTime;

use camino::Utf8Path;

/// The name that the user sees: the wanted one, with the file's own extension where it has none.
pub(super) fn artifact_name(wanted: Option<&str>, path: &Utf8Path) -> String {
    let own = path.file_name().unwrap_or("file");
    let wanted = wanted.and_then(|name| name.rsplit(['/', '\\']).next()).map(str::trim).filter(|name| !name.is_empty());
    match (wanted, path.extension()) {
        (None, _) => own.to_owned(),
        (Some(name), Some(extension)) if Utf8Path::new(name).extension().is_none() => format!("{name}.{extension}"),
        (Some(name), _) => name.to_owned(),
    }
}

/// The media type that a browser needs, by the extension; what is not known is saved rather than shown.
pub(super) fn media_type(name: &str) -> &'static str {
    match Utf8Path::new(name).extension().unwrap_or_default().to_ascii_lowercase().as_str() {
        "mp4" | "m4v" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "mkv" => "video/x-matroska",
        "gif" => "image/gif",
        "jpg" | "jpeg" => "image/jpeg",
        "png" => "image/png",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "mp3" => "audio/mpeg",
        "m4a" => "audio/mp4",
        "wav" => "audio/wav",
        "csv" => "text/csv",
        "txt" | "log" | "md" => "text/plain; charset=utf-8",
        "srt" => "application/x-subrip",
        "vtt" => "text/vtt",
        "html" => "text/html; charset=utf-8",
        "json" => "application/json",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        _ => "application/octet-stream",
    }
}

/// Now, for a key that no other artifact has.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
