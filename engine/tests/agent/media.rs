//! Media in requests: which, how many, in which form, and never in the store.

use std::sync::atomic::Ordering;

use ambient_engine::events::body::{ContentBlock, EventBody, MediaSource};
use serde_json::{Value, json};

use crate::support::agent_world::{
    Fault, Plan, SEEING_MODEL, Stage, assert_well_formed, failures, media, results, said, texts, types, world,
};
use crate::support::model::{Model, call, error, say};

fn fast(stage: Stage) -> Plan {
    Plan { stage, model_id: SEEING_MODEL, metadata: vec![("mode", "fast")], ..Plan::default() }
}

#[tokio::test]
async fn fast_mode_sends_the_video_once() -> Result<(), Fault> {
    let model = Model::start(vec![say("one"), say("two")]).await?;
    let world = world(&model, fast(Stage::default())).await?;
    let id = world.session().await?;
    assert_eq!(said(&world.ask(&id, "q").await?), ["one"]);
    world.ask(&id, "q2").await?;
    for messages in model.messages() {
        assert_well_formed(&messages);
        assert_eq!(media(&messages, "video_url"), ["data:video/mp4;base64,Y2xpcA=="]);
    }
    let asked = model.asked();
    assert!(asked[0].body.get("tools").is_none());
    assert_eq!(asked[0].body["max_tokens"], 64_000);
    assert_eq!(
        asked[0].body["messages"][1]["content"].as_array().map(|parts| &parts[..2]),
        asked[1].body["messages"][1]["content"].as_array().map(|parts| &parts[..2])
    );
    Ok(())
}

#[tokio::test]
async fn a_bucket_gives_links_and_none_of_them_is_stored() -> Result<(), Fault> {
    let model = Model::start(vec![say("one")]).await?;
    // Far too large for a data URL, and no matter by link.
    let stage = Stage { has_bucket: true, source_bytes: 5_000_000_000, ..Stage::default() };
    let world = world(&model, fast(stage)).await?;
    let id = world.session().await?;
    world.ask(&id, "q").await?;
    assert_eq!(media(&model.messages()[0], "video_url"), ["https://bucket.example/source.mp4?signature=s"]);
    let stored = serde_json::to_string(&world.store.messages(&id, 0).await?)?;
    assert!(!stored.contains("signature") && !stored.contains("https://"), "{stored}");
    Ok(())
}

#[tokio::test]
async fn a_video_too_large_to_send_becomes_labelled_frames() -> Result<(), Fault> {
    let model = Model::start(vec![say("one")]).await?;
    let world = world(&model, fast(Stage { source_bytes: 5_000_000_000, ..Stage::default() })).await?;
    let id = world.session().await?;
    world.ask(&id, "q").await?;
    let messages = model.messages().remove(0);
    assert!(media(&messages, "video_url").is_empty());
    // Twelve seconds are worth twelve frames, each behind its own time.
    assert_eq!(media(&messages, "image_url").len(), 12);
    let parts = messages[1]["content"].as_array().cloned().unwrap_or_default();
    for pair in parts.windows(2).filter(|pair| pair[1]["type"] == "image_url") {
        assert!(pair[0]["text"].as_str().is_some_and(|label| label.starts_with("Frame at ")), "{pair:?}");
    }
    let labels: std::collections::HashSet<String> =
        texts(&messages[1]).into_iter().filter(|text| text.starts_with("Frame at ")).collect();
    assert_eq!(labels.len(), 12);
    Ok(())
}

#[tokio::test]
async fn a_refused_video_becomes_frames_once_and_it_is_remembered() -> Result<(), Fault> {
    for words in ["unknown content part type: video_url", "Invalid request", "data URLs are not supported here"] {
        let model = Model::start(vec![say("one"), say("two")]).await?;
        model.rule(move |body| {
            let messages = body["messages"].as_array()?;
            (!media(messages, "video_url").is_empty()).then(|| error(400, words))
        });
        let world = world(&model, fast(Stage::default())).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        assert_eq!(said(&events), ["one"], "{:?}", failures(&events));
        assert!(failures(&events).is_empty());
        assert_eq!(model.asked().len(), 2);
        let other = world.session().await?;
        assert_eq!(said(&world.ask(&other, "q").await?), ["two"]);
        assert_eq!(model.asked().len(), 3, "no video was tried again");
        assert_eq!(world.stage.framed.load(Ordering::SeqCst), 2);
    }
    Ok(())
}

