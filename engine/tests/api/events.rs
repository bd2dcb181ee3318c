//! Sending, reading and streaming events over HTTP.

use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, Failure};

fn message(text: &str) -> Value {
    json!({"events": [{"type": "user.message", "content": [{"type": "text", "text": text}]}]})
}

/// Reads a stream until `done` says that it has enough.
async fn read_until(response: reqwest::Response, done: impl Fn(&str) -> bool) -> Result<String, Failure> {
    let mut text = String::new();
    let mut chunks = response.bytes_stream();
    let reading = async {
        while !done(&text) {
            match chunks.next().await {
                Some(chunk) => text.push_str(&String::from_utf8_lossy(&chunk?)),
                None => break,
            }
        }
        Ok::<(), Failure>(())
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), reading).await??;
    Ok(text)
}

#[tokio::test]
async fn what_is_sent_is_answered_listed_and_streamed_alike() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}/events");
    let opened = api.request(Method::GET, &format!("{path}/stream?until=idle")).send().await.unwrap();
    assert_eq!(opened.headers()["content-type"], "text/event-stream; charset=utf-8");
    assert_eq!(opened.headers()["cache-control"], "no-cache, no-transform");
    assert_eq!(opened.headers()["x-accel-buffering"], "no");
    assert!(opened.headers().contains_key("request-id") && !opened.headers().contains_key("content-encoding"));
    let sent = api.post(&path, message("What happens?")).await.unwrap().ok();
    assert_eq!(
        (&sent["data"][0]["type"], &sent["data"][0]["content"][0]["text"]),
        (&json!("user.message"), &json!("What happens?"))
    );
    let streamed = read_until(opened, |_| false).await.unwrap();
    let ids: Vec<&str> = streamed.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let listed = api.get(&path).await.unwrap().ok();
    let listed: Vec<&str> =
        listed["data"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids, listed);
    assert_eq!(sent["data"][0]["id"].as_str(), listed.first().copied());
    assert!(streamed.contains("event: agent.message\n"), "{streamed}");
    let down = api.get(&format!("{path}?order=desc&limit=2")).await.unwrap().ok();
    assert_eq!(down["data"][0]["type"], "session.status_idle");
    let next = api
        .get(&format!("{path}?order=desc&limit=1000&page={}", down["next_page"].as_str().unwrap()))
        .await
        .unwrap()
        .ok();
    assert_eq!(next["data"].as_array().unwrap().len(), listed.len() - 2);
    let only = api.get(&format!("{path}?types[]=agent.message&types[]=workflow_run.started")).await.unwrap().ok();
    assert_eq!(only["data"].as_array().unwrap().len(), 1);
    let from = format!("{path}/stream?until=idle");
    let later = api.request(Method::GET, &from).header("last-event-id", listed[0]).send().await.unwrap();
    let streamed = read_until(later, |_| false).await.unwrap();
    let again: Vec<&str> = streamed.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    assert_eq!(again, listed[1..]);
    api.end().await.unwrap();
}

#[tokio::test]
async fn a_second_message_in_a_run_is_refused_and_an_interrupt_ends_it() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let body = json!({"title": "wait", "metadata": {"video_id": video}});
    let id = api.post("/v1/sessions", body).await.unwrap().ok()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{id}/events");
    api.post(&path, message("one")).await.unwrap().ok();
    let refused = api.post(&path, message("two")).await.unwrap();
    assert_eq!(refused.error(), (409, "conflict_error", "a run is already in flight for this session"));
    assert_eq!((refused.header("x-should-retry"), refused.header("retry-after")), ("false", ""));
    assert_eq!(api.empty(Method::POST, &format!("/v1/sessions/{id}/archive")).await.unwrap().error().0, 400);
    let interrupt = json!({"events": [{"type": "user.interrupt"}]});
    api.post(&path, interrupt.clone()).await.unwrap().ok();
    api.until_status(&id, "idle").await.unwrap();
    api.post(&path, interrupt).await.unwrap().ok();
    let messages = api.get(&format!("{path}?types[]=user.message")).await.unwrap().ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 1, "a refused message is not stored");
    api.end().await.unwrap();
}

#[tokio::test]
async fn a_send_that_the_sdk_repeats_is_one_message() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}/events");
    let body = message("only once").to_string();
    let send = |count: &str| {
        let request = api.request(Method::POST, &path).header("x-stainless-retry-count", count).body(body.clone());
        api.send(request)
    };
    let first = send("0").await.unwrap().ok();
    api.until_status(&id, "idle").await.unwrap();
    let repeated = send("1").await.unwrap().ok();
    assert_eq!(repeated, first);
    let wanted_again = send("0").await.unwrap().ok();
    assert_ne!(wanted_again["data"][0]["id"], first["data"][0]["id"]);
    api.until_status(&id, "idle").await.unwrap();
    let messages = api.get(&format!("{path}?types[]=user.message")).await.unwrap().ok();
    assert_eq!(messages["data"].as_array().unwrap().len(), 2);
    api.end().await.unwrap();
}

#[tokio::test]
async fn refused_requests_store_nothing() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}/events");
    let good = json!({"type": "user.message", "content": [{"type": "text", "text": "a"}]});
    for bad in [
        json!({"type": "user.dance"}),
        json!({"type": "user.message"}),
        json!({"type": "user.message", "content": [{"type": "hologram"}]}),
        json!({"type": "user.tool_confirmation", "tool_use_id": "evt_0123456789abcdef", "result": "allow"}),
    ] {
        let answer = api.post(&path, json!({"events": [good, bad]})).await.unwrap();
        assert_eq!(answer.error().0, 400, "{bad}");
    }
    for query in ["event_deltas[]=agent.dance", "until=dawn"] {
        assert_eq!(api.get(&format!("{path}/stream?{query}")).await.unwrap().error().0, 400, "{query}");
    }
    for query in ["types[]=nothing", "order=up", "limit=1001", "page=page_x", "created_at[gte]=x"] {
        assert_eq!(api.get(&format!("{path}?{query}")).await.unwrap().error().0, 400, "{query}");
    }
    assert_eq!(api.get(&path).await.unwrap().ok()["data"], json!([]));
    assert_eq!(api.get(&format!("/v1/sessions/{id}")).await.unwrap().ok()["status"], "idle");
    api.end().await.unwrap();
}

#[tokio::test]
async fn a_picture_of_some_megabytes_is_taken_and_more_is_refused() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}/events");
    let picture = |bytes: usize| {
        json!({"events": [{"type": "user.message", "content": [{"type": "image", "source":
            {"type": "base64", "media_type": "image/png", "data": "AAAA".repeat(bytes / 3)}}]}]})
    };
    api.post(&path, picture(3 << 20)).await.unwrap().ok();
    api.until_status(&id, "idle").await.unwrap();
    let answer = api.post(&path, picture(21 << 20)).await.unwrap();
    assert!(answer.error().0 == 400 && answer.message().contains("content[0].source.data"), "{answer:?}");
    let too_large = api.request(Method::POST, &path).body(vec![b' '; (32 << 20) + 1]);
    assert_eq!(api.send(too_large).await.unwrap().error().0, 413);
    api.end().await.unwrap();
}

#[tokio::test]
async fn deleting_a_session_ends_its_streams_cleanly() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let stream = api.request(Method::GET, &format!("/v1/sessions/{id}/events/stream")).send().await.unwrap();
    api.delete(&format!("/v1/sessions/{id}")).await.unwrap().ok();
    let text = read_until(stream, |_| false).await.unwrap();
    assert!(text.trim_end().lines().any(|line| line == "event: session.deleted"), "{text}");
    api.end().await.unwrap();
}
