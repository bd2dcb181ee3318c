//! Sessions: what they are made of, changed by, and how they end.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Api, video_bytes};

#[tokio::test]
async fn a_new_session_has_the_shape_that_strict_clients_need() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let body = json!({"agent": "ambient_v1", "environment_id": "default", "title": "t", "metadata": {"video_id": video},
        "vault_ids": [], "resources": []});
    let mut session = api.post("/v1/sessions", body).await.unwrap().ok();
    let id = session["id"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("/v1/sessions/{id}")).await.unwrap().ok(), session);
    assert_eq!((&session["agent"]["id"], &session["agent"]["version"]), (&json!("ambient_v1"), &json!(1)));
    assert_eq!(session["agent"]["execution_identity"], json!({"type": "service_account"}));
    for field in ["agent", "created_at", "updated_at"] {
        session[field] = Value::Null;
    }
    assert_eq!(
        session,
        json!({"id": id, "type": "session", "status": "idle", "title": "t", "agent": null, "environment_id": "default",
            "metadata": {"video_id": video}, "resources": [], "vault_ids": [], "outcome_evaluations": [],
            "usage": {"input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": 0,
                "cache_creation": {"ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0},
                "active_seconds": 0.0, "list_cost": {"amount": "0.0000", "currency": "USD"}},
            "stats": {"active_seconds": 0.0, "duration_seconds": 0.0}, "budget": null, "deployment_id": null,
            "archived_at": null, "created_at": null, "updated_at": null,
            "sandbox": {"backend": "inprocess", "status": "ready", "id": null}})
    );
    api.end().await.unwrap();
}

#[tokio::test]
async fn rounds_of_tools_are_set_for_the_engine_and_for_a_session() {
    let api = Api::with(|settings| settings.agent.max_turns_per_run = 7).await.unwrap();
    let video = api.video().await.unwrap();
    for (metadata, expected) in
        [(json!({"video_id": video}), 7), (json!({"video_id": video, "max_turns_per_run": "3"}), 3)]
    {
        let session = api.post("/v1/sessions", json!({"metadata": metadata})).await.unwrap().ok();
        let id = session["id"].as_str().unwrap().parse().unwrap();
        assert_eq!(api.store.session(&id).await.unwrap().unwrap().max_turns, expected);
    }
    api.end().await.unwrap();
}

#[tokio::test]
async fn agents_are_named_in_every_form() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let agent = api.post("/v1/agents", json!({"name": "pin", "model": "m1", "system": "s"})).await.unwrap().ok();
    let id = agent["id"].as_str().unwrap();
    api.post(&format!("/v1/agents/{id}"), json!({"model": "m2"})).await.unwrap().ok();
    let make = async |agent: Value| {
        let body = json!({"agent": agent, "metadata": {"video_id": video}});
        api.post("/v1/sessions", body).await.unwrap()
    };
    assert_eq!(make(json!(id)).await.ok()["agent"]["version"], 2);
    let pinned = make(json!({"type": "agent", "id": id, "version": 1})).await.ok();
    assert_eq!((&pinned["agent"]["version"], &pinned["agent"]["model"]["id"]), (&json!(1), &json!("m1")));
    let own = make(json!({"type": "agent_with_overrides", "id": id, "model": "m9", "system": null})).await.ok();
    assert_eq!(
        (&own["agent"]["id"], &own["agent"]["model"]["id"], &own["agent"]["system"]),
        (&json!(id), &json!("m9"), &Value::Null)
    );
    let by_default = make(Value::Null).await.ok();
    assert_eq!(by_default["agent"]["id"], "ambient_v1");
    for (bad, status) in [
        (json!({"type": "agent", "id": id, "version": 9}), 404),
        (json!("agent_nope"), 400),
        (json!("agt_0123456789abcdef"), 404),
        (json!(17), 400),
        (json!({"id": 5}), 400),
        (json!({"type": "agent_with_overrides", "id": id, "skills": [{"type": "custom", "skill_id": "s"}]}), 400),
    ] {
        assert_eq!(make(bad.clone()).await.error().0, status, "{bad}");
    }
    let archived = api.empty(Method::POST, &format!("/v1/agents/{id}/archive")).await.unwrap();
    archived.ok();
    assert_eq!(make(json!(id)).await.error().0, 400);
    api.end().await.unwrap();
}

