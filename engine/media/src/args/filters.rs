//! The picture part of filter graphs: fields to pictures, the size on screen, HDR to bt709, 8-bit 4:2:0.

use crate::header::{Clock, ColourMatrix, Video};
use crate::probe::Size;

/// Who takes the pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A clip: limited range, bt709.
    Clip,
    /// A JPEG: full range, bt601, as JFIF says.
    Jpeg,
    /// A PNG, which is RGB.
    Png,
}

/// Gives counted pictures their times. Comes first of all.
pub(crate) fn clock(video: &Video) -> Option<String> {
    match &video.clock {
        Clock::Stored | Clock::Generated => None,
        Clock::Counted(slots) => {
            let base = video.timeline.base();
            Some(format!("settb={}/{},setpts={}", base.numerator(), base.denominator(), slots.expression()))
        }
    }
}

/// Makes pictures of fields. Must come before any picture is dropped, since it looks at the neighbours; keeps the stream's time base.
pub(crate) fn deinterlace(video: &Video) -> Option<String> {
    // Pictures that are whole pass as they are.
    (video.is_interlaced || video.may_be_interlaced).then(|| {
        let base = video.timeline.base();
        format!("yadif=mode=send_frame:parity=auto:deint=interlaced,settb={}/{}", base.numerator(), base.denominator())
    })
}

/// From decoded pictures to what `target` takes, at `size`.
pub(crate) fn render(video: &Video, size: Size, target: Target) -> String {
    let Size { width, height } = size;
    let (matrix, range, format) = match target {
        Target::Clip => ("bt709", "tv", "yuv420p"),
        Target::Jpeg => ("bt601", "pc", "yuvj420p"),
        Target::Png => ("bt709", "pc", "rgb24"),
    };
    if video.is_hdr {
        // Scaled first, since tone mapping works on floats. 203 nits is the white of graphics in HDR (ITU-R BT.2408), hence npl. Desaturation is
        // off, since it bleaches bright colours; the curve keeps what is below white as it is and bends only what is brighter.
        return format!(
            "scale=w={width}:h={height}:flags=bicubic,setsar=1,zscale=t=linear:npl=203,format=gbrpf32le,zscale=p=bt709,\
             tonemap=tonemap=mobius:param=0.3:desat=0:peak=10,zscale=t=bt709:m=bt709:r=tv,format=yuv444p,\
             scale=in_color_matrix=bt709:out_color_matrix={matrix}:in_range=tv:out_range={range},format={format}"
        );
    }
    let input_matrix = match video.matrix {
        ColourMatrix::Known => "",
        ColourMatrix::Assumed601 => ":in_color_matrix=bt601",
        ColourMatrix::Assumed709 => ":in_color_matrix=bt709",
    };
    format!(
        "scale=w={width}:h={height}:flags=bicubic{input_matrix}:out_color_matrix={matrix}:out_range={range},setsar=1,format={format}"
    )
}
