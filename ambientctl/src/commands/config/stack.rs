//! What the compose files of an installation do with a key.

use std::path::Path;

use ambient_settings::{Reader, find};

use crate::files::override_file::{Found, OverrideError, found, refers_to};
use crate::files::{FilesError, text_of};

/// The service that reads the settings.
pub(crate) const ENGINE: &str = "engine";

/// The file that the installer writes.
pub(crate) const MAIN: &str = "docker-compose.yml";

/// Names of overrides that Compose would take before ours.
const BEFORE_OURS: [&str; 2] = ["compose.override.yml", "compose.override.yaml"];

/// The compose files' texts.
pub(crate) struct Stack {
    main: Option<String>,
}

/// What has to happen to the override so that the engine gets a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it gets it already, or no engine setting is meant, or there is no stack here.
    Nothing,
    /// It has to be passed on.
    PassOn,
    /// It stands in the override as this literal, which has to change.
    ChangeLiteral,
}

impl Stack {
    pub(crate) fn read(folder: &Path) -> Result<Self, FilesError> {
        Ok(Self { main: text_of(&folder.join(MAIN))? })
    }

    /// The same, of the main file's text.
    pub(crate) fn of(main: String) -> Self {
        Self { main: Some(main) }
    }

    /// Overrides that hide ours from Compose.
    pub(crate) fn stray_overrides(folder: &Path) -> Vec<&'static str> {
        BEFORE_OURS.into_iter().filter(|name| folder.join(name).is_file()).collect()
    }

    /// What the override needs for `key`.
    pub(crate) fn need(&self, over: Option<&str>, key: &str) -> Result<Need, OverrideError> {
        let Some(main) = &self.main else { return Ok(Need::Nothing) };
        let is_ours = find(key).is_some_and(|setting| setting.name == key && setting.readers.contains(&Reader::Engine));
        if !is_ours {
            return Ok(Need::Nothing);
        }
        match found(over.unwrap_or_default(), ENGINE, key)? {
            Found::Text(text) if refers_to(&text, key) => return Ok(Need::Nothing),
            Found::NameAlone => return Ok(Need::Nothing),
            Found::Text(_) => return Ok(Need::ChangeLiteral),
            Found::Nothing => {}
        }
        Ok(match found(main, ENGINE, key)? {
            Found::Text(text) if refers_to(&text, key) => Need::Nothing,
            Found::NameAlone => Need::Nothing,
            Found::Text(_) | Found::Nothing => Need::PassOn,
        })
    }

    /// Whether a compose file says the key's name anywhere: then a value of it has a use.
    pub(crate) fn mentions(&self, over: Option<&str>, key: &str) -> bool {
        [self.main.as_deref(), over].into_iter().flatten().any(|text| refers_to(text, key))
    }

    /// A literal that hides what `.env` says, and the file it stands in.
    pub(crate) fn literal(
        &self,
        over: Option<&str>,
        key: &str,
    ) -> Result<Option<(&'static str, String)>, OverrideError> {
        let files = [("docker-compose.override.yml", over), (MAIN, self.main.as_deref())];
        for (name, text) in files {
            match found(text.unwrap_or_default(), ENGINE, key)? {
                Found::Text(text) if !refers_to(&text, key) && !text.contains('$') => return Ok(Some((name, text))),
                Found::Text(_) | Found::NameAlone => return Ok(None),
                Found::Nothing => {}
            }
        }
        Ok(None)
    }
}
