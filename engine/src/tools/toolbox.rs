//! Which tools a session has, and the one way to call one.
//!
//! The set comes from the session's own model, agent and backend, so that what the model is offered always works.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use ambient_settings::Settings;
use futures::FutureExt as _;
use serde_json::Value;

use super::call::{Call, INTERRUPTED, output, vision_for};
use super::{
    Arguments, ToolContext, ToolDefinition, ToolOutput, ToolRunner, annotate_frames, bash, draw_bounding_box,
    draw_point, focus_clip, grab_frames, read_image, search_clip, upload_artifact,
};
use crate::agent::catalogue::Modalities;
use crate::agent::plan::Quality;
use crate::agent::vision::Vision;
use crate::store::records::{AgentTool, Mode, PermissionPolicy, SessionRecord};

/// What the settings say about tools.
#[derive(Clone, Debug)]
pub struct ToolboxConfig {
    /// `ENABLE_BASH_TOOL`.
    pub bash_enabled: bool,
    /// `BASH_TIMEOUT_SECONDS`.
    pub bash_timeout: Duration,
    /// `BASH_MAX_OUTPUT_BYTES`, of each stream.
    pub bash_max_output_bytes: usize,
    /// `DISABLE_SELF_VIDEO_ANALYSIS_TOOL`: the video model looks, whatever the session's own model could do.
    pub self_analysis_disabled: bool,
    /// How media is made for models that have no quality of their own.
    pub quality: Quality,
    /// `ARTIFACT_URL_TTL_SECONDS`.
    pub artifact_url_ttl: Duration,
}

impl ToolboxConfig {
    /// As the settings say.
    pub fn from_settings(settings: &Settings) -> Self {
        Self {
            bash_enabled: settings.bash.enabled,
            bash_timeout: settings.bash.timeout,
            bash_max_output_bytes: settings.bash.max_output_bytes,
            self_analysis_disabled: settings.agent.disable_self_video_analysis,
            quality: Quality {
                frames_per_second: settings.clips.fps,
                max_dimension: settings.clips.max_dimension,
                max_size_bytes: settings.clips.max_size_bytes,
            },
            artifact_url_ttl: settings.artifacts.url_ttl,
        }
    }
}

/// A tool of the engine, as its file declares it.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) parameters: Value,
}

/// A tool of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    SearchClip,
    FocusClip,
    OwnFocusClip,
    GrabFrames,
    AnnotateFrames,
    DrawBoundingBox,
    DrawPoint,
    ReadImage,
    UploadArtifact,
    Bash,
}

impl Tool {
    fn spec(self) -> Spec {
        match self {
            Self::SearchClip => search_clip::spec(),
            Self::FocusClip => focus_clip::delegated(),
            Self::OwnFocusClip => focus_clip::own(),
            Self::GrabFrames => grab_frames::spec(),
            Self::AnnotateFrames => annotate_frames::spec(),
            Self::DrawBoundingBox => draw_bounding_box::spec(),
            Self::DrawPoint => draw_point::spec(),
            Self::ReadImage => read_image::spec(),
            Self::UploadArtifact => upload_artifact::spec(),
            Self::Bash => bash::spec(),
        }
    }

    async fn run(self, call: &Call<'_>, arguments: &Arguments) -> ToolOutput {
        output(match self {
            Self::SearchClip => search_clip::run(call, arguments).await,
            Self::FocusClip => focus_clip::run_delegated(call, arguments).await,
            Self::OwnFocusClip => focus_clip::run_own(call, arguments).await,
            Self::GrabFrames => grab_frames::run(call, arguments).await,
            Self::AnnotateFrames => annotate_frames::run(call, arguments).await,
            Self::DrawBoundingBox => draw_bounding_box::run(call, arguments).await,
            Self::DrawPoint => draw_point::run(call, arguments).await,
            Self::ReadImage => read_image::run(call, arguments).await,
            Self::UploadArtifact => upload_artifact::run(call, arguments).await,
            Self::Bash => bash::run(call, arguments).await,
        })
    }
}

/// Makes the tool sets of sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Toolbox {
    config: Arc<ToolboxConfig>,
    vision: Option<Arc<Vision>>,
}

/// The tools of one session.
#[derive(Clone, Debug)]
pub struct ToolSet {
    config: Arc<ToolboxConfig>,
    vision: Option<Arc<Vision>>,
    modalities: Modalities,
    definitions: Vec<ToolDefinition>,
    tools: Vec<Tool>,
}

impl Toolbox {
    /// Tools as configured. Without a video model there are no tools that need one.
    pub fn new(config: ToolboxConfig, vision: Option<Arc<Vision>>) -> Self {
        Self { config: Arc::new(config), vision }
    }

    /// The tools of a session.
    ///
    /// `modalities` is what the session's model takes at its endpoint: `video` only if clips are to be sent there. A model
    /// that nobody knows is taken for one that sees everything. `has_bucket` says whether files can be handed to the user.
    pub fn for_session(&self, session: &SessionRecord, modalities: Modalities, has_bucket: bool) -> ToolSet {
        let wanted = match session.mode {
            Mode::Agent => self.fitting(modalities, has_bucket),
            Mode::Fast => Vec::new(),
        };
        let agent = &session.agent;
        let custom: Vec<ToolDefinition> = match session.mode {
            Mode::Agent => agent.tools.iter().filter_map(custom).collect(),
            Mode::Fast => Vec::new(),
        };
        let mut definitions = Vec::new();
        let mut tools = Vec::new();
        for tool in wanted {
            let Spec { name, description, parameters } = tool.spec();
            // An agent that brings a tool of that name wants its own.
            if custom.iter().any(|custom| custom.name == name) {
                continue;
            }
            if let Some(policy) = policy(&agent.tools, name) {
                let (name, description) = (name.to_owned(), description.to_owned());
                definitions.push(ToolDefinition { name, description, parameters, runner: ToolRunner::Engine, policy });
                tools.push(tool);
            }
        }
        definitions.extend(custom);
        ToolSet { config: Arc::clone(&self.config), vision: self.vision.clone(), modalities, definitions, tools }
    }

