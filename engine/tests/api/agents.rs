//! Agents: versions, limits, what is refused, and keys that are never shown.

use ambient_engine::built_in;
use ambient_engine::ids::AgentId;
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::{Value, json};

use crate::support::Api;

#[tokio::test]
async fn a_new_agent_has_the_shape_that_strict_clients_need() {
    let api = Api::new().await.unwrap();
    let mut agent = api
        .post(
            "/v1/agents",
            json!({"name": "mine", "model": {"id": "m", "effort": "high"}, "system": "Be brief.", "description": "d",
                   "tools": [{"type": "agent_toolset_20260401"}], "metadata": {"team": "a"}, "skills": [], "mcp_servers": []}),
        )
        .await
        .unwrap()
        .ok();
    let id = agent["id"].as_str().unwrap().to_owned();
    assert_eq!(api.get(&format!("/v1/agents/{id}")).await.unwrap().ok(), agent);
    for field in ["id", "created_at", "updated_at"] {
        assert!(agent[field].is_string());
        agent[field] = Value::Null;
    }
    assert_eq!(
        agent,
        json!({"id": null, "type": "agent", "version": 1, "name": "mine", "description": "d",
            "model": {"id": "m", "speed": "standard", "effort": {"type": "high"}}, "system": "Be brief.",
            "tools": [{"type": "agent_toolset_20260401",
                "default_config": {"enabled": true, "permission_policy": {"type": "always_allow"}}, "configs": []}],
            "mcp_servers": [], "skills": [], "multiagent": null, "execution_identity": {"type": "service_account"},
            "metadata": {"team": "a"}, "archived_at": null, "created_at": null, "updated_at": null})
    );
    let plain = api.post("/v1/agents", json!({"name": "no model"})).await.unwrap().ok();
    assert_eq!(plain["model"]["id"], json!(api.settings.agent.model));
    api.end().await.unwrap();
}

#[tokio::test]
async fn updates_make_versions_and_stale_ones_conflict() {
    let api = Api::new().await.unwrap();
    let body = json!({"name": "v1", "model": "m", "system": "one", "metadata": {"keep": "1", "drop": "1"}});
    let id = api.post("/v1/agents", body).await.unwrap().ok()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/agents/{id}");
    let change = json!({"version": 1, "name": "v2", "system": null, "metadata": {"drop": null, "new": "2"}});
    let changed = api.post(&path, change).await.unwrap().ok();
    assert_eq!(
        (&changed["version"], &changed["name"], &changed["system"], &changed["metadata"], &changed["model"]["id"]),
        (&json!(2), &json!("v2"), &Value::Null, &json!({"keep": "1", "new": "2"}), &json!("m"))
    );
    let stale = api.post(&path, json!({"version": 1, "name": "v3"})).await.unwrap();
    assert_eq!((stale.error().0, stale.error().1, stale.header("x-should-retry")), (409, "conflict_error", "false"));
    assert_eq!(api.post(&path, json!({"name": "v2"})).await.unwrap().ok()["version"], 2, "nothing changed");
    assert_eq!(api.get(&format!("{path}?version=1")).await.unwrap().ok()["name"], "v1");
    assert_eq!(api.get(&format!("{path}?version=9")).await.unwrap().status, 404);
    assert_eq!(api.get(&format!("{path}?version=x")).await.unwrap().status, 400);
    let first = api.get(&format!("{path}/versions?limit=1")).await.unwrap().ok();
    assert_eq!((&first["data"][0]["version"], &first["has_more"]), (&json!(2), &json!(true)));
    let page = first["next_page"].as_str().unwrap();
    let second = api.get(&format!("{path}/versions?limit=1&page={page}")).await.unwrap().ok();
    assert_eq!((&second["data"][0]["version"], &second["next_page"]), (&json!(1), &Value::Null));
    api.end().await.unwrap();
}

#[tokio::test]
async fn updates_at_once_all_take_effect() {
    let api = Api::new().await.unwrap();
    let id = api.post("/v1/agents", json!({"name": "a", "model": "m"})).await.unwrap().ok()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/v1/agents/{id}");
    let updates = (0..4).map(|number| api.post(&path, json!({"metadata": {format!("k{number}"): "v"}})));
    for answer in futures::future::join_all(updates).await {
        answer.unwrap().ok();
    }
    let agent = api.get(&path).await.unwrap().ok();
    assert_eq!((&agent["version"], agent["metadata"].as_object().unwrap().len()), (&json!(5), 4));
    api.end().await.unwrap();
}

