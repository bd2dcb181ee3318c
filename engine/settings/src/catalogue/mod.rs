//! The catalogue: one row a setting, in the order in which an operator reads about them.
//!
//! A row is the only place that knows a setting's name, default, kind, secrecy and description. Adding a setting means a
//! row here, a field in `settings.rs` and a line in `load/assemble.rs`; tests fail when one of the three is missing.

mod agent;
mod media;
mod models;
mod sandbox;
mod server;
mod storage;

use std::fmt;

use crate::kind::{BadValue, Kind, LONGEST, Value};

/// One setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name of the environment variable, in capitals. Names are matched in any case.
    pub name: &'static str,
    /// What its value may look like.
    pub kind: Kind,
    /// What counts when nobody sets it.
    pub preset: Preset,
    /// Whether its value may be shown.
    pub secrecy: Secrecy,
    /// Which parts read it.
    pub readers: &'static [Reader],
    /// What it does, as one or two sentences.
    pub help: &'static str,
    /// When to change it; empty where that is plain.
    pub advice: &'static str,
}

/// What counts when nobody sets a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// Nothing: the feature that needs it is off, or asks for it.
    Unset,
    /// This value.
    Is(&'static str),
    /// A value that depends on the machine or on other settings, described in a few words.
    Computed(&'static str),
}

/// Whether a value may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secrecy {
    /// It may.
    Plain,
    /// Never: not in logs, errors, `config show` or `doctor`.
    Secret,
}

/// A part of the product that reads a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// `ambientctl serve`.
    Engine,
    /// `ambientctl media …` inside a sandbox: the engine passes the setting on.
    Sandbox,
}

/// Settings that belong together, with the words above them in the reference.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// The heading.
    pub title: &'static str,
    /// What the settings have in common.
    pub intro: &'static str,
    /// The rows.
    pub rows: &'static [Setting],
}

/// All sections in reading order.
pub const SECTIONS: &[Section] = &[
    server::SERVER,
    server::LOGS,
    storage::STORE,
    models::MODELS,
    agent::AGENT,
    agent::FAST,
    agent::SESSIONS,
    agent::BASH,
    media::MEDIA,
    media::CLIPS,
    storage::BUCKET,
    storage::SOURCES,
    storage::ARTIFACTS,
    sandbox::SANDBOX,
    sandbox::E2B,
    media::DESCRIPTIONS,
    media::INGEST,
    media::TILES,
    media::YOUTUBE,
];

/// Every setting, in reading order.
pub fn catalogue() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// The setting of this name, in any case.
pub fn find(name: &str) -> Option<&'static Setting> {
    catalogue().find(|setting| setting.name.eq_ignore_ascii_case(name))
}

impl Setting {
    /// Whether its value must never be shown.
    pub const fn is_secret(&self) -> bool {
        matches!(self.secrecy, Secrecy::Secret)
    }

    /// Whether a sandbox gets it too.
    pub fn is_passed_to_sandboxes(&self) -> bool {
        self.readers.contains(&Reader::Sandbox)
    }

    /// Reads a value of this setting, as `config set` does before it writes anything.
    ///
    /// This looks at the value alone; what must fit together is checked by the load.
    ///
    /// # Errors
    /// [`BadValue`] says what is wrong, without the value.
    pub fn parse(&self, text: &str) -> Result<Value, BadValue> {
        self.kind.parse(text)
    }

    /// Whether an empty value means something of its own. Everywhere else it counts as not set, because
    /// `NAME: ${NAME}` in a compose file makes an empty variable of one that nobody set.
    pub fn empty_is_a_value(&self) -> bool {
        EMPTY_IS_A_VALUE.contains(&self.name)
    }
}

/// Settings with a default that an empty value switches off.
const EMPTY_IS_A_VALUE: [&str; 2] = ["MODEL_CATALOGUE_URL", "DEFAULT_AGENT_SYSTEM"];

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => f.write_str("not set"),
            Self::Is("") => f.write_str("empty"),
            Self::Is(value) => write!(f, "`{value}`"),
            Self::Computed(words) => f.write_str(words),
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Engine => "engine",
            Self::Sandbox => "sandbox",
        })
    }
}

/// A plain setting that the engine reads; the methods below add what differs.
const fn setting(name: &'static str, kind: Kind, preset: Preset, help: &'static str) -> Setting {
    Setting { name, kind, preset, secrecy: Secrecy::Plain, readers: &[Reader::Engine], help, advice: "" }
}

impl Setting {
    const fn secret(self) -> Self {
        Self { secrecy: Secrecy::Secret, ..self }
    }

    const fn sandbox_too(self) -> Self {
        Self { readers: &[Reader::Engine, Reader::Sandbox], ..self }
    }

    const fn advice(self, advice: &'static str) -> Self {
        Self { advice, ..self }
    }
}

/// The longest that a presigned link may live by the rules of `SigV4`: seven days.
const LONGEST_LINK: u64 = 7 * 86_400;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_is_there_once_and_is_a_name_that_all_readers_share() {
        let mut seen = HashSet::new();
        for setting in catalogue() {
            assert!(seen.insert(setting.name), "{} is there twice", setting.name);
            let mut letters = setting.name.bytes();
            assert!(letters.next().is_some_and(|first| first.is_ascii_uppercase()), "{}", setting.name);
            assert!(
                letters.all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == b'_'),
                "{}",
                setting.name
            );
        }
        for name in EMPTY_IS_A_VALUE {
            assert!(seen.contains(name), "{name}");
        }
    }

    #[test]
    fn every_default_is_accepted_by_its_own_kind() {
        for setting in catalogue() {
            if let Preset::Is(value) = setting.preset {
                assert!(setting.parse(value).is_ok(), "{} = {value}", setting.name);
            }
        }
    }

    #[test]
    fn every_row_is_described_in_full_sentences() {
        for setting in catalogue() {
            for text in [setting.help, setting.advice].iter().filter(|text| !text.is_empty()) {
                assert!(text.ends_with('.'), "{}: {text}", setting.name);
                assert!(
                    text.starts_with(|first: char| first.is_uppercase() || first == '`'),
                    "{}: {text}",
                    setting.name
                );
                assert!(!text.contains('|') && !text.contains('\n'), "{}: breaks the table", setting.name);
            }
            assert!(!setting.help.is_empty(), "{}", setting.name);
        }
    }

    #[test]
    fn a_name_is_found_in_any_case() {
        assert_eq!(find("server_Port").map(|setting| setting.name), Some("SERVER_PORT"));
        assert!(find("SERVER_PORTS").is_none());
    }

    #[test]
    fn every_key_and_every_url_with_a_password_is_a_secret() {
        for setting in catalogue() {
            let looks_secret = setting.name.ends_with("API_KEY")
                || setting.name.starts_with("AWS_") && setting.name.contains("KEY")
                || matches!(setting.name, "DATABASE_URL" | "REDIS_URL" | "SECRETS_KEY");
            assert_eq!(setting.is_secret(), looks_secret, "{}", setting.name);
        }
    }
}
