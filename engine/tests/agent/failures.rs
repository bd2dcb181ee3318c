//! What fails, what is tried again, and what clients are told of it.

use std::time::Duration;

use ambient_engine::events::body::{EventBody, FailureKind, RetryStatus, StopReason};
use serde_json::json;

use crate::support::agent_world::{
    Fault, Plan, assert_well_formed, failures, results, said, stop_reason, texts, types, world,
};
use crate::support::model::{Model, Reply, call, delta, end, error, say};

#[tokio::test]
async fn a_failure_for_a_moment_is_tried_again_and_told() -> Result<(), Fault> {
    let model = Model::start(vec![
        call(&[("a", "bash", json!({"command": "ls"}))]),
        error(500, "oops"),
        Reply::StatusWith(429, ("retry-after", "0".to_owned()), json!({"error": {"message": "slow down"}})),
        say("done"),
    ])
    .await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(said(&events), ["done"]);
    let told = failures(&events);
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|failure| failure.retry_status == RetryStatus::Retrying));
    assert_eq!(told[1].kind, FailureKind::ModelRateLimitedError);
    assert_eq!(results(&events).len(), 1, "no tool ran twice");
    assert_eq!(types(&events).iter().filter(|kind| **kind == "session.status_rescheduled").count(), 2);
    let starts = types(&events).iter().filter(|kind| **kind == "span.model_request_start").count();
    let ends = types(&events).iter().filter(|kind| **kind == "span.model_request_end").count();
    assert_eq!((starts, ends), (4, 4));
    assert_eq!(stop_reason(&events), Some(StopReason::EndTurn));
    Ok(())
}

#[tokio::test]
async fn what_fails_for_good_ends_the_run_with_its_reason() -> Result<(), Fault> {
    for (status, message, kind, requests) in [
        (400, "fake error 400", FailureKind::ModelRequestFailedError, 1),
        (401, "bad key", FailureKind::ModelRequestFailedError, 1),
        (402, "pay first", FailureKind::BillingError, 1),
        (429, "insufficient_quota", FailureKind::BillingError, 1),
        (429, "slow down", FailureKind::ModelRateLimitedError, 3),
        (503, "busy", FailureKind::ModelOverloadedError, 3),
    ] {
        let model = Model::start(vec![]).await?;
        model.rule(move |_| Some(error(status, message)));
        let world = world(&model, Plan::default()).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        let last = failures(&events).pop().ok_or("no failure")?;
        assert_eq!((last.kind, last.retry_status), (kind, RetryStatus::Exhausted), "{status} {message}");
        assert!(last.message.contains(message) && last.message.contains(&status.to_string()), "{}", last.message);
        assert_eq!(stop_reason(&events), Some(StopReason::RetriesExhausted));
        assert_eq!(model.asked().len(), requests, "{status} {message}");
        model.rule(|_| Some(say("fine")));
        assert_eq!(said(&world.ask(&id, "q2").await?), ["fine"]);
    }
    Ok(())
}

