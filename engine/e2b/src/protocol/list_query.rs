//! The query of a list of sandboxes.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What E2B's SDK leaves as it is when it escapes a text.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// How a list is sorted: by start, then by id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// The newest first.
    #[default]
    Descending,
    /// The oldest first.
    Ascending,
}

impl ListOrder {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Descending => "desc",
            Self::Ascending => "asc",
        }
    }
}

/// A `metadata` query that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMetadata {
    /// A pair without `=`.
    #[error("metadata pair `{pair}` has no `=`")]
    NoValue {
        /// The pair, once unescaped.
        pair: String,
    },
    /// Bytes that are no UTF-8.
    #[error("metadata `{text}` is no UTF-8 once it is unescaped")]
    NoUtf8 {
        /// The text before unescaping.
        text: String,
    },
}

/// The value of the `metadata` query parameter for these pairs, all of which a sandbox must have.
///
/// E2B escapes it three times: key and value, then the pair, then the parameter. This does the first two; whoever builds the address does the third, as for
/// any parameter. `{"a b": "c&d"}` becomes `a%2520b=c%2526d` here and `metadata=a%252520b%3Dc%252526d` in the address.
pub fn encode_metadata(pairs: &BTreeMap<String, String>) -> String {
    let twice = |text: &str| {
        let once = utf8_percent_encode(text, ESCAPED).to_string();
        utf8_percent_encode(&once, ESCAPED).to_string()
    };
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("{}={}", twice(key), twice(value))).collect();
    pairs.join("&")
}

/// The pairs of a `metadata` query parameter, given as it stands once the address has been read (that is, unescaped once already).
pub fn decode_metadata(parameter: &str) -> Result<BTreeMap<String, String>, BadMetadata> {
    let pairs = unescape(parameter)?;
    pairs
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').ok_or_else(|| BadMetadata::NoValue { pair: pair.to_owned() })?;
            Ok((unescape(key)?, unescape(value)?))
        })
        .collect()
}

/// Undoes one escaping; `+` is a space, as forms write it.
fn unescape(text: &str) -> Result<String, BadMetadata> {
    let spaced = text.replace('+', " ");
    match percent_decode_str(&spaced).decode_utf8() {
        Ok(plain) => Ok(plain.into_owned()),
        Err(_no_utf8) => Err(BadMetadata::NoUtf8 { text: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use percent_encoding::percent_decode_str;
    use proptest::prelude::{any, prop, proptest};

    use super::{BadMetadata, decode_metadata, encode_metadata};

    #[test]
    fn a_recorded_query_is_met() {
        let pairs = BTreeMap::from([("a b".to_owned(), "c&d".to_owned())]);
        assert_eq!(encode_metadata(&pairs), "a%2520b=c%2526d");
        let in_the_address = "a%252520b%3Dc%252526d";
        let parameter = percent_decode_str(in_the_address).decode_utf8().unwrap();
        assert_eq!(decode_metadata(&parameter).unwrap(), pairs);
    }

    #[test]
    fn a_pair_needs_its_sign() {
        assert_eq!(decode_metadata("alone"), Err(BadMetadata::NoValue { pair: "alone".into() }));
        assert!(decode_metadata("").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn pairs_come_back(pairs in prop::collection::btree_map(any::<String>(), any::<String>(), 0..4)) {
            assert_eq!(decode_metadata(&encode_metadata(&pairs)).unwrap(), pairs);
        }
    }
}
