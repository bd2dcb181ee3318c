//! What ffprobe says about a file's streams, parsed once into values that the rest can rely on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::error::MediaError;
use crate::index::Stamp;
use crate::probe::{AudioTrack, Rate, Refusal, Size, StreamInfo};
use crate::slots::Slots;
use crate::time::{TimeBase, Timeline};

/// The most samples that an encoder puts in front of the first sound (HE-AAC). Sound that leads the pictures by no more begins with them.
const PRIMING_SAMPLES: i128 = 2112;

/// The height from which unlabelled video is taken for bt709, as players do.
const HD_HEIGHT: u32 = 720;

/// The chosen streams of a file.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub(crate) streams: Vec<StreamInfo>,
    /// The packets of all streams, if they were asked for.
    pub(crate) packets: Vec<Stamp>,
    pub(crate) video: Option<Video>,
    pub(crate) audio: Option<Audio>,
    /// The file's clock at time 0, in nanoseconds.
    pub(crate) origin_nanos: i128,
    /// Where the header says that the file ends, on its clock.
    pub(crate) promised_end_nanos: Option<i128>,
}

/// The stream whose pictures are shown.
#[derive(Clone, Debug)]
pub(crate) struct Video {
    pub(crate) index: u32,
    pub(crate) codec: String,
    pub(crate) coded_size: Size,
    pub(crate) size: Size,
    pub(crate) rate: Rate,
    pub(crate) rotation: u16,
    pub(crate) is_hdr: bool,
    pub(crate) is_interlaced: bool,
    /// Whether only the pictures themselves tell if they are made of two fields.
    pub(crate) may_be_interlaced: bool,
    /// Whether pictures are decoded in another order than they are shown.
    pub(crate) has_reordering: bool,
    pub(crate) clock: Clock,
    pub(crate) matrix: ColourMatrix,
    pub(crate) timeline: Timeline,
}

/// Where the times of pictures come from.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// From the packets.
    Stored,
    /// From the packets' decoding times and the kinds of the pictures: the demuxer works them out.
    Generated,
    /// Nothing tells them but the order in which a decoder gives the pictures from the first one on.
    Counted(Arc<Slots>),
}

/// Which matrix turned RGB into the stored numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColourMatrix {
    /// The stream says so, or there is none (RGB).
    Known,
    /// Not said, standard definition.
    Assumed601,
    /// Not said, high definition.
    Assumed709,
}

/// The stream whose sound is heard.
#[derive(Clone, Debug)]
pub(crate) struct Audio {
    pub(crate) index: u32,
    pub(crate) track: AudioTrack,
    pub(crate) base: TimeBase,
}

#[derive(Debug, Deserialize)]
struct Answer {
    #[serde(default)]
    packets: Vec<RawPacket>,
    #[serde(default)]
    streams: Vec<RawStream>,
    #[serde(default)]
    format: RawFormat,
}

#[derive(Debug, Deserialize)]
struct RawPacket {
    stream_index: u32,
    pts: Option<i64>,
    dts: Option<i64>,
    #[serde(default)]
    duration: i64,
    #[serde(default, deserialize_with = "size")]
    size: u64,
    flags: String,
}

