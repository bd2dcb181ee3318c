//! A round of tool calls: announced with the model's message in one change, run side by side, their results stored in
//! the order of the calls.

use std::collections::HashSet;
use std::sync::Arc;

use futures::StreamExt as _;

use super::conversation::{Answer, Conversation, push_assistant};
use super::history;
use super::stream::{RawCall, parse_arguments};
use crate::events::body::{ContentBlock, EventBody, Permission};
use crate::sessions::writer::RunWriteError;
use crate::store::records::{
    ActionAnswer, MediaFacts, MessageBody, Origin, Part, PendingAction, PendingKind, PermissionPolicy, ToolCall,
};
use crate::tools::toolbox::ToolSet;
use crate::tools::{Arguments, ToolContext, ToolOutput, ToolRunner};

/// Calls of one round that run at once.
const AT_ONCE: usize = 8;

/// What is to be done with a call.
pub(crate) enum Step {
    /// Run the tool.
    Run(Arguments),
    /// It has its result already.
    Answer(ToolOutput),
    /// The client has to do something first.
    Wait(PendingAction),
}

/// A call, and what is to be done with it.
pub(crate) struct Planned {
    call: ToolCall,
    step: Step,
    /// `agent.tool_use`, which gets an `agent.tool_result`; a custom tool's result is the client's own event.
    is_engine_tool: bool,
}

/// How a round ended.
pub(crate) enum RoundEnd {
    /// Every call has its result.
    Done,
    /// These wait for the client; the others have their results.
    Waits(Vec<PendingAction>),
    /// The run was told to stop.
    Interrupted,
}

/// Stores the model's message with its calls, and says what is to be done with each.
pub(crate) async fn announce(
    conversation: &mut Conversation<'_>,
    tools: &ToolSet,
    mut answer: Answer,
) -> Result<Vec<Planned>, RunWriteError> {
    let mut taken = history::call_ids(&conversation.history);
    let was_cut = answer.completion.finish.as_deref() == Some("length");
    let mut change = conversation.writer.begin();
    conversation.tell(&mut change, &answer, Some(&answer.completion.text));
    let mut planned = Vec::new();
    for raw in std::mem::take(&mut answer.completion.calls) {
        let call_id = unique_id(&raw, &mut taken);
        let parsed = parse_arguments(&raw.arguments);
        let input = parsed.clone().unwrap_or_default();
        let definition = tools.definition(&raw.name);
        let is_client_tool = definition.is_some_and(|tool| tool.runner == ToolRunner::Client);
        let asks = definition.is_some_and(|tool| tool.policy == PermissionPolicy::AlwaysAsk) && parsed.is_ok();
        let (is_engine_tool, event) = if is_client_tool && parsed.is_ok() {
            (false, EventBody::AgentCustomToolUse { name: raw.name.clone(), input: input.clone() })
        } else {
            let evaluated_permission = if asks { Permission::Ask } else { Permission::Allow };
            (true, EventBody::AgentToolUse { name: raw.name.clone(), input: input.clone(), evaluated_permission })
        };
        let event_id = change.event(event);
        let arguments = serde_json::Value::Object(input.clone()).to_string();
        let call = ToolCall { call_id: call_id.clone(), event_id: event_id.clone(), name: raw.name.clone(), arguments };
        let pending = |kind| {
            Step::Wait(PendingAction {
                event_id: event_id.clone(),
                call_id: call_id.clone(),
                name: raw.name.clone(),
                input: input.clone(),
                kind,
                answer: None,
            })
        };
        let step = match parsed {
            Err(fault) => Step::Answer(ToolOutput::failed(unreadable(&raw, &fault, was_cut))),
            Ok(_) if is_client_tool => pending(PendingKind::CustomResult),
            Ok(_) if asks => pending(PendingKind::Confirmation),
            Ok(arguments) => Step::Run(arguments),
        };
        planned.push(Planned { call, step, is_engine_tool });
    }
    conversation.close(&mut change, &answer);
    let calls = planned.iter().map(|planned| planned.call.clone()).collect();
    let text = std::mem::take(&mut answer.completion.text);
    push_assistant(&mut change, answer, text, calls);
    conversation.commit(change).await?;
    Ok(planned)
}

fn unreadable(raw: &RawCall, fault: &str, was_cut: bool) -> String {
    let why = if was_cut { "your answer reached its length limit in the middle of them" } else { fault };
    format!("the arguments of `{}` are no valid JSON object: {why}; call it again with complete arguments", raw.name)
}

/// The model's id of a call, made different from every earlier one of the conversation.
fn unique_id(raw: &RawCall, taken: &mut HashSet<String>) -> String {
    let base = match &raw.id {
        Some(id) => id.clone(),
        None => format!("call_{:08x}", rand::random::<u32>()),
    };
    let mut candidate = base.clone();
    let mut number = 2;
    while !taken.insert(candidate.clone()) {
        candidate = format!("{base}_{number}");
        number += 1;
    }
    candidate
}

