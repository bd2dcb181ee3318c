//! Keys, request ids, routes, bad JSON, health, and the API's own description.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::support::{Api, Failure};

#[tokio::test]
async fn every_route_but_health_needs_the_key() {
    let api = Api::new().await.unwrap();
    for (method, path) in [
        (Method::GET, "/v1/agents"),
        (Method::POST, "/v1/sessions"),
        (Method::GET, "/v1/files/x/content"),
        (Method::GET, "/v1/no_such_thing"),
        (Method::POST, "/v1/files"),
    ] {
        let answer = api.send(api.bare(method.clone(), path)).await.unwrap();
        assert_eq!(
            answer.error(),
            (401, "authentication_error", "missing x-api-key (or Authorization: Bearer) header"),
            "{method} {path}"
        );
    }
    let wrong = api.send(api.bare(Method::GET, "/v1/agents").header("x-api-key", "dev-token-wrong")).await.unwrap();
    assert_eq!(wrong.error(), (401, "authentication_error", "api key does not match settings.api_key"));
    let bearer = api.bare(Method::GET, "/v1/agents?beta=true").header("authorization", "bearer dev-token");
    api.send(bearer).await.unwrap().ok();
    for path in ["/v1/healthz", "/readyz", "/metrics", "/openapi.json"] {
        assert_eq!(api.send(api.bare(Method::GET, path)).await.unwrap().status, 200, "{path}");
    }
    api.end().await.unwrap();
}

#[tokio::test]
async fn health_and_readiness_say_how_the_engine_is() {
    let api = Api::new().await.unwrap();
    assert_eq!(api.get("/v1/healthz").await.unwrap().ok(), json!({"status": "ok"}));
    let ready = api.get("/readyz").await.unwrap().ok();
    assert_eq!(
        ready,
        json!({"status": "ready", "checks": [{"name": "store", "status": "ok"}, {"name": "broker", "status": "ok"}]})
    );
    let metrics = api.get("/metrics").await.unwrap().ok();
    assert!(metrics.as_str().unwrap().contains("ambient_http_requests_total"), "{metrics}");
    api.store.close().await;
    let down = api.send(api.bare(Method::GET, "/readyz")).await.unwrap();
    assert_eq!((down.status, &down.json["status"]), (503, &json!("not_ready")));
    let agents = api.get("/v1/agents").await.unwrap();
    assert_eq!(agents.error().1, "overloaded_error", "{agents:?}");
    assert_eq!((agents.status, agents.header("retry-after")), (503, "1"));
    api.end().await.unwrap();
}

#[tokio::test]
async fn unknown_routes_and_methods_are_told() {
    let api = Api::new().await.unwrap();
    let answer = api.get("/v1/no_such_thing").await.unwrap();
    assert_eq!(answer.error(), (404, "not_found_error", "no route `GET /v1/no_such_thing`"));
    let doubled = api.get("/v1/v1/agents").await.unwrap();
    assert!(doubled.message().contains("base URL ends in `/v1`"), "{doubled:?}");
    let answer = api.send(api.request(Method::PATCH, "/v1/agents")).await.unwrap();
    assert_eq!(answer.error(), (405, "invalid_request_error", "method `PATCH` is not allowed on `/v1/agents`"));
    assert!(answer.header("allow").contains("GET"), "{answer:?}");
    let work = api.get("/v1/environments/default/work").await.unwrap();
    assert_eq!(work.status, 404);
    api.end().await.unwrap();
}

#[tokio::test]
async fn ids_are_taken_from_the_raw_path() {
    let api = Api::new().await.unwrap();
    for id in [
        "sesn_nope",
        "a%2Fb",
        "..%2F..%2Fetc%2Fpasswd",
        "%C3%BC%20%F0%9F%8E%AC",
        "%252e%252e",
        "%ff",
        "%00",
        "'%20OR%201=1",
    ] {
        for noun in ["sessions", "files", "agents", "environments"] {
            let answer = api.get(&format!("/v1/{noun}/{id}")).await.unwrap();
            let (status, kind, message) = answer.error();
            assert_eq!((status, kind), (404, "not_found_error"), "{noun}/{id}");
            assert!(message.ends_with("not found"), "{message}");
        }
    }
    let long = api.get(&format!("/v1/sessions/{}", "x".repeat(500))).await.unwrap();
    assert!(long.message().len() < 200, "{long:?}");
    api.end().await.unwrap();
}

