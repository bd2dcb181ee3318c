//! What a plain scalar means to Compose, and how its numbers are printed: both are those of Go's YAML reader.
//!
//! `0123` is octal, `08` is not, `1_000` is a number, `yes` is text, and `1e8` prints as `1e+08`. A Rust reader of YAML says
//! something else about half of these, and a value in `environment` would come out different.

use super::node::Data;

/// The value of a scalar without quotes and without a tag.
pub(super) fn resolve(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "true" | "True" | "TRUE" => return Data::Switch(true),
        "false" | "False" | "FALSE" => return Data::Switch(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Data::Decimal(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Data::Decimal(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Data::Decimal(f64::NAN),
        _ => {}
    }
    if !text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-' | '.')) {
        return Data::Text(text.to_owned());
    }
    if is_date(text) {
        return Data::Date(text.to_owned());
    }
    let plain: String = text.chars().filter(|letter| *letter != '_').collect();
    if let Some(number) = whole(&plain) {
        return Data::Whole(number);
    }
    if is_decimal(&plain)
        && let Ok(number) = plain.parse::<f64>()
    {
        return Data::Decimal(number);
    }
    Data::Text(text.to_owned())
}

/// A whole number with Go's prefixes, in the range of Go's 64-bit types.
fn whole(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?;
    let number = if negative { -number } else { number };
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_decimal(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_is_right = match mantissa.split_once('.') {
        Some(("", after)) => !after.is_empty() && digits(after),
        Some((before, after)) => digits(before) && digits(after),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_is_right = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_is_right && exponent_is_right
}

/// `2026-11-30`, alone or with a time behind it.
fn is_date(text: &str) -> bool {
    let (date, rest) = text.split_at(text.find(['T', 't', ' ']).unwrap_or(text.len()));
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let number = |part: &str, longest: usize| {
        (1..=longest).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let time = rest.trim_start_matches(['T', 't', ' ']);
    let in_range = |part: &str, most: u32| part.parse::<u32>().is_ok_and(|value| (1..=most).contains(&value));
    year.len() == 4
        && number(year, 4)
        && number(month, 2)
        && number(day, 2)
        && in_range(month, 12)
        && in_range(day, 31)
        && (rest.is_empty() || time.starts_with(|first: char| first.is_ascii_digit()) && time.contains(':'))
}

/// A number as Go's `%v` prints it: the shortest digits that give it back, with an exponent below 1e-4 and from 1e6 on.
pub(super) fn print_decimal(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').expect("Rust prints an exponent with `e`");
    let exponent: i32 = exponent.parse().expect("Rust prints an exponent as a number");
    if (-4..6).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_go() {
        for (text, printed) in [
            ("0123", "83"),
            ("08", "8"),
            ("1_000", "1000"),
            ("1e3", "1000"),
            ("1.10", "1.1"),
            ("100000000.0", "1e+08"),
            ("0x1F", "31"),
            ("-5", "-5"),
            ("+7", "7"),
            ("0o17", "15"),
            ("0b11", "3"),
            (".5", "0.5"),
            ("1.", "1"),
            ("1e30", "1e+30"),
            ("1234567.5", "1.2345675e+06"),
            ("0.00001", "1e-05"),
            ("123456789012345678901234567890", "1.2345678901234568e+29"),
            ("18446744073709551615", "18446744073709551615"),
            ("-0", "0"),
            (".inf", "+Inf"),
            ("True", "true"),
        ] {
            let node = super::super::node::Node::new(super::super::node::Place::default(), resolve(text));
            assert!(!matches!(node.data, Data::Text(_)), "{text}");
            assert_eq!(node.printed().as_deref(), Some(printed), "{text}");
        }
    }

    #[test]
    fn words_and_times_stay_text() {
        for text in
            ["yes", "on", "n", "12:30", "1.2.3", "8080:80", "-", "+", ".", "1e", "0x", "0xg", "1 2", "2026-13-01", "٣"]
        {
            assert_eq!(resolve(text), Data::Text(text.to_owned()));
        }
        for text in ["2026-11-30", "2026-1-2 03:04:05", "2026-11-30T01:02:03Z"] {
            assert!(matches!(resolve(text), Data::Date(_)), "{text}");
        }
    }
}
