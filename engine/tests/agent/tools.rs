//! Rounds of tools.

use std::sync::atomic::Ordering;

use ambient_engine::events::body::{Confirmation, ContentBlock, EventBody, FailureKind, Permission, StopReason};
use ambient_engine::ids::EventId;
use ambient_engine::store::records::{AgentTool, PermissionPolicy};
use serde_json::{Value, json};

use crate::support::agent_world::{
    Fault, Plan, assert_well_formed, failures, message, results, said, stop_reason, texts, toolset, types, world,
};
use crate::support::model::{Model, Reply, call, delta, end, say};

fn bash(id: &str, command: &str) -> (String, Value) {
    (id.to_owned(), json!({"command": command}))
}

fn round(calls: &[(String, Value)]) -> Reply {
    let calls: Vec<(&str, &str, Value)> =
        calls.iter().map(|(id, arguments)| (id.as_str(), "bash", arguments.clone())).collect();
    call(&calls)
}

#[tokio::test]
async fn a_round_is_announced_run_and_told_to_the_model() -> Result<(), Fault> {
    let model = Model::start(vec![round(&[bash("c1", "ls")]), say("done")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(
        types(&events)[2..],
        [
            "span.model_request_start",
            "agent.tool_use",
            "span.model_request_end",
            "agent.tool_result",
            "span.model_request_start",
            "agent.message",
            "span.model_request_end",
            "session.usage",
            "session.status_idle"
        ]
    );
    assert_eq!(results(&events).len(), 1);
    assert!(results(&events)[0].0.contains("ran ls"));
    let messages = model.messages().remove(1);
    assert_well_formed(&messages);
    let (last, call) = (&messages[3], &messages[2]);
    assert_eq!(call.pointer("/tool_calls/0/id"), Some(&json!("c1")));
    assert!(call.get("content").is_none());
    assert!(texts(last)[0].contains("ran ls"));
    let offered = &model.asked()[0].body;
    assert_eq!(offered["tool_choice"], "auto");
    assert!(
        offered["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["function"]["name"] == "bash"))
    );
    Ok(())
}

#[tokio::test]
async fn calls_of_one_turn_run_side_by_side_and_answer_in_order() -> Result<(), Fault> {
    // Each `meet` waits for the other: one after the other would never end.
    let model =
        Model::start(vec![round(&[bash("a", "meet"), bash("b", "meet"), bash("c", "echo")]), say("done")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    let uses: Vec<&EventId> =
        events.iter().filter(|event| event.body.type_name() == "agent.tool_use").map(|event| &event.id).collect();
    let answered: Vec<&EventId> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::AgentToolResult { tool_use_id, .. } => Some(tool_use_id),
            _ => None,
        })
        .collect();
    assert_eq!(uses, answered);
    let messages = model.messages().remove(1);
    assert_well_formed(&messages);
    let ids: Vec<&str> = messages.iter().filter_map(|message| message["tool_call_id"].as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_called_is_told_and_the_run_goes_on() -> Result<(), Fault> {
    let model = Model::start(vec![
        call(&[
            ("a", "no_such_tool", json!({"x": 1})),
            ("b", "bash", json!("{\"unfinished\": \"jus")),
            ("c", "bash", json!("")),
            ("d", "bash", json!({"command": "ls"})),
        ]),
        say("done"),
    ])
    .await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    let results = results(&events);
    assert!(results[0].1 && results[0].0.starts_with("no tool named 'no_such_tool'"), "{results:?}");
    assert!(results[1].1 && results[1].0.contains("no valid JSON object"), "{results:?}");
    assert!(results[2].1 && results[2].0.contains("command"), "{results:?}");
    assert!(!results[3].1, "{results:?}");
    let inputs: Vec<Value> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::AgentToolUse { input, .. } => Some(Value::Object(input.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(inputs, [json!({"x": 1}), json!({}), json!({}), json!({"command": "ls"})]);
    assert_well_formed(&model.messages().remove(1));
    assert_eq!(said(&events), ["done"]);
    Ok(())
}

#[tokio::test]
async fn one_id_for_every_call_is_made_unique() -> Result<(), Fault> {
    let model =
        Model::start(vec![round(&[bash("x", "one"), bash("x", "two")]), round(&[bash("x", "three")]), say("done")])
            .await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    let texts: Vec<String> = results(&events).into_iter().map(|(text, _)| text).collect();
    for (text, command) in texts.iter().zip(["one", "two", "three"]) {
        assert!(text.contains(&format!("ran {command}")), "{text}");
    }
    assert_eq!(texts.len(), 3);
    assert_well_formed(&model.messages().remove(2));
    Ok(())
}

#[tokio::test]
async fn calls_count_whatever_the_finish_reason_says() -> Result<(), Fault> {
    for finish in ["stop", "length"] {
        let piece = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]});
        let model = Model::start(vec![Reply::Stream(vec![delta(&piece), end(finish)]), say("done")]).await?;
        let world = world(&model, Plan::default()).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        assert!(results(&events)[0].0.contains("ran ls"));
        assert_eq!(said(&events), ["done"]);
    }
    Ok(())
}

#[tokio::test]
async fn too_many_rounds_end_with_the_best_answer_and_the_error() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    model.rule(|body| {
        let is_last = body["tool_choice"] == "none";
        Some(if is_last { say("as far as I know") } else { round(&[bash("c", "ls")]) })
    });
    let world = world(&model, Plan { metadata: vec![("max_turns_per_run", "3")], ..Plan::default() }).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(types(&events).iter().filter(|kind| **kind == "agent.tool_use").count(), 3);
    assert_eq!(results(&events).len(), 3);
    assert_eq!(said(&events), ["as far as I know"]);
    let failures = failures(&events);
    assert_eq!(failures[0].kind, FailureKind::ToolUseLimitReachedError);
    assert_eq!(stop_reason(&events), Some(StopReason::RetriesExhausted));
    for messages in model.messages() {
        assert_well_formed(&messages);
    }
    // The session goes on.
    model.rule(|_| Some(say("fresh")));
    assert_eq!(said(&world.ask(&id, "q2").await?), ["fresh"]);
    assert_well_formed(model.messages().last().ok_or("no request")?);
    Ok(())
}

#[tokio::test]
async fn an_interrupt_stops_a_tool_and_its_call_gets_a_result() -> Result<(), Fault> {
    let model = Model::start(vec![round(&[bash("a", "hang"), bash("b", "echo")]), say("again")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    world.send(&id, vec![message("q")]).await?;
    world.seen(&id, "span.model_request_end").await?;
    world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await?;
    world.settled(&id).await?;
    let events = world.events(&id).await?;
    // Stopped, not left behind: a hanging command that had begun was let go.
    let hung = world.stage.begun.load(Ordering::SeqCst) > 0;
    assert_eq!(world.stage.dropped.load(Ordering::SeqCst), usize::from(hung));
    let results = results(&events);
    assert_eq!(results.len(), 2, "{:?}", types(&events));
    assert!(results.iter().any(|(_, is_error)| *is_error));
    assert_eq!(stop_reason(&events), Some(StopReason::EndTurn));
    assert_eq!(said(&world.ask(&id, "go on").await?), ["again"]);
    assert_well_formed(model.messages().last().ok_or("no request")?);
    Ok(())
}

fn custom() -> AgentTool {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    AgentTool::Custom {
        name: "weather".to_owned(),
        description: "The weather".to_owned(),
        input_schema: schema.as_object().cloned().unwrap_or_default(),
    }
}

fn asking() -> AgentTool {
    AgentTool::Toolset {
        type_name: "agent_toolset_20260401".to_owned(),
        enabled: true,
        policy: PermissionPolicy::AlwaysAsk,
        configs: Vec::new(),
    }
}

#[tokio::test]
async fn a_custom_tool_waits_for_the_client_and_the_run_goes_on() -> Result<(), Fault> {
    let script = vec![
        call(&[("a", "weather", json!({"city": "Brno"})), ("b", "bash", json!({"command": "ls"}))]),
        say("it rains"),
    ];
    let model = Model::start(script).await?;
    let world = world(&model, Plan { tools: vec![toolset(), custom()], ..Plan::default() }).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    let call = events.iter().find(|event| event.body.type_name() == "agent.custom_tool_use").ok_or("no call")?;
    assert_eq!(stop_reason(&events), Some(StopReason::RequiresAction { event_ids: vec![call.id.clone()] }));
    assert_eq!(results(&events).len(), 1, "the engine's own tool ran");
    let result = EventBody::UserCustomToolResult {
        custom_tool_use_id: call.id.clone(),
        content: Some(vec![ContentBlock::text("rain")]),
        is_error: false,
    };
    world.send(&id, vec![result]).await?;
    world.settled(&id).await?;
    let events = world.events(&id).await?;
    assert_eq!(said(&events), ["it rains"]);
    assert_eq!(results(&events).len(), 1, "a custom tool's result is the client's event alone");
    let messages = model.messages().remove(1);
    assert_well_formed(&messages);
    let tools: Vec<String> =
        messages.iter().filter(|message| message["role"] == "tool").map(|message| texts(message).join("")).collect();
    assert_eq!(tools[0], "rain");
    assert!(tools[1].contains("ran ls"));
    Ok(())
}

#[tokio::test]
async fn a_run_that_goes_on_after_the_client_keeps_its_form() -> Result<(), Fault> {
    let script = vec![call(&[("a", "weather", json!({}))]), say("it rains"), say("{\"rain\": true}")];
    let model = Model::start(script).await?;
    let world = world(&model, Plan { tools: vec![custom()], ..Plan::default() }).await?;
    let id = world.session().await?;
    let schema = json!({"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"]});
    let events = world.ask_for(&id, "q", Some(schema)).await?;
    let call = events.iter().find(|event| event.body.type_name() == "agent.custom_tool_use").ok_or("no call")?;
    let content = Some(vec![ContentBlock::text("rain")]);
    let result = EventBody::UserCustomToolResult { custom_tool_use_id: call.id.clone(), content, is_error: false };
    world.send(&id, vec![result]).await?;
    world.settled(&id).await?;
    assert_eq!(said(&world.events(&id).await?), ["{\"rain\":true}"]);
    assert!(model.asked()[2].body.get("response_format").is_some());
    Ok(())
}

#[tokio::test]
async fn a_call_that_asks_runs_once_it_is_allowed_and_not_when_denied() -> Result<(), Fault> {
    for (result, wanted) in
        [(Confirmation::Allow, "ran ls"), (Confirmation::Deny, "did not allow this call: too risky")]
    {
        let model = Model::start(vec![round(&[bash("a", "ls")]), say("done")]).await?;
        let world = world(&model, Plan { tools: vec![asking()], ..Plan::default() }).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        let call = events
            .iter()
            .find(|event| matches!(&event.body, EventBody::AgentToolUse { evaluated_permission: Permission::Ask, .. }))
            .ok_or("no call that asks")?;
        assert!(matches!(stop_reason(&events), Some(StopReason::RequiresAction { .. })));
        assert_eq!(world.stage.begun.load(Ordering::SeqCst), 0);
        let deny_message = (result == Confirmation::Deny).then(|| "too risky".to_owned());
        world
            .send(&id, vec![EventBody::UserToolConfirmation { tool_use_id: call.id.clone(), result, deny_message }])
            .await?;
        world.settled(&id).await?;
        let events = world.events(&id).await?;
        let results = results(&events);
        assert_eq!(results.len(), 1);
        assert!(results[0].0.contains(wanted), "{results:?}");
        assert_eq!(results[0].1, result == Confirmation::Deny);
        assert_eq!(said(&events), ["done"]);
        assert_well_formed(&model.messages().remove(1));
    }
    Ok(())
}

#[tokio::test]
async fn a_new_message_instead_of_an_answer_closes_the_call() -> Result<(), Fault> {
    let model = Model::start(vec![call(&[("a", "weather", json!({}))]), say("never mind")]).await?;
    let world = world(&model, Plan { tools: vec![toolset(), custom()], ..Plan::default() }).await?;
    let id = world.session().await?;
    world.ask(&id, "q").await?;
    let events = world.ask(&id, "something else").await?;
    assert_eq!(said(&events), ["never mind"]);
    let messages = model.messages().remove(1);
    assert_well_formed(&messages);
    assert_eq!(texts(messages.last().ok_or("no message")?), ["something else"]);
    assert!(world.store.session(&id).await?.ok_or("gone")?.pending_actions.is_empty());
    Ok(())
}
