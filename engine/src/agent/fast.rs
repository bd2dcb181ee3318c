//! A run in fast mode: one question over the whole video, which stands at the front of the conversation.

use std::sync::Arc;

use super::RunOutcome;
use super::conversation::{Ask, Asked, Conversation};
use super::plan::{self, Plan, Step};
use super::prompts;
use super::run::{failed, settle_in_form, thinking};
use super::structured::Structure;
use super::wire::{Thinking, ToolChoice};
use crate::events::body::FailureKind;
use crate::sessions::writer::RunWriteError;

/// Asks once, and once or twice more where the form of the answer wants it.
pub(crate) async fn fast_mode(
    conversation: &mut Conversation<'_>,
    structure: Option<&Structure>,
) -> Result<RunOutcome, RunWriteError> {
    if let Some(outcome) = conversation.wait_for_source().await? {
        return Ok(outcome);
    }
    let known = conversation.known();
    if plan::plan(Step::Context, &conversation.endpoint, &conversation.parts.catalogue, &known) == Plan::Nothing {
        let message = format!(
            "the model `{}` takes neither videos nor pictures; fast mode needs one that does (`LLM_MODEL`, or the agent's `model`)",
            conversation.endpoint.model
        );
        return Ok(RunOutcome::Failed(failed(FailureKind::ModelRequestFailedError, message)));
    }
    conversation.wants_context = true;
    conversation.needs_context = true;
    let config = &conversation.parts.config;
    let facts = prompts::Facts {
        tools: &[],
        takes: plan::accepted(&conversation.endpoint, &conversation.parts.catalogue, &known),
        has_context: true,
        task: conversation.session.agent.system.as_deref(),
        schema: structure.map(Structure::schema),
    };
    let form = Ask {
        system: prompts::fast(&facts),
        tools: Arc::from([]),
        tool_choice: ToolChoice::Auto,
        max_tokens: config.fast_max_tokens,
        response_format: structure.map(Structure::response_format),
        thinking: if config.fast_thinking_disabled { Thinking::Disabled } else { thinking(&conversation.session) },
        shows_text: structure.is_none(),
    };
    let mut answer = match conversation.ask(&form).await? {
        Asked::Answer(answer) => *answer,
        Asked::Failed(error) => return Ok(RunOutcome::Failed(error)),
        Asked::Interrupted => return Ok(RunOutcome::Interrupted),
    };
    // There are no tools to call.
    answer.completion.calls.clear();
    if answer.completion.text.trim().is_empty() && !answer.is_refusal() {
        conversation.drop_answer(answer, None).await?;
        let message = format!(
            "the model `{}` called a tool instead of answering, and fast mode has none",
            conversation.endpoint.model
        );
        return Ok(RunOutcome::Failed(failed(FailureKind::ModelRequestFailedError, message)));
    }
    if let Some(structure) = structure {
        return settle_in_form(conversation, form, structure, answer, true).await;
    }
    let refused = answer.is_refusal();
    conversation.keep_answer(answer, None).await?;
    Ok(if refused { RunOutcome::Refused } else { RunOutcome::Answered })
}
