//! Environments: kept, given back in full, and never in the way of the default one.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::Api;

#[tokio::test]
async fn the_default_environment_is_whole_and_stays() {
    let api = Api::new().await.unwrap();
    let mut environment = api.get("/v1/environments/default").await.unwrap().ok();
    for field in ["created_at", "updated_at"] {
        assert!(environment[field].is_string());
        environment[field] = Value::Null;
    }
    assert_eq!(
        environment,
        json!({"id": "default", "type": "environment", "name": "default", "description": "",
            "config": {"type": "cloud", "networking": {"type": "unrestricted"},
                "packages": {"type": "packages", "apt": [], "cargo": [], "gem": [], "go": [], "npm": [], "pip": []}},
            "metadata": {}, "scope": "organization", "archived_at": null, "created_at": null, "updated_at": null})
    );
    assert_eq!(api.delete("/v1/environments/default").await.unwrap().error().0, 400);
    assert_eq!(api.empty(Method::POST, "/v1/environments/default/archive").await.unwrap().error().0, 400);
    api.end().await.unwrap();
}

#[tokio::test]
async fn an_environment_lives_changes_and_goes() {
    let api = Api::new().await.unwrap();
    let body = json!({"name": "one", "metadata": {"a": "1"}, "config": {"type": "cloud",
        "networking": {"type": "limited", "allowed_hosts": ["example.com"]}, "packages": {"pip": ["numpy"]}}});
    let made = api.post("/v1/environments", body).await.unwrap().ok();
    assert_eq!(made["config"]["packages"]["pip"], json!(["numpy"]));
    assert_eq!(
        made["config"]["networking"],
        json!({"type": "limited", "allow_mcp_servers": false,
        "allow_package_managers": false, "allowed_hosts": ["example.com"]})
    );
    let path = format!("/v1/environments/{}", made["id"].as_str().unwrap());
    let changed = api.post(&path, json!({"name": "two", "metadata": {"a": "", "b": "2"}})).await.unwrap().ok();
    assert_eq!(
        (&changed["name"], &changed["metadata"], &changed["config"]),
        (&json!("two"), &json!({"b": "2"}), &made["config"])
    );
    let twin = api.post("/v1/environments", json!({"name": "two"})).await.unwrap();
    assert_eq!((twin.error().0, twin.header("x-should-retry")), (409, "false"));
    let archived = api.empty(Method::POST, &format!("{path}/archive")).await.unwrap().ok();
    assert!(archived["archived_at"].is_string());
    let refused = api.post(&path, json!({"name": "three"})).await.unwrap();
    assert_eq!(
        (refused.error().0, &refused.json["error"]["details"]["error_code"]),
        (400, &json!("environment_archived"))
    );
    api.post("/v1/environments", json!({"name": "two"})).await.unwrap().ok();
    let gone = api.delete(&path).await.unwrap().ok();
    assert_eq!(gone, json!({"id": made["id"], "type": "environment_deleted"}));
    let missing = api.get(&path).await.unwrap();
    assert_eq!(
        (missing.error().0, &missing.json["error"]["details"]["error_code"]),
        (404, &json!("environment_not_found"))
    );
    assert_eq!(api.delete(&path).await.unwrap().status, 404);
    api.end().await.unwrap();
}

#[tokio::test]
async fn what_does_not_fit_is_refused_by_name() {
    let api = Api::new().await.unwrap();
    for (body, start) in [
        (json!({}), "`name` is required"),
        (json!({"name": "x", "config": {"type": "moon"}}), "`config.type`"),
        (json!({"name": "x", "config": {}}), "`config.type` is required"),
        (json!({"name": "x", "config": "cloud"}), "`config` must be an object"),
        (json!({"name": "x", "config": {"type": "cloud", "networking": {"type": "none"}}}), "`config.networking.type`"),
        (json!({"name": "x", "config": {"type": "cloud", "packages": {"pip": "numpy"}}}), "`config.packages.pip`"),
        (json!({"name": "x", "config": {"type": "cloud", "packages": {"pip": [5]}}}), "`config.packages.pip[0]`"),
        (json!({"name": "x", "scope": "galaxy"}), "`scope`"),
        (json!({"name": "x", "metadata": "a"}), "`metadata`"),
    ] {
        let answer = api.post("/v1/environments", body.clone()).await.unwrap();
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.message().starts_with(start), "{body}: {}", answer.message());
    }
    api.end().await.unwrap();
}
