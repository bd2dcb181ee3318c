//! The client against a server that says exactly what a test wants, on a real connection.

use std::io::Write as _;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Answers one request a connection with these answers, in turn, and gives the requests as they came.
async fn scripted(answers: Vec<String>) -> (Url, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound")).parse().expect("an address");
    #[expect(clippy::disallowed_methods, reason = "a test's server ends with its runtime")]
    let server = tokio::spawn(async move {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut connection, _) = listener.accept().await.expect("the client connects");
            requests.push(request(&mut connection).await);
            connection.write_all(answer.as_bytes()).await.expect("the client reads");
        }
        requests
    });
    (url, server)
}

/// A request, read to the end of its body.
async fn request(connection: &mut TcpStream) -> String {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let mut chunk = [0; 4096];
        let count = connection.read(&mut chunk).await.expect("the client writes");
        assert!(count > 0, "the request was cut short: {text}");
        read.extend_from_slice(&chunk[..count]);
    }
}

fn json_answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nrequest-id: req_7\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    )
}

fn stream_answer(frames: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n: open\n\n{frames}")
}

fn client(url: &Url) -> EngineClient {
    EngineClient::new(url, &"key-of-the-test".into()).expect("a loopback address is a base")
}

#[tokio::test]
async fn a_stream_that_breaks_goes_on_behind_the_last_event() {
    let first = "id: evt_1\nevent: agent.message\ndata: {\"id\":\"evt_1\",\"type\":\"agent.message\",\"content\":[]}\n\n\
                 event: ping\ndata: {\"type\":\"ping\"}\n\nid: evt_2\nevent: agent.mess";
    let second = "id: evt_2\nevent: session.deleted\ndata: {\"id\":\"evt_2\",\"type\":\"session.deleted\"}\n\n";
    let answers = vec![
        stream_answer(first),
        json_answer("503 Service Unavailable", r#"{"type":"error","error":{"type":"api_error","message":"soon"}}"#),
        stream_answer(second),
    ];
    let (url, server) = scripted(answers).await;
    let mut events = client(&url).events("ses_1", Some("evt_0".to_owned()));
    assert_eq!(events.next().await.unwrap().unwrap().id.as_deref(), Some("evt_1"));
    assert!(matches!(events.next().await.unwrap().unwrap().body, EventBody::Deleted {}));
    assert!(events.next().await.unwrap().is_none(), "nothing comes after the end of a session");
    let requests = server.await.unwrap();
    for (request, last) in requests.iter().zip(["evt_0", "evt_1", "evt_1"]) {
        assert!(
            request.starts_with("GET /v1/sessions/ses_1/events/stream?event_deltas%5B%5D=agent.message "),
            "{request}"
        );
        assert!(request.contains(&format!("last-event-id: {last}\r\n")), "{request}");
        assert!(request.contains("x-api-key: key-of-the-test\r\n"), "{request}");
    }
}

#[tokio::test]
async fn a_refusal_keeps_the_engines_words() {
    let body =
        r#"{"type":"error","error":{"type":"conflict_error","message":"a run is already in flight for this session"}}"#;
    let (url, _server) = scripted(vec![json_answer("409 Conflict", body)]).await;
    let error = client(&url).send("ses_1", &Message::text("and now?")).await.unwrap_err();
    assert_eq!(error.to_string(), "the engine refused: a run is already in flight for this session");
    assert!(!error.is_passing());
    let EngineError::Refused { status, kind, request_id, .. } = error else { panic!("{error:?}") };
    assert_eq!((status, kind.as_str(), request_id.as_str()), (409, "conflict_error", "req_7"));
}

#[tokio::test]
async fn somebody_else_is_no_engine() {
    let (url, _server) = scripted(vec![
        "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnope".to_owned(),
        json_answer("200 OK", r#"{"status":"starting"}"#),
        json_answer("200 OK", "<html>"),
    ])
    .await;
    assert!(matches!(client(&url).health().await, Err(EngineError::Stranger { .. })));
    assert!(matches!(client(&url).health().await, Err(EngineError::Stranger { .. })));
    assert!(matches!(client(&url).health().await, Err(EngineError::Garbled { .. })));
}

#[tokio::test]
async fn nobody_is_told_without_the_key() {
    let url: Url = {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", gone.local_addr().unwrap()).parse().unwrap()
    };
    let error = client(&url).health().await.unwrap_err();
    assert!(error.is_passing());
    let failure = crate::output::Failure::from(error);
    assert_eq!(failure.exit(), crate::output::Exit::Unreachable);
    assert!(failure.text().contains(url.as_str().trim_end_matches('/')), "{}", failure.text());
    assert!(!format!("{:?}", client(&url)).contains("key-of-the-test"));
}

#[tokio::test]
async fn an_upload_carries_the_file_whole_and_tells_how_far_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a \"b\".mp4");
    let bytes = "0123456789".repeat(30_000);
    std::fs::File::create(&path).unwrap().write_all(bytes.as_bytes()).unwrap();
    let answer = r#"{"id":"vid_1","filename":"a.mp4","size_bytes":300000,"source_status":"ready"}"#;
    let (url, server) = scripted(vec![json_answer("200 OK", answer)]).await;
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = std::sync::Arc::clone(&told);
    let file = client(&url).upload(&path, move |sent, of| heard.lock().unwrap().push((sent, of))).await.unwrap();
    assert_eq!((file.id.as_str(), file.size_bytes), ("vid_1", 300_000));
    assert_eq!(told.lock().unwrap().last(), Some(&(300_000, 300_000)));
    let request = server.await.unwrap().remove(0);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/files HTTP/1.1"), "{head}");
    let boundary = head.split("boundary=").nth(1).unwrap().lines().next().unwrap();
    let (part, content) = body.split_once("\r\n\r\n").unwrap();
    assert!(part.contains("filename=\"a %22b%22.mp4\""), "{part}");
    assert_eq!(content.strip_suffix(&format!("\r\n--{boundary}--\r\n")), Some(bytes.as_str()));
}

#[tokio::test]
async fn a_file_that_is_not_there_is_told_by_its_path() {
    let url: Url = "http://127.0.0.1:9".parse().unwrap();
    let error = client(&url).upload("/nowhere/film.mp4".as_ref(), |_sent, _of| {}).await.unwrap_err();
    assert_eq!(error.to_string(), "`/nowhere/film.mp4` cannot be read");
    assert_eq!(error.exit(), crate::output::Exit::Usage);
}

#[test]
fn only_http_addresses_are_bases() {
    for (text, is_base) in
        [("http://h:1", true), ("https://h/prefix/", true), ("mailto:x", false), ("file:///x", false)]
    {
        let url: Url = text.parse().unwrap();
        assert_eq!(EngineClient::new(&url, &"k".into()).is_ok(), is_base, "for `{text}`");
    }
}