/// The calls that the client has answered, if the run goes on from there.
pub(crate) fn resumed(conversation: &Conversation<'_>) -> Option<Vec<Planned>> {
    let actions = &conversation.session.pending_actions;
    if actions.is_empty() {
        return None;
    }
    let planned = actions.iter().map(|action| {
        let step = match action.answer.clone() {
            Some(ActionAnswer::Allowed) => Step::Run(action.input.clone()),
            Some(ActionAnswer::Denied { message }) => {
                let why = message.map_or_else(
                    || "the user did not allow this call".to_owned(),
                    |message| format!("the user did not allow this call: {message}"),
                );
                Step::Answer(ToolOutput::failed(why))
            }
            Some(ActionAnswer::Result { text, is_error }) => {
                Step::Answer(ToolOutput { text, is_error, ..ToolOutput::default() })
            }
            None => Step::Answer(ToolOutput::failed("the client gave no result of this call")),
        };
        let call = ToolCall {
            call_id: action.call_id.clone(),
            event_id: action.event_id.clone(),
            name: action.name.clone(),
            arguments: serde_json::Value::Object(action.input.clone()).to_string(),
        };
        Planned { call, step, is_engine_tool: action.kind == PendingKind::Confirmation }
    });
    Some(planned.collect())
}

/// Runs what can be run, and stores each result as soon as it and those before it are known. `was_waiting` clears the
/// session's list of waiting calls with the first of them.
pub(crate) async fn run(
    conversation: &mut Conversation<'_>,
    tools: &ToolSet,
    planned: Vec<Planned>,
    was_waiting: bool,
) -> Result<RoundEnd, RunWriteError> {
    let context = ToolContext {
        session: Arc::clone(&conversation.session),
        facts: facts(conversation),
        backend: Arc::clone(&conversation.backend),
        stop: conversation.stop.clone(),
    };
    let mut waiting = Vec::new();
    let mut work = Vec::new();
    for Planned { call, step, is_engine_tool } in planned {
        match step {
            Step::Wait(action) => waiting.push(action),
            Step::Run(arguments) => work.push((call, Ok(arguments), is_engine_tool)),
            Step::Answer(output) => work.push((call, Err(output), is_engine_tool)),
        }
    }
    let mut left = work.len();
    let mut media: Vec<Part> = Vec::new();
    let context = &context;
    let outputs = futures::stream::iter(work)
        .map(|(call, step, is_engine_tool)| async move {
            let output = match step {
                Ok(arguments) => tools.call(&call.name, &arguments, context).await,
                Err(output) => output,
            };
            (call, output, is_engine_tool)
        })
        .buffered(AT_ONCE)
        .ready_chunks(AT_ONCE);
    let mut outputs = Box::pin(outputs);
    let mut clears = was_waiting;
    loop {
        let stop = conversation.stop.clone();
        let done = tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(RoundEnd::Interrupted),
            done = outputs.next() => done,
        };
        let Some(done) = done else { break };
        left -= done.len();
        let mut change = conversation.writer.begin();
        if std::mem::take(&mut clears) {
            change.pending_actions = Some(Vec::new());
        }
        for (call, output, is_engine_tool) in done {
            let ToolOutput { text, is_error, media: shown, usage } = output;
            if is_engine_tool {
                change.event(EventBody::AgentToolResult {
                    tool_use_id: call.event_id.clone(),
                    content: vec![ContentBlock::text(text.clone())],
                    is_error,
                });
            }
            if conversation.parts.config.track_usage && usage.requests > 0 {
                let mut totals = change.usage.take().unwrap_or_default();
                totals.add(&usage);
                change.usage = Some(totals);
            }
            media.extend(shown);
            let (call_id, tool_use, name) = (call.call_id, call.event_id, call.name);
            change.messages.push(MessageBody::Tool { call_id, tool_use, name, text, is_error });
        }
        // Media come behind the last result, so that results stay together.
        if left == 0 && !media.is_empty() {
            let parts = std::mem::take(&mut media);
            change.messages.push(MessageBody::User { origin: Origin::ToolMedia, parts });
        }
        conversation.commit(change).await?;
    }
    Ok(if waiting.is_empty() { RoundEnd::Done } else { RoundEnd::Waits(waiting) })
}

/// What is known of the video. An import that was not probed yet gets its facts from the media work itself.
fn facts(conversation: &Conversation<'_>) -> MediaFacts {
    conversation.file.media.clone().unwrap_or(MediaFacts {
        duration_seconds: 0.0,
        width: 0,
        height: 0,
        frames_per_second: 0.0,
        has_audio: false,
        video_codec: String::new(),
        container: String::new(),
    })
}
