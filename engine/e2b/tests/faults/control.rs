//! Faults of the control plane.

use std::time::Duration;

use ambient_e2b::{Client, Error, ErrorKind, ListFilter, NewSandbox};

use crate::server::{Act, FaultServer, INSTANCE, answer, instance_with_agent, json, page};

const CREATE: &str = "/v2/sandboxes";
const BUSY: &str = r#"{"code":429,"message":"Rate limit exceeded"}"#;

#[tokio::test]
async fn a_create_that_is_put_off_twice_is_made_once() {
    let server = FaultServer::start(|request| {
        let put_off = request.is("POST", CREATE) && request.earlier < 2;
        put_off.then(|| answer(429, &[("Retry-After", "0")], BUSY))
    })
    .await;
    assert_eq!(server.sandbox().await.id(), "i1");
    assert_eq!(server.count("POST", CREATE), 3);
}

#[tokio::test]
async fn a_create_that_is_always_put_off_fails_after_some_tries() {
    let server = FaultServer::start(|request| request.is("POST", CREATE).then(|| json(429, BUSY))).await;
    let error = server.client().create(&NewSandbox::new("base")).await.unwrap_err();
    assert!(matches!(error, Error::RateLimited { .. }), "{error:?}");
    assert_eq!(server.count("POST", CREATE), 4);
}

#[tokio::test]
async fn a_full_team_is_told_from_a_fast_one() {
    let body = r#"{"code":429,"message":"you have reached the maximum number of concurrent E2B sandboxes (20)"}"#;
    let server = FaultServer::start(move |request| request.is("POST", CREATE).then(|| json(429, body))).await;
    let error = server.client().create(&NewSandbox::new("base")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::QuotaReached);
    assert!(error.to_string().contains("(20)"), "{error}");
}

#[tokio::test]
async fn a_wait_beyond_the_cap_is_told_and_not_waited() {
    let server =
        FaultServer::start(|request| request.is("POST", CREATE).then(|| answer(429, &[("Retry-After", "3600")], BUSY)))
            .await;
    let error = server.client().create(&NewSandbox::new("base")).await.unwrap_err();
    let Error::RateLimited { retry_after, .. } = error else { panic!("{error:?}") };
    assert_eq!((retry_after, server.count("POST", CREATE)), (Some(Duration::from_hours(1)), 1));
}

