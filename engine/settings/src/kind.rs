//! What a setting's value may look like: one parser a kind, used by the loader and by `config set` alike.
//!
//! A [`BadValue`] never repeats the value, since the same texts serve secrets.

use std::fmt;

use camino::Utf8PathBuf;
use url::Url;

/// The longest period a setting takes, ten years in seconds: more is a slip of the keyboard, and sums of two still fit
/// everywhere. It is so far off that no text mentions it.
pub(crate) const LONGEST: u64 = 3_650 * 86_400;

/// The accepted form of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// `true` or `false`, and the other words that people use for them.
    Switch,
    /// A whole number in a range, both ends included.
    Whole { least: u64, most: u64 },
    /// A number with or without a decimal point, in a range.
    Decimal { least: f64, most: f64 },
    /// Whole seconds in a range.
    Seconds { least: u64, most: u64 },
    /// Seconds with or without a decimal point, in a range.
    PartSeconds { least: f64, most: f64 },
    /// A size in bytes, as a number or with `KiB`, `MiB`, `GiB` or `TiB` behind it.
    Bytes { least: u64, most: u64 },
    /// Any text, kept as it is.
    Text,
    /// One word: no blanks and no control characters, so that it fits into a header, a path or a name.
    Word,
    /// A URL with one of these schemes.
    Url { schemes: &'static [&'static str] },
    /// A web server's address: scheme, host, perhaps a port, and nothing behind it.
    ServerUrl,
    /// A path; `~` at its start is the home folder, and a relative one starts at the working directory.
    Path,
    /// A program: a name that is looked up in `PATH`, or a path.
    Program,
    /// Paths with commas between them.
    Paths,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// These words mean something; any other text is legal, and counts as the first of them.
    Open(&'static [&'static str]),
}

/// A value that its [`Kind`] accepted.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of [`Kind::Switch`].
    Switch(bool),
    /// Of [`Kind::Whole`], [`Kind::Seconds`] (seconds) and [`Kind::Bytes`] (bytes).
    Whole(u64),
    /// Of [`Kind::Decimal`] and [`Kind::PartSeconds`] (seconds).
    Decimal(f64),
    /// Of the kinds of text; blanks around it are gone except where the kind keeps them.
    Text(String),
    /// Of [`Kind::Url`] and [`Kind::ServerUrl`].
    Url(Url),
    /// Of [`Kind::Path`] and [`Kind::Program`], as written: the loader makes it absolute.
    Path(Utf8PathBuf),
    /// Of [`Kind::Paths`], as written.
    Paths(Vec<Utf8PathBuf>),
}

/// Why a value was refused. The text follows a value or a name: "`x` is not a whole number".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadValue {
    /// Not one of the words for yes and no.
    #[error("is neither true nor false")]
    NotASwitch,
    /// Not digits only, or too long for 64 bits.
    #[error("is not a whole number")]
    NotWhole,
    /// Not a finite number.
    #[error("is not a number")]
    NotANumber,
    /// Not digits with a known unit.
    #[error("is not a size in bytes")]
    NotBytes,
    /// A number outside the range.
    #[error("is outside the range")]
    OutOfRange,
    /// Blanks or control characters inside a word.
    #[error("has blanks or control characters in it")]
    NotAWord,
    /// Not a URL at all.
    #[error("is not a URL ({0})")]
    NotAUrl(url::ParseError),
    /// A URL of a scheme that is not understood.
    #[error("starts with `{0}:`, which is not understood here")]
    Scheme(String),
    /// A URL without a host.
    #[error("names no host")]
    NoHost,
    /// A path, query or fragment behind a server's address.
    #[error("has a path, a query or a bucket behind the host")]
    BehindTheHost,
    /// A user or password in a server's address.
    #[error("carries a user or password")]
    Credentials,
    /// NUL inside a path.
    #[error("is not a path")]
    NotAPath,
    /// Not one of the words.
    #[error("is not one of the accepted words")]
    NotOneOf,
}

