//! What is known about a file, and whether we work with it.

use std::fmt;

use serde::Serialize;

use crate::time::MediaTime;

/// Everything a caller may want to know about a file before it asks for pictures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probe {
    /// Whether the file can be worked with at all; what follows is as much as could be found out.
    pub acceptance: Acceptance,
    /// The container by content: ffmpeg's name of its demuxer, such as `mov` (also MP4) or `matroska` (also `WebM`).
    pub container: Option<String>,
    /// The size of the file, in bytes.
    pub size_bytes: u64,
    /// Where the pictures end; what frames and clips are measured against.
    pub duration: MediaTime,
    /// Where the longest stream ends; sound may outlast the pictures.
    pub file_duration: MediaTime,
    /// What the file's own clock shows at time 0, in seconds.
    pub start_seconds: f64,
    /// Whether the file ends before what its header promises.
    pub is_cut_off: bool,
    /// The pictures.
    pub video: Option<VideoTrack>,
    /// The sound that clips carry.
    pub audio: Option<AudioTrack>,
    /// All streams in the order of the file.
    pub streams: Vec<StreamInfo>,
}

impl Probe {
    /// Whether there is sound.
    pub const fn has_audio(&self) -> bool {
        self.audio.is_some()
    }

    /// Whether the file may be used.
    pub const fn is_accepted(&self) -> bool {
        matches!(self.acceptance, Acceptance::Accepted)
    }
}

/// The verdict on a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Acceptance {
    /// At least one picture was decoded, within the limits.
    Accepted,
    /// We do not work with it.
    Refused(Refusal),
}

/// Why a file is not accepted, in words for the person who uploaded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// What is wrong, such as "the file is empty".
    pub reason: String,
    /// What helps.
    pub remedy: String,
}

impl Refusal {
    pub(crate) fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { reason: reason.into(), remedy: remedy.into() }
    }

    pub(crate) fn sound_only() -> Self {
        Self::new("the file holds sound only, no pictures", "upload a video that has pictures")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

/// The stream whose pictures are shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VideoTrack {
    /// The codec by ffmpeg's name.
    pub codec: String,
    /// The size on screen: turned, and with square pixels.
    pub size: Size,
    /// The size as stored.
    pub coded_size: Size,
    /// Pictures a second on average.
    pub rate: Rate,
    /// How far a player turns the stored picture clockwise: 0, 90, 180 or 270 degrees.
    pub rotation: u16,
    /// When the first picture comes; later than 0 where sound comes first.
    pub first_picture: MediaTime,
    /// Whether the pictures are HDR (PQ or HLG); clips and frames of them are tone-mapped to bt709.
    pub is_hdr: bool,
    /// Whether pictures are made of two fields; clips and frames of them are deinterlaced.
    pub is_interlaced: bool,
}

/// The stream whose sound clips carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AudioTrack {
    /// The codec by ffmpeg's name.
    pub codec: String,
    /// Samples a second.
    pub sample_rate: u32,
    /// How many channels.
    pub channels: u32,
}

/// One stream of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StreamInfo {
    /// Its place in the file.
    pub index: u32,
    /// `video`, `audio`, `subtitle`, `data` or `attachment`; `cover` for a picture that decorates a song or film.
    pub kind: String,
    /// The codec by ffmpeg's name; `unknown` where ffmpeg knows none.
    pub codec: String,
}

/// Width and height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Size {
    /// Pixels from left to right.
    pub width: u32,
    /// Pixels from top to bottom.
    pub height: u32,
}

impl Size {
    /// How many pixels.
    pub const fn pixels(self) -> u64 {
        // u32 times u32 always fits.
        self.width as u64 * self.height as u64
    }

    /// The same shape, scaled down until no side is longer than `max_dim`; never up.
    #[must_use]
    pub fn fit(self, max_dim: Option<u32>) -> Self {
        let longest = self.width.max(self.height);
        match max_dim {
            Some(limit) if limit > 0 && limit < longest => {
                let side = |length: u32| {
                    let scaled =
                        (u64::from(length) * u64::from(limit) * 2 + u64::from(longest)) / (u64::from(longest) * 2);
                    u32::try_from(scaled).unwrap_or(limit).max(1)
                };
                Self { width: side(self.width), height: side(self.height) }
            }
            _ => self,
        }
    }

    /// Both sides even, as 4:2:0 video needs: an odd pixel is scaled away.
    #[must_use]
    pub const fn even(self) -> Self {
        const fn side(length: u32) -> u32 {
            if length < 2 { 2 } else { length & !1 }
        }
        Self { width: side(self.width), height: side(self.height) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// Pictures a second as an exact fraction, such as 30000/1001. Invariant: both parts are above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    numerator: u32,
    denominator: u32,
}

impl Rate {
    /// `numerator` pictures in `denominator` seconds; `None` if one of them is zero.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        if numerator == 0 || denominator == 0 { None } else { Some(Self { numerator, denominator }) }
    }

    /// Reads pictures a second as they come from a client or a model, to the thousandth; `None` for what is no rate between 0.001 and 1000.
    pub fn from_f64(rate: f64) -> Option<Self> {
        if !(0.001..=1000.0).contains(&rate) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 1 and a million by the check above"
        )]
        let thousandths = (rate * 1000.0).round() as u32;
        Self::new(thousandths, 1000)
    }

    /// Reads ffprobe's `30000/1001`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (numerator, denominator) = text.split_once('/')?;
        Self::new(numerator.parse().ok()?, denominator.parse().ok()?)
    }

    /// The part above the line.
    pub const fn numerator(self) -> u32 {
        self.numerator
    }

    /// The part below the line.
    pub const fn denominator(self) -> u32 {
        self.denominator
    }

    /// Pictures a second, for JSON and text.
    pub fn as_f64(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator)
    }
}

impl Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

/// What `doctor` shows about the programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// ffmpeg's version as it names itself, such as `5.1.9-0+deb12u1`.
    pub ffmpeg: String,
    /// ffprobe's.
    pub ffprobe: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn size(width: u32, height: u32) -> Size {
        Size { width, height }
    }

    #[test]
    fn sizes_shrink_to_fit_and_never_grow() {
        assert_eq!(size(1920, 1080).fit(Some(768)), size(768, 432));
        assert_eq!(size(1080, 1920).fit(Some(768)), size(432, 768));
        assert_eq!(size(320, 240).fit(Some(768)), size(320, 240));
        assert_eq!(size(320, 240).fit(None), size(320, 240));
        assert_eq!(size(10_000, 3).fit(Some(100)), size(100, 1));
    }

    #[test]
    fn even_sizes_lose_at_most_one_pixel() {
        assert_eq!(size(321, 181).even(), size(320, 180));
        assert_eq!(size(427, 240).even(), size(426, 240));
        assert_eq!(size(1, 1).even(), size(2, 2));
    }

    #[test]
    fn rates_outside_of_reason_are_refused() {
        assert_eq!(Rate::from_f64(2.0), Rate::new(2000, 1000));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 5000.0] {
            assert_eq!(Rate::from_f64(bad), None, "{bad} was taken");
        }
    }
}
