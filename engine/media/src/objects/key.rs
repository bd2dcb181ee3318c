//! The names of objects: one function for each kind of thing that we store, so that the layout of the bucket stands in one place.

use std::fmt;
use std::str::FromStr;

/// The longest key that S3 takes, in bytes.
const LONGEST_KEY_BYTES: usize = 1024;

/// The longest file name of a stranger that becomes part of a key, in bytes; the rest of a key is short and ours.
const LONGEST_NAME_BYTES: usize = 200;

/// The name of an object in the bucket.
///
/// Invariant: not empty, at most 1024 bytes, without control characters, without a slash at its beginning and without the segments `.` and
/// `..`, which clients and proxies resolve, so that a signature would be made for another path than the server sees.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey(String);

/// A text that is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no object key: it must have 1 to {LONGEST_KEY_BYTES} bytes, no control character, no slash at its beginning and no part `.` or `..`",
    .0.escape_debug()
)]
pub struct BadObjectKey(String);

impl ObjectKey {
    /// An uploaded video: `<base>/<video_id>.<extension>`, where `base` is `S3_VIDEO_BASE_KEY`.
    pub fn source(base: &str, video_id: &str, extension: &str) -> Self {
        let base = base.trim_matches('/');
        let name = format!("{video_id}.{}", extension.trim_start_matches('.'));
        Self(if base.is_empty() { name } else { format!("{base}/{name}") })
    }

    /// A clip: `<video_id>/clips/<clip_id>.mp4`. The clip's id says its quality too, since clips of one window differ by it.
    pub fn clip(video_id: &str, clip_id: &str) -> Self {
        Self(format!("{video_id}/clips/{}.mp4", plain_name(clip_id)))
    }

    /// A frame: `<video_id>/frames/<frame_id>.<extension>`.
    pub fn frame(video_id: &str, frame_id: &str, extension: &str) -> Self {
        Self(format!("{video_id}/frames/{}.{extension}", plain_name(frame_id)))
    }

    /// A frame with marks on it: `<video_id>/annotated/<name>.<extension>`.
    pub fn annotated(video_id: &str, name: &str, extension: &str) -> Self {
        Self(format!("{video_id}/annotated/{}.{extension}", plain_name(name)))
    }

    /// A picture that the agent read from a file: `reads/<stem>_<unix>.jpg`; `unix` is seconds since 1970.
    pub fn read_image(stem: &str, unix: u64) -> Self {
        Self(format!("reads/{}_{unix}.jpg", plain_name(stem)))
    }

    /// A tile: `<video_id>/tiles/tile_<5 digits>.mp4`.
    pub fn tile(video_id: &str, index: usize) -> Self {
        Self(format!("{video_id}/tiles/tile_{index:05}.mp4"))
    }

    /// The list of a video's tiles: `<video_id>/tiles/manifest.json`.
    pub fn tile_manifest(video_id: &str) -> Self {
        Self(format!("{video_id}/tiles/manifest.json"))
    }

    /// An exported file: `artifacts/<video_id>/<name>_<unix><ext>`; `unix` is seconds since 1970.
    pub fn artifact(video_id: &str, file_name: &str, unix: u64) -> Self {
        let name = plain_name(file_name);
        let (stem, extension) = match name.rfind('.') {
            Some(dot) if dot > 0 => name.split_at(dot),
            Some(_) | None => (name.as_str(), ""),
        };
        Self(format!("artifacts/{video_id}/{stem}_{unix}{extension}"))
    }

    /// Where everything that was made from a video lies: `<video_id>/`. Exported files and the source are elsewhere.
    pub fn derived_prefix(video_id: &str) -> String {
        format!("{video_id}/")
    }

    /// Where the exported files of a video lie: `artifacts/<video_id>/`.
    pub fn artifact_prefix(video_id: &str) -> String {
        format!("artifacts/{video_id}/")
    }

    /// What `ambientctl doctor` stores to see whether it may: `.ambient-doctor/<name>`. Always the same few names, since a key without the
    /// right to remove objects leaves them there.
    pub fn probe(name: &str) -> Self {
        Self(format!(".ambient-doctor/{}", plain_name(name)))
    }

    /// A key under which nothing is ever stored.
    pub(super) fn nobodys() -> Self {
        Self("ambient-answers".to_owned())
    }