impl Kind {
    /// A port number; 0 lets the system choose.
    pub const PORT: Self = Self::Whole { least: 0, most: 65_535 };
    /// The address of a web service, with a path where it has one.
    pub const HTTP: Self = Self::Url { schemes: &["http", "https"] };

    /// Reads a value of this kind.
    ///
    /// # Errors
    /// [`BadValue`] says what is wrong, without the value.
    pub fn parse(&self, text: &str) -> Result<Value, BadValue> {
        let trimmed = text.trim();
        match *self {
            Self::Switch => switch(trimmed).map(Value::Switch),
            Self::Whole { least, most } | Self::Seconds { least, most } => {
                let number = whole(trimmed)?;
                in_range(&number, &least, &most).map(|()| Value::Whole(number))
            }
            Self::Decimal { least, most } | Self::PartSeconds { least, most } => {
                let number: f64 =
                    trimmed.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(BadValue::NotANumber)?;
                in_range(&number, &least, &most).map(|()| Value::Decimal(number))
            }
            Self::Bytes { least, most } => {
                let number = bytes(trimmed)?;
                in_range(&number, &least, &most).map(|()| Value::Whole(number))
            }
            Self::Text | Self::Open(_) => Ok(Value::Text(text.to_owned())),
            Self::Word => word(trimmed).map(|()| Value::Text(trimmed.to_owned())),
            Self::Url { schemes } => url(trimmed, schemes).map(Value::Url),
            Self::ServerUrl => server_url(trimmed).map(Value::Url),
            Self::Path | Self::Program => path(trimmed).map(Value::Path),
            Self::Paths => trimmed
                .split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(path)
                .collect::<Result<_, _>>()
                .map(Value::Paths),
            Self::OneOf(words) => {
                let word = trimmed.to_ascii_lowercase();
                if words.contains(&word.as_str()) { Ok(Value::Text(word)) } else { Err(BadValue::NotOneOf) }
            }
        }
    }
}

/// The accepted form in words, for a fault and for the reference.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch => f.write_str("`true` or `false`"),
            Self::Whole { least, most } => write!(f, "a whole number{}", range(least, most, *most == u64::MAX)),
            Self::Decimal { least, most } => write!(f, "a number{}", range(least, most, most.is_infinite())),
            Self::Seconds { least, most } => write!(f, "whole seconds{}", range(least, most, *most == LONGEST)),
            Self::PartSeconds { least, most } => write!(f, "seconds{}", range(least, most, most.is_infinite())),
            Self::Bytes { least, most } => {
                write!(f, "a size in bytes{}, or with a unit such as `10GiB`", range(least, most, *most == u64::MAX))
            }
            Self::Text => f.write_str("any text"),
            Self::Word => f.write_str("text without blanks"),
            Self::Url { schemes } => {
                f.write_str("a URL that starts with ")?;
                alternatives(f, schemes.iter().map(|scheme| format!("`{scheme}://`")))
            }
            Self::ServerUrl => f.write_str("`http://HOST[:PORT]` or `https://HOST[:PORT]`, with nothing behind it"),
            Self::Path => f.write_str("a path"),
            Self::Program => f.write_str("a program's name or path"),
            Self::Paths => f.write_str("paths with commas between them"),
            Self::OneOf(words) | Self::Open(words) => alternatives(f, words.iter().map(|word| format!("`{word}`"))),
        }
    }
}

fn alternatives(f: &mut fmt::Formatter<'_>, words: impl ExactSizeIterator<Item = String>) -> fmt::Result {
    let last = words.len().saturating_sub(1);
    for (position, word) in words.enumerate() {
        let before = match position {
            0 => "",
            _ if position == last => " or ",
            _ => ", ",
        };
        write!(f, "{before}{word}")?;
    }
    Ok(())
}

fn range(least: &dyn fmt::Display, most: &dyn fmt::Display, open: bool) -> String {
    if open { format!(", {least} or more") } else { format!(" from {least} to {most}") }
}