#[tokio::test]
async fn bodies_that_are_no_json_are_refused_with_the_place() {
    let api = Api::new().await.unwrap();
    let raw = |body: &'static [u8]| {
        api.send(api.request(Method::POST, "/v1/agents").header("content-type", "application/json").body(body))
    };
    let answer = raw(b"{\"name\": \"a\", ").await.unwrap();
    assert_eq!(answer.status, 400);
    assert!(answer.message().contains("line 1 column 14"), "{answer:?}");
    for (body, why) in [
        (b"[]".as_slice(), "must be a JSON object, not a list"),
        (b"\"x\"", "must be a JSON object, not a string"),
        (b"\xff\xfe", "no valid JSON"),
        (b"{\"name\":\"\\ud800\"}", "no valid JSON"),
        (b"", "`name` is required"),
    ] {
        let answer = raw(body).await.unwrap();
        assert!(answer.status == 400 && answer.message().contains(why), "{answer:?}");
    }
    let large = api.request(Method::POST, "/v1/agents").body(vec![b' '; (1 << 20) + 1]);
    let answer = api.send(large).await.unwrap();
    assert_eq!(answer.error().0, 413);
    assert!(answer.message().contains("1048576 bytes"), "{answer:?}");
    api.end().await.unwrap();
}

#[test]
fn the_committed_description_is_what_the_routes_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(
        committed == ambient_engine::api::openapi::text(),
        "docs/openapi.json is stale: `cargo run -p ambient-engine --example generate-openapi` writes it"
    );
}

async fn panicking(uri: axum::http::Uri) -> String {
    uri.query().expect("panics on purpose without a query").to_owned()
}

#[tokio::test]
async fn a_panic_is_answered_in_shape() {
    // The API's own layer around a handler that panics.
    let router = axum::Router::new()
        .route("/", axum::routing::get(panicking))
        .layer(tower_http::catch_panic::CatchPanicLayer::custom(ambient_engine::api::answer::panicked));
    let request = axum::http::Request::builder().uri("/").body(axum::body::Body::empty()).unwrap();
    let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
    assert_eq!(response.status(), 500);
    let error = response.extensions().get::<std::sync::Arc<ambient_engine::api::error::ApiError>>().unwrap();
    assert_eq!(error.body("req_1").error.kind, "api_error");
}

/// A client that looks for the answer when it has sent everything, as most do.
#[tokio::test]
async fn a_refused_upload_is_heard() -> Result<(), Failure> {
    const LENGTH: usize = 3 << 20;
    let api = Api::new().await?;
    let form = "content-type: multipart/form-data; boundary=b\r\n";
    for (path, key, kind, status) in [
        ("/v1/files", "wrong", form, 401),
        ("/v1/nothing", "dev-token", form, 404),
        ("/v1/files", "dev-token", "", 400),
        ("/v1/sessions", "dev-token", "", 413),
    ] {
        let mut connection = tokio::net::TcpStream::connect(api.base.trim_start_matches("http://")).await?;
        let head =
            format!("POST {path} HTTP/1.1\r\nhost: here\r\nx-api-key: {key}\r\n{kind}content-length: {LENGTH}\r\n\r\n");
        connection.write_all(head.as_bytes()).await?;
        connection.write_all(&vec![b'x'; LENGTH]).await?;
        // The connection is good for the next request, too.
        let next = "GET /v1/files HTTP/1.1\r\nhost: here\r\nx-api-key: dev-token\r\nconnection: close\r\n\r\n";
        connection.write_all(next.as_bytes()).await?;
        let mut answers = String::new();
        connection.read_to_string(&mut answers).await?;
        assert!(answers.starts_with(&format!("HTTP/1.1 {status} ")), "{path}, {key}: {answers}");
        assert!(answers.contains("HTTP/1.1 200 "), "{path}, {key}: {answers}");
    }
    api.end().await
}

/// A client sends head and body apart, and its next request on the same connection right after the answer.
#[tokio::test]
async fn a_refusal_waits_for_a_small_body_and_keeps_the_connection() -> Result<(), Failure> {
    let api = Api::new().await?;
    let mut connection = tokio::net::TcpStream::connect(api.base.trim_start_matches("http://")).await?;
    let body = r#"{"title":"x"}"#;
    for _request in 0..5 {
        let head = format!(
            "POST /v1/sessions/ses_nope HTTP/1.1\r\nhost: here\r\nx-api-key: dev-token\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).await?;
        connection.flush().await?;
        // Time enough for an answer that does not wait.
        let early = tokio::time::timeout(Duration::from_millis(100), connection.readable()).await;
        assert!(early.is_err(), "the answer came before the body");
        connection.write_all(body.as_bytes()).await?;
        let mut answer = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(20), connection.read(&mut answer)).await??;
        let text = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
        assert!(!text.to_ascii_lowercase().contains("connection: close"), "{text}");
    }
    api.end().await
}
