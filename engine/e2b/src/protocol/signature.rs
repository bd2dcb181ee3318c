//! The right to read or write one file, put into its address.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::Token;

/// What a signed address allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOperation {
    /// `GET /files`.
    Read,
    /// `POST /files`.
    Write,
}

impl FileOperation {
    /// The word in the signed text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The `signature` parameter of a `/files` address. `path` and `username` are those of the query, empty when absent; `expiration` is in seconds since 1970 and
/// travels as `signature_expiration`.
pub fn file_signature(
    path: &str,
    operation: FileOperation,
    username: &str,
    token: &Token,
    expiration: Option<i64>,
) -> String {
    let mut text = format!("{path}:{}:{username}:{}", operation.as_str(), token.expose());
    if let Some(expiration) = expiration {
        text.push(':');
        text.push_str(&expiration.to_string());
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::{FileOperation, Token, file_signature};

    /// Made with E2B's Python SDK 2.63.0.
    #[test]
    fn signatures_are_those_of_the_sdk() {
        let token = Token::new("0123456789abcdef");
        assert_eq!(
            file_signature("/home/user/a b.txt", FileOperation::Read, "user", &token, None),
            "v1_cfssELnRyM6D07jPEtLJXK5Qn1mF3cidZRj5a7OymgA"
        );
        assert_eq!(
            file_signature("ü+/x", FileOperation::Write, "", &token, Some(1_800_000_000)),
            "v1_bp6EBRWiSXLNRDHpe/DYDTQ7JLeBpidfAnnEslBjUpU"
        );
    }
}
