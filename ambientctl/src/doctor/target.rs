//! What is looked at, as the engine there gets to see it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use ambient_settings::dotenv::{Document, Evaluated};
use ambient_settings::{Fault, Faults, Loaded, Redactor, SandboxBackend, Settings, Warning, find};
use secrecy::SecretString;
use url::Url;

use super::finding::Remedy;
use crate::commands::config::is_secret;
use crate::compose::{ComposeError, Loader};
use crate::docker::{DockerError, Wanted};
use crate::environment::Environment;
use crate::files::override_file::refers_to;
use crate::files::text_of;

/// The file of an installation that the installer writes.
const COMPOSE: &str = "docker-compose.yml";
/// The file with the operator's additions.
pub(super) const OVERRIDE: &str = "docker-compose.override.yml";
const DOTENV: &str = ".env";
/// The engine's service: of an installation, and of the repository's compose file.
const SERVICES: [&str; 2] = ["engine", "api"];
/// Passwords that everybody knows. Hiding them would hide our own name in every text.
const KNOWN_TO_ALL: [&str; 4] = ["ambient", "dev-token", "postgres", "redis"];
/// The shortest value of a variable that is no setting of ours to count as a secret.
const SHORTEST_OF_STRANGERS: usize = 8;
/// What Docker, and Podman, put into each container.
const CONTAINER_MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
/// Endings of keys copied from a page with the dots in them.
const PLACEHOLDER: &str = "...";

/// Where the target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An installation in this folder: the engine's environment is what the compose files give it.
    Install(PathBuf),
    /// This `.env`, which an engine started beside it reads, under the process's own environment.
    File(PathBuf),
    /// The process's environment alone, as in the engine's container.
    Process,
}

/// The compose files of the target.
pub struct Stack {
    /// Their folder.
    pub folder: PathBuf,
    /// What they ask for, or what is wrong with them.
    pub wanted: Result<Wanted, StackFault>,
    /// The text of the installer's file.
    pub main: String,
    /// The text of the override, where there is one.
    pub over: Option<String>,
}

/// What is wrong with compose files.
#[derive(Clone, Debug)]
pub struct StackFault {
    /// What happened, with the file and the line.
    pub seen: String,
    /// The file and the line that are wrong, where that is known.
    pub at: Option<(PathBuf, usize)>,
    /// Whether they are valid, and ask for something that Docker Compose applies and ambientctl does not, such as `build`.
    pub is_for_compose: bool,
}

/// A `.env` as it was read.
#[derive(Clone, Default)]
pub struct DotenvFile {
    /// Where it is, or would be.
    pub path: PathBuf,
    /// Its bytes; `None` when there is no such file.
    pub text: Option<Vec<u8>>,
    /// What it gives; `None` when it cannot be read.
    pub evaluated: Option<Evaluated>,
}

/// Without the texts, which hold secrets.
impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Without the texts, which hold secrets.
impl fmt::Debug for DotenvFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DotenvFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What is looked at.
pub struct Target {
    /// Where it is.
    pub place: Place,
    /// The settings of the engine. What was refused is left out, and counts as not set.
    pub settings: Settings,
    /// What was refused.
    pub faults: Vec<Fault>,
    /// What works, but perhaps not as meant.
    pub warnings: Vec<Warning>,
    /// The variables that the engine gets from outside: the process's, or those of its container.
    pub variables: BTreeMap<String, String>,
    /// Its `.env`.
    pub dotenv: DotenvFile,
    /// Its compose files.
    pub stack: Option<Stack>,
    /// Knows every secret of the target, and of the process.
    pub redactor: Redactor,
    /// What `--dir` has to say for commands to mean this installation; empty for the usual one.
    dir_words: String,
}

