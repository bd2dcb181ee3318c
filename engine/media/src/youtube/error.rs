//! Why a video of YouTube was not fetched, in words for the person who asked for it.

use std::time::Duration;

use crate::error::MediaError;
use crate::probe::Refusal;

/// Why there is no video.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum YoutubeError {
    /// The address is somewhere else.
    #[error("url must be a YouTube URL")]
    NotYoutube,
    /// Something is shown as it happens, or will be.
    #[error("YouTube live streams and premieres cannot be imported: {0}; import the video once it has ended")]
    Live(&'static str),
    /// The address names a list.
    #[error("YouTube playlists and channels cannot be imported: give the address of one video")]
    Playlist,
    /// Longer than `YOUTUBE_MAX_DURATION_SECONDS`.
    #[error("YouTube video duration {seconds:.0}s exceeds limit {}s", .limit.as_secs())]
    TooLong {
        /// Its length.
        seconds: f64,
        /// The limit.
        limit: Duration,
    },
    /// Larger than `YOUTUBE_MAX_SIZE_BYTES`.
    #[error("YouTube video size{} exceeds limit {limit_bytes} bytes", .size_bytes.map(|size| format!(" {size} bytes")).unwrap_or_default())]
    TooLarge {
        /// Its size, where somebody told.
        size_bytes: Option<u64>,
        /// The limit.
        limit_bytes: u64,
    },
    /// yt-dlp could not fetch it.
    #[error("YouTube gave no video: {reason}{}", .remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default())]
    Failed {
        /// yt-dlp's own words.
        reason: String,
        /// Whether the next try would end the same.
        is_final: bool,
        /// What may help.
        remedy: Option<&'static str>,
    },
    /// It took too long.
    #[error("the download took longer than {limit:?} and was ended")]
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// What came is no video that we work with.
    #[error("the downloaded file was refused: {0}")]
    Refused(Refusal),
    /// yt-dlp is missing, the disk failed, the work was cancelled, and so on.
    #[error(transparent)]
    Media(#[from] MediaError),
}

impl YoutubeError {
    /// Whether another try would end the same.
    pub const fn is_final(&self) -> bool {
        match self {
            Self::NotYoutube
            | Self::Live(_)
            | Self::Playlist
            | Self::TooLong { .. }
            | Self::TooLarge { .. }
            | Self::Refused(_) => true,
            Self::Failed { is_final, .. } => *is_final,
            // A program that is missing is there after the operator has put it there, and not before.
            Self::Media(error) => matches!(error, MediaError::Start { .. }),
            Self::TimedOut { .. } => false,
        }
    }

    /// A short, stable word for the kind of failure, for envelopes and logs; part of the contract with scripts.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotYoutube => "NotYoutube",
            Self::Live(_) => "YoutubeLive",
            Self::Playlist => "YoutubePlaylist",
            Self::TooLong { .. } => "YoutubeTooLong",
            Self::TooLarge { .. } => "YoutubeTooLarge",
            Self::Failed { .. } => "YoutubeFailed",
            Self::TimedOut { .. } => "TimedOut",
            Self::Refused(_) => "SourceRefused",
            Self::Media(error) => error.code(),
        }
    }
}

/// What yt-dlp says of videos that will not be there the next time either.
const FINAL_WORDS: [&str; 20] = [
    "private video",
    "video unavailable",
    "this video is unavailable",
    "video is not available",
    "has been removed",
    "removed by the uploader",
    "account associated with this video has been terminated",
    "available in your country",
    "blocked it",
    "members-only",
    "join this channel",
    "requires payment",
    "confirm your age",
    "age-restricted",
    "copyright",
    "drm",
    "unsupported url",
    "is not a valid url",
    "incomplete youtube id",
    "does not exist",
];

/// What yt-dlp says when nobody answered; no program on this host would have helped.
const NETWORK_WORDS: [&str; 6] =
    ["name or service not known", "name resolution", "timed out", "connection", "unreachable", "http error 5"];

