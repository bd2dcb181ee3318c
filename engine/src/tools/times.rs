//! Times of a video as text, both ways.

/// Seconds as `mm:ss.mmm`, or `hh:mm:ss.mmm` from an hour on: the label of every picture and window.
pub(crate) fn precise(seconds: f64) -> String {
    let millis = whole(seconds * 1000.0);
    format!("{}.{:03}", digits(millis / 1000), millis % 1000)
}

/// Seconds as `mm:ss`, or `hh:mm:ss` from an hour on: the second that a player shows.
pub(crate) fn clock(seconds: f64) -> String {
    // A hair below a second is that second: it comes from a sum of decimals.
    digits(whole((seconds * 1000.0).round() / 1000.0))
}

fn digits(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours:02}:{minutes:02}:{rest:02}") } else { format!("{minutes:02}:{rest:02}") }
}

/// A number that counts something, without its fraction; below zero and no number at all are zero.
fn whole(number: f64) -> u64 {
    // Cutting 65.9 * 1000 = 65_899.99… would lose a millisecond.
    let number = if (number.round() - number).abs() < 1e-6 { number.round() } else { number.floor() };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and gives 0 for no number"
    )]
    let whole = number as u64;
    whole
}

/// Seconds from `m:s` or `h:m:s`, where the last part may have a fraction; `None` for anything else.
pub(crate) fn parse_clock(text: &str) -> Option<f64> {
    let parts: Vec<&str> = text.split(':').collect();
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] => ("0", minutes, seconds),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let is_number = |part: &str| (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let (whole_seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
    if ![hours, minutes, whole_seconds, fraction].into_iter().all(is_number) {
        return None;
    }
    let number = |part: &str| part.parse::<f64>().ok();
    Some(number(hours)? * 3600.0 + number(minutes)? * 60.0 + number(seconds)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_written_as_a_player_shows_them() {
        for (seconds, long, short) in [
            (0.0, "00:00.000", "00:00"),
            (65.9, "01:05.900", "01:05"),
            (0.1 + 0.2, "00:00.300", "00:00"),
            (59.999_9, "00:59.999", "01:00"),
            (3_723.25, "01:02:03.250", "01:02:03"),
            (-3.0, "00:00.000", "00:00"),
            (f64::NAN, "00:00.000", "00:00"),
        ] {
            assert_eq!((precise(seconds).as_str(), clock(seconds).as_str()), (long, short), "{seconds}");
        }
    }

    #[test]
    fn a_clock_is_read_in_its_two_forms_only() {
        for (text, seconds) in
            [("0:05", 5.0), ("75:10", 4510.0), ("1:02:03", 3723.0), ("00:01.5", 1.5), ("1:0:0", 3600.0)]
        {
            assert_eq!(parse_clock(text), Some(seconds), "{text}");
        }
        for text in ["", "5", ":", "1:", ":1", "1:2:3:4", "a:b", "1:-2", "1: 2", "1:2.", "1:2e3", "+1:2", "0x1:2"] {
            assert_eq!(parse_clock(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in 0_u32..100_000_000) {
            let seconds = f64::from(millis) / 1000.0;
            let back = parse_clock(&precise(seconds)).expect("our own form");
            prop_assert!((back - seconds).abs() < 1e-6, "{} != {}", back, seconds);
        }
    }
}
