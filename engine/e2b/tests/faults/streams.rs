//! Faults of a command's stream.

use std::time::{Duration, Instant};

use ambient_e2b::protocol::process::ProcessEvent;
use ambient_e2b::{Command, Error, ErrorKind, ProcessOutput};

use crate::server::{Act, FaultServer, event, frames, instance_with_agent, json, page, stream_head};

const START: &str = "/process.Process/Start";
const GONE: &str = r#"{"sandboxId":"i1","message":"The sandbox was not found","code":502}"#;

fn start() -> Act {
    Act::Send(event(ProcessEvent::Start { pid: 7 }))
}

/// A server that answers Start with `acts` and the probe with `health`.
async fn server(acts: Vec<Act>, health: Vec<Act>) -> FaultServer {
    FaultServer::start(move |request| {
        if request.is("POST", START) {
            return Some(acts.clone());
        }
        request.is("GET", "/health").then(|| health.clone())
    })
    .await
}

async fn run(server: &FaultServer) -> Result<ambient_e2b::Output, Error> {
    server.sandbox().await.commands().run(&Command::shell("true")).await
}

#[tokio::test]
async fn silence_of_a_sandbox_that_is_gone_is_its_loss() {
    for health in [json(502, GONE), page(502), Vec::new()] {
        let server = server(vec![stream_head(), start(), Act::Hold], health).await;
        let error = run(&server).await.unwrap_err();
        assert!(matches!(&error, Error::SandboxLost { sandbox_id, .. } if sandbox_id == "i1"), "{error:?}");
    }
}

#[tokio::test]
async fn silence_of_a_sandbox_that_answers_is_a_stall() {
    let server = server(vec![stream_head(), start(), Act::Hold], json(204, "")).await;
    let begun = Instant::now();
    let error = run(&server).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StreamStalled, "{error:?}");
    assert!(begun.elapsed() >= Duration::from_millis(300), "it was given up early");
}

