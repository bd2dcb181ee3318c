//! The agent's version, which tells what it can do.

use std::str::FromStr;

/// `major.minor.patch` of an agent; what follows the patch is left out. Text that is no version counts as the newest: it is some build of one's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EnvdVersion(u32, u32, u32);

impl EnvdVersion {
    /// Sandboxes of older templates cannot be driven at all.
    pub(crate) const OLDEST: Self = Self(0, 1, 0);
    /// From here on the agent itself knows the default user.
    pub(crate) const DEFAULT_USER: Self = Self(0, 4, 0);
    /// From here on uploads may be plain bytes.
    pub(crate) const OCTET_STREAM: Self = Self(0, 5, 7);

    const NEWEST: Self = Self(u32::MAX, 0, 0);

    pub(crate) fn parse(text: &str) -> Self {
        text.parse().unwrap_or(Self::NEWEST)
    }
}

impl FromStr for EnvdVersion {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let core = text.trim().trim_start_matches('v').split(['-', '+']).next().unwrap_or_default();
        let mut parts = core.split('.').map(|part| part.parse::<u32>().map_err(|_no_number| ()));
        let mut next = || parts.next().unwrap_or(Err(()));
        Ok(Self(next()?, next()?, next()?))
    }
}

#[cfg(test)]
mod tests {
    use super::EnvdVersion;

    #[test]
    fn versions_compare_by_number() {
        assert!(EnvdVersion::parse("0.10.0") > EnvdVersion::OCTET_STREAM);
        assert!(EnvdVersion::parse("0.0.9") < EnvdVersion::OLDEST);
        assert_eq!(EnvdVersion::parse("0.4.0-rc.1"), EnvdVersion::DEFAULT_USER);
        assert!(EnvdVersion::parse("main") > EnvdVersion::OCTET_STREAM);
    }
}
