//! Citations of the video model: times inside a clip, told as times of the whole video.
//!
//! The model marks times as `<citation>m:s</citation>` or `<citation>m:s::m:s</citation>`, hours in front where needed. Each
//! tag is rewritten where it stands, so a time that is part of another one is never touched.

use super::times::{clock, parse_clock};

const OPEN: &str = "<citation>";
const CLOSE: &str = "</citation>";
/// Between the two ends of a range.
const RANGE: &str = "::";

/// The part of the video in which a model's times lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timeline {
    /// Where the model's time 0 is in the video, in seconds.
    pub(crate) offset: f64,
    /// How long the part is, in seconds.
    pub(crate) length: f64,
}

impl Timeline {
    /// The model was told times of the whole video.
    pub(crate) const GLOBAL: Self = Self { offset: 0.0, length: f64::INFINITY };

    fn global(self, seconds: f64) -> f64 {
        // A time that lies behind the clip, but in its window of the video, is one of the whole video already.
        let is_global = seconds > self.length && (self.offset..=self.offset + self.length).contains(&seconds);
        if is_global { seconds } else { seconds + self.offset }
    }
}

/// The text with what stands in each citation replaced by `Local Clip: <as it was>, Global Video: <time or time::time>`.
/// Tags that hold no time, or are not closed, stay as they are.
pub(crate) fn rewrite(text: &str, timeline: Timeline) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(OPEN) {
        out.push_str(before);
        out.push_str(OPEN);
        rest = behind;
        let Some((inside, after)) = behind.split_once(CLOSE) else { break };
        // An opening tag inside means that this one was never closed: the next round meets it.
        if let Some(global) = Cited::parse(inside).map(|cited| cited.in_video(timeline)) {
            let raw = inside.trim();
            out.push_str("Local Clip: ");
            out.push_str(raw);
            out.push_str(", Global Video: ");
            out.push_str(&global);
            out.push_str(CLOSE);
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// What a citation names.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cited {
    start: f64,
    end: Option<f64>,
}

impl Cited {
    fn parse(inside: &str) -> Option<Self> {
        match inside.split_once(RANGE) {
            Some((start, end)) => Some(Self { start: parse_clock(start.trim())?, end: Some(parse_clock(end.trim())?) }),
            None => Some(Self { start: parse_clock(inside.trim())?, end: None }),
        }
    }

    fn in_video(self, timeline: Timeline) -> String {
        let start = clock(timeline.global(self.start));
        match self.end {
            Some(end) => format!("{start}{RANGE}{}", clock(timeline.global(end))),
            None => start,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn from(offset: f64, text: &str) -> String {
        rewrite(text, Timeline { offset, length: 300.0 })
    }

    #[test]
    fn a_time_of_a_clip_becomes_a_time_of_the_video() {
        assert_eq!(
            from(600.0, "The cup falls <citation>0:05</citation>."),
            "The cup falls <citation>Local Clip: 0:05, Global Video: 10:05</citation>."
        );
        assert_eq!(
            from(3590.5, "<citation>00:05::0:20</citation>"),
            "<citation>Local Clip: 00:05::0:20, Global Video: 59:55::01:00:10</citation>"
        );
        assert_eq!(
            from(0.0, "<citation> 1:00:00 </citation>"),
            "<citation>Local Clip: 1:00:00, Global Video: 01:00:00</citation>"
        );
    }

    #[test]
    fn one_time_inside_another_or_twice_is_rewritten_where_it_stands() {
        assert_eq!(
            from(60.0, "<citation>0:05</citation><citation>0:05</citation> at 0:05 <citation>10:05</citation>"),
            "<citation>Local Clip: 0:05, Global Video: 01:05</citation>\
             <citation>Local Clip: 0:05, Global Video: 01:05</citation> at 0:05 \
             <citation>Local Clip: 10:05, Global Video: 11:05</citation>"
        );
    }

    #[test]
    fn a_time_that_can_only_be_of_the_video_is_left_as_one() {
        assert_eq!(
            from(600.0, "<citation>10:30</citation>"),
            "<citation>Local Clip: 10:30, Global Video: 10:30</citation>"
        );
    }

    #[test]
    fn what_is_no_time_stays() {
        for text in [
            "<citation>soon</citation>",
            "<citation></citation>",
            "<citation>0:05",
            "0:05</citation>",
            "<citation>1:2:3:4</citation>",
            "<citation>0:05::</citation>",
            "<citation>0:05-0:10</citation>",
        ] {
            assert_eq!(from(60.0, text), text);
        }
        assert_eq!(
            from(60.0, "<citation>x <citation>0:01</citation>"),
            "<citation>x <citation>Local Clip: 0:01, Global Video: 01:01</citation>"
        );
    }

    proptest! {
        #[test]
        fn text_without_citations_is_never_touched(text in "[^<]{0,80}", offset in 0.0..10_000.0) {
            prop_assert_eq!(from(offset, &text), text);
        }

        #[test]
        fn nothing_but_what_stands_in_tags_changes(
            pieces in prop::collection::vec(("[a-z0-9: ]{0,8}", 0_u32..500, 0_u32..60), 0..8),
            offset in 0_u32..10_000,
        ) {
            let cited = |minutes: u32, seconds: u32| format!("{minutes}:{seconds:02}");
            let mut text = String::new();
            let mut wanted = String::new();
            for (words, minutes, seconds) in &pieces {
                let raw = cited(*minutes, *seconds);
                let local = f64::from(minutes * 60 + seconds);
                let global = clock(Timeline { offset: f64::from(offset), length: 300.0 }.global(local));
                write!(text, "{words}<citation>{raw}</citation>").expect("a string takes all text");
                write!(wanted, "{words}<citation>Local Clip: {raw}, Global Video: {global}</citation>")
                    .expect("a string takes all text");
            }
            prop_assert_eq!(from(f64::from(offset), &text), wanted);
        }

        #[test]
        fn any_text_is_taken(text in "(<citation>|</citation>|::|:|[0-9]|[a-z]|<|é){0,30}", offset in 0.0..10_000.0) {
            let out = from(offset, &text);
            prop_assert!(out.len() >= text.len() - text.matches(char::is_whitespace).count());
        }
    }
}
