//! Answers that have to fit a schema.

use ambient_engine::events::body::{FailureKind, StopReason};
use serde_json::{Value, json};

use crate::support::agent_world::{
    Fault, Plan, SEEING_MODEL, assert_well_formed, failures, said, stop_reason, types, world,
};
use crate::support::model::{Model, error, say};

fn schema() -> Value {
    json!({"type": "object", "properties": {"cats": {"type": "integer"}}, "required": ["cats"]})
}

#[tokio::test]
async fn an_answer_that_fits_is_given_as_it_is() -> Result<(), Fault> {
    let model = Model::start(vec![say("Here: ```json\n{\"cats\": 3}\n```")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask_for(&id, "how many?", Some(schema())).await?;
    assert_eq!(said(&events), ["{\"cats\":3}"]);
    assert_eq!(model.asked().len(), 1);
    assert!(model.asked()[0].body["messages"][0]["content"].as_str().is_some_and(|text| text.contains("\"cats\"")));
    Ok(())
}

#[tokio::test]
async fn an_answer_that_does_not_fit_is_bound_then_repaired() -> Result<(), Fault> {
    let model = Model::start(vec![say("three cats"), say("{\"cats\": \"three\"}"), say("{\"cats\": 3}")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask_for(&id, "how many?", Some(schema())).await?;
    assert_eq!(said(&events), ["{\"cats\":3}"], "{:?}", failures(&events));
    let asked = model.asked();
    assert!(asked[0].body.get("response_format").is_none() && asked[0].body.get("tools").is_some());
    for bound in &asked[1..] {
        assert_eq!(bound.body["response_format"]["type"], "json_schema");
        assert_eq!(bound.body["response_format"]["json_schema"]["strict"], true);
        assert!(bound.body.get("tools").is_none());
    }
    let repair = model.messages().remove(2);
    assert_well_formed(&repair);
    assert!(repair.last().is_some_and(|last| last["content"].as_str().is_some_and(|text| text.contains("/cats"))));
    Ok(())
}

#[tokio::test]
async fn an_answer_that_never_fits_is_an_error_with_its_fault() -> Result<(), Fault> {
    for (model_id, mode, requests) in [(crate::support::agent_world::TEXT_MODEL, "agent", 3), (SEEING_MODEL, "fast", 2)]
    {
        let model = Model::start(vec![]).await?;
        model.rule(|_| Some(say("{\"cats\": \"three\"}")));
        let world = world(&model, Plan { model_id, metadata: vec![("mode", mode)], ..Plan::default() }).await?;
        let id = world.session().await?;
        let events = world.ask_for(&id, "how many?", Some(schema())).await?;
        assert!(said(&events).is_empty());
        let failure = failures(&events).pop().ok_or("no failure")?;
        assert_eq!(failure.kind, FailureKind::UnknownError);
        assert!(
            failure.message.contains("output_structure") && failure.message.contains("/cats"),
            "{}",
            failure.message
        );
        assert_eq!(stop_reason(&events), Some(StopReason::RetriesExhausted));
        assert_eq!(model.asked().len(), requests, "{mode}");
    }
    Ok(())
}

#[tokio::test]
async fn fast_mode_is_bound_from_the_start_and_keeps_recursion() -> Result<(), Fault> {
    let tree = json!({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "additionalProperties": false,
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["children"]}}});
    let model = Model::start(vec![say("{\"children\": [{\"children\": []}]}")]).await?;
    let plan = Plan { model_id: SEEING_MODEL, metadata: vec![("mode", "fast")], ..Plan::default() };
    let world = world(&model, plan).await?;
    let id = world.session().await?;
    let events = world.ask_for(&id, "tree?", Some(tree.clone())).await?;
    assert_eq!(said(&events), ["{\"children\":[{\"children\":[]}]}"]);
    assert_eq!(model.asked()[0].body["response_format"]["json_schema"]["schema"], tree);
    assert!(!types(&events).contains(&"session.error"));
    Ok(())
}

#[tokio::test]
async fn a_server_without_forms_is_asked_in_words() -> Result<(), Fault> {
    let model = Model::start(vec![say("three"), say("{\"cats\": 3}")]).await?;
    model.rule(|body| body.get("response_format").map(|_| error(400, "unknown field `response_format`")));
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask_for(&id, "how many?", Some(schema())).await?;
    assert_eq!(said(&events), ["{\"cats\":3}"]);
    Ok(())
}

#[tokio::test]
async fn a_schema_that_is_none_fails_the_run_with_a_word() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask_for(&id, "how many?", Some(json!({"type": "objekt"}))).await?;
    assert!(failures(&events).pop().ok_or("no failure")?.message.contains("no valid JSON Schema"));
    assert!(model.asked().is_empty());
    Ok(())
}
