//! What goes into `.env` of a new installation, and what is added to that of an older one.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rand::Rng as _;

use crate::docker::is_taken;
use crate::environment::Environment;
use crate::output::{Exit, Failure};

/// What a new `.env` begins with.
pub(super) const HEADER: &str =
    "# Settings of this Ambient installation. `ambientctl config set KEY VALUE` changes them and applies the change.\n";

/// How many ports after a taken one are tried.
const PORTS_TRIED: u16 = 100;

const USUAL_PORT: u16 = 8080;
const USUAL_BIND: &str = "127.0.0.1";
const USUAL_BASE_URL: &str = "https://openrouter.ai/api/v1";
const USUAL_MODEL: &str = "qwen/qwen3.8-27b";
const USUAL_PROJECT: &str = "ambient";
const USUAL_VERSION: &str = "latest";

/// Bytes of a generated secret.
const SECRET_BYTES: usize = 32;

/// What is known before anything is asked.
pub(super) struct Context<'a> {
    pub(super) known: &'a BTreeMap<String, String>,
    pub(super) environment: &'a Environment,
    pub(super) version: Option<&'a str>,
    pub(super) own_ports: Vec<u16>,
}

/// What was decided.
pub(super) struct Answers {
    /// Keys to write, in the order in which a new file has them.
    pub(super) new: Vec<(String, String)>,
    pub(super) project: String,
    pub(super) needs_llm_key: bool,
}

#[derive(Debug, thiserror::Error)]
enum AnswerError {
    #[error("`AMBIENT_ENGINE_PORT` cannot be `{0}`; it is a whole number from 1 to 65535")]
    NoPort(String),
    #[error("port {port} of `{bind}` is taken by another program")]
    Taken { bind: String, port: u16 },
    #[error("no port from {first} to {last} of `{bind}` is free")]
    NoneFree { bind: String, first: u16, last: u16 },
    #[error("could not read the answer")]
    Read(#[source] std::io::Error),
}

impl Context<'_> {
    /// What the environment says, under the installer's own name for it.
    fn given(&self, name: &str) -> Option<String> {
        self.environment.variable(name).filter(|value| !value.is_empty())
    }

    fn known(&self, key: &str) -> Option<&String> {
        self.known.get(key).filter(|value| !value.is_empty())
    }
}

/// The project's name.
pub(super) fn project(known: &BTreeMap<String, String>, environment: &Environment) -> String {
    let given = environment.variable("AMBIENT_PROJECT").filter(|name| !name.is_empty());
    known
        .get("COMPOSE_PROJECT_NAME")
        .filter(|name| !name.is_empty())
        .cloned()
        .or(given)
        .unwrap_or_else(|| USUAL_PROJECT.to_owned())
}

impl Answers {
    /// Decides, asking on a terminal for what nobody else says.
    pub(super) fn gather(context: &Context<'_>, is_interactive: bool) -> Result<Self, Failure> {
        let mut new: Vec<(String, String)> = Vec::new();
        let project = project(context.known, context.environment);
        // What is there stays, unless a variable or a word says something else for this run.
        let mut settle = |key: &str, given: Option<String>, usual: &str| {
            let value = given.or_else(|| context.known(key).is_none().then(|| usual.to_owned()));
            if let Some(value) = value.filter(|value| context.known.get(key) != Some(value)) {
                new.push((key.to_owned(), value));
            }
        };
        settle("COMPOSE_PROJECT_NAME", None, &project);
        let version = context.version.map(str::to_owned).or_else(|| context.given("AMBIENT_VERSION"));
        settle("AMBIENT_VERSION", version, USUAL_VERSION);
        if let Some(image) = context.given("AMBIENT_ENGINE_IMAGE") {
            settle("AMBIENT_ENGINE_IMAGE", Some(image), "");
        }
        settle("AMBIENT_BIND", context.given("AMBIENT_BIND"), USUAL_BIND);
        let bind = context.given("AMBIENT_BIND").or_else(|| context.known("AMBIENT_BIND").cloned());
        let port = port(context, bind.as_deref().unwrap_or(USUAL_BIND))?;
        settle("AMBIENT_ENGINE_PORT", port.map(|port| port.to_string()), "");

        let asks = |key: &str| is_interactive && context.known(key).is_none();
        let mut llm_url = context.given("AMBIENT_LLM_BASE_URL");
        let mut llm_key = context.given("AMBIENT_LLM_KEY");
        if llm_url.is_none() && asks("LLM_BASE_URL") {
            llm_url = Some(asked("Base URL of the model server", USUAL_BASE_URL)?);
        }
        settle("LLM_BASE_URL", llm_url, USUAL_BASE_URL);
        if llm_key.is_none() && asks("LLM_API_KEY") {
            llm_key = Some(hidden("Key of the model server (empty to set it later)")?).filter(|key| !key.is_empty());
        }
        settle("LLM_API_KEY", llm_key.clone(), "");
        let agent_model = context.given("AMBIENT_MODEL");
        settle("AGENT_MODEL", agent_model, USUAL_MODEL);
        settle("LLM_MODEL", context.given("AMBIENT_VIDEO_MODEL"), USUAL_MODEL);
        settle("ENABLE_BASH_TOOL", None, "true");
        for key in ["POSTGRES_PASSWORD", "ENGINE_API_KEY"] {
            if context.known(key).is_none() {
                settle(key, Some(secret()), "");
            }
        }
        // An empty value says nothing that leaving it out would not say.
        new.retain(|(_, value)| !value.is_empty());
        let needs_llm_key = context.known("LLM_API_KEY").is_none() && llm_key.is_none();
        Ok(Self { new, project, needs_llm_key })
    }
}

