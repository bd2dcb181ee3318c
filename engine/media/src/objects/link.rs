//! A link to an object that anybody who has it can follow until it ends.

use std::fmt;

/// A presigned link. Whoever has it can read the object, so it is not shown in logs and not stored.
#[derive(Clone, PartialEq, Eq)]
pub struct PresignedUrl(String);

impl PresignedUrl {
    pub(super) const fn new(url: String) -> Self {
        Self(url)
    }

    /// The link with its signature.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The link with its signature, to hand on.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Debug for PresignedUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_signature = self.0.split('?').next().unwrap_or_default();
        write!(formatter, "PresignedUrl({without_signature}?…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_does_not_show_its_signature() {
        let link = PresignedUrl::new("https://store/bucket/key?X-Amz-Signature=abc".to_owned());
        assert_eq!(format!("{link:?}"), "PresignedUrl(https://store/bucket/key?…)");
    }
}