#[tokio::test]
async fn a_key_that_a_server_quotes_is_not_passed_on() -> Result<(), Fault> {
    let model = Model::start(vec![error(401, "invalid key engine-key-1234, sorry")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let failure = failures(&world.ask(&id, "q").await?).pop().ok_or("no failure")?;
    assert!(failure.message.contains("[redacted]") && !failure.message.contains("1234"), "{}", failure.message);
    Ok(())
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_asked_for_again_whole() -> Result<(), Fault> {
    let half = vec![delta(&json!({"content": "half an"}))];
    for broken in [
        Reply::Cut(half.clone()),
        Reply::Stream(half.clone()),
        Reply::Stream(
            [half.clone(), vec![json!({"error": {"message": "backend died", "code": 502}, "choices": []})]].concat(),
        ),
        Reply::Stream([half.clone(), vec![end("error")]].concat()),
        Reply::Raw(vec![b"data: {\"choices\": [{\"del\n\ndata: [DONE]\n\n".to_vec()], Duration::ZERO),
        Reply::Hang(half),
    ] {
        // A stream with words and `[DONE]` but no finish reason is whole: some servers never send one.
        let is_whole = matches!(&broken, Reply::Stream(chunks) if chunks.len() == 1);
        let model = Model::start(vec![broken, say("whole answer")]).await?;
        let world = world(&model, Plan { idle_limit: Duration::from_millis(300), ..Plan::default() }).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        if is_whole {
            assert_eq!(said(&events), ["half an"]);
            continue;
        }
        assert_eq!(said(&events), ["whole answer"]);
        assert_eq!(failures(&events).len(), 1);
        let first_end = events.iter().find_map(|event| match &event.body {
            EventBody::ModelRequestEnd { is_error, .. } => Some(*is_error),
            _ => None,
        });
        assert_eq!(first_end, Some(true));
    }
    Ok(())
}

#[tokio::test]
async fn an_error_inside_a_good_status_keeps_its_code() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    model.rule(|_| Some(Reply::Stream(vec![json!({"error": {"message": "quota", "code": 429}, "choices": []})])));
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let last = failures(&world.ask(&id, "q").await?).pop().ok_or("no failure")?;
    assert_eq!(last.kind, FailureKind::ModelRateLimitedError);
    assert!(last.message.contains("429") && last.message.contains("quota"));
    Ok(())
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_once_more() -> Result<(), Fault> {
    let empty = Reply::Stream(vec![delta(&json!({"content": ""})), end("stop")]);
    let model = Model::start(vec![empty.clone(), say("here")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    assert_eq!(said(&world.ask(&id, "q").await?), ["here"]);
    model.then([empty.clone(), empty]);
    let events = world.ask(&id, "q2").await?;
    assert!(failures(&events).pop().ok_or("no failure")?.message.contains("empty answer"));
    assert_eq!(model.asked().len(), 4);
    Ok(())
}

#[tokio::test]
async fn a_conversation_that_does_not_fit_is_shortened_once() -> Result<(), Fault> {
    let limit = 18_000;
    let overflow = move |body: &serde_json::Value| {
        let size: usize =
            body["messages"].as_array().into_iter().flatten().map(|message| message.to_string().len()).sum();
        (size > limit).then(|| {
            Reply::Status(
                400,
                json!({"error": {"code": "context_length_exceeded", "message": "maximum context length"}}),
            )
        })
    };
    let model = Model::start(vec![]).await?;
    model.rule(overflow);
    let big = "x".repeat(6000);
    model.then([call(&[("a", "bash", json!({"command": big}))]), say("first answer"), say("second answer")]);
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    world.ask(&id, "first question").await?;
    let events = world.ask(&id, &"y".repeat(6000)).await?;
    assert_eq!(said(&events), ["second answer"]);
    assert_eq!(types(&events).iter().filter(|kind| **kind == "agent.thread_context_compacted").count(), 1);
    assert!(failures(&events).is_empty());
    let last = model.messages().pop().ok_or("no request")?;
    assert_well_formed(&last);
    let text = last.iter().flat_map(texts).collect::<Vec<_>>().join("\n");
    assert!(text.contains("first question") && text.contains("first answer"));
    assert!(!text.contains("ran xxx"));

    // What stays too long ends with its own error, and is not sent again as it is.
    let before = model.asked().len();
    let events = world.ask(&id, &"z".repeat(20_000)).await?;
    let last = failures(&events).pop().ok_or("no failure")?;
    assert_eq!(last.kind, FailureKind::CompactionLimitReachedError);
    assert!(model.asked().len() <= before + 2);
    Ok(())
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() -> Result<(), Fault> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    drop(listener);
    let mut model = Model::start(vec![]).await?;
    model.base_url = format!("http://{address}/v1");
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let last = failures(&world.ask(&id, "q").await?).pop().ok_or("no failure")?;
    assert_eq!(last.kind, FailureKind::ModelRequestFailedError);
    assert!(last.message.contains(&address.to_string()), "{}", last.message);
    Ok(())
}