#[tokio::test]
async fn a_server_that_forbids_it_is_not_asked_again() {
    let server = FaultServer::start(|request| {
        request
            .is("POST", CREATE)
            .then(|| answer(503, &[("Should-Retry", "false")], r#"{"code":503,"message":"full"}"#))
    })
    .await;
    let error = server.client().create(&NewSandbox::new("base")).await.unwrap_err();
    assert_eq!((error.kind(), server.count("POST", CREATE)), (ErrorKind::Unavailable, 1));
}

#[tokio::test]
async fn a_create_whose_answer_got_lost_is_never_sent_again() {
    for lost in [
        vec![],
        vec![Act::Send(b"HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{".to_vec())],
        page(502),
        page(504),
    ] {
        let server = FaultServer::start(move |request| request.is("POST", CREATE).then(|| lost.clone())).await;
        let error = server.client().create(&NewSandbox::new("base")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AnswerLost, "{error:?}");
        assert_eq!(server.count("POST", CREATE), 1);
        assert!(!error.to_string().contains("<html>"));
    }
}

#[tokio::test]
async fn a_sandbox_whose_answer_got_lost_is_found_by_its_identity() {
    let listed = |id: &str| {
        format!(
            r#"{{"templateID":"t","sandboxID":"{id}","clientID":"c","startedAt":"2026-08-22T10:00:00Z","endAt":"2026-08-22T10:05:00Z","envdVersion":"0.6.13","cpuCount":2,"memoryMB":512,"diskSizeMB":1024,"state":"running"}}"#
        )
    };
    let (first, second) = (format!("[{},{}]", listed("i1"), listed("i2")), "[]");
    let server = FaultServer::start(move |request| {
        if request.is("POST", CREATE) {
            return Some(Vec::new());
        }
        if request.is("GET", CREATE) {
            // The first look comes too early.
            return Some(json(200, if request.earlier == 0 { second } else { &first }));
        }
        if request.is("DELETE", "/sandboxes/i2") {
            return Some(json(204, ""));
        }
        request.is("POST", "/v2/sandboxes/i1/connect").then(|| json(200, INSTANCE))
    })
    .await;
    let new = NewSandbox::new("base").identified_by("session", "ses_1");
    assert_eq!(server.client().create(&new).await.unwrap().id(), "i1");
    assert_eq!(server.count("POST", CREATE), 1);
    assert_eq!(server.count("DELETE", "/sandboxes/i2"), 1, "a stray of the same identity is left");
    let look = server.requests().into_iter().find(|request| request.is("GET", CREATE)).unwrap();
    assert_eq!(look.path, "/v2/sandboxes?metadata=session%3Dses_1");
}

#[tokio::test]
async fn a_question_whose_answer_got_lost_is_asked_again() {
    let server = FaultServer::start(|request| {
        request.is("GET", CREATE).then(|| match request.earlier {
            0 => Vec::new(),
            1 => page(502),
            _ => json(200, "[]"),
        })
    })
    .await;
    assert!(server.client().list(&ListFilter::default()).await.unwrap().is_empty());
    assert_eq!(server.count("GET", CREATE), 3);
}

#[tokio::test]
async fn a_kill_whose_answer_got_lost_is_a_kill() {
    let gone = r#"{"code":404,"message":"it does not exist"}"#;
    let server = FaultServer::start(move |request| {
        let kill = request.is("DELETE", "/sandboxes/i1");
        kill.then(|| if request.earlier == 0 { Vec::new() } else { json(404, gone) })
    })
    .await;
    assert!(server.client().kill("i1").await.unwrap());
    assert!(!server.client().kill("i1").await.unwrap());
}

#[tokio::test]
async fn a_list_with_a_page_that_cannot_be_read_is_no_list() {
    let server = FaultServer::start(|request| {
        request.is("GET", CREATE).then(|| {
            if request.path.contains("nextToken") {
                json(500, r#"{"code":500,"message":"x"}"#)
            } else {
                answer(200, &[("X-Next-Token", "n")], "[]")
            }
        })
    })
    .await;
    assert!(server.client().list(&ListFilter::default()).await.is_err());
}

#[tokio::test]
async fn a_list_that_leads_to_itself_ends() {
    let server =
        FaultServer::start(|request| request.is("GET", CREATE).then(|| answer(200, &[("X-Next-Token", "n")], "[]")))
            .await;
    let error = server.client().list(&ListFilter::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_server_of_old_is_spoken_to_as_such() {
    let server = FaultServer::start(|request| {
        if request.is("POST", CREATE) {
            return Some(answer(405, &[], ""));
        }
        request.is("POST", "/sandboxes").then(|| json(201, INSTANCE))
    })
    .await;
    let client = server.client();
    for _ in 0..2 {
        client.create(&NewSandbox::new("base")).await.unwrap();
    }
    assert_eq!((server.count("POST", CREATE), server.count("POST", "/sandboxes")), (1, 2));
    let sent = server.requests().into_iter().find(|request| request.is("POST", "/sandboxes")).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!((&body["secure"], &body["timeout"]), (&true.into(), &300.into()));
}

#[tokio::test]
async fn whose_a_template_is_is_found_out() {
    for (name, status, kind) in [
        ("gone", 404, ErrorKind::TemplateUnknown),
        ("theirs", 403, ErrorKind::TemplateOfAnotherTeam),
        ("team/app", 400, ErrorKind::TemplateOfAnotherTeam),
        ("mine", 200, ErrorKind::TemplateUnknown),
    ] {
        let server = FaultServer::start(move |request| {
            if request.is("POST", CREATE) {
                return Some(json(404, r#"{"code":404,"message":"template not found"}"#));
            }
            request.path.starts_with("/templates/aliases/").then(|| json(status, r#"{"code":1,"message":"x"}"#))
        })
        .await;
        let error = server.client().create(&NewSandbox::new(name)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{name}: {error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_driven_is_not_left_running() {
    let server = FaultServer::start(|request| {
        if request.is("DELETE", "/sandboxes/i1") {
            return Some(json(204, ""));
        }
        request.is("POST", CREATE).then(|| json(201, &instance_with_agent("0.0.9")))
    })
    .await;
    let error = server.client().create(&NewSandbox::new("base")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TemplateUnknown);
    assert_eq!(server.count("DELETE", "/sandboxes/i1"), 1);
}

#[tokio::test]
async fn nobody_listening_is_said_after_some_tries() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let server = FaultServer::start(|_| None).await;
    let config = ambient_e2b::Config { api_url: Some(origin.clone()), ..server.config() };
    let error = Client::new(config).unwrap().create(&NewSandbox::new("base")).await.unwrap_err();
    assert!(matches!(&error, Error::Unreachable { origin: told, .. } if *told == origin), "{error:?}");
}

#[tokio::test]
async fn silence_ends_with_the_limit() {
    let server = FaultServer::start(|request| request.is("GET", CREATE).then(|| vec![Act::Hold])).await;
    let config = ambient_e2b::Config { request_timeout: Duration::from_millis(100), ..server.config() };
    let error = Client::new(config).unwrap().list(&ListFilter::default()).await.unwrap_err();
    assert!(matches!(error, Error::RequestTimedOut { .. }), "{error:?}");
}