    /// The key as it is stored and sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part of the key, for people.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

/// A file's name as one harmless part of a key: no slash, no control character, not `.` or `..`, and of bounded length.
fn plain_name(name: &str) -> String {
    let harmless = |sign: char| if sign.is_control() || matches!(sign, '/' | '\\') { '_' } else { sign };
    let mut plain: String = name.chars().map(harmless).collect();
    if plain.len() > LONGEST_NAME_BYTES {
        // The end stays, since it holds the extension.
        let excess = plain.len() - LONGEST_NAME_BYTES;
        let cut = (excess..=plain.len()).find(|&at| plain.is_char_boundary(at)).expect("the end is a boundary");
        plain.drain(..cut);
    }
    if plain.is_empty() || plain == "." || plain == ".." { "file".to_owned() } else { plain }
}

impl FromStr for ObjectKey {
    type Err = BadObjectKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_sound = !text.is_empty()
            && text.len() <= LONGEST_KEY_BYTES
            && !text.starts_with('/')
            && !text.chars().any(char::is_control)
            && !text.split('/').any(|part| matches!(part, "." | ".."));
        if is_sound { Ok(Self(text.to_owned())) } else { Err(BadObjectKey(text.chars().take(200).collect())) }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VIDEO: &str = "vid_0123456789abcdef";

    #[test]
    fn each_kind_of_object_has_its_place() {
        let check = |key: ObjectKey, expected: &str| {
            assert_eq!(key.as_str(), expected);
            assert_eq!(expected.parse::<ObjectKey>(), Ok(key), "a key of ours is a key");
        };
        check(ObjectKey::source("videos", VIDEO, "mp4"), "videos/vid_0123456789abcdef.mp4");
        check(ObjectKey::source("/a/b/", VIDEO, ".mkv"), "a/b/vid_0123456789abcdef.mkv");
        check(ObjectKey::source("", VIDEO, "mp4"), "vid_0123456789abcdef.mp4");
        check(ObjectKey::clip(VIDEO, "c_1"), "vid_0123456789abcdef/clips/c_1.mp4");
        check(ObjectKey::frame(VIDEO, "f_t1.000", "jpg"), "vid_0123456789abcdef/frames/f_t1.000.jpg");
        check(ObjectKey::annotated(VIDEO, "frame_1.5", "jpg"), "vid_0123456789abcdef/annotated/frame_1.5.jpg");
        check(ObjectKey::read_image("chart", 1_700_000_000), "reads/chart_1700000000.jpg");
        check(ObjectKey::tile(VIDEO, 7), "vid_0123456789abcdef/tiles/tile_00007.mp4");
        check(ObjectKey::tile_manifest(VIDEO), "vid_0123456789abcdef/tiles/manifest.json");
        check(ObjectKey::artifact(VIDEO, "a b+c.mp4", 5), "artifacts/vid_0123456789abcdef/a b+c_5.mp4");
        check(ObjectKey::artifact(VIDEO, ".bashrc", 5), "artifacts/vid_0123456789abcdef/.bashrc_5");
    }

    #[test]
    fn a_strangers_name_stays_one_part_of_the_key() {
        for name in ["../../secret", "a\\b", "..", ".", "", "line\nbreak", "/etc/passwd"] {
            let key = ObjectKey::artifact(VIDEO, name, 5);
            assert_eq!(key.as_str().split('/').count(), 3, "{key}");
            assert_eq!(key.as_str().parse::<ObjectKey>().as_ref(), Ok(&key));
        }
        let long = format!("{}.mp4", "视".repeat(400));
        let key = ObjectKey::artifact(VIDEO, &long, 5);
        assert!(key.as_str().len() < 300 && key.as_str().ends_with("_5.mp4"), "{key}");
    }

    #[test]
    fn what_a_client_or_proxy_would_rewrite_is_no_key() {
        for text in ["", "/a", "a/../b", "./a", "a/.", "a\nb", &"a".repeat(1025)] {
            assert!(text.parse::<ObjectKey>().is_err(), "{text:?}");
        }
        for text in ["x//y.mp4", "ü 视频.mp4", "50%.mp4", "a b+c.mp4", "..a/b..", &"a".repeat(1024)] {
            assert_eq!(text.parse::<ObjectKey>().unwrap().as_str(), text);
        }
    }
}
