//! An engine inside this process, for one command: on a free port of the loopback, behind a key that nobody else knows,
//! with its data in a folder that goes with it.
//!
//! Models, media programs and limits are those of the settings. What belongs to a service is not: its address and key, its
//! database, broker, bucket, videos and sandboxes are left alone.

use std::time::Duration;

use ambient_ctl::asking::AnswerArgs;
use ambient_ctl::engine_client::EngineClient;
use ambient_ctl::environment::Environment;
use ambient_ctl::output::{Exit, Failure, Printer};
use ambient_engine::Engine;
use ambient_settings::{DatabaseUrl, Settings};
use camino::Utf8Path;
use rand::distr::{Alphanumeric, SampleString as _};
use secrecy::SecretString;
use tokio::net::TcpListener;

use crate::private_folder::PrivateFolder;

/// Letters and digits of the key: more than anybody can try.
const KEY_LENGTH: usize = 40;
/// What the engine logs unless `RUST_LOG` is set: the answer and its failures are told by the command.
const LOGS: &str = "error";
/// Settings of a service, which have no say here. Empty counts as not set, and hides what stands in `.env`.
const NOT_OURS: &[(&str, &str)] = &[
    ("SERVER_HOST", "127.0.0.1"),
    ("API_KEY", ""),
    ("DATABASE_URL", ""),
    ("REDIS_URL", ""),
    ("SANDBOX_BACKEND", "inprocess"),
    ("S3_BUCKET", ""),
    ("VIDEO_FOLDER", ""),
    ("BASH_CWD", ""),
];

/// The settings of such an engine: those of the user with the words of the command line before them. `args` gets what the
/// settings say where the user said nothing.
///
/// # Errors
/// When settings have faults, or name no server for the model that is to answer.
pub(crate) fn settings(
    environment: &Environment,
    args: &mut AnswerArgs,
    shows_thinking: bool,
    printer: Printer,
) -> Result<Settings, Failure> {
    let mut overrides: Vec<(&str, String)> =
        NOT_OURS.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    if let Some(model) = &args.vision_model {
        overrides.push(("LLM_MODEL", model.clone()));
    }
    if shows_thinking {
        overrides.push(("EXPOSE_THINKING", "true".to_owned()));
    }
    overrides.extend(quietly(environment));
    let settings = environment.settings(&overrides, &printer)?;
    let endpoint = if args.fast { &settings.llm.endpoint } else { &settings.agent.endpoint };
    if endpoint.is_none() {
        return Err(Failure::new(Exit::Usage, NoModel)
            .hint("set `LLM_BASE_URL` to a server that speaks OpenAI's chat completions, such as `https://openrouter.ai/api/v1`")
            .hint("set `LLM_API_KEY` to its key; both in the environment, or as lines of `.env` here"));
    }
    args.max_turns.get_or_insert(settings.agent.max_turns_per_run);
    Ok(settings)
}

/// What a command logs that tells the user by itself how it goes.
pub(crate) fn quietly(environment: &Environment) -> Option<(&'static str, String)> {
    environment.variable("RUST_LOG").is_none().then(|| ("RUST_LOG", LOGS.to_owned()))
}

/// A failure of a run, with the key named where none is set: a server's own words seldom say where it belongs.
pub(crate) fn with_key_hint(failure: Failure, has_key: bool) -> Failure {
    if failure.exit() == Exit::Unhealthy && !has_key {
        failure.hint("no key is set; if the server wants one, it is `LLM_API_KEY`, in the environment or in `.env`")
    } else {
        failure
    }
}

/// Whether a key goes with requests to the model that answers.
pub(crate) fn has_key(settings: &Settings, is_fast: bool) -> bool {
    let endpoint = if is_fast { &settings.llm.endpoint } else { &settings.agent.endpoint };
    endpoint.as_ref().is_some_and(|endpoint| endpoint.api_key.is_some())
}

/// A running engine of this process.
#[derive(Debug)]
pub(crate) struct PrivateEngine {
    engine: Engine,
    client: EngineClient,
    folder: PrivateFolder,
}

