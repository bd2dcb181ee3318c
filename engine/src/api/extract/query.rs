//! The query of a request, as the SDKs write it.
//!
//! Arrays come as `types[]=a&types[]=b`, bounds as `created_at[gte]=…`, blanks as `+` or `%20`. Parameters that nobody
//! asked for are ignored; a known one with a bad value is refused by name.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::api::error::{ApiError, shortened};
use crate::store::TimeBounds;

/// The decoded names and values, in the order sent.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl<S: Send + Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    /// Reads what stands behind the `?`.
    pub fn of(text: &str) -> Self {
        Self(url::form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The last value of a parameter; an empty one counts as left out.
    pub fn one(&self, name: &str) -> Option<&str> {
        let value = self.0.iter().rev().find(|(key, _)| key == name)?.1.as_str();
        Some(value).filter(|value| !value.is_empty())
    }

    /// All values of an array parameter: `name[]=a`, `name[0]=a` or `name=a`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let is_element = |key: &str| {
            let Some(rest) = key.strip_prefix(name) else { return false };
            let index = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            rest.is_empty() || index.is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.0.iter().filter(|(key, _)| is_element(key)).map(|(_, value)| value.as_str()).collect()
    }

    /// How many items are wanted.
    ///
    /// # Errors
    /// For what is no number from 1 to `most`.
    pub fn limit(&self, default: u32, most: u32) -> Result<u32, ApiError> {
        let Some(text) = self.one("limit") else { return Ok(default) };
        text.parse().ok().filter(|limit| (1..=most).contains(limit)).ok_or_else(|| {
            ApiError::invalid(format!("`limit` must be a whole number from 1 to {most}, not `{}`", shortened(text)))
        })
    }

    /// A yes or no that is no when left out.
    ///
    /// # Errors
    /// For anything but `true`, `false`, `1` and `0`.
    pub fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.one(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(other) => {
                Err(ApiError::invalid(format!("`{name}` must be `true` or `false`, not `{}`", shortened(other))))
            }
        }
    }

    /// Whether `order` asks for the oldest first.
    ///
    /// # Errors
    /// For anything but `asc` and `desc`.
    pub fn ascending(&self, default: bool) -> Result<bool, ApiError> {
        match self.one("order") {
            None => Ok(default),
            Some("asc") => Ok(true),
            Some("desc") => Ok(false),
            Some(other) => {
                Err(ApiError::invalid(format!("`order` must be `asc` or `desc`, not `{}`", shortened(other))))
            }
        }
    }

    /// A parameter of a type of its own.
    ///
    /// # Errors
    /// When it does not parse; `accepts` says what would.
    pub fn parsed<T: FromStr>(&self, name: &str, accepts: &str) -> Result<Option<T>, ApiError> {
        self.one(name)
            .map(|text| {
                text.parse()
                    .map_err(|_bad| ApiError::invalid(format!("`{name}` must be {accepts}, not `{}`", shortened(text))))
            })
            .transpose()
    }

    /// Bounds on a time: `name[gt]`, `name[gte]`, `name[lt]`, `name[lte]`.
    ///
    /// # Errors
    /// For what is no RFC 3339 time.
    pub fn bounds(&self, name: &str) -> Result<TimeBounds, ApiError> {
        let bound = |end: &str| {
            let key = format!("{name}[{end}]");
            self.one(&key).map(|text| time(&key, text)).transpose()
        };
        Ok(TimeBounds { gt: bound("gt")?, gte: bound("gte")?, lt: bound("lt")?, lte: bound("lte")? })
    }
}

/// Reads a time. One without an offset is UTC; a `+` that came unencoded, and so arrived as a blank, is put back.
fn time(name: &str, text: &str) -> Result<Timestamp, ApiError> {
    let offset_mended = text.rsplit_once(' ').map(|(time, offset)| format!("{time}+{offset}"));
    let in_utc = |text: &str| {
        text.parse::<DateTime>().ok()?.to_zoned_datetime(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    };
    text.parse().ok().or_else(|| offset_mended.and_then(|text| text.parse().ok())).or_else(|| in_utc(text)).ok_or_else(
        || {
            ApiError::invalid(format!(
                "`{name}` must be an RFC 3339 time such as `2026-11-29T22:00:00Z`, not `{}`",
                shortened(text)
            ))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_and_bounds_are_read_in_every_spelling() {
        let query = Query::of("types[]=a&types%5B%5D=b&types=c&types[1]=d&typesx=e&beta=true");
        assert_eq!(query.all("types"), ["a", "b", "c", "d"]);
        let at = "2026-11-29T22:00:00Z".parse().unwrap();
        for text in [
            "created_at[gte]=2026-11-29T22:00:00Z",
            "created_at%5Bgte%5D=2026-11-29T22%3A00%3A00%2B00%3A00",
            "created_at[gte]=2026-11-29T22:00:00+00:00",
            "created_at[gte]=2026-11-29T22:00:00",
            "created_at[gte]=2026-11-30T00:00:00+02:00",
        ] {
            assert_eq!(Query::of(text).bounds("created_at").unwrap().gte, Some(at), "{text}");
        }
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        for (text, name) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=-1", "limit"),
            ("limit=1e3", "limit"),
            ("limit=99999999999999999999", "limit"),
        ] {
            let error = Query::of(text).limit(20, 100).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{name}`")), "{text}: {error}");
        }
        assert!(Query::of("created_at[lt]=yesterday").bounds("created_at").is_err());
        assert!(Query::of("include_archived=maybe").flag("include_archived").is_err());
        assert!(Query::of("order=up").ascending(true).is_err());
        assert_eq!(Query::of("limit=").limit(20, 100).unwrap(), 20);
    }
}
