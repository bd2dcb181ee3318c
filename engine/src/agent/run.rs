//! A run in agent mode: rounds of model and tools until there is an answer.

use std::sync::Arc;

use serde_json::{Value, json};

use super::catalogue::Modalities;
use super::config::AgentParts;
use super::conversation::{Ask, Asked, Conversation};
use super::endpoint::Endpoint;
use super::error::ModelError;
use super::plan::{self, Plan, Step};
use super::round::{self, RoundEnd};
use super::structured::Structure;
use super::wire::{Thinking, ToolChoice};
use super::{RunContext, RunOutcome, prompts};
use crate::events::body::{FailureKind, RetryStatus, SessionFailure};
use crate::sessions::writer::RunWriteError;
use crate::store::records::{MessageBody, Mode, Origin, Part, SessionRecord};
use crate::tools::toolbox::ToolSet;

/// Limit of one answer.
const MAX_TOKENS: u32 = 16_000;

/// Answers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Agent {
    parts: Arc<AgentParts>,
}

impl Agent {
    /// An agent with these parts.
    pub fn new(parts: AgentParts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// Runs to the end, or until the run is told to stop.
    ///
    /// # Errors
    /// When the run can write no more; everything else is an outcome.
    pub async fn run(&self, context: RunContext) -> Result<RunOutcome, RunWriteError> {
        let endpoint = match endpoint(&self.parts, &context.session) {
            Ok(endpoint) => endpoint,
            Err(error) => return Ok(RunOutcome::Failed(error)),
        };
        let mode = context.session.mode;
        let given = context.output_structure.clone();
        let mut conversation = Conversation::open(&self.parts, context, endpoint).await?;
        let form = given.or_else(|| form_of_resumed(&conversation));
        let structure = match form.as_ref().map(Structure::new).transpose() {
            Ok(structure) => structure,
            Err(message) => return Ok(RunOutcome::Failed(failed(FailureKind::UnknownError, message))),
        };
        match mode {
            Mode::Agent => Box::pin(agent_mode(&mut conversation, structure.as_ref())).await,
            Mode::Fast => Box::pin(super::fast::fast_mode(&mut conversation, structure.as_ref())).await,
        }
    }
}

/// The form that the answer has to have when the run goes on after the client answered a call: that of the message
/// which began it.
fn form_of_resumed(conversation: &Conversation<'_>) -> Option<Value> {
    let user_parts = |body: &MessageBody| match body {
        MessageBody::User { origin: Origin::User, parts } => Some(parts.clone()),
        MessageBody::User { .. }
        | MessageBody::System { .. }
        | MessageBody::Assistant { .. }
        | MessageBody::Tool { .. } => None,
    };
    let is_new_message = user_parts(&conversation.history.last()?.body).is_some();
    if conversation.session.pending_actions.is_empty() || is_new_message {
        return None;
    }
    let began = conversation.history.iter().rev().find_map(|record| user_parts(&record.body))?;
    let Some(Part::Text { text }) = began.last() else { return None };
    serde_json::from_str(text.strip_prefix(prompts::FORM)?).ok()
}

/// Where this session's model is asked: at the agent's own address with its own key, or at the engine's with the
/// engine's.
fn endpoint(parts: &AgentParts, session: &SessionRecord) -> Result<Endpoint, SessionFailure> {
    let model = &session.agent.model.id;
    if let Some(own) = &session.agent.endpoint {
        let endpoint = parts.keys.endpoint(own, model);
        return endpoint.map_err(|reason| failed(FailureKind::ModelRequestFailedError, reason));
    }
    let ours = match session.mode {
        Mode::Agent => &parts.config.agent_endpoint,
        Mode::Fast => &parts.config.vision_endpoint,
    };
    let ours = ours.as_ref().ok_or_else(|| failure_of(&ModelError::NoEndpoint))?;
    Ok(ours.with_model(model))
}

/// A failure that ends the run.
pub(crate) fn failed(kind: FailureKind, message: impl Into<String>) -> SessionFailure {
    SessionFailure { kind, message: message.into(), retry_status: RetryStatus::Exhausted }
}

/// What a client is told of a model error that ends the run.
pub(crate) fn failure_of(error: &ModelError) -> SessionFailure {
    failed(error.kind(), error.to_string())
}

async fn agent_mode(
    conversation: &mut Conversation<'_>,
    structure: Option<&Structure>,
) -> Result<RunOutcome, RunWriteError> {
    if let Some(outcome) = conversation.wait_for_source().await? {
        return Ok(outcome);
    }
    let mut tools = Offer::of(conversation);
    if let Some(planned) = round::resumed(conversation) {
        match round::run(conversation, &tools.set, planned, true).await? {
            RoundEnd::Done => {}
            RoundEnd::Waits(actions) => return Ok(RunOutcome::RequiresAction(actions)),
            RoundEnd::Interrupted => return Ok(RunOutcome::Interrupted),
        }
    }
    if !conversation.has(Origin::Seed) {
        conversation.wait_for_description(tools.is_delegated).await?;
        conversation.seed(tools.is_delegated).await?;
    }
    conversation.wants_context = !tools.is_delegated;
    let mut rounds = 0;
    loop {
        if conversation.stop.is_cancelled() {
            return Ok(RunOutcome::Interrupted);
        }
        conversation.bring_description().await?;
        if let Some(error) = conversation.attach_context().await? {
            return Ok(RunOutcome::Failed(error));
        }
        if tools.takes != takes(conversation) {
            tools = Offer::of(conversation);
        }
        let answer = match conversation.ask(&ask(conversation, &tools, structure, ToolChoice::Auto)).await? {
            Asked::Answer(answer) => answer,
            Asked::Failed(error) => return Ok(RunOutcome::Failed(error)),
            Asked::Interrupted => return Ok(RunOutcome::Interrupted),
        };
        if answer.completion.calls.is_empty() {
            return settle(conversation, &tools, structure, *answer).await;
        }
        if rounds >= conversation.session.max_turns {
            return out_of_rounds(conversation, &tools, *answer).await;
        }
        rounds += 1;
        let planned = round::announce(conversation, &tools.set, *answer).await?;
        match round::run(conversation, &tools.set, planned, false).await? {
            RoundEnd::Done => {}
            RoundEnd::Waits(actions) => return Ok(RunOutcome::RequiresAction(actions)),
            RoundEnd::Interrupted => return Ok(RunOutcome::Interrupted),
        }
    }
}

/// The tools of a session with the model as it is known now.
struct Offer {
    set: ToolSet,
    wire: Arc<[Value]>,
    takes: Modalities,
    /// The video model looks, not the agent's own.
    is_delegated: bool,
}

impl Offer {
    fn of(conversation: &Conversation<'_>) -> Self {
        let takes = takes(conversation);
        let parts = conversation.parts;
        let set = parts.toolbox.for_session(&conversation.session, takes, parts.config.has_bucket);
        let wire = set.definitions().iter().map(|tool| {
            json!({"type": "function", "function":
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}})
        });
        let wire = wire.collect();
        Self { set, wire, takes, is_delegated: parts.config.self_analysis_disabled || !takes.sees() }
    }
}