#[tokio::test]
async fn a_stream_that_shows_life_is_waited_for() {
    let mut acts = vec![stream_head(), start()];
    for _ in 0..10 {
        acts.extend([Act::Pause(Duration::from_millis(60)), Act::Send(event(ProcessEvent::Keepalive))]);
    }
    acts.push(Act::Send(frames(&[b"late"])[event(ProcessEvent::Start { pid: 7 }).len()..].to_vec()));
    let server = server(acts, json(502, GONE)).await;
    assert_eq!(run(&server).await.unwrap().stdout.text(), "late");
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_is_never_taken_for_whole() {
    let whole = frames(&[b"some output"]);
    for cut in 0..whole.len() {
        let server = server(vec![stream_head(), Act::Send(whole[..cut].to_vec())], json(204, "")).await;
        let outcome = run(&server).await;
        // The exit is told as soon as its frame is whole; a cut within the very last frame comes after it.
        match outcome {
            Ok(output) => assert!(output.is_success() && whole.len() - cut <= 7, "cut at {cut}: {output:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "cut at {cut}: {error:?}"),
        }
    }
}

#[tokio::test]
async fn a_stream_of_a_sandbox_that_dies_is_its_loss() {
    let whole = frames(&[b"some output"]);
    let server = server(vec![stream_head(), Act::Send(whole[..40].to_vec())], json(502, GONE)).await;
    assert!(run(&server).await.unwrap_err().is_sandbox_lost());
}

#[tokio::test]
async fn a_slow_drip_is_read_whole() {
    let server = server(vec![stream_head(), Act::Drip(frames(&["猫".as_bytes(), b"!"]))], json(204, "")).await;
    assert_eq!(run(&server).await.unwrap().stdout.text(), "猫!");
}

#[tokio::test]
async fn characters_cut_between_frames_come_whole() {
    let text = "a猫é😀".repeat(50);
    for size in 1..5 {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        let server = server(vec![stream_head(), Act::Send(frames(&pieces))], json(204, "")).await;
        assert_eq!(run(&server).await.unwrap().stdout.text(), text);
    }
}

#[tokio::test]
async fn a_page_in_place_of_an_answer_is_classed_by_a_probe() {
    for (health, kind) in [(page(502), ErrorKind::SandboxLost), (json(204, ""), ErrorKind::Unavailable)] {
        let server = server(page(502), health).await;
        let error = run(&server).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(!error.to_string().contains("<html>"), "{error}");
        assert_eq!(server.count("POST", START), 1, "a dead sandbox was asked again");
    }
}

#[tokio::test]
async fn a_page_with_status_200_is_a_fault_of_the_protocol() {
    let server = server(page(200), json(204, "")).await;
    assert_eq!(run(&server).await.unwrap_err().kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_loss_told_in_json_needs_no_probe() {
    let server = server(json(502, GONE), json(204, "")).await;
    assert!(run(&server).await.unwrap_err().is_sandbox_lost());
    assert_eq!(server.count("GET", "/health"), 0);
}

#[tokio::test]
async fn a_stream_must_begin_with_its_start() {
    let output = Act::Send(event(ProcessEvent::Stdout("early".into())));
    let server = server(vec![stream_head(), output, Act::Hold], json(204, "")).await;
    assert_eq!(run(&server).await.unwrap_err().kind(), ErrorKind::Protocol);
}

#[tokio::test]
async fn a_deadline_that_the_server_lets_pass_is_kept_by_the_client() {
    let mut acts = vec![stream_head(), start()];
    for _ in 0..100 {
        acts.extend([Act::Pause(Duration::from_millis(40)), Act::Send(event(ProcessEvent::Keepalive))]);
    }
    let server = server(acts, json(204, "")).await;
    let command = Command::shell("sleep 60").timeout(Duration::from_millis(50));
    let error = server.sandbox().await.commands().run(&command).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CommandTimedOut);
    assert_eq!(server.count("POST", "/process.Process/SendSignal"), 1, "the command was left running");
}

#[tokio::test]
async fn dropping_a_stream_sends_no_signal_and_a_kill_does() {
    let server = server(vec![stream_head(), start(), Act::Hold], json(204, "")).await;
    let sandbox = server.sandbox().await;
    drop(sandbox.commands().start(&Command::shell("sleep 60")).await.unwrap());
    let process = sandbox.commands().start(&Command::shell("sleep 60")).await.unwrap();
    assert_eq!(server.count("POST", "/process.Process/SendSignal"), 0);
    assert!(process.kill().await.unwrap());
    let sent = server.requests().into_iter().find(|request| request.is("POST", "/process.Process/SendSignal")).unwrap();
    assert_eq!(sent.body, br#"{"process":{"pid":7},"signal":"SIGNAL_SIGKILL"}"#);
}

#[tokio::test]
async fn a_wait_that_is_given_up_can_be_taken_up_again() {
    let whole = frames(&[b"first", b"second"]);
    // The pause falls into the middle of a frame.
    let acts = vec![
        stream_head(),
        Act::Send(whole[..60].to_vec()),
        Act::Pause(Duration::from_millis(80)),
        Act::Send(whole[60..].to_vec()),
    ];
    let server = server(acts, json(204, "")).await;
    let sandbox = server.sandbox().await;
    let mut process = sandbox.commands().start(&Command::shell("true")).await.unwrap();
    let mut told = Vec::new();
    loop {
        match tokio::time::timeout(Duration::from_millis(5), process.next()).await {
            Err(_given_up) => {}
            Ok(outcome) => match outcome.unwrap() {
                Some(ProcessOutput::Stdout(bytes)) => told.push(bytes),
                Some(_) => {}
                None => break,
            },
        }
    }
    assert_eq!(told, ["first", "second"]);
}

#[tokio::test]
async fn every_command_carries_what_it_must() {
    let server = server(vec![stream_head(), Act::Send(frames(&[]))], json(204, "")).await;
    let sandbox = server.sandbox().await;
    sandbox.commands().run(&Command::shell("true")).await.unwrap();
    sandbox.commands().run(&Command::shell("true").user("root").timeout(Duration::ZERO)).await.unwrap();
    let sent: Vec<_> = server.requests().into_iter().filter(|request| request.is("POST", START)).collect();
    let plain = &sent[0].headers;
    for (name, value) in [
        ("e2b-sandbox-id", "i1"),
        ("e2b-sandbox-port", "49983"),
        ("x-access-token", "0123456789abcdef"),
        ("connect-protocol-version", "1"),
        ("connect-timeout-ms", "60000"),
        ("keepalive-ping-interval", "1"),
        ("content-type", "application/connect+json"),
    ] {
        assert_eq!(plain.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert!(!plain.contains_key("authorization") && !plain.contains_key("x-api-key"), "{plain:?}");
    assert_eq!(sent[1].headers["authorization"], "Basic cm9vdDo=");
    assert_eq!(sent[1].headers["connect-timeout-ms"], "1", "no time at all became no limit");
}

#[tokio::test]
async fn an_agent_of_old_is_told_its_user() {
    let acts = vec![stream_head(), Act::Send(frames(&[]))];
    let server = FaultServer::start(move |request| {
        if request.is("POST", "/v2/sandboxes") {
            return Some(json(201, &instance_with_agent("0.3.9")));
        }
        request.is("POST", START).then(|| acts.clone())
    })
    .await;
    run(&server).await.unwrap();
    let sent = server.requests().into_iter().find(|request| request.is("POST", START)).unwrap();
    assert_eq!(sent.headers["authorization"], "Basic dXNlcjo=");
}
