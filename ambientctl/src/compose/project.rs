//! A project: its files read, merged and checked, ready to be printed or applied.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map as JsonMap, Value};

use super::canonical::canonical;
use super::error::{ComposeError, Mistake};
use super::interpolate::interpolate;
use super::merge::{merge, without_doubles};
use super::node::{Data, Map, Node, Place};
use super::normalise::{Normaliser, finish};
use super::sources::{Variables, as_name, files, is_name, name_of, text_at};
use super::typed::{Form, plain, structure};
use super::{hash, render, resets, schema, yaml};

/// What a project is loaded from.
#[derive(Clone, Copy)]
pub struct Loader<'a> {
    /// The folder of the files.
    pub folder: &'a Path,
    /// The process's variables; they count before `.env`, as they do for Compose.
    pub environment: &'a [(OsString, OsString)],
    /// Whether variables are put in. Without, the model can only be printed.
    pub interpolate: bool,
    /// Texts that count in place of what stands in the files of these paths.
    pub texts: &'a BTreeMap<PathBuf, String>,
}

/// Without the texts, which hold secrets.
impl std::fmt::Debug for Loader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// A project and what should be said about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The project.
    pub project: Project,
    /// What works, but perhaps not as meant.
    pub warnings: Vec<String>,
}

/// The merged model.
#[derive(Clone, Debug)]
pub struct Project {
    name: String,
    folder: PathBuf,
    files: Vec<PathBuf>,
    root: Node,
    interpolated: bool,
    /// Values of the variables that secrets and configs name.
    granted: BTreeMap<String, SecretString>,
}

/// What counts in the place of files when nobody says so.
static NO_TEXTS: BTreeMap<PathBuf, String> = BTreeMap::new();

impl<'a> Loader<'a> {
    /// Loads the files of a folder as they are, with variables put in.
    pub fn new(folder: &'a Path, environment: &'a [(OsString, OsString)]) -> Self {
        Self { folder, environment, interpolate: true, texts: &NO_TEXTS }
    }
}

impl Loader<'_> {
    /// Reads, merges and checks.
    ///
    /// # Errors
    /// [`ComposeError`] names the file, the line and the key.
    pub fn load(&self) -> Result<Loaded, ComposeError> {
        let folder = std::path::absolute(self.folder).unwrap_or_else(|_no_working_folder| self.folder.to_owned());
        let mut variables = Variables::gather(&folder, self.environment, self.texts)?;
        let (files, mut warnings) = files(&folder, &variables, self.texts)?;
        let located = |mistake: Mistake| at(&files, mistake);

        let mut documents = Vec::new();
        for (number, file) in files.iter().enumerate() {
            let text = text_at(file, self.texts)?.ok_or_else(|| ComposeError::NoFile(folder.clone()))?;
            let found = yaml::documents(&text, number).map_err(located)?;
            if number == 0 && found.iter().all(Node::is_null) {
                return Err(at(&files, Mistake::new(Place { file: number, line: 1 }, "", "the file is empty")));
            }
            for document in found {
                documents.push((number, document));
            }
        }
        let name = project_name(&folder, &variables, &documents, self.interpolate)?;
        variables.set("COMPOSE_PROJECT_NAME", &name);

        let mut unset = BTreeSet::new();
        let mut root = Node::new(Place::default(), Data::Map(Map::new()));
        let lookup = |name: &str| variables.get(name).map(str::to_owned);
        for (number, mut document) in documents {
            if document.is_null() && number > 0 {
                continue;
            }
            top_level(&document).map_err(located)?;
            if self.interpolate {
                interpolate(&mut document, &lookup, &mut unset).map_err(located)?;
            }
            resets::apply(&mut root, &mut document);
            root = merge(root, document).map_err(located)?;
            without_doubles(&mut root);
            canonical(&mut root, !self.interpolate).map_err(located)?;
            without_doubles(&mut root);
        }
        if let Some(map) = root.as_map_mut()
            && map.shift_remove("version").is_some()
        {
            warnings.push("`version` in a compose file means nothing any more; remove it".to_owned());
        }
        warnings
            .extend(unset.into_iter().map(|name| format!("`{name}` is not set, so it is empty in the compose files")));

        no_profiles(&root, &variables).map_err(located)?;
        let normaliser =
            Normaliser { folder: &folder, name: &name, variables: &variables, interpolated: self.interpolate };
        normaliser.normalise(&mut root).map_err(located)?;
        if self.interpolate {
            normaliser.resolve_environments(&mut root).map_err(|error| match error {
                Ok(mistake) => at(&files, mistake),
                Err(error) => error,
            })?;
            model(&root, Form::Json).map_err(located)?;
            finish(&mut root).map_err(ComposeError::Inconsistent)?;
        } else {
            model(&root, Form::Check).map_err(located)?;
        }
        let granted = granted(&root, &variables);
        let project = Project { name, folder, files, root, interpolated: self.interpolate, granted };
        Ok(Loaded { project, warnings })
    }
}

