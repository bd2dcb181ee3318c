//! Durations and sizes: read as Compose reads them, printed as it prints them.

/// Nanoseconds.
pub(super) type Nanoseconds = i64;

const UNITS: [(&str, f64); 8] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3_600e9), ("d", 86_400e9)];

/// `1m30s`, `500ms`, `1.5h`, `2d`; `None` for anything else. A number alone is no duration, but 0 is.
pub(super) fn duration(text: &str) -> Option<Nanoseconds> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().ok()?;
        rest = &rest[end..];
        let end = rest.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(rest.len());
        let (unit, after) = rest.split_at(end);
        let weeks = ("w", 7.0 * 86_400e9);
        let (_, factor) = UNITS.iter().chain([&weeks]).find(|(name, _)| *name == unit)?;
        total += number * factor;
        rest = after;
    }
    // Ten years in nanoseconds fit with room to spare; more is a slip.
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked on the same line")]
    let whole = (total < 3e17).then_some(total.round() as i64)?;
    Some(if negative { -whole } else { whole })
}

/// `1m30s`, `1h0m0s`, `1.5s`, `500ms`: Go's form.
pub(super) fn print_duration(duration: Nanoseconds) -> String {
    let sign = if duration < 0 { "-" } else { "" };
    let nanoseconds = duration.unsigned_abs();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    if nanoseconds < 1_000_000_000 {
        let (unit, size) = match nanoseconds {
            0..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!("{sign}{}{unit}", fraction(nanoseconds, size));
    }
    let (minutes, rest) = (nanoseconds / 60_000_000_000, nanoseconds % 60_000_000_000);
    let seconds = fraction(rest, 1_000_000_000);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
        (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// A number of `size`s with as many decimals as it needs.
fn fraction(amount: u64, size: u64) -> String {
    let (whole, rest) = (amount / size, amount % size);
    if rest == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    let decimals = format!("{rest:0width$}");
    format!("{whole}.{}", decimals.trim_end_matches('0'))
}

/// `64m`, `1.5g`, `10kb`, `1GiB`, `512`: bytes, by powers of 1024; `None` for anything else.
pub(super) fn size(text: &str) -> Option<i128> {
    let text = text.trim();
    if text == "-1" {
        return Some(-1);
    }
    let end = text.rfind(|letter: char| letter.is_ascii_digit() || letter == '.')? + 1;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.trim().parse().ok().filter(|number: &f64| *number >= 0.0)?;
    let power = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        "p" | "pb" | "pib" => 5,
        _ => return None,
    };
    let bytes = number * 1024_f64.powi(power);
    #[expect(clippy::cast_possible_truncation, reason = "the range is checked on the same line")]
    (bytes < 9e18).then_some(bytes as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_come_out_in_gos_form() {
        for (text, expected) in [
            ("90s", "1m30s"),
            ("1m", "1m0s"),
            ("500ms", "500ms"),
            ("1h", "1h0m0s"),
            ("1500ms", "1.5s"),
            ("1.5h", "1h30m0s"),
            ("100us", "100µs"),
            ("1m0.25s", "1m0.25s"),
            ("2d", "48h0m0s"),
            ("1w", "168h0m0s"),
            ("0", "0s"),
            ("0s", "0s"),
            ("-3s", "-3s"),
        ] {
            assert_eq!(duration(text).map(print_duration).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "5", "s", "1x", "1 s", "1.2.3s", "99999999h", "five"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, expected) in [
            ("64m", 67_108_864),
            ("1.5g", 1_610_612_736),
            ("512", 512),
            ("10kb", 10_240),
            ("1GiB", 1 << 30),
            ("-1", -1),
            ("0", 0),
            ("2 m", 2_097_152),
        ] {
            assert_eq!(size(text), Some(expected), "{text}");
        }
        for text in ["", "m", "1x", "-2", "one"] {
            assert_eq!(size(text), None, "{text}");
        }
    }
}
