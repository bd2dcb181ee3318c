//! What the agent needs of the settings, and of the program around it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ambient_settings::Settings;
use secrecy::SecretString;

use super::catalogue::Catalogue;
use super::client::ModelClient;
use super::endpoint::Endpoint;
use super::resolve::RecentAddresses;
use super::retry::RetryPolicy;
use crate::store::Store;
use crate::store::records::AgentEndpoint;
use crate::tools::toolbox::Toolbox;

/// How the agent works. From the settings by [`AgentConfig::from_settings`].
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "settings that are switches")]
pub struct AgentConfig {
    /// Where agents are asked that bring no address of their own; `None` when none is set.
    pub agent_endpoint: Option<Endpoint>,
    /// The video model: tools, descriptions, fast mode.
    pub vision_endpoint: Option<Endpoint>,
    /// `EXPOSE_THINKING`: reasoning is shown as `agent.thinking`.
    pub expose_thinking: bool,
    /// `TRACK_USAGE`.
    pub track_usage: bool,
    /// `MAX_CLIPS_PER_PROMPT`.
    pub max_clips_per_prompt: usize,
    /// `MAX_FRAMES_PER_PROMPT`.
    pub max_frames_per_prompt: usize,
    /// `DISABLE_SELF_VIDEO_ANALYSIS_TOOL`.
    pub self_analysis_disabled: bool,
    /// `FAST_MAX_TOKENS`.
    pub fast_max_tokens: u32,
    /// `FAST_DISABLE_THINKING`.
    pub fast_thinking_disabled: bool,
    /// How long the first run waits for the description; zero does not wait.
    pub description_patience: Duration,
    /// How long links to media live.
    pub link_ttl: Duration,
    /// `INLINE_CLIPS`: bytes are sent even where a link could be.
    pub inline_media: bool,
    /// Whether files can be handed to the user.
    pub has_bucket: bool,
    /// How failed requests are tried again.
    pub retry: RetryPolicy,
}

impl AgentConfig {
    /// As the settings say.
    pub fn from_settings(settings: &Settings) -> Self {
        let endpoint = |from: &ambient_settings::Endpoint, model: &str| Endpoint {
            base_url: from.base_url.as_url().to_string(),
            api_key: from.api_key.clone(),
            model: model.to_owned(),
            trusted: true,
        };
        let waits = settings.agent.first_turn_waits_for_description;
        Self {
            agent_endpoint: settings.agent.endpoint.as_ref().map(|from| endpoint(from, &settings.agent.model)),
            vision_endpoint: settings.llm.endpoint.as_ref().map(|from| endpoint(from, &settings.llm.model)),
            expose_thinking: settings.agent.expose_thinking,
            track_usage: settings.llm.track_usage,
            max_clips_per_prompt: settings.agent.max_clips_per_prompt,
            max_frames_per_prompt: settings.agent.max_frames_per_prompt,
            self_analysis_disabled: settings.agent.disable_self_video_analysis,
            fast_max_tokens: settings.fast.max_tokens,
            fast_thinking_disabled: settings.fast.disable_thinking,
            description_patience: if waits { settings.agent.first_turn_description_timeout } else { Duration::ZERO },
            link_ttl: settings.source.url_ttl,
            inline_media: settings.clips.inline,
            has_bucket: settings.s3.bucket.is_some(),
            retry: RetryPolicy::default(),
        }
    }
}

/// Opens the sealed key of an agent's own endpoint.
#[derive(Clone)]
pub struct KeyOpener(OpenFunction);

type OpenFunction = Arc<dyn Fn(&AgentEndpoint) -> Result<SecretString, String> + Send + Sync>;

impl KeyOpener {
    /// Opens keys like this; an error is a sentence for the user.
    pub fn new(open: impl Fn(&AgentEndpoint) -> Result<SecretString, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// The endpoint of an agent, asked for this model. It is never trusted.
    ///
    /// # Errors
    /// When the key does not open.
    pub(crate) fn endpoint(&self, agent: &AgentEndpoint, model: &str) -> Result<Endpoint, String> {
        let api_key = Some((self.0)(agent)?);
        Ok(Endpoint { base_url: agent.base_url.clone(), api_key, model: model.to_owned(), trusted: false })
    }
}

impl fmt::Debug for KeyOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyOpener")
    }
}

/// What the agent works with.
#[derive(Clone, Debug)]
pub struct AgentParts {
    pub client: ModelClient,
    pub catalogue: Arc<Catalogue>,
    pub config: AgentConfig,
    pub store: Arc<dyn Store>,
    pub toolbox: Toolbox,
    pub keys: KeyOpener,
    pub recent: RecentAddresses,
}