/// The variables that secrets and configs name, as far as they are set.
fn granted(root: &Node, variables: &Variables) -> BTreeMap<String, SecretString> {
    let sections = ["secrets", "configs"].into_iter().filter_map(|section| root.get(section)?.as_map());
    let names = sections.flat_map(|entries| entries.values()).filter_map(|entry| entry.get("environment")?.as_text());
    names.filter_map(|name| Some((name.to_owned(), variables.get(name)?.to_owned().into()))).collect()
}

fn at(files: &[PathBuf], mistake: Mistake) -> ComposeError {
    let file = files.get(mistake.place.file).cloned().unwrap_or_default();
    ComposeError::At { file, line: mistake.place.line.max(1), problem: mistake.problem }
}

/// Sections of a compose file.
const SECTIONS: [&str; 7] = ["name", "version", "services", "networks", "volumes", "secrets", "configs"];

fn top_level(document: &Node) -> Result<(), Mistake> {
    let Data::Map(map) = &document.data else {
        return Err(Mistake::new(document.place, "", "the file must be a mapping, with `services` in it"));
    };
    for (key, value) in map {
        if key.starts_with("x-") {
            continue;
        }
        if !SECTIONS.contains(&key.as_str()) {
            let why = schema::refused(key).unwrap_or("is not understood, so nothing is done with this file");
            return Err(Mistake::new(value.place, key, why));
        }
        let is_mapping = match &value.data {
            Data::Map(_) | Data::Reset => true,
            Data::Alone(inner) => inner.as_map().is_some(),
            _ => false,
        };
        let may_be_text = matches!(key.as_str(), "name" | "version");
        let may_be_nothing = value.is_null() && key != "services";
        if !(is_mapping || may_be_text || may_be_nothing) {
            return Err(Mistake::new(value.place, key, format!("must be a mapping, not {}", value.kind())));
        }
    }
    Ok(())
}

fn project_name(
    folder: &Path,
    variables: &Variables,
    documents: &[(usize, Node)],
    interpolate: bool,
) -> Result<String, ComposeError> {
    let given = variables.get("COMPOSE_PROJECT_NAME").filter(|name| !name.is_empty()).map(str::to_owned);
    let lookup = |name: &str| variables.get(name).map(str::to_owned);
    // A name that the file gives is made one, as Compose does it; what the environment says has to be one.
    let written = documents.iter().rev().find_map(|(_, document)| document.get("name")?.as_text()).and_then(|name| {
        let name =
            if interpolate { ambient_settings::interpolate::interpolate(name, &lookup).ok()? } else { name.to_owned() };
        Some(as_name(&name)).filter(|name| !name.is_empty())
    });
    match given.or(written) {
        Some(name) if is_name(&name) => Ok(name),
        Some(name) => Err(ComposeError::Name(name)),
        None => {
            let name = name_of(folder);
            if name.is_empty() { Err(ComposeError::Name(name)) } else { Ok(name) }
        }
    }
}

/// Profiles choose services; we run all of them. Only when that is what was asked for do both mean the same.
fn no_profiles(root: &Node, variables: &Variables) -> Result<(), Mistake> {
    let all = variables.get("COMPOSE_PROFILES").is_some_and(|profiles| profiles.split(',').any(|name| name == "*"));
    let services = root.get("services").and_then(Node::as_map);
    for (name, service) in services.into_iter().flatten() {
        if let Some(profiles) = service.get("profiles")
            && profiles.as_list().is_none_or(|list| !list.is_empty())
            && !all
        {
            let why = schema::refused("profiles").unwrap_or_default();
            return Err(Mistake::new(profiles.place, &format!("services.{name}.profiles"), why));
        }
    }
    Ok(())
}

