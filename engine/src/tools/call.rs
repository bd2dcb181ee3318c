//! What every tool needs of a call: whose video, whose model, and the words for what went wrong.

use std::sync::Arc;

use super::toolbox::ToolboxConfig;
use super::window::Window;
use super::{ToolContext, ToolOutput, prompts, times};
use crate::agent::catalogue::Modalities;
use crate::agent::plan::Quality;
use crate::agent::vision::Vision;
use crate::backend::{BackendError, FrameMade, Target};
use crate::store::records::{Part, UsageTotals};

/// One call of a tool.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) config: &'a ToolboxConfig,
    pub(crate) context: &'a ToolContext,
    /// The video model, if there is one, reading media from the session's backend.
    pub(crate) vision: Option<Vision>,
    /// What the session's own model takes.
    pub(crate) modalities: Modalities,
}

/// A call that failed: what the model is told, and what its own model calls used all the same.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    /// In a box: a failure is rare and travels far.
    pub(crate) usage: Box<UsageTotals>,
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self { text, usage: Box::default() }
    }
}

impl From<&str> for Failure {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// The words for a call that was stopped.
pub(crate) const INTERRUPTED: &str = "the call was interrupted";

impl Call<'_> {
    /// The session's video, or another file of its workspace.
    pub(crate) fn target(&self, path: Option<String>) -> Target {
        let session = &self.context.session;
        // An empty path is what models send for "none".
        let path = path.filter(|path| !path.trim().is_empty());
        Target { session: session.id.clone(), video: session.video_id.clone(), path }
    }

    /// Length of the pictures of what is looked at, where it is known.
    pub(crate) fn duration(&self, target: &Target) -> Option<f64> {
        target.path.is_none().then_some(self.context.facts.duration_seconds)
    }

    /// A window of what is looked at.
    pub(crate) fn window(&self, target: &Target, start: f64, end: f64, longest: f64) -> Result<Window, Failure> {
        Ok(Window::of(start, end, self.duration(target), longest)?)
    }

    /// How media is made for the session's own model.
    pub(crate) fn own_quality(&self) -> Quality {
        Quality::of(&self.context.session.agent.model.id, self.config.quality)
    }
}

/// The words for a backend's error behind `Error fetching …`; a bad path names the argument it came in.
pub(crate) fn told(error: BackendError, doing: &str, path_argument: &str) -> Failure {
    match error {
        BackendError::Path(reason) => format!("{path_argument} {reason}").into(),
        BackendError::Cancelled => INTERRUPTED.into(),
        BackendError::NoSource { .. } | BackendError::Media(_) | BackendError::NoSandbox(_) => {
            format!("Error {doing}: {error}").into()
        }
    }
}

/// Frames as parts of a message, each right behind its time.
pub(crate) fn labelled(frames: Vec<FrameMade>) -> Vec<Part> {
    let parts = frames.into_iter().flat_map(|frame| {
        let label = Part::Text { text: prompts::frame_label(&times::precise(frame.time)) };
        [label, Part::Image { media: frame.media }]
    });
    parts.collect()
}

/// The outcome of a tool as the run loop takes it.
pub(crate) fn output(outcome: Result<ToolOutput, Failure>) -> ToolOutput {
    outcome.unwrap_or_else(|failure| ToolOutput { usage: *failure.usage, ..ToolOutput::failed(failure.text) })
}

/// A video model for a session: the engine's, reading from the session's backend.
pub(crate) fn vision_for(vision: Option<&Arc<Vision>>, context: &ToolContext) -> Option<Vision> {
    vision.map(|vision| vision.with_backend(Arc::clone(&context.backend), context.session.id.clone()))
}
