//! Typed reading of single settings: every value goes through its row's kind here, and every fault is kept.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};
use secrecy::SecretString;
use url::Url;

use super::sources::{Found, Sources};
use crate::catalogue::{Preset, Setting, find};
use crate::kind::Value;
use crate::redact::without_credentials;
use crate::report::{Fault, Origin};
use crate::settings::Written;

/// Values longer than this are cut in messages.
const SHOWN_CHARACTERS: usize = 80;

/// Reads settings by name. A name that is not in the catalogue, or is read as another kind than its row's, is a mistake of
/// ours that the tests of the loader find, so those reads panic.
pub(super) struct Values<'a> {
    sources: &'a Sources,
    home_folder: Option<Utf8PathBuf>,
    faults: Vec<Fault>,
    written: BTreeMap<&'static str, Written>,
}

impl<'a> Values<'a> {
    pub(super) fn new(sources: &'a Sources) -> Self {
        let home_folder = sources.foreign("HOME").map(Utf8PathBuf::from);
        Self { sources, home_folder, faults: Vec::new(), written: BTreeMap::new() }
    }

    /// The faults so far, and where each value came from.
    pub(super) fn finish(self) -> (Vec<Fault>, BTreeMap<&'static str, Written>) {
        (self.faults, self.written)
    }

    /// The user's home folder, from `HOME`.
    pub(super) fn home_folder(&self) -> Option<&Utf8Path> {
        self.home_folder.as_deref()
    }

    pub(super) fn switch(&mut self, name: &str) -> bool {
        match self.required(name) {
            Value::Switch(value) => value,
            other => unreachable!("`{name}` is no switch: {other:?}"),
        }
    }

    /// A number whose range in the catalogue fits `T`.
    pub(super) fn whole<T: TryFrom<u64>>(&mut self, name: &str) -> T {
        let number = self.number(name);
        T::try_from(number).ok().unwrap_or_else(|| unreachable!("the range of `{name}` fits its field"))
    }