/// Without the variables, which hold secrets.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("place", &self.place).field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Target {
    /// Finds and reads the target: a named file, a named folder, `.env` or an installation here, the usual installation, or
    /// the process's environment, the first of these that there is.
    pub fn find(env_file: Option<&Path>, dir: Option<&Path>, usual: Option<&Path>, environment: &Environment) -> Self {
        let here = PathBuf::from(".");
        let place = if let Some(file) = env_file {
            Place::File(file.to_owned())
        } else if let Some(dir) = dir {
            Place::Install(dir.to_owned())
        } else if is_installation(&here) {
            Place::Install(std::path::absolute(&here).unwrap_or(here))
        } else if here.join(DOTENV).is_file() {
            Place::File(PathBuf::from(DOTENV))
        } else if let Some(usual) = usual.filter(|folder| folder.join(COMPOSE).is_file()) {
            Place::Install(usual.to_owned())
        } else {
            Place::Process
        };
        Self::read(place, usual, environment)
    }

    /// Reads the files of a place. What cannot be read is left out, and the checks say so.
    pub fn read(place: Place, usual: Option<&Path>, environment: &Environment) -> Self {
        let file = match &place {
            Place::Install(folder) => folder.join(DOTENV),
            Place::File(file) => file.clone(),
            Place::Process => PathBuf::from(DOTENV),
        };
        let dotenv = DotenvFile::read(file, environment);
        let stack = match &place {
            Place::Install(folder) => Some(folder.clone()),
            Place::File(file) => Some(file.parent().map_or_else(|| PathBuf::from("."), Path::to_owned)),
            Place::Process => None,
        };
        let stack = stack.and_then(|folder| Stack::read(folder, environment));
        let process = environment.variables.iter().cloned();
        let of_container = match (&place, &stack) {
            (Place::Install(_), Some(Stack { wanted: Ok(wanted), .. })) => {
                engine_of(wanted).map(|service| service.variables().map(|(name, value)| (name.into(), value.into())))
            }
            _ => None,
        };
        let (variables, read_file): (Vec<(OsString, OsString)>, Option<PathBuf>) = match (&place, of_container) {
            (_, Some(of_container)) => (with_home(of_container.collect(), environment), None),
            // Without compose files that can be read, what `.env` says is the best that is known.
            (Place::Install(_), None) => (with_home(Vec::new(), environment), Some(dotenv.path.clone())),
            (Place::File(file), None) => (process.collect(), Some(file.clone())),
            (Place::Process, None) => (process.collect(), None),
        };
        let (settings, faults, warnings) = load(&variables, read_file.as_deref());
        let secrets = secrets(&settings, &variables, &dotenv, stack.as_ref(), environment);
        let texts = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let dir_words = match &place {
            Place::Install(folder) if usual != Some(folder.as_path()) => format!(" --dir {}", quoted_path(folder)),
            _ => String::new(),
        };
        Self {
            settings,
            faults,
            warnings,
            variables: variables.into_iter().filter_map(texts).collect(),
            dotenv,
            stack,
            redactor: secrets,
            dir_words,
            place,
        }
    }

    /// What is looked at, for people.
    pub fn subject(&self) -> String {
        match &self.place {
            Place::Install(folder) => format!("the installation in {}", folder.display()),
            Place::File(file) => format!("{} and the environment", file.display()),
            Place::Process if CONTAINER_MARKS.iter().any(|mark| Path::new(mark).exists()) => {
                "the environment of this container".to_owned()
            }
            Place::Process => "the environment of this process".to_owned(),
        }
    }

    /// Whether the engine runs in a container that other files than its own make.
    pub fn is_install(&self) -> bool {
        matches!(self.place, Place::Install(_))
    }

    /// Whether media work goes to E2B.
    pub fn is_on_e2b(&self) -> bool {
        self.settings.sandbox.backend == SandboxBackend::E2b
    }

    /// What was written for a setting, wherever the engine finds it, in any case.
    pub fn written(&self, name: &str) -> Option<String> {
        let of_process = self.variables.get(name).cloned().or_else(|| {
            let mut others = self.variables.iter();
            others.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.clone())
        });
        of_process.or_else(|| if self.is_install() { None } else { self.in_dotenv(name).map(|(value, _)| value) })
    }

    /// What `.env` says for a name, and in which line.
    pub fn in_dotenv(&self, name: &str) -> Option<(String, usize)> {
        let variable = self.dotenv.evaluated.as_ref()?.variables.get(name)?;
        Some((variable.value.clone(), variable.line))
    }

    /// Whether a value is one from an example, with the dots in it.
    pub fn is_placeholder(value: &str) -> bool {
        value.trim_end().ends_with(PLACEHOLDER)
    }

    /// Where the running engine is reached from this machine.
    pub fn engine_url(&self) -> Option<Url> {
        if let Some(wanted) =
            self.stack.as_ref().filter(|_| self.is_install()).and_then(|stack| stack.wanted.as_ref().ok())
        {
            return Url::parse(&engine_of(wanted)?.address()?).ok();
        }
        let server = &self.settings.server;
        let host = match server.host.trim_start_matches('[').trim_end_matches(']') {
            "0.0.0.0" => "127.0.0.1".to_owned(),
            "::" => "[::1]".to_owned(),
            address if address.contains(':') => format!("[{address}]"),
            name => name.to_owned(),
        };
        Url::parse(&format!("http://{host}:{}", server.port)).ok()
    }

    /// The addresses under which other machines may reach the engine; empty when there are none.
    pub fn open_addresses(&self) -> Vec<String> {
        let published: Option<Vec<String>> = self.is_install().then(|| {
            let wanted = self.stack.as_ref().and_then(|stack| stack.wanted.as_ref().ok());
            let engine = wanted.and_then(engine_of);
            let ports = engine.into_iter().flat_map(crate::docker::WantedService::published);
            let shown = |host: &str| if host.is_empty() { "0.0.0.0".to_owned() } else { host.to_owned() };
            ports.map(|(host, _, _)| shown(host)).collect()
        });
        let hosts = published.unwrap_or_else(|| vec![self.settings.server.host.clone()]);
        hosts.into_iter().filter(|host| !is_loopback(host)).collect()
    }

    /// The command, or the line, that gives a plain setting this value.
    pub fn set(&self, name: &str, value: &str) -> Remedy {
        let shown = format!("{name}={value}");
        match &self.place {
            Place::Install(_) => {
                Remedy::run(format!("ambientctl config set {name} {}{}", quoted(value), self.dir_words))
            }
            Place::File(file) if file.file_name().is_some_and(|name| name == DOTENV) => {
                Remedy::run(format!("ambientctl config set {name} {}{}", quoted(value), Self::file_words(file)))
            }
            Place::File(file) => Remedy::paste(format!("put this line into `{}`", file.display()), shown),
            Place::Process => Remedy::paste(
                "start the engine with this in its environment",
                format!("export {name}={}", quoted(value)),
            ),
        }
    }

    /// The command that asks for a secret and sets it.
    pub fn set_secret(&self, name: &str) -> Remedy {
        match &self.place {
            Place::Install(_) => Remedy::run(format!("ambientctl config set {name}{}", self.dir_words)),
            Place::File(file) if file.file_name().is_some_and(|name| name == DOTENV) => {
                Remedy::run(format!("ambientctl config set {name}{}", Self::file_words(file)))
            }
            Place::File(file) => Remedy::paste(
                format!("put this line into `{}`, with the value behind it", file.display()),
                format!("{name}="),
            ),
            Place::Process => Remedy::paste(
                "start the engine with this in its environment; the shell asks for the value",
                format!("read -rs {name} && export {name}"),
            ),
        }
    }

    /// `ambientctl WORDS…` for this target.
    pub fn command(&self, words: &str) -> String {
        format!("ambientctl {words}{}", self.dir_words)
    }

    /// A command about templates, for this target.
    pub fn template(&self, command: &str) -> String {
        match &self.place {
            Place::File(file) if file.as_os_str() != DOTENV => format!("{command} --env-file {}", quoted_path(file)),
            Place::File(_) | Place::Process => command.to_owned(),
            Place::Install(_) => format!("{command}{}", self.dir_words),
        }
    }

    /// `ambientctl doctor WORDS…` for this target.
    pub fn doctor(&self, words: &str) -> String {
        let words = if words.is_empty() { String::new() } else { format!(" {words}") };
        match &self.place {
            Place::File(file) if file.as_os_str() != DOTENV => {
                format!("ambientctl doctor{words} --env-file {}", quoted_path(file))
            }
            Place::Install(_) | Place::File(_) | Place::Process => {
                format!("ambientctl doctor{words}{}", self.dir_words)
            }
        }
    }

    /// The operator's additions to the compose file.
    pub fn override_path(&self) -> PathBuf {
        let folder = self.stack.as_ref().map_or_else(|| Path::new("."), |stack| &stack.folder);
        folder.join(OVERRIDE)
    }

    fn file_words(file: &Path) -> String {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        format!(" --dir {} --no-override --no-apply", quoted_path(folder))
    }
}

