//! Requests that nobody would send: whatever comes, the answer is no 5xx, and an error has the API's shape.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::Api;

/// Any JSON, with the field names that the API reads among its keys.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        3 => "\\PC{0,12}".prop_map(Value::from),
        1 => prop::sample::select(vec![
            "user.message", "text", "image", "base64", "custom", "agent_toolset_20260401", "ambient_v1", "default", "cloud",
            "2026-11-29T22:00:00Z", "\u{0}", "../../etc/passwd", "https://youtu.be/dQw4w9WgXcQ", "file", "object",
        ])
        .prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text,
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = prop_oneof![
            1 => "\\PC{0,8}",
            6 => prop::sample::select(vec![
                "name", "model", "id", "type", "tools", "metadata", "system", "events", "content", "text", "source", "agent",
                "environment_id", "resources", "file_id", "config", "packages", "networking", "version", "input_schema",
                "configs", "title", "video_id", "url", "output_structure", "initial_events", "tool_use_id", "data",
            ])
            .prop_map(str::to_owned),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn any_path(ids: Vec<String>) -> impl Strategy<Value = String> {
    let routes = vec![
        "/v1/agents",
        "/v1/agents/{}",
        "/v1/agents/{}/archive",
        "/v1/agents/{}/versions",
        "/v1/environments",
        "/v1/environments/{}",
        "/v1/environments/{}/archive",
        "/v1/files",
        "/v1/files/{}",
        "/v1/files/{}/content",
        "/v1/files/import",
        "/v1/sessions",
        "/v1/sessions/{}",
        "/v1/sessions/{}/archive",
        "/v1/sessions/{}/events",
        "/v1/sessions/{}/resources",
        "/v1/sessions/{}/resources/{}",
        "/v1/sessions/{}/threads",
        "/v1/healthz",
        "/readyz",
    ];
    let id = prop_oneof![2 => prop::sample::select(ids), 1 => "[a-z0-9_.%]{1,20}"];
    let query = prop_oneof![
        2 => Just(String::new()),
        1 => "\\?[a-z_\\[\\]=&%0-9A-Z+.:-]{0,40}",
        3 => (
            prop::sample::select(vec![
                "limit", "page", "after_id", "before_id", "order", "types[]", "statuses[]", "ids[]", "version",
                "include_archived", "created_at[gte]", "created_at[lt]", "agent_id", "agent_version", "until",
            ]),
            "[a-z0-9_%:TZ.-]{0,24}",
        )
            .prop_map(|(name, value)| format!("?{name}={value}")),
    ];
    (prop::sample::select(routes), id.clone(), id, query)
        .prop_map(|(route, first, second, query)| route.replacen("{}", &first, 1).replacen("{}", &second, 1) + &query)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_sent_is_answered_with_a_5xx() {
    let api = Api::new().await.unwrap();
    let session = api.session().await.unwrap();
    let agent = api.post("/v1/agents", json!({"name": "a"})).await.unwrap().ok()["id"].as_str().unwrap().to_owned();
    let file = api.get("/v1/files").await.unwrap().ok()["data"][0]["id"].as_str().unwrap().to_owned();
    let ids = vec![session, agent, file, "ambient_v1".into(), "ambient_fast".into(), "default".into()];
    let router = api.router.clone();
    let runtime = tokio::runtime::Handle::current();
    let judged = tokio::task::spawn_blocking(move || {
        let request = (
            prop::sample::select(vec!["GET", "POST", "DELETE", "HEAD", "PUT"]),
            any_path(ids),
            prop_oneof![
                4 => any_json().prop_map(|json| json.to_string().into_bytes()),
                1 => prop::collection::vec(any::<u8>(), 0..200),
            ],
            prop::sample::select(vec!["application/json", "multipart/form-data; boundary=x", "text/plain", ""]),
            prop_oneof![Just(None), "bytes=[-0-9,]{0,12}".prop_map(Some)],
        );
        let mut runner = TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
        let judged = runner.run(&request, |(method, path, body, content_type, range)| {
            let mut request = Request::builder().method(method).uri(&path).header("x-api-key", "dev-token");
            if !content_type.is_empty() {
                request = request.header("content-type", content_type);
            }
            if let Some(range) = range {
                request = request.header("range", range);
            }
            // What is no URI at all never leaves a client.
            let Ok(request) = request.body(Body::from(body)) else { return Ok(()) };
            let (status, headers, body) = runtime.block_on(async {
                let response = router.clone().oneshot(request).await.expect("a router does not fail");
                let (parts, body) = response.into_parts();
                (parts.status, parts.headers, body.collect().await.expect("a body is read").to_bytes())
            });
            prop_assert!(!status.is_server_error(), "{} {}: {} {:?}", method, path, status, body);
            let id = headers.get("request-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
            prop_assert!(id.starts_with("req_"), "{} {}: no request id", method, path);
            if status.is_client_error() && method != "HEAD" {
                let json: Value = serde_json::from_slice(&body).expect("an error is JSON");
                prop_assert!(
                    json["type"] == "error" && json["error"]["message"].is_string(),
                    "{} {}: {}",
                    method,
                    path,
                    json
                );
                prop_assert_eq!(json["request_id"].as_str(), Some(id));
            }
            Ok(())
        });
        judged.map_err(|failure| failure.to_string())
    });
    judged.await.unwrap().unwrap();
    api.end().await.unwrap();
}