fn in_range<T: PartialOrd>(number: &T, least: &T, most: &T) -> Result<(), BadValue> {
    if number >= least && number <= most { Ok(()) } else { Err(BadValue::OutOfRange) }
}

fn switch(text: &str) -> Result<bool, BadValue> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "on" | "1" => Ok(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Ok(false),
        _ => Err(BadValue::NotASwitch),
    }
}

fn whole(text: &str) -> Result<u64, BadValue> {
    // `parse` alone would take `+5`; the other readers of the same variable would not.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok().ok_or(BadValue::NotWhole)
    } else {
        Err(BadValue::NotWhole)
    }
}

fn bytes(text: &str) -> Result<u64, BadValue> {
    const UNITS: [(&str, u64); 4] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    let (digits, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|digits| (digits.trim_end(), *factor)))
        .unwrap_or((text, 1));
    let number = whole(digits).map_err(|_not_digits| BadValue::NotBytes)?;
    number.checked_mul(factor).ok_or(BadValue::OutOfRange)
}

fn word(text: &str) -> Result<(), BadValue> {
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        Err(BadValue::NotAWord)
    } else {
        Ok(())
    }
}

fn url(text: &str, schemes: &[&str]) -> Result<Url, BadValue> {
    word(text)?;
    let url = Url::parse(text).map_err(BadValue::NotAUrl)?;
    if !schemes.contains(&url.scheme()) {
        return Err(BadValue::Scheme(url.scheme().to_owned()));
    }
    // A file's URL has no host, and Postgres may be reached by a socket that stands in the query.
    let needs_host = matches!(url.scheme(), "http" | "https" | "redis" | "rediss");
    if needs_host && url.host_str().is_none_or(str::is_empty) {
        return Err(BadValue::NoHost);
    }
    Ok(url)
}

fn server_url(text: &str) -> Result<Url, BadValue> {
    let url = url(text, &["http", "https"])?;
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(BadValue::BehindTheHost);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(BadValue::Credentials);
    }
    Ok(url)
}

