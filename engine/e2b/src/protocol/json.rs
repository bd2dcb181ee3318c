//! How proto3 and the control plane write values that JSON has no type for.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Reads `null` as the type's default. Use with `#[serde(default)]`, which stands for the absent field.
pub(super) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Bytes as base64: written in the standard alphabet with padding, read in either alphabet, padded or not, as proto3 says.
pub(super) struct Base64(pub(super) Bytes);

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const EITHER_STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const EITHER_URL: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let engine = if text.contains(['-', '_']) { EITHER_URL } else { EITHER_STANDARD };
        match engine.decode(&text) {
            Ok(bytes) => Ok(Self(bytes.into())),
            Err(error) => Err(de::Error::custom(format_args!("bytes that are no base64: {error}"))),
        }
    }
}

/// A 64-bit number as text: written as a string, read from a string or a number, as proto3 says.
pub(super) mod int64 {
    use serde::{Deserialize, Deserializer, Serializer, de};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i64),
        Text(String),
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn serialize<S: Serializer>(number: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        match Option::<Either>::deserialize(deserializer)? {
            None => Ok(0),
            Some(Either::Number(number)) => Ok(number),
            Some(Either::Text(text)) => {
                text.parse().map_err(|_not_a_number| de::Error::custom(format_args!("`{text}` is no 64-bit number")))
            }
        }
    }
}

/// Whether a field is at its default and so left out, as proto3 does.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