#[tokio::test]
async fn what_does_not_fit_makes_no_session() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let full: serde_json::Map<String, Value> = (0..16).map(|number| (format!("k{number}"), json!("v"))).collect();
    let with = |more: Value| {
        let mut body = json!({"metadata": {"video_id": video}});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let mut too_many = full.clone();
    too_many.insert("video_id".into(), json!(video));
    for (body, status, part) in [
        (json!({}), 400, "video_id is required: pass metadata={'video_id': '...'} or a resource carrying it"),
        (json!({"metadata": {"video_id": "file_nope"}}), 404, "file_nope not found"),
        (json!({"metadata": {"video_id": "vid_0123456789abcdef"}}), 404, "vid_0123456789abcdef not found"),
        (json!({"metadata": {"video_id": 5}}), 400, "`metadata.video_id` must be a string"),
        (json!({"metadata": {"video_id": "../../etc/passwd"}}), 404, "not found"),
        (json!({"metadata": too_many}), 400, "at most 16 pairs"),
        (with(json!({"environment_id": "env_nope"})), 404, "environment env_nope not found"),
        (with(json!({"title": "x".repeat(513)})), 400, "`title`"),
        (with(json!({"vault_ids": ["v"]})), 400, "`vault_ids` is not supported"),
        (with(json!({"budget": {"type": "usd"}})), 400, "`budget` is not supported"),
        (with(json!({"resources": [{"type": "github_repository", "url": "u"}]})), 400, "`resources[0].type`"),
        (with(json!({"resources": [{"type": "file"}]})), 400, "`resources[0].file_id`"),
        (with(json!({"resources": [{"type": "file", "file_id": "file_nope"}]})), 404, "file_nope"),
        (
            with(json!({"resources": [{"type": "file", "file_id": video, "mount_path": "../x"}]})),
            400,
            "`resources[0].mount_path`",
        ),
        (with(json!({"initial_events": [{"type": "user.define_outcome"}]})), 400, "`initial_events[0].type`"),
        (with(json!({"initial_events": [{"type": "user.interrupt"}]})), 400, "`initial_events[0].type`"),
    ] {
        let answer = api.post("/v1/sessions", body.clone()).await.unwrap();
        assert_eq!(answer.error().0, status, "{body}: {answer:?}");
        assert!(answer.message().contains(part), "{body}: {}", answer.message());
    }
    assert_eq!(api.get("/v1/sessions").await.unwrap().ok()["data"], json!([]), "nothing was stored");
    api.end().await.unwrap();
}

#[tokio::test]
async fn title_and_metadata_can_be_changed() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}");
    let changed = api.post(&path, json!({"title": "new", "metadata": {"a": "1"}})).await.unwrap().ok();
    assert_eq!((&changed["title"], &changed["metadata"]["a"]), (&json!("new"), &json!("1")));
    let kept = api.post(&path, json!({"metadata": {"a": null}})).await.unwrap().ok();
    assert_eq!((&kept["title"], &kept["metadata"]["a"]), (&json!("new"), &Value::Null));
    let events = api.get(&format!("{path}/events?types[]=session.updated")).await.unwrap().ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 2);
    for bad in [
        json!({"agent": {"tools": [1]}}),
        json!({"vault_ids": ["v"]}),
        json!({"title": 5}),
        json!({"metadata": {"a": 1}}),
    ] {
        assert_eq!(api.post(&path, bad.clone()).await.unwrap().error().0, 400, "{bad}");
    }
    api.end().await.unwrap();
}

#[tokio::test]
async fn lists_filter_and_page() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let mut made = Vec::new();
    for agent in ["ambient_v1", "ambient_fast", "ambient_v1"] {
        let body = json!({"agent": agent, "metadata": {"video_id": video}});
        made.push(api.post("/v1/sessions", body).await.unwrap().ok());
    }
    let ids = async |query: &str| -> Vec<Value> {
        let page = api.get(&format!("/v1/sessions?{query}")).await.unwrap().ok();
        page["data"].as_array().unwrap().iter().map(|session| session["id"].clone()).collect()
    };
    let id = |index: usize| made[index]["id"].clone();
    assert_eq!(ids("").await, [id(2), id(1), id(0)]);
    let since = made[1]["created_at"].as_str().unwrap();
    assert_eq!(ids(&format!("order=asc&created_at[gte]={since}")).await, [id(1), id(2)]);
    assert_eq!(ids(&format!("created_at[lt]={since}")).await, [id(0)]);
    assert_eq!(ids("agent_id=ambient_fast").await, [id(1)]);
    assert_eq!(ids("agent_id=agent_nope").await, Vec::<Value>::new());
    assert_eq!(ids("statuses[]=idle&statuses[]=running").await.len(), 3);
    assert_eq!(ids("statuses[]=rescheduling").await.len(), 0);
    assert_eq!(ids("statuses[]=running").await.len(), 0);
    assert_eq!(ids("deployment_id=d").await.len(), 0);
    for bad in ["statuses[]=busy", "order=up", "limit=1001", "agent_version=x", "page=page_x"] {
        assert_eq!(api.get(&format!("/v1/sessions?{bad}")).await.unwrap().error().0, 400, "{bad}");
    }
    let first = api.get("/v1/sessions?limit=2").await.unwrap().ok();
    let token = first["next_page"].as_str().unwrap();
    assert_eq!(ids(&format!("limit=2&page={token}")).await, [id(0)]);
    api.end().await.unwrap();
}

