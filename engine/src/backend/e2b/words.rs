//! The command lines of the media tool in a sandbox, ours and the Python one's, and what their answers hold.

use ambient_media::objects::ObjectKey;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::handle::MediaTool;
use crate::backend::{BoxWish, ClipWish, FramesWish, Target};
use crate::ids::VideoId;

/// Where a command is when no folder is named, which is where the shell tool is too.
const HOME: &str = "/home/user";

/// A sub-command with its flags. Values stand in the flag's own word, so that none is taken for a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(Vec<String>);

impl Words {
    pub(crate) fn new(command: &str) -> Self {
        Self(vec![command.to_owned()])
    }

    pub(crate) fn flag(mut self, name: &str) -> Self {
        self.0.push(format!("--{name}"));
        self
    }

    pub(crate) fn with(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.0.push(format!("--{name}={value}"));
        self
    }

    pub(crate) fn maybe(self, name: &str, value: Option<impl std::fmt::Display>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }

    /// What is looked at: the session's video, or a file in the sandbox. What is made of a file is named after the session, so that
    /// files of one name in two sessions do not meet in the bucket.
    fn of(self, target: &Target) -> Self {
        match &target.path {
            None => self.with("video-id", &target.video),
            Some(path) => self.with("video-id", &target.session).with("source-path", absolute(path)),
        }
    }
}

/// A path as the shell tool means it.
pub(crate) fn absolute(path: &str) -> String {
    let path = path.trim();
    match path.strip_prefix("~/") {
        Some(rest) => format!("{HOME}/{rest}"),
        None if path.starts_with('/') => path.to_owned(),
        None => format!("{HOME}/{path}"),
    }
}

pub(crate) fn clip(tool: &MediaTool, target: &Target, wish: &ClipWish) -> Words {
    #[expect(clippy::cast_precision_loss, reason = "megabytes of a clip")]
    let megabytes = wish.max_size_bytes as f64 / f64::from(1 << 20);
    // The Python tool cannot keep the source's rate; its default is as good as any.
    let rate = wish.frames_per_second.or((*tool != MediaTool::Python).then_some(0.0));
    Words::new("fetch-clip")
        .of(target)
        .with("start", wish.start)
        .with("end", wish.end)
        .maybe("fps", rate)
        .maybe("crf", wish.crf)
        .with("max-dim", wish.max_dimension)
        .with("max-size-mb", megabytes)
        .flag("upload-s3")
}

/// A clip out of these tiles. The bounds are clamped to them.
pub(crate) fn clip_of_tiles(video: &VideoId, keys: &[String], wish: &ClipWish) -> Words {
    self::video("concat-tiles", video)
        .with("keys", keys.join(","))
        .with("start", wish.start)
        .with("end", wish.end)
        .flag("upload-s3")
}

pub(crate) fn frames(target: &Target, wish: &FramesWish) -> Words {
    Words::new("extract-frames")
        .of(target)
        .with("fps", wish.frames_per_second)
        .with("start", wish.start)
        .maybe("end", wish.end)
        .with("max-frames", wish.max_frames)
        .with("max-dim", wish.max_dimension)
        .flag("upload-s3")
}

pub(crate) fn annotate(target: &Target, time: f64, boxes: &[BoxWish], max_dimension: u32) -> Words {
    let annotations: Vec<Value> = boxes
        .iter()
        // The Python tool reads the name that its models use.
        .map(|wish| json!({ "label": wish.label, "box": wish.corners, "box_2d": wish.corners }))
        .collect();
    Words::new("annotate-frame")
        .of(target)
        .with("timestamp", time)
        .with("annotations", Value::from(annotations))
        .with("coord-scale", 1000)
        .with("max-dim", max_dimension)
        .flag("upload-s3")
}

pub(crate) fn read_image(path: &str, max_dimension: u32) -> Words {
    Words::new("read-image").with("path", absolute(path)).with("max-dim", max_dimension).flag("upload-s3")
}

pub(crate) fn video(command: &str, video: &VideoId) -> Words {
    Words::new(command).with("video-id", video)
}

