//! Rows: which models answer, where they are reached, and what is known about them.

use super::{Preset, Section, setting};
use crate::kind::Kind;

pub(super) const MODELS: Section = Section {
    title: "Models",
    intro: "The agent model plans and answers; the video model watches clips and frames. Any server that speaks OpenAI's \
            chat completions works for both.",
    rows: &[
        setting(
            "LLM_BASE_URL",
            Kind::HTTP,
            Preset::Unset,
            "The model server's address before `/chat/completions`, such as `https://openrouter.ai/api/v1`. Without it no question can be answered.",
        ),
        setting("LLM_API_KEY", Kind::Word, Preset::Unset, "The key for `LLM_BASE_URL`. It never leaves the engine: no sandbox and no shell command sees it.")
            .secret(),
        setting(
            "LLM_MODEL",
            Kind::Word,
            Preset::Is("qwen/qwen3.5-27b"),
            "The video model: it watches clips, writes descriptions and answers in fast mode.",
        ),
        setting("AGENT_BASE_URL", Kind::HTTP, Preset::Computed("`LLM_BASE_URL`"), "The address for the agent model, when it is another one."),
        setting("AGENT_API_KEY", Kind::Word, Preset::Computed("`LLM_API_KEY`"), "The key for the agent model, when it is another one.")
            .secret()
            .advice("Set it together with `AGENT_BASE_URL`; without it `LLM_API_KEY` is sent there."),
        setting(
            "AGENT_MODEL",
            Kind::Word,
            Preset::Is("google/gemini-3.1-pro-preview"),
            "The model of the built-in agents.",
        ),
        setting(
            "LLM_ALLOW_PRIVATE_URLS",
            Kind::Switch,
            Preset::Is("false"),
            "Lets an agent that brings its own `base_url` point at loopback and private addresses. The addresses of this page are always allowed.",
        )
        .advice("Only when everybody with the API key may reach your internal network."),
        setting(
            "MODEL_CATALOGUE_URL",
            Kind::HTTP,
            Preset::Is("https://openrouter.ai/api/v1/models"),
            "The list of models, their inputs and prices, that is fetched in the background now and then. Empty turns that off; the built-in list stays.",
        )
        .advice("Set it empty where the engine must not reach the internet."),
        setting(
            "MODEL_DEFINITIONS_FILE",
            Kind::Path,
            Preset::Computed("built in"),
            "A file of model definitions, in the form of OpenRouter's model list, to use instead of the built-in one.",
        ),
        setting(
            "OPENROUTER_PROVIDERS_FILE",
            Kind::Path,
            Preset::Computed("built in"),
            "A file that says which provider serves a model, how many images it takes, and whether it takes video.",
        ),
        setting("TRACK_USAGE", Kind::Switch, Preset::Is("true"), "Counts tokens and cost of each answer and reports them in events."),
    ],
};