fn path(text: &str) -> Result<Utf8PathBuf, BadValue> {
    if text.contains('\0') { Err(BadValue::NotAPath) } else { Ok(Utf8PathBuf::from(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: Kind, text: &str, expected: &Result<Value, BadValue>) {
        assert_eq!(&kind.parse(text), expected, "{kind}: {text:?}");
    }

    #[test]
    fn switches_take_the_usual_words_in_any_case() {
        for word in ["true", "TRUE", " yes ", "on", "1", "y", "t"] {
            check(Kind::Switch, word, &Ok(Value::Switch(true)));
        }
        for word in ["false", "No", "off", "0", "n", "f"] {
            check(Kind::Switch, word, &Ok(Value::Switch(false)));
        }
        for word in ["", "maybe", "2", "truee"] {
            check(Kind::Switch, word, &Err(BadValue::NotASwitch));
        }
    }

    #[test]
    fn numbers_keep_to_their_range_and_form() {
        let kind = Kind::Whole { least: 1, most: 10 };
        check(kind, "1", &Ok(Value::Whole(1)));
        check(kind, " 10\n", &Ok(Value::Whole(10)));
        check(kind, "0", &Err(BadValue::OutOfRange));
        check(kind, "11", &Err(BadValue::OutOfRange));
        for text in ["", "1.5", "+5", "-1", "0x1", "1_0", "99999999999999999999", "one"] {
            check(kind, text, &Err(BadValue::NotWhole));
        }
        let decimal = Kind::Decimal { least: 0.1, most: 60.0 };
        check(decimal, "0.5", &Ok(Value::Decimal(0.5)));
        check(decimal, "0", &Err(BadValue::OutOfRange));
        for text in ["NaN", "inf", "1,5", ""] {
            check(decimal, text, &Err(BadValue::NotANumber));
        }
    }

    #[test]
    fn sizes_take_binary_units() {
        let kind = Kind::Bytes { least: 1, most: u64::MAX };
        check(kind, "1024", &Ok(Value::Whole(1024)));
        check(kind, "10GiB", &Ok(Value::Whole(10_737_418_240)));
        check(kind, "5 MiB", &Ok(Value::Whole(5_242_880)));
        check(kind, "0", &Err(BadValue::OutOfRange));
        check(kind, "99999999999TiB", &Err(BadValue::OutOfRange));
        for text in ["10GB", "GiB", "1.5GiB", "ten"] {
            check(kind, text, &Err(BadValue::NotBytes));
        }
    }

    #[test]
    fn words_have_no_blanks_inside_and_lose_those_around_them() {
        check(Kind::Word, " key\n", &Ok(Value::Text("key".to_owned())));
        check(Kind::Word, "two words", &Err(BadValue::NotAWord));
        check(Kind::Word, "line\nbreak", &Err(BadValue::NotAWord));
        check(Kind::Text, " kept ", &Ok(Value::Text(" kept ".to_owned())));
        check(Kind::OneOf(&["text", "json"]), "JSON", &Ok(Value::Text("json".to_owned())));
        check(Kind::OneOf(&["text", "json"]), "xml", &Err(BadValue::NotOneOf));
        check(Kind::Open(&["inprocess", "e2b"]), "e2b ", &Ok(Value::Text("e2b ".to_owned())));
    }

    #[test]
    fn urls_have_a_known_scheme_and_a_host() {
        check(Kind::HTTP, "ftp://host/", &Err(BadValue::Scheme("ftp".to_owned())));
        check(Kind::HTTP, "localhost:8080", &Err(BadValue::Scheme("localhost".to_owned())));
        check(Kind::HTTP, "https://a b", &Err(BadValue::NotAWord));
        assert!(matches!(Kind::HTTP.parse("host"), Err(BadValue::NotAUrl(_))));
        assert!(matches!(Kind::HTTP.parse("http://"), Err(BadValue::NotAUrl(_))));
        let redis = Kind::Url { schemes: &["redis", "rediss"] };
        check(redis, "redis:///0", &Err(BadValue::NoHost));
        assert!(redis.parse("rediss://:password@host:6380/1").is_ok());
        let database = Kind::Url { schemes: &["sqlite", "postgres"] };
        assert!(database.parse("sqlite:///srv/ambient.db").is_ok());
        assert!(database.parse("postgres:///ambient?host=/run/postgresql").is_ok());
    }

    #[test]
    fn a_servers_address_has_nothing_behind_the_host() {
        for text in ["http://127.0.0.1:9000", "http://127.0.0.1:9000/", "https://account.r2.cloudflarestorage.com"] {
            assert!(Kind::ServerUrl.parse(text).is_ok(), "{text}");
        }
        for text in ["https://host/bucket", "https://host/?a=1", "https://host/#part", "https://host//"] {
            check(Kind::ServerUrl, text, &Err(BadValue::BehindTheHost));
        }
        check(Kind::ServerUrl, "https://user:password@host", &Err(BadValue::Credentials));
    }

    #[test]
    fn lists_leave_empty_parts_out() {
        let expected = vec![Utf8PathBuf::from("/a"), Utf8PathBuf::from("~/b c")];
        check(Kind::Paths, " /a ,, ~/b c,", &Ok(Value::Paths(expected)));
        check(Kind::Paths, "", &Ok(Value::Paths(Vec::new())));
        check(Kind::Path, "a\0b", &Err(BadValue::NotAPath));
    }

    #[test]
    fn the_accepted_form_reads_as_words() {
        let forms = [
            (Kind::PORT, "a whole number from 0 to 65535"),
            (Kind::Seconds { least: 1, most: LONGEST }, "whole seconds, 1 or more"),
            (Kind::OneOf(&["a", "b", "c"]), "`a`, `b` or `c`"),
            (Kind::HTTP, "a URL that starts with `http://` or `https://`"),
        ];
        for (kind, expected) in forms {
            assert_eq!(kind.to_string(), expected);
        }
    }
}