#[tokio::test]
async fn archived_agents_stay_readable_and_leave_the_list() {
    let api = Api::new().await.unwrap();
    let id = api.post("/v1/agents", json!({"name": "a"})).await.unwrap().ok()["id"].as_str().unwrap().to_owned();
    let archived = api.empty(Method::POST, &format!("/v1/agents/{id}/archive")).await.unwrap().ok();
    let again = api.empty(Method::POST, &format!("/v1/agents/{id}/archive")).await.unwrap().ok();
    assert_eq!(archived["archived_at"], again["archived_at"]);
    assert!(archived["archived_at"].is_string());
    let ids =
        |page: Value| page["data"].as_array().unwrap().iter().map(|agent| agent["id"].clone()).collect::<Vec<_>>();
    assert!(!ids(api.get("/v1/agents").await.unwrap().ok()).contains(&json!(id)));
    assert!(ids(api.get("/v1/agents?include_archived=true").await.unwrap().ok()).contains(&json!(id)));
    assert_eq!(api.post(&format!("/v1/agents/{id}"), json!({"name": "b"})).await.unwrap().error().0, 400);
    api.end().await.unwrap();
}

#[tokio::test]
async fn built_in_agents_follow_the_settings_and_nobody_else() {
    let api = Api::new().await.unwrap();
    for id in ["ambient_v1", "ambient_fast"] {
        let agent = api.get(&format!("/v1/agents/{id}")).await.unwrap().ok();
        assert_eq!((&agent["id"], &agent["version"]), (&json!(id), &json!(1)));
        assert_eq!(api.empty(Method::POST, &format!("/v1/agents/{id}/archive")).await.unwrap().error().0, 400);
        assert_eq!(api.post(&format!("/v1/agents/{id}"), json!({"name": "x"})).await.unwrap().error().0, 400);
    }
    let now = "2026-12-01T00:00:00Z".parse().unwrap();
    built_in::seed(api.store.as_ref(), &api.settings, now).await.unwrap();
    assert_eq!(api.store.agent(&AgentId::built_in_agent(), None).await.unwrap().unwrap().version, 1);
    let mut settings = api.settings.as_ref().clone();
    settings.agent.model = "another".into();
    built_in::seed(api.store.as_ref(), &settings, now).await.unwrap();
    let agent = api.get("/v1/agents/ambient_v1").await.unwrap().ok();
    assert_eq!((&agent["version"], &agent["model"]["id"]), (&json!(2), &json!("another")));
    assert_eq!(api.get("/v1/agents/ambient_fast").await.unwrap().ok()["version"], 1);
    api.end().await.unwrap();
}

#[tokio::test]
async fn an_agents_own_key_is_sealed_and_never_shown() {
    let api = Api::new().await.unwrap();
    let body =
        json!({"name": "own", "model": "m", "base_url": "https://models.example.com/v1", "api_key": "sk-secret"});
    let agent = api.post("/v1/agents", body).await.unwrap().ok();
    assert!(!agent.to_string().contains("sk-secret") && !agent.to_string().contains("models.example.com"));
    let id: AgentId = agent["id"].as_str().unwrap().parse().unwrap();
    let endpoint = api.store.agent(&id, None).await.unwrap().unwrap().endpoint.unwrap();
    assert!(!endpoint.sealed_api_key.contains("sk-secret"));
    assert_eq!(api.secrets.open(&endpoint.sealed_api_key, &endpoint.base_url).unwrap().expose_secret(), "sk-secret");
    for (body, field) in [
        (json!({"name": "x", "base_url": "https://models.example.com/v1"}), "`base_url`"),
        (json!({"name": "x", "api_key": "sk-secret"}), "`api_key`"),
        (json!({"name": "x", "api_key": "sk-secret", "base_url": "http://169.254.169.254/v1"}), "`base_url`"),
        (json!({"name": "x", "api_key": "sk-secret", "base_url": "http://localhost:9/v1"}), "`base_url`"),
        (json!({"name": "x", "api_key": "sk-secret", "base_url": "ftp://example.com"}), "`base_url`"),
    ] {
        let answer = api.post("/v1/agents", body).await.unwrap();
        assert_eq!(answer.status, 400);
        assert!(answer.message().starts_with(field) && !answer.message().contains("sk-secret"), "{answer:?}");
    }
    let path = format!("/v1/agents/{id}");
    api.post(&path, json!({"base_url": null, "api_key": null})).await.unwrap().ok();
    assert_eq!(api.store.agent(&id, None).await.unwrap().unwrap().endpoint, None);
    api.end().await.unwrap();
}

#[tokio::test]
async fn private_addresses_are_taken_when_the_operator_says_so() {
    let api = Api::with(|settings| settings.llm.allow_private_urls = true).await.unwrap();
    let body = json!({"name": "own", "api_key": "", "base_url": "http://127.0.0.1:11434/v1"});
    api.post("/v1/agents", body).await.unwrap().ok();
    api.end().await.unwrap();
}

