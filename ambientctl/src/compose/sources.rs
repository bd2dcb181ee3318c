//! Which files make a project, what it is called, and the variables that are put into it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ambient_settings::dotenv::Document;

use super::error::ComposeError;
use crate::files::{FilesError, text_of};

/// Names of the main file, the first that is there.
const MAIN: [&str; 4] = ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

/// Names of the override, the first that is there.
const OVERRIDES: [&str; 4] =
    ["compose.override.yml", "compose.override.yaml", "docker-compose.override.yml", "docker-compose.override.yaml"];

/// The variables of a project: the process's first, then those of `.env`.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Reads `.env` of the folder, or the files that `COMPOSE_ENV_FILES` names in its place.
    pub(super) fn gather(
        folder: &Path,
        process: &[(OsString, OsString)],
        texts: &BTreeMap<PathBuf, String>,
    ) -> Result<Self, ComposeError> {
        let process: BTreeMap<String, String> = process
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())))
            .collect();
        let off = process.get("COMPOSE_DISABLE_ENV_FILE").is_some_and(|value| matches!(value.as_str(), "1" | "true"));
        let files: Vec<PathBuf> = match process.get("COMPOSE_ENV_FILES").filter(|files| !files.is_empty()) {
            Some(files) => files.split(',').map(|file| folder.join(file)).collect(),
            None if off => Vec::new(),
            None => vec![folder.join(".env")],
        };
        let mut all = BTreeMap::new();
        for file in files {
            let Some(text) = text_at(&file, texts)? else { continue };
            all.extend(dotenv(&file, &text, &|name| process.get(name).or_else(|| all.get(name)).cloned())?);
        }
        all.extend(process);
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }
}

/// A file's text: one that counts in its place, else what stands in it.
pub(super) fn text_at(path: &Path, texts: &BTreeMap<PathBuf, String>) -> Result<Option<String>, FilesError> {
    match texts.get(path) {
        Some(text) => Ok(Some(text.clone())),
        None => text_of(path),
    }
}

/// The variables that a file sets.
pub(super) fn dotenv(
    path: &Path,
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, ComposeError> {
    let evaluated = Document::parse(text)
        .and_then(|document| document.evaluate(&lookup))
        .map_err(|error| ComposeError::Dotenv { path: path.to_owned(), error })?;
    Ok(evaluated.variables.into_iter().map(|(name, variable)| (name, variable.value)).collect())
}

/// The files in the order in which they are merged, and what should be said about others that are there.
pub(super) fn files(
    folder: &Path,
    variables: &Variables,
    texts: &BTreeMap<PathBuf, String>,
) -> Result<(Vec<PathBuf>, Vec<String>), ComposeError> {
    if let Some(named) = variables.get("COMPOSE_FILE").filter(|named| !named.is_empty()) {
        let separator = variables.get("COMPOSE_PATH_SEPARATOR").filter(|text| !text.is_empty()).unwrap_or(":");
        let files = named.split(separator).map(|file| folder.join(file)).collect();
        let warning = "`COMPOSE_FILE` is set, so these files count and no override is looked for".to_owned();
        return Ok((files, vec![warning]));
    }
    let there = |names: [&'static str; 4]| -> Vec<&'static str> {
        let is_there = |path: PathBuf| texts.contains_key(&path) || path.is_file();
        names.into_iter().filter(|name| is_there(folder.join(name))).collect()
    };
    let mut warnings = Vec::new();
    let mut files = Vec::new();
    for (found, what) in [(there(MAIN), "main"), (there(OVERRIDES), "override")] {
        let mut found = found.into_iter();
        let Some(first) = found.next() else {
            if what == "main" {
                return Err(ComposeError::NoFile(folder.to_owned()));
            }
            continue;
        };
        files.push(folder.join(first));
        warnings.extend(
            found.map(|other| {
                format!("`{other}` does not count, since `{first}` is the {what} file that Compose takes")
            }),
        );
    }
    Ok((files, warnings))
}

/// The folder's name, as far as it can be a project's.
pub(super) fn name_of(folder: &Path) -> String {
    as_name(&folder.file_name().unwrap_or_default().to_string_lossy())
}

/// What of a text can be a project's name.
pub(super) fn as_name(text: &str) -> String {
    let kept: String = text
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || matches!(letter, '_' | '-'))
        .collect();
    kept.trim_start_matches(['_', '-']).to_owned()
}

/// Whether a name can be a project's.
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_give_names() {
        for (folder, name) in [("/home/ann/.ambient", "ambient"), ("/x/My App_1", "myapp_1"), ("/x/--a", "a")] {
            assert_eq!(name_of(Path::new(folder)), name);
        }
        assert!(is_name("ambient-2") && !is_name("Ambient") && !is_name("-a") && !is_name(""));
    }
}