#[tokio::test]
async fn an_error_that_has_nothing_to_do_with_the_video_does_not_condemn_it() -> Result<(), Fault> {
    let model = Model::start(vec![error(400, "fake error 400"), error(400, "fake error 400"), say("fine")]).await?;
    let world = world(&model, fast(Stage::default())).await?;
    let id = world.session().await?;
    assert_eq!(failures(&world.ask(&id, "q").await?).len(), 1);
    let other = world.session().await?;
    assert_eq!(said(&world.ask(&other, "q").await?), ["fine"]);
    assert_eq!(media(&model.messages()[2], "video_url").len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_video_that_the_server_cannot_read_says_nothing_of_the_next_one() -> Result<(), Fault> {
    let model = Model::start(vec![error(400, "could not decode the video"), say("one"), say("two")]).await?;
    let world = world(&model, fast(Stage::default())).await?;
    let id = world.session().await?;
    assert_eq!(said(&world.ask(&id, "q").await?), ["one"]);
    assert_eq!(media(&model.messages()[1], "image_url").len(), 12);
    let other = world.session().await?;
    assert_eq!(said(&world.ask(&other, "q").await?), ["two"]);
    assert_eq!(media(&model.messages()[2], "video_url").len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_video_over_the_servers_limit_becomes_frames() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    model.rule(|body| {
        let is_large = media(body["messages"].as_array()?, "video_url").iter().any(|url| url.len() > 100_000);
        is_large.then(|| error(413, "Request Entity Too Large"))
    });
    let stage = Stage { source_bytes: 300_000, clip: vec![7; 300_000], ..Stage::default() };
    let world = world(&model, fast(stage)).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(said(&events), ["ok"], "{:?}", failures(&events));
    let last = model.messages().pop().ok_or("no request")?;
    assert!(media(&last, "video_url").is_empty());
    assert_eq!(media(&last, "image_url").len(), 12);
    Ok(())
}

#[tokio::test]
async fn a_model_of_words_alone_cannot_be_fast() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    let plan = Plan { metadata: vec![("mode", "fast")], ..Plan::default() };
    let world = world(&model, plan).await?;
    let id = world.session().await?;
    let failure = failures(&world.ask(&id, "q").await?).pop().ok_or("no failure")?;
    assert!(failure.message.contains("neither videos nor pictures"), "{}", failure.message);
    assert!(model.asked().is_empty());
    Ok(())
}

#[tokio::test]
async fn frames_of_a_tool_come_behind_all_results_and_stay_out_of_the_text() -> Result<(), Fault> {
    let window = |start: f64| json!({"start_time": start, "end_time": start + 2.0});
    let calls = call(&[("a", "grab_frames", window(0.0)), ("b", "grab_frames", window(4.0))]);
    let model = Model::start(vec![calls, say("done")]).await?;
    let world = world(&model, Plan { model_id: SEEING_MODEL, ..Plan::default() }).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert!(results(&events).iter().all(|(_, is_error)| !is_error), "{:?}", results(&events));
    let messages = model.messages().remove(1);
    assert_well_formed(&messages);
    let last = messages.last().ok_or("no message")?;
    assert_eq!(last["role"], "user");
    let frames = media(std::slice::from_ref(last), "image_url");
    assert!(frames.len() >= 4 && frames.iter().all(|url| url.starts_with("data:image/jpeg;base64,")), "{last}");
    let roles: Vec<&str> = messages.iter().filter_map(|message| message["role"].as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    let stored = serde_json::to_string(&world.store.messages(&id, 0).await?)?;
    assert!(!stored.contains("base64"));
    let told = serde_json::to_string(&world.events(&id).await?)?;
    assert!(!told.contains("base64"));
    Ok(())
}

#[tokio::test]
async fn a_model_that_sees_gets_the_video_at_the_front_once() -> Result<(), Fault> {
    let model = Model::start(vec![say("one"), say("two")]).await?;
    let world = world(&model, Plan { model_id: SEEING_MODEL, ..Plan::default() }).await?;
    let id = world.session().await?;
    world.ask(&id, "q").await?;
    world.ask(&id, "q2").await?;
    for messages in model.messages() {
        assert_eq!(media(&messages[1..2], "video_url").len(), 1);
        assert_eq!(media(&messages, "video_url").len(), 1);
    }
    assert!(
        model.asked()[0].body["messages"][0]["content"]
            .as_str()
            .is_some_and(|text| text.contains("front of the conversation"))
    );
    Ok(())
}

#[tokio::test]
async fn an_agent_without_eyes_at_its_server_goes_on_without_media() -> Result<(), Fault> {
    let model = Model::start(vec![]).await?;
    model.rule(|body| {
        let messages = body["messages"].as_array()?;
        if !media(messages, "video_url").is_empty() {
            return Some(error(400, "video_url is not supported"));
        }
        (!media(messages, "image_url").is_empty()).then(|| error(404, "No endpoints found that support image input"))
    });
    let world = world(&model, Plan { model_id: SEEING_MODEL, ..Plan::default() }).await?;
    let id = world.session().await?;
    let events = world.ask(&id, "q").await?;
    assert_eq!(said(&events), ["ok"], "{:?}", failures(&events));
    assert!(failures(&events).is_empty());
    Ok(())
}

fn picture(side: u32) -> Vec<u8> {
    let noise = image::RgbImage::from_fn(side, side, |x, y| {
        let seed = x.wrapping_mul(2_654_435_761).wrapping_add(y.wrapping_mul(40_503)).rotate_left(7);
        let [red, green, blue, _] = seed.wrapping_mul(seed | 1).to_le_bytes();
        image::Rgb([red, green, blue])
    });
    let mut jpeg = std::io::Cursor::new(Vec::new());
    image::DynamicImage::ImageRgb8(noise).write_to(&mut jpeg, image::ImageFormat::Jpeg).expect("an encoder");
    jpeg.into_inner()
}

#[tokio::test]
async fn pictures_are_made_as_small_as_the_server_takes_them() -> Result<(), Fault> {
    type Limit = fn(&Value) -> Option<(u16, &'static str)>;
    let servers: [Limit; 2] = [
        |body| (body.to_string().len() > 200_000).then_some((413, "Request Entity Too Large")),
        |body| {
            let messages = body["messages"].as_array()?;
            let is_long = media(messages, "image_url").iter().any(|url| url.len() > 20_000);
            is_long.then_some((400, "Invalid image URI: the string is over 20,000 characters"))
        },
    ];
    for limit in servers {
        let model = Model::start(vec![]).await?;
        model.rule(move |body| limit(body).map(|(status, words)| error(status, words)));
        let stage = Stage { source_bytes: 5_000_000_000, frame: picture(120), ..Stage::default() };
        let world = world(&model, fast(stage)).await?;
        let id = world.session().await?;
        let events = world.ask(&id, "q").await?;
        assert_eq!(said(&events), ["ok"], "{:?}", failures(&events));
        let last = model.messages().pop().ok_or("no request")?;
        assert_eq!(media(&last, "image_url").len(), 12);
        assert!(!types(&events).contains(&"session.error"));
    }
    Ok(())
}

#[tokio::test]
async fn a_picture_of_the_user_is_read_from_its_event() -> Result<(), Fault> {
    let model = Model::start(vec![say("a cat")]).await?;
    let world = world(&model, Plan { model_id: SEEING_MODEL, ..Plan::default() }).await?;
    let id = world.session().await?;
    let source = MediaSource::Base64 { media_type: "image/png".to_owned(), data: "QUJD".to_owned() };
    let content = vec![ContentBlock::text("what is this?"), ContentBlock::Image { source }];
    world.send(&id, vec![EventBody::UserMessage { content }]).await?;
    world.settled(&id).await?;
    assert_eq!(media(&model.messages()[0], "image_url"), ["data:image/png;base64,QUJD"]);
    let stored = serde_json::to_string(&world.store.messages(&id, 0).await?)?;
    assert!(!stored.contains("QUJD"));
    Ok(())
}