#[tokio::test]
async fn what_does_not_fit_is_refused_by_name() {
    let api = Api::new().await.unwrap();
    let long = |count: usize| "x".repeat(count);
    let pairs: serde_json::Map<String, Value> = (0..17).map(|number| (format!("k{number}"), json!("v"))).collect();
    for (body, start) in [
        (json!({"model": "m"}), "`name` is required"),
        (json!({"name": ""}), "`name` must not be empty"),
        (json!({"name": long(257)}), "`name` must have at most 256"),
        (json!({"name": 5}), "`name` must be a string, not a number"),
        (json!({"name": "a\u{0}b"}), "`name` holds a NUL"),
        (json!({"name": "x", "description": long(2049)}), "`description`"),
        (json!({"name": "x", "system": long(100_001)}), "`system`"),
        (json!({"name": "x", "model": 5}), "`model`"),
        (json!({"name": "x", "model": ""}), "`model.id`"),
        (json!({"name": "x", "model": {}}), "`model.id`"),
        (json!({"name": "x", "model": {"id": "m", "speed": "warp"}}), "`model.speed`"),
        (json!({"name": "x", "model": {"id": "m", "effort": "much"}}), "`model.effort`"),
        (json!({"name": "x", "model": {"id": "m", "effort": {"type": "much"}}}), "`model.effort.type`"),
        (json!({"name": "x", "tools": [{"type": "no_such_tool"}]}), "`tools[0].type`"),
        (json!({"name": "x", "tools": vec![json!({"type": "custom"}); 257]}), "`tools` may have at most 256"),
        (json!({"name": "x", "metadata": {"a": 1}}), "`metadata.a`"),
        (json!({"name": "x", "metadata": pairs}), "`metadata` may have at most 16"),
        (json!({"name": "x", "skills": [{"type": "custom", "skill_id": "s"}]}), "`skills` is not supported"),
        (
            json!({"name": "x", "mcp_servers": [{"type": "url", "name": "n", "url": "u"}]}),
            "`mcp_servers` is not supported",
        ),
        (json!({"name": "x", "multiagent": {"type": "coordinator", "agents": []}}), "`multiagent` is not supported"),
        (
            json!({"name": "x", "execution_identity": {"type": "aws_role", "role_arn": "r"}}),
            "`execution_identity.type`",
        ),
    ] {
        let answer = api.post("/v1/agents", body.clone()).await.unwrap();
        assert_eq!((answer.status, answer.error().1), (400, "invalid_request_error"), "{body}");
        assert!(answer.message().starts_with(start), "{body}: {}", answer.message());
    }
    let listed = api.get("/v1/agents").await.unwrap().ok();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2, "nothing was stored: {listed}");
    api.end().await.unwrap();
}

#[tokio::test]
async fn pages_follow_each_other_whichever_way_they_are_asked_for() {
    let api = Api::new().await.unwrap();
    for number in 0..5 {
        api.post("/v1/agents", json!({"name": format!("a{number}")})).await.unwrap().ok();
    }
    let whole = api.get("/v1/agents").await.unwrap().ok();
    let ids: Vec<String> =
        whole["data"].as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!((ids.len(), &whole["has_more"], &whole["next_page"]), (7, &json!(false), &Value::Null));
    let mut by_page = Vec::new();
    let mut query = String::new();
    loop {
        let page = api.get(&format!("/v1/agents?limit=2{query}")).await.unwrap().ok();
        by_page.extend(page["data"].as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap().to_owned()));
        assert_eq!(page["last_id"].as_str(), by_page.last().map(String::as_str));
        match page["next_page"].as_str() {
            Some(token) => query = format!("&page={token}"),
            None => break,
        }
    }
    assert_eq!(by_page, ids);
    let after = api.get(&format!("/v1/agents?limit=2&after_id={}", ids[1])).await.unwrap().ok();
    assert_eq!(after["data"][0]["id"], json!(ids[2]));
    let before = api.get(&format!("/v1/agents?limit=2&before_id={}", ids[4])).await.unwrap().ok();
    assert_eq!((&before["data"][0]["id"], &before["data"][1]["id"]), (&json!(ids[2]), &json!(ids[3])));
    for bad in [
        "limit=0",
        "limit=101",
        "page=2",
        "page=page_AAAA",
        "after_id=agt_nope",
        "created_at[gte]=x",
        "include_archived=2",
        "page=page_&after_id=ambient_v1",
    ] {
        let answer = api.get(&format!("/v1/agents?{bad}")).await.unwrap();
        assert_eq!(answer.error().0, 400, "{bad}");
    }
    api.end().await.unwrap();
}