/// The engine's port: one that somebody named has to be free, the usual one makes way.
fn port(context: &Context<'_>, bind: &str) -> Result<Option<u16>, Failure> {
    let is_free = |port: u16| context.own_ports.contains(&port) || !is_taken(bind, port);
    if let Some(word) = context.given("AMBIENT_ENGINE_PORT") {
        let port = word
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| Failure::new(Exit::Usage, AnswerError::NoPort(word)))?;
        if !is_free(port) {
            let error = AnswerError::Taken { bind: bind.to_owned(), port };
            return Err(Failure::new(Exit::Unhealthy, error)
                .hint("stop that program, or leave `AMBIENT_ENGINE_PORT` out, and a free port is taken"));
        }
        return Ok(Some(port));
    }
    if context.known("AMBIENT_ENGINE_PORT").is_some() {
        return Ok(None);
    }
    let last = USUAL_PORT + PORTS_TRIED;
    let found = (USUAL_PORT..last).find(|port| is_free(*port)).ok_or_else(|| {
        let error = AnswerError::NoneFree { bind: bind.to_owned(), first: USUAL_PORT, last };
        Failure::new(Exit::Unhealthy, error).hint("name one that is free with `AMBIENT_ENGINE_PORT`")
    })?;
    Ok(Some(found))
}

/// Letters that every reader of `.env` takes as they are.
fn secret() -> String {
    let mut bytes = [0_u8; SECRET_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().fold(String::with_capacity(2 * SECRET_BYTES), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes whatever is written");
        text
    })
}

fn asked(question: &str, usual: &str) -> Result<String, Failure> {
    dialoguer::Input::new()
        .with_prompt(question)
        .default(usual.to_owned())
        .interact_text()
        .map_err(|dialoguer::Error::IO(error)| Failure::new(Exit::Unhealthy, AnswerError::Read(error)))
}

fn hidden(question: &str) -> Result<String, Failure> {
    dialoguer::Password::new()
        .with_prompt(question)
        .allow_empty_password(true)
        .interact()
        .map_err(|dialoguer::Error::IO(error)| Failure::new(Exit::Unhealthy, AnswerError::Read(error)))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Environment { variables, env_file: None }
    }

    fn known(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        variables.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn gathered(
        known: &BTreeMap<String, String>,
        environment: &Environment,
    ) -> Result<BTreeMap<String, String>, Failure> {
        let context = Context { known, environment, version: None, own_ports: Vec::new() };
        Ok(Answers::gather(&context, false)?.new.into_iter().collect())
    }

    #[test]
    fn a_new_installation_gets_secrets_of_its_own_and_the_usual_values() {
        let nothing = known(&[]);
        let new = gathered(&nothing, &environment(&[("AMBIENT_LLM_KEY", "k"), ("AMBIENT_MODEL", "m")])).unwrap();
        for (key, value) in [
            ("LLM_API_KEY", "k"),
            ("AGENT_MODEL", "m"),
            ("LLM_MODEL", USUAL_MODEL),
            ("AMBIENT_BIND", "127.0.0.1"),
            ("COMPOSE_PROJECT_NAME", "ambient"),
        ] {
            assert_eq!(new[key], value);
        }
        let again = gathered(&nothing, &environment(&[])).unwrap();
        for key in ["POSTGRES_PASSWORD", "ENGINE_API_KEY"] {
            assert!(new[key].len() == 64 && new[key].bytes().all(|byte| byte.is_ascii_hexdigit()));
            assert_ne!(new[key], again[key]);
        }
        assert!(!again.contains_key("LLM_API_KEY"));
    }

    #[test]
    fn what_is_there_stays_and_only_what_is_said_anew_changes() {
        let mut there = gathered(&known(&[]), &environment(&[])).unwrap();
        there.insert("LLM_API_KEY".to_owned(), "old".to_owned());
        assert_eq!(gathered(&there, &environment(&[])).unwrap(), known(&[]));
        let new = gathered(&there, &environment(&[("AMBIENT_LLM_KEY", "new"), ("AMBIENT_PROJECT", "other")])).unwrap();
        assert_eq!(new, known(&[("LLM_API_KEY", "new")]));
    }

    #[test]
    fn a_port_that_was_named_has_to_be_free_and_the_usual_one_makes_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let named = environment(&[("AMBIENT_ENGINE_PORT", &port)]);
        assert!(gathered(&known(&[]), &named).unwrap_err().text().contains("is taken by another program"));
        let nobody = known(&[]);
        let own = vec![port.parse().unwrap()];
        let context = Context { known: &nobody, environment: &named, version: None, own_ports: own };
        assert!(Answers::gather(&context, false).is_ok());
        assert!(gathered(&known(&[]), &environment(&[("AMBIENT_ENGINE_PORT", "0")])).is_err());
        let found: u16 = gathered(&known(&[]), &environment(&[])).unwrap()["AMBIENT_ENGINE_PORT"].parse().unwrap();
        assert!((USUAL_PORT..USUAL_PORT + PORTS_TRIED).contains(&found));
    }
}
