//! What a video's page says, as yt-dlp prints it, and whether it is a video at all.

use serde::{Deserialize, Serialize};

use super::YoutubeError;
use crate::error::MediaError;

/// A video on YouTube.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct YoutubeInfo {
    /// Its id there.
    pub id: String,
    /// Its title.
    pub title: Option<String>,
    /// Its length in seconds.
    #[serde(rename = "duration")]
    pub duration_seconds: f64,
    /// The width of what would be fetched, in pixels.
    pub width: Option<u32>,
    /// The height of what would be fetched, in pixels.
    pub height: Option<u32>,
    /// Its page.
    pub webpage_url: Option<String>,
    /// Which part of yt-dlp knows the page.
    pub extractor: Option<String>,
    /// What would be fetched, in yt-dlp's words: `136+140`.
    pub format_id: Option<String>,
    /// How large it is, in bytes, as far as the page tells; approximate.
    pub size_bytes: Option<u64>,
}

/// The few fields of yt-dlp's answer that count here. Numbers may be whole or not.
#[derive(Debug, Deserialize)]
struct Raw {
    #[serde(default, rename = "_type")]
    kind: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    duration: Option<f64>,
    #[serde(default)]
    is_live: Option<bool>,
    #[serde(default)]
    live_status: Option<String>,
    #[serde(default)]
    webpage_url: Option<String>,
    #[serde(default)]
    extractor: Option<String>,
    #[serde(default)]
    format_id: Option<String>,
    #[serde(default)]
    requested_formats: Option<Vec<RawFormat>>,
    #[serde(flatten)]
    whole: RawFormat,
}

#[derive(Debug, Deserialize)]
struct RawFormat {
    #[serde(default)]
    width: Option<f64>,
    #[serde(default)]
    height: Option<f64>,
    #[serde(default)]
    filesize: Option<f64>,
    #[serde(default)]
    filesize_approx: Option<f64>,
}

impl RawFormat {
    fn size_bytes(&self) -> Option<u64> {
        self.filesize.or(self.filesize_approx).filter(|bytes| *bytes > 0.0).map(whole)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes and pixels; `as` saturates")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

impl YoutubeInfo {
    /// Reads yt-dlp's answer, and refuses what is no single finished video.
    pub(super) fn parse(answer: &[u8]) -> Result<Self, YoutubeError> {
        let raw: Raw = serde_json::from_slice(answer)
            .map_err(|error| MediaError::BadAnswer { program: "yt-dlp".into(), reason: error.to_string() })?;
        if !matches!(raw.kind.as_deref(), None | Some("video")) {
            return Err(YoutubeError::Playlist);
        }
        let status = raw.live_status.as_deref().unwrap_or_default();
        match status {
            _ if raw.is_live == Some(true) => return Err(YoutubeError::Live("it is on the air")),
            "is_live" => return Err(YoutubeError::Live("it is on the air")),
            "is_upcoming" => return Err(YoutubeError::Live("it has not begun")),
            "post_live" => return Err(YoutubeError::Live("YouTube is still working on its recording")),
            _ => {}
        }
        let Some(duration_seconds) = raw.duration.filter(|seconds| *seconds > 0.0) else {
            return Err(YoutubeError::Live("YouTube tells no length of it"));
        };
        let parts = raw.requested_formats.unwrap_or_default();
        let sizes: Option<Vec<u64>> = parts.iter().map(RawFormat::size_bytes).collect();
        let size_bytes = match sizes {
            Some(sizes) if !sizes.is_empty() => Some(sizes.iter().sum()),
            Some(_) | None => raw.whole.size_bytes(),
        };
        let side = |of: fn(&RawFormat) -> Option<f64>| {
            let sides = std::iter::once(&raw.whole).chain(&parts).filter_map(of);
            sides.max_by(f64::total_cmp).and_then(|side| u32::try_from(whole(side)).ok()).filter(|side| *side > 0)
        };
        let (width, height) = (side(|format| format.width), side(|format| format.height));
        let id = raw.id.unwrap_or_default();
        Ok(Self {
            title: raw.title.map(|title| title.trim().to_owned()).filter(|title| !title.is_empty()),
            duration_seconds,
            width,
            height,
            webpage_url: raw.webpage_url,
            extractor: raw.extractor,
            format_id: raw.format_id,
            size_bytes,
            id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(answer: &str) -> Result<YoutubeInfo, YoutubeError> {
        YoutubeInfo::parse(answer.as_bytes())
    }

    #[test]
    fn a_recorded_answer_is_read() {
        let info = YoutubeInfo::parse(include_bytes!("../../tests/data/youtube/info.json")).unwrap();
        insta::assert_json_snapshot!(info, @r#"
        {
          "id": "dQw4w9WgXcQ",
          "title": "How a bridge is built",
          "duration": 4.0,
          "width": 320,
          "height": 240,
          "webpage_url": "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
          "extractor": "youtube",
          "format_id": "136+140",
          "size_bytes": 90000
        }
        "#);
    }

    #[test]
    fn what_is_live_or_a_list_is_refused() {
        for (answer, words) in [
            (r#"{"id":"a","duration":9,"is_live":true}"#, "on the air"),
            (r#"{"id":"a","live_status":"is_live"}"#, "on the air"),
            (r#"{"id":"a","live_status":"is_upcoming"}"#, "not begun"),
            (r#"{"id":"a","duration":9,"live_status":"post_live"}"#, "still working"),
            (r#"{"id":"a","duration":null,"live_status":"not_live"}"#, "no length"),
            (r#"{"_type":"playlist","id":"PL1","entries":[]}"#, "playlists"),
            (r#"{"_type":"url","id":"UC1"}"#, "playlists"),
        ] {
            let error = parse(answer).expect_err(answer);
            assert!(error.to_string().contains(words), "{answer}: {error}");
            assert!(error.is_final());
        }
    }

    #[test]
    fn a_recording_of_a_past_stream_is_a_video() {
        let info = parse(r#"{"id":"a","duration":9.5,"live_status":"was_live","filesize_approx":12.6}"#).unwrap();
        assert_eq!((info.duration_seconds, info.size_bytes, info.width), (9.5, Some(13), None));
    }

    #[test]
    fn a_size_is_told_only_if_all_parts_tell_theirs() {
        let info = parse(r#"{"id":"a","duration":9,"requested_formats":[{"filesize":5},{"width":3}]}"#).unwrap();
        assert_eq!((info.size_bytes, info.width), (None, Some(3)));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        for answer in ["", "null", "[]", "<html>"] {
            assert!(matches!(parse(answer), Err(YoutubeError::Media(MediaError::BadAnswer { .. }))), "{answer}");
        }
    }
}