    /// The tools that work with such a model.
    fn fitting(&self, modalities: Modalities, has_bucket: bool) -> Vec<Tool> {
        let mut tools = Vec::new();
        let vision_takes_images = self.vision.as_ref().is_some_and(|vision| vision.takes_images());
        let vision_sees = vision_takes_images || self.vision.as_ref().is_some_and(|vision| vision.takes_video());
        if modalities.sees() && !self.config.self_analysis_disabled {
            tools.push(Tool::OwnFocusClip);
        } else if vision_sees {
            tools.extend([Tool::SearchClip, Tool::FocusClip]);
        }
        if modalities.image {
            tools.extend([Tool::GrabFrames, Tool::DrawBoundingBox, Tool::DrawPoint, Tool::ReadImage]);
        } else if vision_takes_images {
            tools.push(Tool::AnnotateFrames);
        }
        if has_bucket {
            tools.push(Tool::UploadArtifact);
        }
        if self.config.bash_enabled {
            tools.push(Tool::Bash);
        }
        tools
    }
}

/// Whether the agent has a tool of the engine, and how it is called: by the tool's own entry in a toolset, else by the
/// toolset's default. Of several toolsets one is enough, and the one that asks wins. An agent without a toolset works with
/// all tools.
fn policy(entries: &[AgentTool], name: &str) -> Option<PermissionPolicy> {
    let mut has_toolset = false;
    let mut found = None;
    for entry in entries {
        let AgentTool::Toolset { enabled, policy, configs, .. } = entry else { continue };
        has_toolset = true;
        let (enabled, policy) = configs
            .iter()
            .rfind(|config| config.name == name)
            .map_or((*enabled, *policy), |config| (config.enabled, config.policy));
        if enabled && found != Some(PermissionPolicy::AlwaysAsk) {
            found = Some(policy);
        }
    }
    if has_toolset { found } else { Some(PermissionPolicy::AlwaysAllow) }
}

fn custom(entry: &AgentTool) -> Option<ToolDefinition> {
    match entry {
        AgentTool::Custom { name, description, input_schema } => Some(ToolDefinition {
            name: name.clone(),
            description: description.clone(),
            parameters: Value::Object(input_schema.clone()),
            runner: ToolRunner::Client,
            policy: PermissionPolicy::AlwaysAllow,
        }),
        AgentTool::Toolset { .. } | AgentTool::Fast { .. } => None,
    }
}

impl ToolSet {
    /// What the model is offered, in order.
    pub fn definitions(&self) -> &[ToolDefinition] {
        &self.definitions
    }

    /// The definition of a tool of this set.
    pub fn definition(&self, name: &str) -> Option<&ToolDefinition> {
        self.definitions.iter().find(|definition| definition.name == name)
    }

    /// Calls a tool of the engine. Whatever goes wrong is an output that says so; a stop ends it early.
    pub async fn call(&self, name: &str, arguments: &Arguments, context: &ToolContext) -> ToolOutput {
        let Some(tool) = self.tools.iter().copied().find(|tool| tool.spec().name == name) else {
            return ToolOutput::failed(self.unknown(name));
        };
        if context.stop.is_cancelled() {
            return ToolOutput::failed(INTERRUPTED);
        }
        let (arguments, note) = without_video_id(arguments, context);
        let call = Call {
            config: &self.config,
            context,
            vision: vision_for(self.vision.as_ref(), context),
            modalities: self.modalities,
        };
        let mut output = match AssertUnwindSafe(tool.run(&call, &arguments)).catch_unwind().await {
            Ok(output) => output,
            Err(_panic) => {
                tracing::error!(tool = name, session.id = %context.session.id, "a tool panicked");
                ToolOutput::failed(format!(
                    "`{name}` failed by a fault of the engine; its operator finds more in the log"
                ))
            }
        };
        output.text.push_str(note);
        output
    }

    fn unknown(&self, name: &str) -> String {
        if name == bash::NAME && !self.config.bash_enabled {
            return bash::DISABLED.to_owned();
        }
        if self.definition(name).is_some() {
            return format!("`{name}` is run by the client, not by the engine");
        }
        let shown: String = name.chars().take(60).collect();
        let known: Vec<&str> = self.definitions.iter().map(|definition| definition.name.as_str()).collect();
        if known.is_empty() {
            return format!("no tool named '{shown}'; this session has none");
        }
        format!("no tool named '{shown}'; there are {}", known.join(", "))
    }
}

/// Tools work on the session's own video. A model that names one all the same (older agents were told to) is not sent back
/// for it, and is told when it named another.
fn without_video_id<'a>(
    arguments: &'a Arguments,
    context: &ToolContext,
) -> (std::borrow::Cow<'a, Arguments>, &'static str) {
    const NAME: &str = "video_id";
    let Some(named) = arguments.get(NAME) else { return (std::borrow::Cow::Borrowed(arguments), "") };
    let is_own = named.is_null() || named.as_str() == Some(context.session.video_id.as_str());
    let mut rest = arguments.clone();
    rest.shift_remove(NAME);
    let note =
        if is_own { "" } else { "\nNote: `video_id` was ignored; tools always work on this session's own video." };
    (std::borrow::Cow::Owned(rest), note)
}