    /// A number that cannot be 0; not set is the number of processor cores.
    pub(super) fn count(&mut self, name: &str) -> NonZeroUsize {
        let number = match self.optional(name) {
            Some(Value::Whole(number)) => usize::try_from(number).ok().and_then(NonZeroUsize::new),
            Some(other) => unreachable!("`{name}` is no whole number: {other:?}"),
            None => None,
        };
        number.unwrap_or_else(|| std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN))
    }

    pub(super) fn decimal(&mut self, name: &str) -> f64 {
        match self.required(name) {
            Value::Decimal(value) => value,
            other => unreachable!("`{name}` is no number: {other:?}"),
        }
    }

    pub(super) fn seconds(&mut self, name: &str) -> Duration {
        match self.required(name) {
            Value::Whole(seconds) => Duration::from_secs(seconds),
            Value::Decimal(seconds) => Duration::from_secs_f64(seconds),
            other => unreachable!("`{name}` is no time: {other:?}"),
        }
    }

    /// Seconds that 0 turns off.
    pub(super) fn limit(&mut self, name: &str) -> Option<Duration> {
        Some(self.seconds(name)).filter(|limit| !limit.is_zero())
    }

    /// Mebibytes, as bytes.
    pub(super) fn mebibytes(&mut self, name: &str) -> u64 {
        self.number(name) << 20
    }

    pub(super) fn text(&mut self, name: &str) -> String {
        match self.required(name) {
            Value::Text(text) => text,
            other => unreachable!("`{name}` is no text: {other:?}"),
        }
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Option<String> {
        self.optional(name).map(|value| match value {
            Value::Text(text) => text,
            other => unreachable!("`{name}` is no text: {other:?}"),
        })
    }

    pub(super) fn secret(&mut self, name: &str) -> Option<SecretString> {
        self.optional_text(name).map(SecretString::from)
    }

    pub(super) fn url(&mut self, name: &str) -> Option<Url> {
        self.optional(name).map(|value| match value {
            Value::Url(url) => url,
            other => unreachable!("`{name}` is no URL: {other:?}"),
        })
    }

    /// A folder or file: absolute, with `~` replaced by the home folder.
    pub(super) fn path(&mut self, name: &str) -> Option<Utf8PathBuf> {
        match self.optional(name)? {
            Value::Path(path) => self.absolute(name, &path),
            other => unreachable!("`{name}` is no path: {other:?}"),
        }
    }

    pub(super) fn paths(&mut self, name: &str) -> Vec<Utf8PathBuf> {
        match self.required(name) {
            Value::Paths(paths) => paths.iter().filter_map(|path| self.absolute(name, path)).collect(),
            other => unreachable!("`{name}` is no list of paths: {other:?}"),
        }
    }

    /// A program: a bare name stays one, for the search in `PATH`.
    pub(super) fn program(&mut self, name: &str) -> Utf8PathBuf {
        match self.required(name) {
            Value::Path(path) if path.as_str().contains('/') => self.absolute(name, &path).unwrap_or(path),
            Value::Path(path) => path,
            other => unreachable!("`{name}` is no program: {other:?}"),
        }
    }

    /// Adds a fault of the value of `name`. `reason` follows the value, or stands alone for a secret.
    pub(super) fn refuse(&mut self, name: &str, reason: &str, accepted: &str) {
        let setting = row(name);
        let origin = self.written.get(setting.name).map_or(Origin::Default, |written| written.origin);
        self.faults.push(Fault::Setting {
            name: setting.name,
            origin,
            reason: reason.to_owned(),
            accepted: accepted.to_owned(),
        });
    }

    /// Whether nobody set `name`, which was read before.
    pub(super) fn is_default(&self, name: &str) -> bool {
        self.written.get(name).is_none_or(|written| written.origin == Origin::Default)
    }

    fn number(&mut self, name: &str) -> u64 {
        match self.required(name) {
            Value::Whole(number) => number,
            other => unreachable!("`{name}` is no whole number: {other:?}"),
        }
    }

    /// The value, or the row's default.
    fn required(&mut self, name: &str) -> Value {
        self.optional(name).unwrap_or_else(|| unreachable!("`{name}` has a default"))
    }

    /// The value, else the row's default, else nothing. A value that is refused becomes a fault and the default.
    fn optional(&mut self, name: &str) -> Option<Value> {
        let setting = row(name);
        let (text, origin) =
            self.set_text(setting).map_or((None, Origin::Default), |(text, origin)| (Some(text), origin));
        let kept = text.as_deref().filter(|_| !setting.is_secret()).map(without_credentials);
        let before = self.written.insert(setting.name, Written { origin, text: kept });
        // A second read would report each fault twice.
        assert!(before.is_none(), "`{name}` is read once");
        let default = || match setting.preset {
            Preset::Is(text) => setting.parse(text).ok(),
            Preset::Unset | Preset::Computed(_) => None,
        };
        let Some(text) = text else { return default() };
        match setting.parse(&text) {
            Ok(value) => Some(value),
            // Set to nothing on purpose, and of a kind that has no empty value of its own.
            Err(_) if text.trim().is_empty() => None,
            Err(bad) => {
                self.refused(setting, origin, format!("{} {bad}", shown(setting, &text)));
                default()
            }
        }
    }

    /// What somebody set, unless it is empty and that means not set.
    fn set_text(&mut self, setting: &'static Setting) -> Option<(String, Origin)> {
        match self.sources.find(setting.name)? {
            (Found::Text(text), origin) => {
                let counts = !text.trim().is_empty() || setting.empty_is_a_value();
                counts.then_some((text, origin))
            }
            (Found::NotUtf8, origin) => {
                self.refused(setting, origin, "the value is not UTF-8 text".to_owned());
                None
            }
        }
    }

    fn refused(&mut self, setting: &'static Setting, origin: Origin, reason: String) {
        let accepted = format!("accepted: {}", setting.kind);
        self.faults.push(Fault::Setting { name: setting.name, origin, reason, accepted });
    }

    /// `path` from the root on, with `~` replaced by the home folder; a fault of `name` where that cannot be done.
    pub(super) fn absolute(&mut self, name: &str, path: &Utf8Path) -> Option<Utf8PathBuf> {
        let in_home = if path == "~" { Some(Utf8Path::new("")) } else { path.strip_prefix("~/").ok() };
        let full = match (in_home, &self.home_folder) {
            (None, _) => path.to_owned(),
            (Some(below), Some(home)) => home.join(below),
            (Some(_), None) => {
                self.refuse(
                    name,
                    "`~` stands for nothing, because `HOME` is not set",
                    "write the whole path, or set `HOME`",
                );
                return None;
            }
        };
        let absolute = std::path::absolute(&full).ok().and_then(|absolute| Utf8PathBuf::from_path_buf(absolute).ok());
        if absolute.is_none() {
            self.refuse(name, "the path cannot be made absolute from the working directory", "write the whole path");
        }
        absolute
    }
}

fn row(name: &str) -> &'static Setting {
    find(name).unwrap_or_else(|| unreachable!("`{name}` is in the catalogue"))
}

/// A value in a message: never a secret, never long.
fn shown(setting: &Setting, text: &str) -> String {
    if setting.is_secret() {
        return "the value (not shown)".to_owned();
    }
    let text = without_credentials(text);
    let short: String = text.chars().take(SHOWN_CHARACTERS).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    format!("`{}{cut}`", short.escape_debug())
}
