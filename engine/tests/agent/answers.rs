//! Answers in words: events, previews, history, usage, and where the model is asked.

use std::time::Duration;

use ambient_engine::broker::{Heard, Preview, Signal};
use ambient_engine::events::body::{EventBody, FailureKind, StopReason};
use ambient_engine::store::records::WorkStatus;
use axum::Router;
use axum::response::Redirect;
use axum::routing::any;
use serde_json::json;

use crate::support::agent_world::{
    ENGINE_KEY, Fault, Plan, SEEING_MODEL, assert_well_formed, failures, message, said, stop_reason, texts, types,
    video, world,
};
use crate::support::model::{Model, Reply, counts, delta, end, say};

#[tokio::test]
async fn an_answer_comes_with_its_thinking_and_its_counts() -> Result<(), Fault> {
    let answer = Reply::Stream(vec![
        delta(&json!({"reasoning_content": "let me "})),
        delta(&json!({"reasoning_content": "look"})),
        delta(&json!({"content": "It is "})),
        delta(&json!({"content": "a street."})),
        end("stop"),
        counts(120, 9),
    ]);
    let model = Model::start(vec![answer]).await?;
    let world = world(&model, Plan { system: Some("Count cats."), ..Plan::default() }).await?;
    let id = world.session().await?;
    let mut ear = world.broker.subscribe(&id).await?;
    let events = world.ask(&id, "what is it?").await?;
    assert_eq!(
        types(&events),
        [
            "user.message",
            "session.status_running",
            "span.model_request_start",
            "agent.thinking",
            "agent.message",
            "span.model_request_end",
            "session.usage",
            "session.status_idle"
        ]
    );
    assert_eq!(said(&events), ["It is a street."]);
    assert_eq!(stop_reason(&events), Some(StopReason::EndTurn));
    let EventBody::ModelRequestEnd { model_request_start_id, is_error, model_usage, source, cost, estimated, .. } =
        &events[5].body
    else {
        panic!("{events:?}");
    };
    assert_eq!(*model_request_start_id, events[2].id);
    assert_eq!((model_usage.input_tokens, model_usage.output_tokens), (120, 9));
    assert_eq!((*is_error, source.as_str(), *cost, *estimated), (false, "agent", None, false));
    let session = world.store.session(&id).await?.ok_or("gone")?;
    assert_eq!((session.usage.input_tokens, session.usage.turns, session.usage.runs), (120, 1, 1));

    // Readers who asked for it saw the same words come, under the same id.
    let (mut started, mut shown) = (Vec::new(), String::new());
    while let Ok(Heard::Signal(signal)) = tokio::time::timeout(Duration::from_millis(50), ear.next()).await {
        match signal.as_ref() {
            Signal::Preview(Preview::Start { id, event_type }) => started.push((id.clone(), event_type.clone())),
            Signal::Preview(Preview::Text { id, text }) => {
                assert_eq!(*id, events[4].id);
                shown.push_str(text);
            }
            Signal::Events(_) | Signal::Interrupt { .. } => {}
        }
    }
    let wanted =
        [(events[3].id.clone(), "agent.thinking".to_owned()), (events[4].id.clone(), "agent.message".to_owned())];
    assert_eq!(started, wanted);
    assert_eq!(shown, "It is a street.");

    let asked = &model.asked()[0];
    assert_eq!(asked.authorization.as_deref(), Some(format!("Bearer {ENGINE_KEY}").as_str()));
    let messages = model.messages().remove(0);
    assert_well_formed(&messages);
    assert!(texts(&messages[0])[0].ends_with("## Task\n\nCount cats.\n"));
    let first = texts(&messages[1]).join("\n");
    for wanted in [video().as_str(), "Title: street.mp4", "Duration: 12.00 seconds", "in your workspace", "what is it?"]
    {
        assert!(first.contains(wanted), "{wanted}: {first}");
    }
    assert!(asked.body.get("usage").is_none() && asked.body.get("reasoning").is_none());
    Ok(())
}

#[tokio::test]
async fn thinking_that_is_not_exposed_is_not_told() -> Result<(), Fault> {
    let answer = Reply::Stream(vec![delta(&json!({"reasoning": "hm", "content": "yes"})), end("stop")]);
    let model = Model::start(vec![answer]).await?;
    let world = world(&model, Plan { configure: |config| config.expose_thinking = false, ..Plan::default() }).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert!(!types(&events).contains(&"agent.thinking"));
    assert_eq!(said(&events), ["yes"]);
    Ok(())
}