impl PrivateEngine {
    /// Starts one.
    ///
    /// # Errors
    /// When its folder or its port cannot be had, or a part of it does not start.
    pub(crate) async fn start(settings: Settings) -> Result<Self, Failure> {
        let internal = |error| Failure::new(Exit::Internal, error);
        let folder = PrivateFolder::new(&settings.home)?;
        let key = SecretString::from(Alphanumeric.sample_string(&mut rand::rng(), KEY_LENGTH));
        let settings = made_private(settings, folder.path(), key.clone());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(internal)?;
        let engine = crate::start::engine(settings, listener).await?;
        let base = format!("http://{}", engine.address()).parse().expect("an address makes a URL");
        let client = EngineClient::new(&base, &key)?;
        Ok(Self { engine, client, folder })
    }

    /// Speaks with it.
    pub(crate) fn client(&self) -> &EngineClient {
        &self.client
    }

    /// Ends it at once, with whatever it does in the background, and removes what it kept.
    pub(crate) async fn end(self) {
        self.engine.shut_down().await;
        if let Err(error) = self.folder.remove() {
            tracing::warn!(%error, "the engine's folder could not be removed; the next command tries again");
        }
    }
}

/// The settings with everything in this folder.
fn made_private(mut settings: Settings, folder: &Utf8Path, key: SecretString) -> Settings {
    let videos = folder.join("videos");
    settings.home = folder.to_owned();
    settings.server.api_key = key;
    settings.server.secrets_key = None;
    settings.server.max_upload_bytes = u64::MAX;
    settings.server.shutdown_grace = Duration::ZERO;
    settings.store.database = DatabaseUrl::Sqlite(folder.join("ambient.db"));
    settings.media.video_folder.clone_from(&videos);
    settings.bash.working_directory = videos;
    // Tiles pay when many questions are asked about a video, and a conversation may take as long as it likes.
    settings.tiles.enabled = false;
    settings.sessions.idle_ttl = None;
    settings.sessions.hard_ttl = None;
    settings
}

#[derive(Debug, thiserror::Error)]
#[error("no model is set that could answer")]
struct NoModel;

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        Environment { variables, env_file: None }
    }

    #[test]
    fn a_service_of_the_user_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let home = Utf8Path::from_path(home.path()).unwrap();
        let environment = environment(&[
            ("AMBIENT_HOME", home.as_str()),
            ("LLM_BASE_URL", "http://127.0.0.1:1/v1"),
            ("DATABASE_URL", "postgres://user:secret@db/x"),
            ("redis_url", "redis://cache"),
            ("SANDBOX_BACKEND", "e2b"),
            ("SERVER_HOST", "0.0.0.0"),
            ("S3_BUCKET", "films"),
            ("VIDEO_FOLDER", "/srv/films"),
            ("MAX_TURNS_PER_RUN", "7"),
        ]);
        let mut args = AnswerArgs { vision_model: Some("eyes".to_owned()), ..AnswerArgs::default() };
        let settings = settings(&environment, &mut args, true, Printer { json: false, quiet: true }).unwrap();
        assert_eq!(settings.llm.model, "eyes");
        assert_eq!(settings.description.model, "eyes");
        assert_eq!(settings.logs.filter, LOGS);
        assert_eq!(args.max_turns, Some(7));
        assert_eq!(settings.home, home);
        let settings = made_private(settings, &home.join("x"), "key".into());
        assert!(matches!(&settings.store.database, DatabaseUrl::Sqlite(path) if path.starts_with(home)));
        assert!(settings.store.redis_url.is_none() && settings.s3.bucket.is_none());
        assert_eq!(settings.sandbox.backend, ambient_settings::SandboxBackend::InProcess);
        for folder in [&settings.media.video_folder, &settings.bash.working_directory] {
            assert!(folder.starts_with(home.join("x")), "{folder}");
        }
    }

    #[test]
    fn a_missing_model_is_told_before_anything_starts() {
        let mut args = AnswerArgs::default();
        let environment = environment(&[("AMBIENT_HOME", "/nowhere"), ("LLM_API_KEY", "sk-hidden")]);
        let failure = settings(&environment, &mut args, false, Printer::default()).unwrap_err();
        assert_eq!(failure.exit(), Exit::Usage);
        let text = failure.text();
        assert!(text.contains("LLM_BASE_URL") && text.contains("LLM_API_KEY") && !text.contains("sk-hidden"), "{text}");
    }
}
