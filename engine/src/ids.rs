//! Ids as types of their own, parsed once at the edge.
//!
//! An id is a prefix and 16 lower-case hex digits and nothing else, so that no path, object key or shell text built from
//! one holds a stranger's `../`. A few agents and one environment have fixed names; they parse as ids too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Text that is no id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the id of {noun}")]
pub struct BadId {
    text: String,
    noun: &'static str,
}

/// Hex digits after an id's prefix.
const HEX_DIGITS: usize = 16;

fn is_hex_tail(tail: &str) -> bool {
    tail.len() == HEX_DIGITS && tail.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $noun:literal, fixed: [$($fixed:literal),*]) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// What every such id begins with.
            pub const PREFIX: &'static str = $prefix;

            /// A new id that nobody has: 64 random bits.
            pub fn generate() -> Self {
                Self(format!(concat!($prefix, "{:016x}"), rand::random::<u64>()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                let fixed: &[&str] = &[$($fixed),*];
                if text.strip_prefix($prefix).is_some_and(is_hex_tail) || fixed.contains(&text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(BadId { text: text.chars().take(80).collect(), noun: $noun })
                }
            }
        }

        impl TryFrom<String> for $name {
            type Error = BadId;

            fn try_from(text: String) -> Result<Self, BadId> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// An agent: `agt_` and 16 hex digits, or one of the built-in names.
    AgentId, "agt_", "an agent", fixed: ["ambient_v1", "ambient_fast"]
);
id!(
    /// An environment: `env_` and 16 hex digits, or `default`.
    EnvironmentId, "env_", "an environment", fixed: ["default"]
);
id!(
    /// A video, which is also the id of its file: `vid_` and the first 16 hex digits of its bytes' SHA-256.
    VideoId, "vid_", "a file", fixed: []
);
id!(
    /// A session.
    SessionId, "ses_", "a session", fixed: []
);
id!(
    /// A resource of a session.
    ResourceId, "res_", "a session resource", fixed: []
);
id!(
    /// An event of a session.
    EventId, "evt_", "an event", fixed: []
);
id!(
    /// One run of a session: everything from a message to the idle that ends it.
    RunId, "run_", "a run", fixed: []
);

impl AgentId {
    /// The built-in agent that plans and calls tools.
    pub fn built_in_agent() -> Self {
        Self("ambient_v1".to_owned())
    }

    /// The built-in agent that answers in one call over the whole video.
    pub fn built_in_fast() -> Self {
        Self("ambient_fast".to_owned())
    }

    /// Whether this is one of the agents that always exist.
    pub fn is_built_in(&self) -> bool {
        !self.0.starts_with(Self::PREFIX)
    }
}

impl EnvironmentId {
    /// The environment that always exists.
    pub fn built_in() -> Self {
        Self("default".to_owned())
    }

    /// Whether this is the environment that always exists.
    pub fn is_built_in(&self) -> bool {
        !self.0.starts_with(Self::PREFIX)
    }
}

impl VideoId {
    /// The id of the video with these bytes' SHA-256, as 64 (at least 16) lower-case hex digits.
    ///
    /// # Errors
    /// When the text is no such hash.
    pub fn of_hash(sha256_hex: &str) -> Result<Self, BadId> {
        format!("{}{}", Self::PREFIX, sha256_hex.get(..HEX_DIGITS).unwrap_or_default()).parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_parse_only_in_their_own_form() {
        let good = "vid_0123456789abcdef";
        assert_eq!(good.parse::<VideoId>().unwrap().as_str(), good);
        for bad in [
            "",
            "vid_",
            "vid_0123456789ABCDEF",
            "vid_0123456789abcde",
            "vid_0123456789abcdef0",
            "vid_../../../../etc",
            "ses_0123456789abcdef",
        ] {
            assert!(bad.parse::<VideoId>().is_err(), "{bad}");
        }
        assert!("ambient_v1".parse::<AgentId>().unwrap().is_built_in());
        assert!("default".parse::<EnvironmentId>().unwrap().is_built_in());
        assert!("default".parse::<SessionId>().is_err());
    }

    #[test]
    fn a_generated_id_parses() {
        let id = EventId::generate();
        assert_eq!(id.as_str().parse::<EventId>().unwrap(), id);
    }

    proptest! {
        #[test]
        fn nothing_that_parses_can_leave_a_folder(text in "\\PC{0,40}") {
            if let Ok(id) = text.parse::<SessionId>() {
                prop_assert!(id.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            }
        }
    }
}
