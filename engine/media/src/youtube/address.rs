//! Addresses of videos on YouTube.

use url::Url;

/// What an address on YouTube names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct YoutubeVideo {
    /// Tells this video from every other: its id at YouTube, in its own case, else the address.
    pub key: String,
    /// To fetch it from.
    pub url: String,
}

/// Reads an address; `None` for one that is not at YouTube.
pub fn youtube_video(text: &str) -> Option<YoutubeVideo> {
    let url = Url::parse(text.trim()).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let host = url.host_str()?.to_ascii_lowercase();
    let is_short = host == "youtu.be";
    if !is_short && !matches!(host.as_str(), "youtube.com" | "www.youtube.com" | "m.youtube.com" | "music.youtube.com")
    {
        return None;
    }
    if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
        return None;
    }
    let mut segments = url.path_segments()?.filter(|segment| !segment.is_empty());
    let first = segments.next();
    let id = if is_short {
        first.map(str::to_owned)
    } else {
        match first {
            Some("shorts" | "embed" | "v" | "live") => segments.next().map(str::to_owned),
            _ => url.query_pairs().find(|(name, _)| name == "v").map(|(_, id)| id.into_owned()),
        }
    };
    let is_id = |id: &String| {
        (6..=32).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    };
    Some(match id.filter(is_id) {
        Some(id) => YoutubeVideo { url: format!("https://www.youtube.com/watch?v={id}"), key: id },
        // Scheme and host were lowered by the parser; the rest means what its case says.
        None => YoutubeVideo { key: url.to_string(), url: url.to_string() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_a_video_is_one_key() {
        for text in [
            "https://www.youtube.com/watch?v=dQw4w9WgXcQ",
            "http://youtube.com/watch?t=5&v=dQw4w9WgXcQ&list=PL1",
            "https://m.youtube.com/watch?v=dQw4w9WgXcQ#t=1",
            "https://youtu.be/dQw4w9WgXcQ?si=x",
            "https://www.youtube.com/shorts/dQw4w9WgXcQ",
            "https://www.youtube.com/embed/dQw4w9WgXcQ",
            "https://www.youtube.com/v/dQw4w9WgXcQ",
            "https://www.youtube.com/live/dQw4w9WgXcQ?feature=share",
            " HTTPS://WWW.YOUTUBE.COM/watch?v=dQw4w9WgXcQ ",
        ] {
            let video = youtube_video(text).unwrap();
            assert_eq!(video.key, "dQw4w9WgXcQ", "{text}");
            assert_eq!(video.url, "https://www.youtube.com/watch?v=dQw4w9WgXcQ");
        }
    }

    #[test]
    fn ids_that_differ_in_case_alone_are_different_videos() {
        let key = |text: &str| youtube_video(text).unwrap().key;
        assert_ne!(key("https://www.youtube.com/live/aBcDeFgHiJk"), key("https://www.youtube.com/live/AbCdEfGhIjK"));
    }

    #[test]
    fn other_addresses_are_not_youtubes() {
        for text in [
            "",
            "dQw4w9WgXcQ",
            "https://example.com/watch?v=dQw4w9WgXcQ",
            "https://youtube.com.example.com/watch?v=dQw4w9WgXcQ",
            "https://youtube.com@example.com/watch?v=dQw4w9WgXcQ",
            "https://user@youtube.com/watch?v=dQw4w9WgXcQ",
            "https://youtube.com:8080/watch?v=dQw4w9WgXcQ",
            "ftp://youtube.com/watch?v=dQw4w9WgXcQ",
            "file:///youtube.com/x",
        ] {
            assert_eq!(youtube_video(text), None, "{text}");
        }
    }
}