/// An error from yt-dlp's last words.
pub(super) fn of_complaint(stderr_tail: &str, max_height: Option<u32>, has_deno: bool) -> YoutubeError {
    let error = stderr_tail.lines().rev().find_map(|line| line.trim().strip_prefix("ERROR:"));
    let reason = error.or_else(|| stderr_tail.lines().last()).unwrap_or("yt-dlp gave no reason").trim();
    // "[youtube] dQw4w9WgXcQ: Private video. …": the first words are for yt-dlp's own people.
    let reason = match reason.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_extractor, rest)) => rest.split_once(": ").map_or(rest, |(_id, words)| words),
        None => reason,
    };
    let lower = reason.to_ascii_lowercase();
    if lower.contains("live event will begin")
        || lower.contains("premieres in")
        || lower.contains("premiere will begin")
    {
        return YoutubeError::Live("it has not begun");
    }
    let no_format = lower.contains("requested format is not available");
    let remedy = if lower.contains("not a bot") || lower.contains("http error 429") {
        Some("YouTube holds this host for a robot: wait, or let the engine reach YouTube another way (`HTTPS_PROXY`)")
    } else if !has_deno && !NETWORK_WORDS.iter().any(|words| lower.contains(words)) {
        Some("`deno` is not on `PATH`, and yt-dlp needs it for most videos: install it")
    } else if no_format && max_height.is_some() {
        Some("perhaps all its pictures are taller than `YOUTUBE_MAX_HEIGHT` allows")
    } else if lower.contains("signature") || lower.contains("http error 403") || lower.contains("player") {
        Some("YouTube changes often: update yt-dlp")
    } else {
        None
    };
    let is_final = FINAL_WORDS.iter().any(|words| lower.contains(words)) || (no_format && has_deno);
    // "… (caused by …)" and "; please report this issue on …" are for yt-dlp's own people too.
    let reason = reason.split(" (caused by ").next().unwrap_or(reason);
    let reason = reason.split("; please report this issue").next().unwrap_or(reason).trim_end_matches('.').to_owned();
    YoutubeError::Failed { reason, is_final, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stderr: &str) -> (String, bool) {
        let error = of_complaint(stderr, Some(720), true);
        (error.to_string(), error.is_final())
    }

    #[test]
    fn what_yt_dlp_says_becomes_a_sentence_and_a_verdict() {
        for (stderr, sentence, is_final) in [
            (
                "WARNING: [youtube] x\nERROR: [youtube] dQw4w9WgXcQ: Private video. Sign in if you've been granted access to this video",
                "YouTube gave no video: Private video. Sign in if you've been granted access to this video",
                true,
            ),
            (
                "ERROR: [youtube] dQw4w9WgXcQ: Video unavailable. This video is no longer available because the YouTube account associated with this video has been terminated.",
                "YouTube gave no video: Video unavailable. This video is no longer available because the YouTube account associated with this video has been terminated",
                true,
            ),
            (
                "ERROR: [youtube] dQw4w9WgXcQ: Unable to download API page: HTTP Error 503: Service Unavailable (caused by <HTTPError 503: Service Unavailable>)",
                "YouTube gave no video: Unable to download API page: HTTP Error 503: Service Unavailable",
                false,
            ),
            (
                "ERROR: [youtube] dQw4w9WgXcQ: Sign in to confirm you\u{2019}re not a bot. Use --cookies-from-browser or --cookies for the authentication",
                "YouTube gave no video: Sign in to confirm you\u{2019}re not a bot. Use --cookies-from-browser or --cookies for the authentication; YouTube holds this host for a robot: wait, or let the engine reach YouTube another way (`HTTPS_PROXY`)",
                false,
            ),
            (
                "ERROR: [youtube] dQw4w9WgXcQ: Requested format is not available. Use --list-formats for a list of available formats",
                "YouTube gave no video: Requested format is not available. Use --list-formats for a list of available formats; perhaps all its pictures are taller than `YOUTUBE_MAX_HEIGHT` allows",
                true,
            ),
            (
                "ERROR: unable to download video data: HTTP Error 403: Forbidden",
                "YouTube gave no video: unable to download video data: HTTP Error 403: Forbidden; YouTube changes often: update yt-dlp",
                false,
            ),
            ("", "YouTube gave no video: yt-dlp gave no reason", false),
            ("Traceback …\nKeyError: 'x'", "YouTube gave no video: KeyError: 'x'", false),
        ] {
            assert_eq!(told(stderr), (sentence.to_owned(), is_final), "{stderr}");
        }
    }

    #[test]
    fn what_has_not_begun_is_live() {
        let error = of_complaint("ERROR: [youtube] dQw4w9WgXcQ: This live event will begin in 3 days.", None, true);
        assert!(matches!(error, YoutubeError::Live(_)), "{error}");
        assert!(error.is_final());
    }

    #[test]
    fn a_missing_deno_is_named() {
        let stderr = "ERROR: [youtube] dQw4w9WgXcQ: Requested format is not available";
        let error = of_complaint(stderr, None, false);
        assert!(error.to_string().contains("`deno` is not on `PATH`"), "{error}");
        assert!(!error.is_final(), "it may be installed until the next try");
    }

    #[test]
    fn a_missing_deno_is_not_blamed_for_the_network() {
        let stderr =
            "ERROR: [youtube] x: Unable to download API page: [Errno -2] Name or service not known (caused by …)";
        let error = of_complaint(stderr, None, false);
        let words = "YouTube gave no video: Unable to download API page: [Errno -2] Name or service not known";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn limits_are_told_with_their_figures() {
        let limit = Duration::from_hours(3);
        assert_eq!(
            YoutubeError::TooLong { seconds: 36_000.4, limit }.to_string(),
            "YouTube video duration 36000s exceeds limit 10800s"
        );
        assert_eq!(
            YoutubeError::TooLarge { size_bytes: None, limit_bytes: 5 }.to_string(),
            "YouTube video size exceeds limit 5 bytes"
        );
    }
}