/// ffprobe writes sizes as text.
fn size<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl RawPacket {
    fn stamp(&self) -> Stamp {
        Stamp {
            stream: self.stream_index,
            shown: self.pts,
            decoded: self.dts,
            length: self.duration.max(0),
            is_key: self.flags.contains('K'),
            is_hidden: self.flags.contains('D'),
            size_bytes: self.size,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
struct RawFormat {
    start_time: Option<String>,
    duration: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawStream {
    index: u32,
    codec_type: Option<String>,
    codec_name: Option<String>,
    #[serde(default)]
    width: u32,
    #[serde(default)]
    height: u32,
    #[serde(default)]
    has_b_frames: u32,
    sample_aspect_ratio: Option<String>,
    pix_fmt: Option<String>,
    field_order: Option<String>,
    color_space: Option<String>,
    color_transfer: Option<String>,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    time_base: Option<String>,
    start_pts: Option<i64>,
    sample_rate: Option<String>,
    #[serde(default)]
    channels: u32,
    #[serde(default)]
    disposition: BTreeMap<String, u8>,
    #[serde(default)]
    side_data_list: Vec<RawSideData>,
}

#[derive(Debug, Deserialize)]
struct RawSideData {
    rotation: Option<i32>,
}

impl RawStream {
    fn is(&self, kind: &str) -> bool {
        self.codec_type.as_deref() == Some(kind)
    }

    fn has(&self, flag: &str) -> bool {
        self.disposition.get(flag).is_some_and(|&set| set != 0)
    }

    fn is_cover(&self) -> bool {
        self.is("video") && (self.has("attached_pic") || self.has("timed_thumbnails") || self.has("still_image"))
    }

    fn codec(&self) -> String {
        self.codec_name.clone().unwrap_or_else(|| "unknown".to_owned())
    }

    fn base(&self) -> Option<TimeBase> {
        TimeBase::parse(self.time_base.as_deref()?)
    }

    fn start_nanos(&self) -> Option<i128> {
        Some(self.base()?.nanos(self.start_pts?))
    }
}

impl Header {
    /// Reads ffprobe's JSON.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let answer: Answer = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let raw_video = choose(&answer.streams, |stream| stream.is("video") && !stream.is_cover());
        let raw_audio =
            choose(&answer.streams, |stream| stream.is("audio") && stream.codec_name.is_some() && stream.channels > 0);

        let start = answer.format.start_time.as_deref().and_then(nanos_of_seconds);
        let origin_nanos = origin(raw_video, raw_audio).or(start).unwrap_or(0);
        let duration = answer.format.duration.as_deref().and_then(nanos_of_seconds);
        let promised_end_nanos = duration.filter(|&length| length > 0).map(|length| start.unwrap_or(0) + length);

        let streams = answer
            .streams
            .iter()
            .map(|stream| StreamInfo {
                index: stream.index,
                kind: if stream.is_cover() {
                    "cover".to_owned()
                } else {
                    stream.codec_type.clone().unwrap_or_else(|| "data".to_owned())
                },
                codec: stream.codec(),
            })
            .collect();
        Ok(Self {
            streams,
            packets: answer.packets.iter().map(RawPacket::stamp).collect(),
            video: raw_video.and_then(|stream| video(stream, origin_nanos)),
            audio: raw_audio.and_then(audio),
            origin_nanos,
            promised_end_nanos,
        })
    }

    /// The pictures, or why there are none to work with.
    pub(crate) fn usable_video(&self, max_pixels: u64) -> Result<&Video, Refusal> {
        let Some(video) = &self.video else {
            let has_sound = self.streams.iter().any(|stream| stream.kind == "audio");
            return Err(if has_sound {
                Refusal::sound_only()
            } else {
                Refusal::new("the file holds no pictures", "upload a video; this one may be damaged or cut off")
            });
        };
        if video.coded_size.pixels() > max_pixels {
            return Err(Refusal::new(
                format!("its pictures are {}, over the limit of {max_pixels} pixels", video.coded_size),
                "scale the video down before uploading it",
            ));
        }
        Ok(video)
    }
}

/// The stream that a player would take: the first one marked as default, else the first.
fn choose(streams: &[RawStream], fits: impl Fn(&RawStream) -> bool) -> Option<&RawStream> {
    let fitting = || streams.iter().filter(|stream| fits(stream));
    fitting().find(|stream| stream.has("default")).or_else(|| fitting().next())
}

/// The clock of the file when a player shows its first moment.
///
/// The earlier of pictures and sound, but an encoder's silent priming in front of the first sound is no moment of the medium: where the container cannot say
/// how long it is, sound that leads by no more than that counts as beginning with the pictures, and so does sound before 0.
fn origin(video: Option<&RawStream>, audio: Option<&RawStream>) -> Option<i128> {
    let pictures = video.and_then(RawStream::start_nanos);
    let sound = audio.and_then(RawStream::start_nanos);
    let (Some(pictures), Some(sound)) = (pictures, sound) else {
        return pictures.or(sound);
    };
    let rate = audio
        .and_then(|stream| stream.sample_rate.as_deref()?.parse::<i128>().ok())
        .filter(|&rate| rate > 0)
        .unwrap_or(48_000);
    let priming = PRIMING_SAMPLES * 1_000_000_000 / rate;
    let heard = if pictures - sound <= priming { pictures.max(sound) } else { sound.max(pictures.min(0)) };
    Some(pictures.min(heard))
}

/// Codecs whose pictures may be made of fields.
const CODECS_OF_FIELDS: [&str; 7] = ["dvvideo", "h264", "mjpeg", "mpeg2video", "mpeg4", "prores", "vc1"];

fn video(stream: &RawStream, origin_nanos: i128) -> Option<Video> {
    let base = stream.base()?;
    let coded_size = Size { width: stream.width, height: stream.height };
    if coded_size.pixels() == 0 || stream.codec_name.is_none() {
        return None;
    }
    let rotation = rotation(stream);
    let rate = |text: &Option<String>| text.as_deref().and_then(Rate::parse);
    let is_rgb = stream.pix_fmt.as_deref().is_some_and(|format| {
        ["rgb", "bgr", "gbr", "pal8", "gray", "mono", "argb", "abgr"].iter().any(|start| format.starts_with(start))
    });
    let says_matrix = stream.color_space.as_deref().is_some_and(|space| space != "unknown" && space != "reserved");
    let codec = stream.codec();
    let is_untold = matches!(stream.field_order.as_deref(), None | Some("unknown"));
    Some(Video {
        index: stream.index,
        coded_size,
        size: shown_size(coded_size, stream.sample_aspect_ratio.as_deref(), rotation),
        rate: rate(&stream.avg_frame_rate).or_else(|| rate(&stream.r_frame_rate)).or_else(|| Rate::new(25, 1))?,
        rotation,
        is_hdr: matches!(stream.color_transfer.as_deref(), Some("smpte2084" | "arib-std-b67")),
        // DV is made of fields by its standard (IEC 61834), and no container says so.
        is_interlaced: matches!(stream.field_order.as_deref(), Some("tt" | "bb" | "tb" | "bt"))
            || is_untold && codec == "dvvideo",
        may_be_interlaced: is_untold && CODECS_OF_FIELDS.contains(&codec.as_str()),
        codec,
        has_reordering: stream.has_b_frames > 0,
        clock: Clock::Stored,
        matrix: match (says_matrix || is_rgb, stream.height >= HD_HEIGHT) {
            (true, _) => ColourMatrix::Known,
            (false, false) => ColourMatrix::Assumed601,
            (false, true) => ColourMatrix::Assumed709,
        },
        timeline: Timeline::new(base, origin_nanos),
    })
}

fn audio(stream: &RawStream) -> Option<Audio> {
    let track = AudioTrack {
        codec: stream.codec(),
        sample_rate: stream.sample_rate.as_deref()?.parse().ok()?,
        channels: stream.channels,
    };
    Some(Audio { index: stream.index, track, base: stream.base()? })
}

/// Clockwise, to the nearest quarter. ffprobe tells the display matrix counter-clockwise.
fn rotation(stream: &RawStream) -> u16 {
    let degrees = stream.side_data_list.iter().find_map(|data| data.rotation).unwrap_or(0);
    let quarters = ((-degrees).rem_euclid(360) + 45) / 90 % 4;
    u16::try_from(quarters * 90).unwrap_or(0)
}

/// The size on screen: pixels made square by stretching the width, then turned.
fn shown_size(coded: Size, aspect: Option<&str>, rotation: u16) -> Size {
    let (across, up) = aspect
        .and_then(|text| text.split_once(':'))
        .and_then(|(across, up)| Some((across.parse::<u64>().ok()?, up.parse::<u64>().ok()?)))
        .filter(|&(across, up)| across > 0 && up > 0)
        .unwrap_or((1, 1));
    let width = u64::from(coded.width).saturating_mul(across).saturating_add(up / 2) / up;
    // A pixel shape beyond this is a damaged header, not a picture.
    let width = u32::try_from(width)
        .ok()
        .filter(|&width| width > 0 && width <= coded.width.saturating_mul(16))
        .unwrap_or(coded.width);
    let upright = Size { width, height: coded.height };
    if rotation % 180 == 90 { Size { width: upright.height, height: upright.width } } else { upright }
}

/// ffprobe's `3601.369933` in nanoseconds, without a detour through floating point.
fn nanos_of_seconds(text: &str) -> Option<i128> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = format!("{fraction:0<9}");
    let nanos: i128 = fraction.get(..9)?.parse().ok()?;
    Some(sign * (whole.parse::<i128>().ok()? * 1_000_000_000 + nanos))
}

/// An answer of ffprobe that is no answer.
pub(crate) fn bad_answer(program: &camino::Utf8Path, reason: String) -> MediaError {
    MediaError::BadAnswer { program: program.to_owned(), reason }
}