/// The whole model in the order in which Compose prints it.
fn model(root: &Node, form: Form) -> Result<Value, Mistake> {
    let mut sections = Vec::new();
    let Some(map) = root.as_map() else { return Ok(Value::Null) };
    for (section, fields) in [
        ("services", schema::SERVICE),
        ("networks", schema::NETWORK),
        ("volumes", schema::VOLUME),
        ("secrets", schema::FILE_OBJECT),
        ("configs", schema::FILE_OBJECT),
    ] {
        let nothing = Map::new();
        let entries = map.get(section).and_then(Node::as_map).unwrap_or(&nothing);
        if entries.is_empty() && section != "services" {
            continue;
        }
        let mut printed = Vec::with_capacity(entries.len());
        for (name, entry) in entries {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            if name.is_empty() || !name.chars().all(is_name) {
                let problem = "is no name: it is letters, digits, `.`, `_` and `-`";
                return Err(Mistake::new(entry.place, &format!("{section}.{name}"), problem));
            }
            printed.push((name.clone(), structure(entry, fields, &format!("{section}.{name}"), form)?));
        }
        render::sorted(&mut printed, form == Form::Yaml);
        sections.push((section.to_owned(), Value::Object(printed.into_iter().collect())));
    }
    let name = map.get("name").and_then(Node::as_text).unwrap_or_default();
    sections.insert(0, ("name".to_owned(), Value::from(name)));
    let mut extensions: Vec<(String, Value)> = map
        .iter()
        .filter(|(key, _)| key.starts_with("x-"))
        .map(|(key, value)| (key.clone(), plain(value, form)))
        .collect();
    render::sorted(&mut extensions, form == Form::Yaml);
    sections.extend(extensions);
    if form == Form::Json {
        render::sorted(&mut sections, false);
    }
    Ok(Value::Object(sections.into_iter().collect::<JsonMap<String, Value>>()))
}

impl Project {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder of its files, from the root on.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its files in the order in which they are merged.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The value of a variable that a secret or a config names.
    pub fn granted(&self, variable: &str) -> Option<&str> {
        self.granted.get(variable).map(ExposeSecret::expose_secret)
    }

    /// The names of its services.
    pub fn service_names(&self) -> impl Iterator<Item = &str> {
        self.root.get("services").and_then(Node::as_map).into_iter().flat_map(|map| map.keys().map(String::as_str))
    }

    /// The model as JSON, every value in the form in which Compose prints it.
    ///
    /// # Errors
    /// None for a project that was loaded with its variables; without them a value may be none that its key takes.
    pub fn model(&self) -> Result<Value, ComposeError> {
        if self.interpolated {
            model(&self.root, Form::Json).map_err(|mistake| at(&self.files, mistake))
        } else {
            Ok(plain(&self.root, Form::Json))
        }
    }

    /// What `docker compose config --format json` prints.
    ///
    /// # Errors
    /// See [`Project::model`].
    pub fn json(&self) -> Result<String, ComposeError> {
        Ok(self.dollars(render::json(&self.model()?)))
    }

    /// What `docker compose config` prints.
    ///
    /// # Errors
    /// See [`Project::model`].
    pub fn yaml(&self) -> Result<String, ComposeError> {
        let value = if self.interpolated {
            model(&self.root, Form::Yaml).map_err(|mistake| at(&self.files, mistake))?
        } else {
            let mut entries: Vec<(String, Value)> = match plain(&self.root, Form::Yaml) {
                Value::Object(map) => map.into_iter().collect(),
                _ => Vec::new(),
            };
            render::sorted(&mut entries, true);
            Value::Object(entries.into_iter().collect())
        };
        Ok(self.dollars(render::yaml(&value)))
    }

    /// A dollar that came out of a variable is data, and is printed so that it stays data.
    fn dollars(&self, text: String) -> String {
        if self.interpolated { text.replace('$', "$$") } else { text }
    }

    /// The hash of each service, by name: the label `com.docker.compose.config-hash` of its containers.
    ///
    /// # Errors
    /// See [`Project::model`].
    pub fn config_hashes(&self) -> Result<Vec<(String, String)>, ComposeError> {
        let model = self.model()?;
        let services = model.get("services").and_then(Value::as_object);
        Ok(services
            .into_iter()
            .flatten()
            .map(|(name, service)| (name.clone(), hash::sha256(&hash::hashed_text(service))))
            .collect())
    }
}