#[derive(Debug, Deserialize)]
pub(crate) struct ClipAnswer {
    pub(crate) clip: ClipData,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ClipData {
    pub(crate) clip_url: Option<String>,
    pub(crate) start_time: f64,
    pub(crate) end_time: f64,
    /// Not told by the Python tool, as the next one.
    pub(crate) size_bytes: Option<u64>,
    pub(crate) has_audio: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FramesAnswer {
    pub(crate) frames: Vec<FrameData>,
    #[serde(default)]
    pub(crate) width: u32,
    #[serde(default)]
    pub(crate) height: u32,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FrameData {
    pub(crate) timestamp: f64,
    pub(crate) frame_url: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AnnotateAnswer {
    pub(crate) url: Option<String>,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) timestamp: Option<f64>,
    #[serde(default)]
    pub(crate) annotations: Vec<AnnotationData>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct AnnotationData {
    #[serde(default)]
    pub(crate) pixel_box: Value,
}

impl AnnotationData {
    /// `[x_min, y_min, x_max, y_max]`, from an object with these names or a list in this order.
    pub(crate) fn edges(&self) -> Option<[u32; 4]> {
        let number = |value: &Value| {
            let pixels = value.as_f64()?.round();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels of a picture, clamped")]
            Some(pixels.clamp(0.0, f64::from(u32::MAX)) as u32)
        };
        let list: Vec<u32> = match &self.pixel_box {
            Value::Array(items) => items.iter().map(number).collect::<Option<_>>()?,
            Value::Object(fields) => {
                let field = |name: &str| fields.get(name).and_then(number);
                vec![field("x_min")?, field("y_min")?, field("x_max")?, field("y_max")?]
            }
            _ => return None,
        };
        list.try_into().ok()
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct ImageAnswer {
    pub(crate) image_url: Option<String>,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ArtifactAnswer {
    pub(crate) s3_key: String,
    pub(crate) s3_uri: String,
    pub(crate) url: Option<String>,
    pub(crate) size_bytes: u64,
}

/// Which object a presigned link leads to: the bucket is in the host's name or at the front of the path.
pub(crate) fn key_of(link: &str, bucket: &str) -> Option<ObjectKey> {
    let url = Url::parse(link).ok()?;
    let path = percent_encoding::percent_decode_str(url.path().strip_prefix('/')?).decode_utf8().ok()?;
    let is_in_host = url.host_str()?.strip_prefix(bucket).is_some_and(|rest| rest.starts_with('.'));
    let key = if is_in_host {
        &*path
    } else {
        // An endpoint may have a path of its own in front.
        let front = format!("{bucket}/");
        match path.strip_prefix(&front) {
            Some(key) => key,
            None => path.split_once(&format!("/{front}"))?.1,
        }
    };
    key.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;

    fn target(path: Option<&str>) -> Target {
        Target {
            session: SessionId::generate(),
            video: VideoId::of_hash("0123456789abcdef").unwrap(),
            path: path.map(str::to_owned),
        }
    }

    fn wish(frames_per_second: Option<f64>) -> ClipWish {
        ClipWish { start: 1.5, end: 3.0, frames_per_second, max_dimension: 768, max_size_bytes: 3 << 19, crf: None }
    }

    #[test]
    fn a_clip_is_asked_for_in_words_that_both_tools_know() {
        let ours = MediaTool::Ours { version: String::new() };
        let words = clip(&ours, &target(None), &wish(None)).into_vec().join(" ");
        assert_eq!(
            words,
            "fetch-clip --video-id=vid_0123456789abcdef --start=1.5 --end=3 --fps=0 --max-dim=768 --max-size-mb=1.5 --upload-s3"
        );
        let python = clip(&MediaTool::Python, &target(None), &wish(None)).into_vec().join(" ");
        assert!(!python.contains("--fps"), "{python}");
    }

    #[test]
    fn a_file_is_named_by_its_path_and_its_session() {
        let target = target(Some("-out/a b.mp4"));
        let words = clip(&MediaTool::Python, &target, &wish(Some(2.0))).into_vec();
        assert!(words.contains(&format!("--video-id={}", target.session)), "{words:?}");
        assert!(words.contains(&"--source-path=/home/user/-out/a b.mp4".to_owned()), "{words:?}");
        assert_eq!((absolute("~/x"), absolute(" /tmp/x ")), ("/home/user/x".to_owned(), "/tmp/x".to_owned()));
    }

    #[test]
    fn links_lead_back_to_keys() {
        let check = |link: &str, key: Option<&str>| {
            assert_eq!(key_of(link, "films").map(|key| key.to_string()).as_deref(), key, "{link}");
        };
        check("http://127.0.0.1:9000/films/vid_1/clips/a%20b.mp4?X-Amz-Signature=0", Some("vid_1/clips/a b.mp4"));
        check("https://films.s3.eu-west-1.amazonaws.com/vid_1/frames/x.jpg?X=1", Some("vid_1/frames/x.jpg"));
        check("https://storage.example/s3/films/vid_1/x.jpg", Some("vid_1/x.jpg"));
        check("https://storage.example/other/x.jpg", None);
        check("no link", None);
    }

    #[test]
    fn boxes_are_read_in_both_forms() {
        let read = |json: Value| AnnotationData { pixel_box: json }.edges();
        assert_eq!(read(json!({"x_min": 1, "y_min": 2, "x_max": 3, "y_max": 4})), Some([1, 2, 3, 4]));
        assert_eq!(read(json!([1, 2.4, 3, -4])), Some([1, 2, 3, 0]));
        assert_eq!((read(json!(null)), read(json!([1]))), (None, None));
    }
}
