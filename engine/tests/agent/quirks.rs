//! Servers that want the same thing in another way.

use serde_json::{Value, json};

use crate::support::agent_world::{Fault, Plan, assert_well_formed, failures, said, types, world};
use crate::support::model::{Model, Reply, call, delta, end, error, say};

fn last_assistant(body: &Value) -> Option<&Value> {
    body["messages"].as_array()?.iter().rev().find(|message| message["role"] == "assistant")
}

#[tokio::test]
async fn missing_words_are_shown_as_the_server_wants_them() -> Result<(), Fault> {
    type Refuses = fn(Option<&Value>) -> bool;
    let servers: [Refuses; 3] = [
        |content| content.is_none_or(Value::is_null),
        |content| content.is_none() || content == Some(&json!("")),
        |content| content == Some(&json!("")) || content == Some(&Value::Null),
    ];
    for refuses in servers {
        let model =
            Model::start(vec![call(&[("a", "bash", json!({"command": "ls"}))]), say("done"), say("again")]).await?;
        model.rule(move |body| {
            let assistant = last_assistant(body).filter(|message| message.get("tool_calls").is_some())?;
            refuses(assistant.get("content")).then(|| error(400, "invalid value for content"))
        });
        let world = world(&model, Plan::default()).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        assert_eq!(said(&events), ["done"], "{:?}", failures(&events));
        assert!(failures(&events).is_empty());
        // It is known from then on.
        let before = model.asked().len();
        world.ask(&id, "q2").await?;
        assert_eq!(model.asked().len(), before + 1);
    }
    Ok(())
}

#[tokio::test]
async fn a_field_that_a_strict_server_does_not_know_is_left_out_for_good() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    model.rule(|body| {
        if body.get("stream_options").is_some() {
            return Some(error(400, "Unrecognized request argument supplied: stream_options"));
        }
        body.get("max_tokens").is_some().then(|| {
            error(400, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
        })
    });
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(said(&events), ["ok"]);
    assert_eq!(types(&events).iter().filter(|kind| **kind == "span.model_request_start").count(), 1);
    assert_eq!(model.asked().len(), 3);
    world.ask(&id, "q2").await?;
    assert_eq!(model.asked().len(), 4);
    Ok(())
}

#[tokio::test]
async fn reasoning_goes_back_with_the_call_in_the_form_it_came() -> Result<(), Fault> {
    let details = json!([{"type": "reasoning.text", "index": 0, "text": "because", "signature": "s"}]);
    for (key, value) in
        [("reasoning", json!("because")), ("reasoning_content", json!("because")), ("reasoning_details", details)]
    {
        let thinking = json!({key: value,
            "tool_calls": [{"index": 0, "id": "a", "function": {"name": "bash", "arguments": {"command": "ls"}}}]});
        let model = Model::start(vec![Reply::Stream(vec![delta(&thinking), end("tool_calls")]), say("done")]).await?;
        let wanted = value.clone();
        model.rule(move |body| {
            let assistant = last_assistant(body)?;
            (assistant.get(key) != Some(&wanted)).then(|| error(400, "reasoning must be passed back"))
        });
        let world = world(&model, Plan::default()).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        assert_eq!(said(&events), ["done"], "{key}: {:?}", failures(&events));
        assert!(types(&events).contains(&"agent.thinking"), "{key}");
        // A later run does without it: it costs and says nothing new.
        let later = model.messages();
        model.rule(|_| None);
        world.ask(&id, "q2").await?;
        let last = model.messages().pop().ok_or("no request")?;
        assert!(!json!(last).to_string().contains("because"), "{key} {}", later.len());
        assert_well_formed(&last);
    }
    Ok(())
}

#[tokio::test]
async fn instructions_in_the_middle_move_to_the_front_where_they_must() -> Result<(), Fault> {
    use ambient_engine::events::body::{ContentBlock, EventBody};
    let model = Model::start(vec![say("one"), say("two")]).await?;
    model.rule(|body| {
        let roles = body["messages"].as_array()?.iter().skip(1).any(|message| message["role"] == "system");
        roles.then(|| error(400, "System message must be at the beginning."))
    });
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    world.ask(&id, "q").await?;
    let user = crate::support::agent_world::message("q2");
    let system = EventBody::SystemMessage { content: vec![ContentBlock::text("Be brief.")] };
    world.send(&id, vec![user, system]).await?;
    world.settled(&id).await?;
    let last = model.messages().pop().ok_or("no request")?;
    assert!(last[0]["content"].as_str().is_some_and(|text| text.ends_with("Be brief.")));
    assert!(failures(&world.events(&id).await?).is_empty());
    Ok(())
}