#[tokio::test]
async fn archived_sessions_are_read_only_and_deleted_ones_are_gone() {
    let api = Api::new().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}");
    assert!(api.empty(Method::POST, &format!("{path}/archive")).await.unwrap().ok()["archived_at"].is_string());
    assert_eq!(api.get("/v1/sessions").await.unwrap().ok()["data"], json!([]));
    assert_eq!(api.get("/v1/sessions?include_archived=true").await.unwrap().ok()["data"][0]["id"], json!(id));
    let message = json!({"events": [{"type": "user.message", "content": [{"type": "text", "text": "x"}]}]});
    assert_eq!(api.post(&format!("{path}/events"), message.clone()).await.unwrap().error().0, 400);
    api.get(&format!("{path}/events")).await.unwrap().ok();
    assert_eq!(api.delete(&path).await.unwrap().ok(), json!({"id": id, "type": "session_deleted"}));
    for answer in [
        api.get(&path).await.unwrap(),
        api.delete(&path).await.unwrap(),
        api.post(&path, json!({"title": "x"})).await.unwrap(),
        api.empty(Method::POST, &format!("{path}/archive")).await.unwrap(),
        api.get(&format!("{path}/events")).await.unwrap(),
        api.post(&format!("{path}/events"), message).await.unwrap(),
        api.get(&format!("{path}/events/stream")).await.unwrap(),
        api.get(&format!("{path}/resources")).await.unwrap(),
        api.get(&format!("{path}/threads")).await.unwrap(),
    ] {
        assert_eq!(answer.error(), (404, "not_found_error", format!("session {id} not found").as_str()));
    }
    api.end().await.unwrap();
}

#[tokio::test]
async fn files_are_attached_and_detached() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let body = json!({"resources": [{"type": "file", "file_id": video}]});
    let session = api.post("/v1/sessions", body).await.unwrap().ok();
    let path = format!("/v1/sessions/{}/resources", session["id"].as_str().unwrap());
    assert_eq!(session["resources"][0]["mount_path"], json!(format!("/mnt/session/uploads/{video}")));
    let other = api.upload(video_bytes(6), "b.mp4").await.unwrap().ok();
    let more = api
        .post(&path, json!({"type": "file", "file_id": other["id"], "mount_path": "/mnt/b.mp4"}))
        .await
        .unwrap()
        .ok();
    let one = format!("{path}/{}", more["id"].as_str().unwrap());
    assert_eq!(api.get(&one).await.unwrap().ok(), more);
    let first = api.get(&format!("{path}?limit=1")).await.unwrap().ok();
    assert_eq!((&first["data"][0]["file_id"], &first["has_more"]), (&json!(video), &json!(true)));
    let second = api.get(&format!("{path}?limit=1&page={}", first["next_page"].as_str().unwrap())).await.unwrap().ok();
    assert_eq!(second["data"][0], more);
    assert_eq!(api.post(&one, json!({"authorization_token": "x"})).await.unwrap().error().0, 400);
    assert_eq!(api.delete(&one).await.unwrap().ok(), json!({"id": more["id"], "type": "session_resource_deleted"}));
    assert_eq!(api.get(&one).await.unwrap().error().0, 404);
    assert_eq!(api.delete(&one).await.unwrap().error().0, 404);
    assert_eq!(api.post(&path, json!({"type": "file", "file_id": "file_nope"})).await.unwrap().error().0, 404);
    assert_eq!(api.get(&path.replace("/resources", "/threads")).await.unwrap().ok()["data"], json!([]));
    api.end().await.unwrap();
}

#[tokio::test]
async fn what_a_client_reads_is_never_older_than_what_was_answered_before() {
    let api = Api::new().await.unwrap();
    let video = api.video().await.unwrap();
    let id = api.session().await.unwrap();
    let path = format!("/v1/sessions/{id}");
    let read = async || api.get(&path).await.unwrap();
    for number in 0..20 {
        // Read twice, so that an answer that is kept anywhere is the one before the change.
        assert_eq!(read().await.ok(), read().await.ok());
        let title = format!("title {number}");
        api.post(&path, json!({"title": title})).await.unwrap().ok();
        assert_eq!(read().await.ok()["title"], title.as_str());
        let file = json!({"type": "file", "file_id": video});
        let resource = api.post(&format!("{path}/resources"), file).await.unwrap().ok();
        assert_eq!(read().await.ok()["resources"][0]["id"], resource["id"]);
        let gone = format!("{path}/resources/{}", resource["id"].as_str().unwrap());
        api.delete(&gone).await.unwrap().ok();
        assert_eq!(read().await.ok()["resources"], json!([]));
    }
    api.empty(Method::POST, &format!("{path}/archive")).await.unwrap().ok();
    assert!(read().await.ok()["archived_at"].is_string());
    api.delete(&path).await.unwrap().ok();
    assert_eq!(read().await.error().0, 404);
    api.end().await.unwrap();
}
