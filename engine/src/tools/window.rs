//! Windows of the video as a model asks for them: checked, cut to the video, and said so.

use super::times::precise;

/// The longest window that is watched at once, in seconds. Longer ones would lose what happens in a moment.
pub(crate) const LONGEST_WINDOW: f64 = 300.0;
/// The longest span from which single frames are taken, in seconds: six frames of more would be a guess.
pub(crate) const LONGEST_SPAN: f64 = 5.0;
/// Sums of decimals are off by less.
const ROUNDING: f64 = 1e-3;

/// A part of the video. Invariant: `0 <= start < end`, both finite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// What was changed about the wish, for the model; empty when nothing was.
    pub(crate) note: String,
}

impl Window {
    /// The part from `start` to `end`, of a video of this length if it is known.
    ///
    /// # Errors
    /// What is wrong with the wish, and what would work.
    pub(crate) fn of(start: f64, end: f64, duration: Option<f64>, longest: f64) -> Result<Self, String> {
        let duration = duration.filter(|duration| duration.is_finite() && *duration > 0.0);
        if end <= start {
            return Err(format!("`start_time` ({}) has to come before `end_time` ({})", shown(start), shown(end)));
        }
        if let Some(duration) = duration
            && start >= duration
        {
            return Err(format!(
                "`start_time` ({}) lies behind the end of the video, which is {} ({duration:.3} s) long",
                shown(start),
                precise(duration)
            ));
        }
        if end <= 0.0 {
            return Err(format!("`end_time` ({}) lies before the beginning of the video", shown(end)));
        }
        let cut = Self {
            start: start.max(0.0),
            end: duration.map_or(end, |duration| end.min(duration)),
            note: String::new(),
        };
        if cut.length() > longest + ROUNDING {
            return Err(format!(
                "the window is {:.3} s long, and at most {longest} s can be looked at in one call: choose a shorter one, or \
                 several calls side by side",
                cut.length()
            ));
        }
        let changed = (cut.start - start).abs() > ROUNDING || (cut.end - end).abs() > ROUNDING;
        let note = if changed {
            let length =
                duration.map_or_else(String::new, |duration| format!(" (the video is {} long)", precise(duration)));
            format!("Note: the window was cut to {}{length}.", cut.shown())
        } else {
            String::new()
        };
        Ok(Self { note, ..cut })
    }

    /// In seconds.
    pub(crate) fn length(&self) -> f64 {
        self.end - self.start
    }

    /// `mm:ss.mmm-mm:ss.mmm`.
    pub(crate) fn shown(&self) -> String {
        format!("{}-{}", precise(self.start), precise(self.end))
    }

    /// The text with the note behind it, if there is one.
    pub(crate) fn noted(&self, text: String) -> String {
        if self.note.is_empty() { text } else { format!("{text}\n{}", self.note) }
    }
}

/// A moment of the video, cut to it, and what was changed.
///
/// # Errors
/// What is wrong, and what would work.
pub(crate) fn moment(seconds: f64, duration: Option<f64>) -> Result<f64, String> {
    if seconds < 0.0 {
        return Err(format!("`frame_timestamp` ({}) lies before the beginning of the video", shown(seconds)));
    }
    match duration.filter(|duration| duration.is_finite() && *duration > 0.0) {
        // The very end shows the last picture.
        Some(duration) if seconds > duration + ROUNDING => Err(format!(
            "`frame_timestamp` ({}) lies behind the end of the video, which is {} ({duration:.3} s) long",
            shown(seconds),
            precise(duration)
        )),
        Some(_) | None => Ok(seconds),
    }
}

fn shown(seconds: f64) -> String {
    if seconds < 0.0 { format!("{seconds} s") } else { precise(seconds) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_window_is_cut_to_the_video_and_says_so() {
        let window = Window::of(-2.0, 30.0, Some(12.0), LONGEST_WINDOW).unwrap();
        assert_eq!((window.start, window.end), (0.0, 12.0));
        assert_eq!(window.note, "Note: the window was cut to 00:00.000-00:12.000 (the video is 00:12.000 long).");
        assert_eq!(Window::of(1.0, 2.0, Some(12.0), LONGEST_WINDOW).unwrap().note, "");
        assert_eq!(Window::of(1.0, 12.0004, Some(12.0), LONGEST_WINDOW).unwrap().note, "");
    }

    #[test]
    fn what_cannot_work_says_what_would() {
        for (start, end, longest, words) in [
            (5.0, 5.0, LONGEST_WINDOW, "has to come before `end_time`"),
            (6.0, 5.0, LONGEST_WINDOW, "has to come before `end_time`"),
            (12.0, 13.0, LONGEST_WINDOW, "behind the end of the video, which is 00:12.000"),
            (-5.0, -1.0, LONGEST_WINDOW, "before the beginning"),
            (0.0, 6.0, LONGEST_SPAN, "at most 5 s"),
        ] {
            let reason = Window::of(start, end, Some(12.0), longest).unwrap_err();
            assert!(reason.contains(words), "{reason}");
        }
        assert!(Window::of(0.0, 301.0, None, LONGEST_WINDOW).unwrap_err().contains("at most 300 s"));
        assert!(Window::of(0.0, 3000.0, Some(12.0), LONGEST_WINDOW).is_ok(), "long only on paper");
        assert!(moment(12.5, Some(12.0)).unwrap_err().contains("behind the end"));
        assert_eq!(moment(12.0, Some(12.0)), Ok(12.0));
    }

    proptest! {
        #[test]
        fn a_window_lies_in_the_video(start in -100.0..1000.0, end in -100.0..1000.0, duration in 0.1..900.0) {
            if let Ok(window) = Window::of(start, end, Some(duration), LONGEST_WINDOW) {
                prop_assert!(0.0 <= window.start && window.start < window.end && window.end <= duration);
                prop_assert!(window.length() <= LONGEST_WINDOW + ROUNDING);
            }
        }
    }
}