impl Stack {
    fn read(folder: PathBuf, environment: &Environment) -> Option<Self> {
        let main = text_of(&folder.join(COMPOSE)).ok().flatten()?;
        let over = text_of(&folder.join(OVERRIDE)).ok().flatten();
        let wanted = Loader::new(&folder, &environment.variables)
            .load()
            .map_err(|error| {
                let at = match &error {
                    ComposeError::At { file, line, .. } => Some((file.clone(), *line)),
                    ComposeError::Dotenv { path, error } => Some((path.clone(), error.line)),
                    _ => None,
                };
                StackFault { seen: chain(&error), at, is_for_compose: false }
            })
            .and_then(|loaded| {
                Wanted::of(&loaded.project).map_err(|error| StackFault {
                    seen: chain(&error),
                    at: None,
                    is_for_compose: matches!(error, DockerError::NotApplied { .. }),
                })
            });
        Some(Self { folder, wanted, main, over })
    }

    /// Whether a compose file refers to a variable.
    pub fn mentions(&self, name: &str) -> bool {
        let texts = [Some(self.main.as_str()), self.over.as_deref()];
        texts.into_iter().flatten().any(|text| refers_to(text, name))
    }

    /// The engine's service.
    pub fn engine(&self) -> Option<&crate::docker::WantedService> {
        self.wanted.as_ref().ok().and_then(engine_of)
    }
}

