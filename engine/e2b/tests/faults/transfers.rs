//! Faults while files travel.

use ambient_e2b::ErrorKind;
use bytes::Bytes;
use futures::stream;

use crate::server::{Act, FaultServer, answer, instance_with_agent, json};

const UPLOADED: &str = r#"[{"name":"x","path":"/x","type":"file"}]"#;

#[tokio::test]
async fn a_file_that_breaks_off_is_no_file() {
    for head in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
        let body = if head.starts_with("Content") { "half" } else { "4\r\nhalf\r\n" };
        let text = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}");
        let server = FaultServer::start(move |request| {
            request.path.starts_with("/files").then(|| vec![Act::Send(text.clone().into_bytes())])
        })
        .await;
        let error = server.sandbox().await.files().read("/x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    }
}

#[tokio::test]
async fn a_download_that_stands_still_ends() {
    let server = FaultServer::start(|request| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_vec();
        request.path.starts_with("/files").then(|| vec![Act::Send(head), Act::Hold])
    })
    .await;
    let error = server.sandbox().await.files().read("/x").await.unwrap_err();
    assert!(error.to_string().contains("stood still"), "{error}");
}

#[tokio::test]
async fn an_upload_that_stands_still_ends() {
    let server = FaultServer::start(|request| request.path.contains("stuck").then(|| vec![Act::Hold])).await;
    let piece = Bytes::from(vec![0; 1 << 16]);
    let endless = stream::repeat_with(move || Ok(piece.clone()));
    let error = server.sandbox().await.files().upload("/stuck", endless).await.unwrap_err();
    assert!(error.to_string().contains("stood still"), "{error}");
}

#[tokio::test]
async fn an_upload_to_a_full_disk_says_so() {
    let server = FaultServer::start(|request| {
        request.path.starts_with("/files").then(|| json(507, r#"{"code":507,"message":"no space left"}"#))
    })
    .await;
    let error = server.sandbox().await.files().write("/x", "x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace);
}

#[tokio::test]
async fn uploads_take_the_form_that_the_agent_knows() {
    for (version, form) in [("0.6.13", false), ("0.5.6", true)] {
        let server = FaultServer::start(move |request| {
            if request.is("POST", "/v2/sandboxes") {
                return Some(json(201, &instance_with_agent(version)));
            }
            request.path.starts_with("/files").then(|| json(200, UPLOADED))
        })
        .await;
        server.sandbox().await.files().write("/a b", "content").await.unwrap();
        let sent = server.requests().into_iter().find(|request| request.path.starts_with("/files")).unwrap();
        assert_eq!(sent.path, "/files?path=%2Fa%20b");
        let body = String::from_utf8_lossy(&sent.body).into_owned();
        assert_eq!(sent.headers["content-type"].starts_with("multipart/form-data; boundary="), form);
        assert_eq!(body.contains("name=\"file\""), form, "{body}");
        assert!(body.contains("content"), "{body}");
        assert!(!sent.headers.contains_key("x-api-key"));
    }
}

#[tokio::test]
async fn a_refused_token_is_told() {
    let server = FaultServer::start(|request| {
        request
            .path
            .starts_with("/files")
            .then(|| answer(401, &[], r#"{"code":401,"message":"access token present in header but does not match"}"#))
    })
    .await;
    let error = server.sandbox().await.files().read("/x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KeyRefused);
}