#[tokio::test]
async fn what_a_server_does_not_count_is_estimated_and_marked() -> Result<(), Fault> {
    let model =
        Model::start(vec![Reply::Stream(vec![delta(&json!({"content": "four words are here"})), end("stop")])]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    let end = events.iter().find_map(|event| match &event.body {
        EventBody::ModelRequestEnd { model_usage, estimated, .. } => Some((model_usage.input_tokens, *estimated)),
        _ => None,
    });
    let (input_tokens, estimated) = end.ok_or("no end of the request")?;
    assert!(estimated && input_tokens > 10);
    Ok(())
}

#[tokio::test]
async fn the_second_question_comes_with_the_first_and_its_answer() -> Result<(), Fault> {
    let model = Model::start(vec![say("first answer"), say("second answer")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    world.ask(&id, "first question").await?;
    let events = world.ask(&id, "second question").await?;
    assert_eq!(said(&events), ["second answer"]);
    let messages = model.messages().remove(1);
    assert_well_formed(&messages);
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(texts(&messages[1]).join("\n").matches("Video id:").count(), 1);
    assert_eq!(texts(&messages[2]), ["first answer"]);
    // What the server has cached stays as it was.
    assert_eq!(messages[..2], model.messages().remove(0)[..2]);
    Ok(())
}

#[tokio::test]
async fn text_of_any_cut_comes_out_whole() -> Result<(), Fault> {
    let text = "Žluťoučký kůň 漢字 🎬 \u{2028} end";
    let body = format!(
        ": PROCESSING\r\n\r\ndata: {}\r\n\r\ndata: {}\r\n\r\ndata: [DONE]",
        delta(&json!({"content": text})),
        end("stop")
    );
    let pieces = body.into_bytes().chunks(3).map(<[u8]>::to_vec).collect();
    let model = Model::start(vec![Reply::Raw(pieces, Duration::ZERO)]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    assert_eq!(said(&world.ask(&id, "q").await?), [text]);
    Ok(())
}

#[tokio::test]
async fn comments_keep_a_slow_answer_alive() -> Result<(), Fault> {
    let mut pieces = vec![b": PROCESSING\n\n".to_vec(); 12];
    pieces.push(format!("data: {}\n\ndata: {}\n\n", delta(&json!({"content": "late"})), end("stop")).into_bytes());
    let model = Model::start(vec![Reply::Raw(pieces, Duration::from_millis(50))]).await?;
    let world = world(&model, Plan { idle_limit: Duration::from_millis(400), ..Plan::default() }).await?;
    let id = world.session().await?;
    assert_eq!(said(&world.ask(&id, "q").await?), ["late"]);
    assert_eq!(model.asked().len(), 1);
    Ok(())
}

#[tokio::test]
async fn an_interrupt_drops_the_connection_and_the_rest_of_the_answer() -> Result<(), Fault> {
    let model = Model::start(vec![Reply::Hang(vec![delta(&json!({"content": "word "}))]), say("again")]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    world.send(&id, vec![message("tell me")]).await?;
    world.seen(&id, "span.model_request_start").await?;
    // Before that there is no connection that could be dropped.
    model.reached(1).await;
    world.send(&id, vec![EventBody::UserInterrupt { session_thread_id: None }]).await?;
    model.gone(1).await;
    world.settled(&id).await?;
    let events = world.events(&id).await?;
    assert_eq!(stop_reason(&events), Some(StopReason::EndTurn));
    assert!(said(&events).is_empty());
    let ended = events.iter().any(|event| matches!(event.body, EventBody::ModelRequestEnd { is_error: true, .. }));
    assert!(ended, "{:?}", types(&events));
    assert_eq!(said(&world.ask(&id, "go on").await?), ["again"]);
    assert_well_formed(&model.messages().remove(1));
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_a_refusal() -> Result<(), Fault> {
    let model = Model::start(vec![Reply::Stream(vec![delta(&json!({"refusal": "I will not."})), end("stop")])]).await?;
    let world = world(&model, Plan::default()).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(said(&events), ["I will not."]);
    assert_eq!(stop_reason(&events), Some(StopReason::Refusal));
    Ok(())
}

#[tokio::test]
async fn an_agents_own_address_never_gets_the_engines_key() -> Result<(), Fault> {
    let (ours, theirs) = (Model::start(vec![]).await?, Model::start(vec![say("mine")]).await?);
    let plan = Plan { own_endpoint: Some(theirs.base_url.clone()), ..Plan::default() };
    let world = world(&ours, plan).await?;
    let id = world.session().await?;
    assert_eq!(said(&world.ask(&id, "q").await?), ["mine"]);
    assert!(ours.asked().is_empty());
    assert_eq!(theirs.asked()[0].authorization.as_deref(), Some("Bearer own-key"));
    Ok(())
}

#[tokio::test]
async fn an_agents_own_address_may_not_lie_on_this_network() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    let port = model.base_url.rsplit(':').next().unwrap_or_default().to_owned();
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433"] {
        let own_endpoint = Some(format!("http://{host}:{port}"));
        let world = world(&model, Plan { own_endpoint, allow_private: false, ..Plan::default() }).await?;
        let id = world.session().await?;
        let failures = failures(&world.ask(&id, "q").await?);
        assert_eq!(failures.len(), 1, "{failures:?}");
        assert_eq!(failures[0].kind, FailureKind::ModelRequestFailedError);
        assert!(failures[0].message.contains("public network"), "{}", failures[0].message);
    }
    assert!(model.asked().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_redirect_is_not_followed() -> Result<(), Fault> {
    let inner = Model::start(vec![]).await?;
    let target = format!("{}/chat/completions", inner.base_url);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let own = format!("http://{}/v1", listener.local_addr()?);
    let router = Router::new().fallback(any(move || {
        let target = target.clone();
        async move { Redirect::temporary(&target) }
    }));
    #[expect(clippy::disallowed_methods, reason = "a server of the test, which ends with the test's runtime")]
    tokio::spawn(async move { axum::serve(listener, router).await });
    let world = world(&inner, Plan { own_endpoint: Some(own), ..Plan::default() }).await?;
    let id = world.session().await?;
    let failures = failures(&world.ask(&id, "q").await?);
    assert!(failures[0].message.contains("307"), "{failures:?}");
    assert!(inner.asked().is_empty());
    Ok(())
}

#[tokio::test]
async fn a_description_that_comes_late_is_handed_in() -> Result<(), Fault> {
    let model = Model::start(vec![say("one"), say("two")]).await?;
    let plan = Plan {
        description_status: Some(WorkStatus::Processing),
        configure: |config| config.description_patience = Duration::ZERO,
        ..Plan::default()
    };
    let world = world(&model, plan).await?;
    let id = world.session().await?;
    world.ask(&id, "q").await?;
    let file = world.store.file(&video()).await?.ok_or("no file")?;
    let mut next = file.clone();
    next.description = Some("A street with cats.".to_owned());
    next.description_status = Some(WorkStatus::Ready);
    assert!(world.store.update_file(&next, file.updated_at).await?);
    world.ask(&id, "q2").await?;
    let last = model.messages().remove(1);
    assert_well_formed(&last);
    let text = last.iter().flat_map(texts).collect::<Vec<_>>().join("\n");
    assert!(text.contains("[system update] Video description now available:\nA street with cats."), "{text}");
    Ok(())
}

#[tokio::test]
async fn the_first_run_waits_for_the_description_but_not_where_the_model_looks_itself() -> Result<(), Fault> {
    for (model_id, waits) in [(crate::support::agent_world::TEXT_MODEL, true), (SEEING_MODEL, false)] {
        let model = Model::start(vec![say("one")]).await?;
        let plan = Plan { model_id, description_status: Some(WorkStatus::Processing), ..Plan::default() };
        let world = world(&model, plan).await?;
        let id = world.session().await?;
        world.send(&id, vec![message("q")]).await?;
        if waits {
            world.seen(&id, "session.status_running").await?;
            assert!(model.asked().is_empty());
            let file = world.store.file(&video()).await?.ok_or("no file")?;
            let mut next = file.clone();
            next.description = Some("A street.".to_owned());
            next.description_status = Some(WorkStatus::Ready);
            assert!(world.store.update_file(&next, file.updated_at).await?);
        }
        world.settled(&id).await?;
        let text = model.messages().remove(0).iter().flat_map(texts).collect::<Vec<_>>().join("\n");
        assert_eq!(text.contains("Description:\nA street."), waits, "{text}");
    }
    Ok(())
}