impl DotenvFile {
    fn read(path: PathBuf, environment: &Environment) -> Self {
        let text = std::fs::read(&path).ok();
        let evaluated = text.as_ref().and_then(|bytes| {
            let text = std::str::from_utf8(bytes).ok()?;
            Document::parse(text).ok()?.evaluate(&|name: &str| environment.variable(name)).ok()
        });
        Self { path, text, evaluated }
    }
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// Whether a bind address is reached from this machine alone.
pub(super) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn engine_of(wanted: &Wanted) -> Option<&crate::docker::WantedService> {
    SERVICES.iter().find_map(|name| wanted.service(name))
}

/// A folder whose compose file has the engine's service, as an installation has and the repository has not.
fn is_installation(folder: &Path) -> bool {
    let text = text_of(&folder.join(COMPOSE)).ok().flatten();
    text.is_some_and(|text| text.lines().any(|line| line.trim_end() == "  engine:"))
}

/// The container's image says where home is; the settings want one.
fn with_home(mut variables: Vec<(OsString, OsString)>, environment: &Environment) -> Vec<(OsString, OsString)> {
    let has = |name: &str| variables.iter().any(|(found, _)| found == name);
    if !has("HOME") && !has("AMBIENT_HOME") {
        variables.push(("HOME".into(), environment.variable("HOME").unwrap_or_else(|| "/data".to_owned()).into()));
    }
    variables
}

/// Loads as the engine would, and once more without what was refused.
fn load(variables: &[(OsString, OsString)], file: Option<&Path>) -> (Settings, Vec<Fault>, Vec<Warning>) {
    let mut variables = variables.to_vec();
    let mut file = file;
    let mut faults = Vec::new();
    let mut warnings: Option<Vec<Warning>> = None;
    let mut rounds = 0;
    // Each round puts aside at least one fault; the last has neither the file nor a variable of ours.
    loop {
        match Settings::load(variables.iter().cloned(), file) {
            Ok(Loaded { settings, warnings: last }) => return (settings, faults, warnings.unwrap_or(last)),
            Err(Faults { faults: found, warnings: told }) => {
                warnings.get_or_insert(told);
                for fault in found {
                    match &fault {
                        Fault::Dotenv { .. } => file = None,
                        Fault::Setting { name: "API_KEY", .. } => {
                            variables.push(("ALLOW_DEV_TOKEN".into(), "true".into()));
                        }
                        Fault::Setting { name: "AMBIENT_HOME", .. } => {
                            variables.push(("AMBIENT_HOME".into(), "/tmp".into()));
                        }
                        Fault::Setting { name, .. } => {
                            variables.retain(|(known, _)| {
                                !known.to_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
                            });
                            variables.push((OsString::from(*name), OsString::new()));
                        }
                    }
                    if !faults.contains(&fault) {
                        faults.push(fault);
                    }
                }
                rounds += 1;
                if rounds > 3 {
                    variables = vec![("AMBIENT_HOME".into(), "/tmp".into())];
                    file = None;
                }
            }
        }
    }
}

fn secrets(
    settings: &Settings,
    variables: &[(OsString, OsString)],
    dotenv: &DotenvFile,
    stack: Option<&Stack>,
    environment: &Environment,
) -> Redactor {
    let mut found: Vec<String> = Vec::new();
    let mut add = |name: &str, value: &str| {
        if is_secret(name) {
            let password = Url::parse(value).ok().and_then(|url| url.password().map(str::to_owned));
            found.extend(password);
            found.push(value.to_owned());
        }
    };
    for (name, value) in variables.iter().chain(&environment.variables) {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str()) {
            // Of a stranger's variable, a short value is more likely a plain word.
            if find(name).is_some() || value.len() >= SHORTEST_OF_STRANGERS {
                add(name, value);
            }
        }
    }
    for (name, variable) in dotenv.evaluated.iter().flat_map(|evaluated| &evaluated.variables) {
        add(name, &variable.value);
    }
    // A file that cannot be read as a whole may hold secrets all the same.
    for line in dotenv.text.iter().flat_map(|text| text.split(|byte| *byte == b'\n')) {
        let line = String::from_utf8_lossy(line);
        if let Some((name, value)) = line.split_once('=') {
            let value = value.trim().trim_matches(['"', '\'']);
            add(name.trim().trim_start_matches("export "), value);
        }
    }
    for wanted in stack.iter().filter_map(|stack| stack.wanted.as_ref().ok()) {
        for (name, value) in wanted.services.iter().flat_map(crate::docker::WantedService::variables) {
            add(name, value);
        }
    }
    let unknown = found.into_iter().filter(|value| !KNOWN_TO_ALL.contains(&value.as_str()));
    let from_settings = Redactor::new(settings);
    if KNOWN_TO_ALL.iter().any(|word| from_settings.scrub(word) != *word) {
        Redactor::of(unknown.map(SecretString::from))
    } else {
        from_settings.with(unknown.map(SecretString::from))
    }
}

/// A word as a shell takes it.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./:=@,+%".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

pub(super) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}