/// What the session's model takes of tools: clips only where clips are the better form.
fn takes(conversation: &Conversation<'_>) -> Modalities {
    let known = conversation.known();
    let (endpoint, catalogue) = (&conversation.endpoint, &conversation.parts.catalogue);
    let accepted = plan::accepted(endpoint, catalogue, &known);
    Modalities { video: plan::plan(Step::Clip, endpoint, catalogue, &known) == Plan::Video, ..accepted }
}

fn ask(conversation: &Conversation<'_>, tools: &Offer, structure: Option<&Structure>, tool_choice: ToolChoice) -> Ask {
    let facts = prompts::Facts {
        tools: tools.set.definitions(),
        takes: tools.takes,
        has_context: conversation.wants_context && !conversation.context_failed,
        task: conversation.session.agent.system.as_deref(),
        schema: structure.map(Structure::schema),
    };
    Ask {
        system: prompts::agent(&facts),
        tools: Arc::clone(&tools.wire),
        tool_choice,
        max_tokens: MAX_TOKENS,
        response_format: None,
        thinking: thinking(&conversation.session),
        shows_text: structure.is_none(),
    }
}

/// The effort that the agent wants, in the words that servers know.
pub(crate) fn thinking(session: &SessionRecord) -> Thinking {
    let effort = session.agent.model.effort.as_deref().and_then(|effort| match effort {
        "minimal" | "low" => Some("low"),
        "medium" => Some("medium"),
        "high" | "xhigh" | "max" => Some("high"),
        _ => None,
    });
    Thinking::Enabled { effort: effort.map(str::to_owned) }
}

