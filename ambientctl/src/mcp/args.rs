//! The words of `mcp`.

use secrecy::SecretString;
use url::Url;

use crate::asking::AnswerArgs;
use crate::engine_client::EngineClient;
use crate::output::{Exit, Failure};

/// The key of an engine that nobody set up.
const USUAL_KEY: &str = "dev-token";

/// Words of `ambientctl mcp`.
#[derive(Clone, Debug, clap::Args)]
pub struct McpArgs {
    /// A running engine's base URL, instead of an engine of its own
    #[arg(long, value_name = "URL", env = "AMBIENT_BASE_URL")]
    url: Option<Url>,
    /// The key of that engine [default: dev-token]. In the environment it is in no list of processes
    #[arg(long, value_name = "KEY", env = "AMBIENT_API_KEY", hide_env_values = true)]
    api_key: Option<SecretString>,
    /// How questions are answered.
    #[command(flatten)]
    pub answer: AnswerArgs,
}

impl McpArgs {
    /// The engine that the words name, if they name one.
    ///
    /// # Errors
    /// When the URL is none of an engine, or the words ask for what a running engine decides by itself.
    pub fn running_engine(&self) -> Result<Option<EngineClient>, Failure> {
        let Some(url) = &self.url else { return Ok(None) };
        if self.answer.vision_model.is_some() {
            return Err(Failure::new(Exit::Usage, EnginesOwn)
                .hint("set `LLM_MODEL` of that engine, or leave `--url` out for an engine of its own"));
        }
        let key = self.api_key.clone().unwrap_or_else(|| USUAL_KEY.into());
        Ok(Some(EngineClient::new(url, &key)?))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("`--vision-model` cannot be chosen for an engine that runs already")]
struct EnginesOwn;
