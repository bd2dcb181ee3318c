//! A secret that travels in bodies.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A token of one sandbox or of its traffic. Travels as plain text, is wiped when dropped, and never shows in `Debug`.
#[derive(Clone)]
pub struct Token(SecretString);

impl Token {
    /// The token with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text itself, for a header or a signature.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token([hidden])")
    }
}

impl PartialEq for Token {
    /// Compares every byte whatever the first difference, so that the time tells nothing about a guess but its length.
    fn eq(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.expose().as_bytes(), other.expose().as_bytes());
        let difference = mine.iter().zip(theirs).fold(0, |seen, (a, b)| seen | (a ^ b));
        mine.len() == theirs.len() && difference == 0
    }
}

impl Eq for Token {}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.expose())
    }
}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::Token;

    #[test]
    fn a_token_travels_but_does_not_show() {
        let token: Token = serde_json::from_str(r#""s3cret""#).unwrap();
        assert_eq!(serde_json::to_string(&token).unwrap(), r#""s3cret""#);
        assert!(!format!("{token:?}").contains("s3cret"));
        assert_eq!(token, Token::new("s3cret"));
        assert_ne!(token, Token::new("s3crets"));
        assert_ne!(token, Token::new("s3creT"));
    }
}