/// Stores the final answer, in its form if one is wanted.
async fn settle(
    conversation: &mut Conversation<'_>,
    tools: &Offer,
    structure: Option<&Structure>,
    answer: super::conversation::Answer,
) -> Result<RunOutcome, RunWriteError> {
    let Some(structure) = structure else {
        let refused = answer.is_refusal();
        conversation.keep_answer(answer, None).await?;
        return Ok(if refused { RunOutcome::Refused } else { RunOutcome::Answered });
    };
    let mut form = ask(conversation, tools, Some(structure), ToolChoice::None);
    form.tools = Arc::from([]);
    settle_in_form(conversation, form, structure, answer, false).await
}

/// Checks an answer against the schema; an answer that does not fit is asked for again, bound to the schema, and once
/// more with its faults. `was_bound` says that the first one was bound already.
pub(crate) async fn settle_in_form(
    conversation: &mut Conversation<'_>,
    mut form: Ask,
    structure: &Structure,
    first: super::conversation::Answer,
    was_bound: bool,
) -> Result<RunOutcome, RunWriteError> {
    form.response_format = Some(structure.response_format());
    form.shows_text = false;
    let (mut answer, mut bound) = (first, u32::from(was_bound));
    loop {
        if answer.is_refusal() {
            conversation.keep_answer(answer, None).await?;
            return Ok(RunOutcome::Refused);
        }
        let faults = match structure.check(&answer.completion.text) {
            Ok(value) => {
                conversation.keep_answer(answer, Some(value)).await?;
                return Ok(RunOutcome::Answered);
            }
            Err(faults) => faults,
        };
        let next = match bound {
            0 => prompts::in_form(structure.schema()),
            1 => prompts::repair(&faults, structure.schema()),
            _ => {
                conversation.drop_answer(answer, None).await?;
                let message = format!("the answer does not fit `output_structure`, even asked for twice: {faults}");
                return Ok(RunOutcome::Failed(failed(FailureKind::UnknownError, message)));
            }
        };
        bound += 1;
        conversation.drop_answer(answer, Some(engine_word(next))).await?;
        answer = match conversation.ask(&form).await? {
            Asked::Answer(answer) => *answer,
            Asked::Failed(error) => return Ok(RunOutcome::Failed(error)),
            Asked::Interrupted => return Ok(RunOutcome::Interrupted),
        };
    }
}

/// The model wants more rounds than it may have: it gives the best answer it can, and the run ends with the error.
async fn out_of_rounds(
    conversation: &mut Conversation<'_>,
    tools: &Offer,
    mut answer: super::conversation::Answer,
) -> Result<RunOutcome, RunWriteError> {
    let limit = conversation.session.max_turns;
    // Calls that will not run are never announced, and never stand unanswered in the history.
    answer.completion.calls.clear();
    conversation.drop_answer(answer, Some(engine_word(prompts::LAST_CALL.to_owned()))).await?;
    match conversation.ask(&ask(conversation, tools, None, ToolChoice::None)).await? {
        Asked::Answer(mut last) => {
            last.completion.calls.clear();
            conversation.keep_answer(*last, None).await?;
        }
        Asked::Failed(_) => {}
        Asked::Interrupted => return Ok(RunOutcome::Interrupted),
    }
    Ok(RunOutcome::Failed(failed(
        FailureKind::ToolUseLimitReachedError,
        format!(
            "the agent wanted more than {limit} rounds of tools in one run (`max_turns_per_run` of the session); ask again to let it go on"
        ),
    )))
}

fn engine_word(text: String) -> MessageBody {
    MessageBody::User { origin: Origin::Engine, parts: vec![Part::Text { text }] }
}
